package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// DocumentURL is the URL that [Schemas] gives to a contract. DocumentURL + "#" + a JSON pointer identifies a schema.
const DocumentURL = "https://openapi.invalid/document.json"

// written has the contracts as JSON, each converted once, because that takes about 20 ms.
var written = func() map[*byte]func() ([]byte, error) {
	read := map[*byte]func() ([]byte, error){}
	for _, contract := range [][]byte{Partner, Platform, Desk, Sandbox} {
		read[&contract[0]] = sync.OnceValues(func() ([]byte, error) { return asJSON(contract) })
	}
	return read
}()

// JSON returns one of the contracts of this package as JSON. Do not modify it.
func JSON(contract []byte) ([]byte, error) { return written[&contract[0]]() }

func asJSON(contract []byte) ([]byte, error) {
	var tree any
	if err := yaml.Unmarshal(contract, &tree); err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("write contract as JSON: %w", err)
	}
	return encoded, nil
}

// Schemas returns the tree of a contract from [JSON], with numbers as they are written, and a compiler for its
// schemas. The compiler asserts formats and must be used by one goroutine at a time.
func Schemas(asJSON []byte) (tree map[string]any, c *jsonschema.Compiler, err error) {
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return nil, nil, fmt.Errorf("read contract: %w", err)
	}
	tree, ok := resource.(map[string]any)
	if !ok {
		return nil, nil, errors.New("read contract: it is not an object")
	}
	c = jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(DocumentURL, resource); err != nil {
		return nil, nil, fmt.Errorf("read contract: %w", err)
	}
	return tree, c, nil
}
