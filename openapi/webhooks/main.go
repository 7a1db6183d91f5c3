// Command webhooks writes the webhooks of openapi/partner.yaml in full, from its webhooks.yaml and the schemas of
// partner.yaml. It runs in the root of the repository, as a step of make generate.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	source   = "openapi/webhooks/webhooks.yaml"
	contract = "openapi/partner.yaml"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	short, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("read the webhooks: %w", err)
	}
	document, err := os.ReadFile(contract)
	if err != nil {
		return fmt.Errorf("read the contract: %w", err)
	}
	document, err = withWebhooks(document, short)
	if err != nil {
		return err
	}
	if err := os.WriteFile(contract, document, 0o600); err != nil {
		return fmt.Errorf("write the contract: %w", err)
	}
	return nil
}

// withWebhooks returns the document with its webhooks replaced by those that short describes.
func withWebhooks(document, short []byte) ([]byte, error) {
	var tree yaml.Node
	if err := yaml.Unmarshal(document, &tree); err != nil {
		return nil, fmt.Errorf("read %s: %w", contract, err)
	}
	var s struct {
		All  yaml.Node
		Each yaml.Node
	}
	if err := yaml.Unmarshal(short, &s); err != nil {
		return nil, fmt.Errorf("read %s: %w", source, err)
	}
	schemas := get(get(tree.Content[0], "components"), "schemas")
	all := mapping()
	for i := 0; i < len(s.Each.Content); i += 2 {
		event := s.Each.Content[i].Value
		post, err := webhook(event, &s.All, s.Each.Content[i+1], schemas)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", event, err)
		}
		put(all, event, put(mapping(), "post", post))
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(put(mapping(), "webhooks", all)); err != nil {
		return nil, fmt.Errorf("write the webhooks: %w", err)
	}
	before, rest, begins := bytes.Cut(document, []byte("\nwebhooks:\n"))
	_, after, ends := bytes.Cut(rest, []byte("\ncomponents:\n"))
	if !begins || !ends {
		return nil, fmt.Errorf("%s has no webhooks before its components", contract)
	}
	return bytes.Join([][]byte{before, []byte("\n"), out.Bytes(), []byte("\ncomponents:\n"), after}, nil), nil
}

// webhook returns the operation of one event.
func webhook(event string, all, own, schemas *yaml.Node) (*yaml.Node, error) {
	name := pascal(event)
	body, err := expanded(get(schemas, name+"Event"), schemas)
	if err != nil {
		return nil, err
	}
	parameters := clone(get(all, "parameters"), event)
	for _, p := range parameters.Content {
		if changes := get(get(own, "parameters"), get(p, "name").Value); changes != nil {
			for i := 0; i < len(changes.Content); i += 2 {
				*get(p, changes.Content[i].Value) = *changes.Content[i+1]
			}
		}
	}
	responses := get(own, "responses")
	if responses == nil {
		responses = get(all, "responses")
	}
	media := put(put(mapping(), "schema", body), "examples", get(own, "examples"))
	request := put(put(mapping(), "required", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"}),
		"content", put(mapping(), "application/json", media))
	post := put(mapping(), "operationId", &yaml.Node{Kind: yaml.ScalarNode, Value: "on" + name})
	put(post, "tags", get(all, "tags"))
	put(post, "summary", get(own, "summary"))
	put(post, "description", get(own, "description"))
	put(post, "security", get(all, "security"))
	put(post, "parameters", parameters)
	put(post, "requestBody", request)
	return put(post, "responses", responses), nil
}

// pascal returns the name of an event as in the contract's schema names: ConsultationCallStarted.
func pascal(event string) string {
	var name strings.Builder
	for word := range strings.FieldsFuncSeq(event, func(r rune) bool { return r == '.' || r == '_' }) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// expanded returns a copy of a schema with its references replaced by the schemas they refer to.
func expanded(schema, schemas *yaml.Node) (*yaml.Node, error) {
	if schema == nil {
		return nil, fmt.Errorf("%s has no schema of that name", contract)
	}
	if ref := get(schema, "$ref"); ref != nil {
		return expanded(get(schemas, strings.TrimPrefix(ref.Value, "#/components/schemas/")), schemas)
	}
	out := *schema
	out.Content = make([]*yaml.Node, len(schema.Content))
	for i, child := range schema.Content {
		var err error
		if out.Content[i], err = expanded(child, schemas); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// clone returns a copy of a node with EVENT replaced by event.
func clone(node *yaml.Node, event string) *yaml.Node {
	out := *node
	if out.Value == "EVENT" {
		out.Value = event
	}
	out.Content = make([]*yaml.Node, len(node.Content))
	for i, child := range node.Content {
		out.Content[i] = clone(child, event)
	}
	return &out
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// put appends a key and returns the mapping.
func put(m *yaml.Node, key string, value *yaml.Node) *yaml.Node {
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	return m
}

// get returns the value of a key; nil if m is nil, is not a mapping or lacks the key.
func get(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}
