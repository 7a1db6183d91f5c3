package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// DocumentURL is what [Schemas] calls a contract: DocumentURL + "#" + a JSON pointer names a schema in it.
const DocumentURL = "https://openapi.invalid/document.json"

// JSON returns a contract as JSON.
func JSON(contract []byte) ([]byte, error) {
	var tree any
	if err := yaml.Unmarshal(contract, &tree); err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("write contract as JSON: %w", err)
	}
	return asJSON, nil
}

// Schemas returns the tree of a contract that [JSON] made, its numbers as they are written, and a compiler of its schemas,
// which asserts formats and is for one goroutine at a time.
func Schemas(asJSON []byte) (tree map[string]any, c *jsonschema.Compiler, err error) {
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return nil, nil, fmt.Errorf("read contract: %w", err)
	}
	tree, ok := resource.(map[string]any)
	if !ok {
		return nil, nil, errors.New("read contract: it is no object")
	}
	c = jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(DocumentURL, resource); err != nil {
		return nil, nil, fmt.Errorf("read contract: %w", err)
	}
	return tree, c, nil
}
