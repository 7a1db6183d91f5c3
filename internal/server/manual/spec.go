package manual

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// spec is an OpenAPI document that preserves the order of its source.
type spec struct{ root node }

// node is a YAML node, or empty. Every part of an empty node is empty.
type node struct {
	*yaml.Node
	spec *spec
}

func readSpec(b []byte) (*spec, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, fmt.Errorf("read contract: it is empty")
	}
	s := &spec{}
	s.root = node{doc.Content[0], s}
	return s, nil
}

// get descends along keys and follows references.
func (n node) get(keys ...string) node {
	n = n.resolve()
	for _, key := range keys {
		var next node
		for k, v := range n.pairs() {
			if k == key {
				next = v.resolve()
			}
		}
		n = next
	}
	return n
}

// resolve follows a local $ref.
func (n node) resolve() node {
	for k, v := range n.pairs() {
		if k == "$ref" {
			return n.spec.root.get(strings.Split(strings.TrimPrefix(v.Value, "#/"), "/")...)
		}
	}
	return n
}

func (n node) pairs() iter.Seq2[string, node] {
	return func(yield func(string, node) bool) {
		if n.Node == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, node{n.Content[i+1], n.spec}) {
				return
			}
		}
	}
}

func (n node) items() []node {
	if n.Node == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	var out []node
	for _, c := range n.Content {
		out = append(out, node{c, n.spec})
	}
	return out
}

func (n node) texts() []string {
	var out []string
	for _, i := range n.items() {
		out = append(out, i.Value)
	}
	return out
}

// text returns the scalar at keys, or "" if there is none.
func (n node) text(keys ...string) string {
	if v := n.get(keys...); v.Node != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// json writes the node as indented JSON in the order of the document.
func (n node) json(indent string) string {
	if n.Node == nil {
		return ""
	}
	var parts []string
	opening, closing := "{", "}"
	switch n.Kind {
	case yaml.MappingNode:
		for k, v := range n.pairs() {
			parts = append(parts, quote(k)+": "+v.json(indent+"  "))
		}
	case yaml.SequenceNode:
		opening, closing = "[", "]"
		for _, v := range n.items() {
			parts = append(parts, v.json(indent+"  "))
		}
	default:
		if n.Tag == "!!str" || n.Tag == "!!timestamp" {
			return quote(n.Value)
		}
		return n.Value
	}
	if len(parts) == 0 {
		return opening + closing
	}
	return opening + "\n" + indent + "  " + strings.Join(parts, ",\n"+indent+"  ") + "\n" + indent + closing
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSpace(b.String())
}

type taggedOperation struct {
	operation
	tag string
}

// operations reads a section of the document ("paths" or "webhooks"). base is the base URL in code to copy.
func (s *spec) operations(section, base string) []taggedOperation {
	var out []taggedOperation
	for path, item := range s.root.get(section).pairs() {
		for method, op := range item.pairs() {
			if !slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				continue
			}
			o := operation{ID: op.text("operationId"), Method: strings.ToUpper(method), Path: path,
				Summary: op.text("summary"), Text: prose{op.text("description"), op.text("operationId") + "-"},
				Webhook: section == "webhooks"}
			o.Open = len(op.get("security").items()) == 0
			for _, requirement := range op.get("security").items() {
				for scheme, scopes := range requirement.pairs() {
					o.Basic = s.root.text("components", "securitySchemes", scheme, "scheme") == "basic"
					o.Scopes = append(o.Scopes, scopes.texts()...)
				}
			}
			parameters := slices.Concat(item.get("parameters").items(), op.get("parameters").items())
			for _, p := range parameters {
				o.Parameters = append(o.Parameters, parameterRow(p.resolve()))
			}
			for mediaType, content := range op.get("requestBody", "content").pairs() {
				o.BodyType, o.Body = mediaType, fields(content.get("schema"), "", 0)
				o.Examples = examples(content, mediaType)
			}
			o.Responses = responses(op.get("responses"))
			if base != "" {
				r := s.request(o, op, parameters, base)
				o.Samples, o.Trial = samples(r), s.trialOf(r, parameters)
			}
			out = append(out, taggedOperation{o, strings.Join(op.get("tags").texts(), ",")})
		}
	}
	return out
}

// errorCodes returns the values of code in the body of an error response. It returns none for other responses.
func (n node) errorCodes() []string {
	return n.get("content", "application/json", "schema", "properties", "code", "enum").texts()
}

func parameterRow(p node) row {
	r := fieldRow(p.text("name"), p.get("schema"), p.text("required") == "true")
	r.In, r.Text = p.text("in"), prose{source: p.text("description")}
	return r
}

func responses(all node) []response {
	var out []response
	for status, r := range all.pairs() {
		r = r.resolve()
		one := response{Status: status, Text: prose{source: r.text("description")},
			Success: status[0] == '2' || status[0] == '3', Codes: r.errorCodes()}
		for name, h := range r.get("headers").pairs() {
			h = h.resolve()
			header := fieldRow(name, h.get("schema"), h.text("required") == "true")
			header.Text = prose{source: h.text("description")}
			one.Headers = append(one.Headers, header)
		}
		for mediaType, content := range r.get("content").pairs() {
			if one.Success {
				one.Body = fields(content.get("schema"), "", 0)
			}
			one.Examples = examples(content, mediaType)
		}
		out = append(out, one)
	}
	return out
}

func examples(content node, mediaType string) []example {
	var out []example
	for _, e := range content.get("examples").pairs() {
		e = e.resolve()
		value := e.get("value")
		text := value.json("")
		switch {
		case strings.HasSuffix(mediaType, "form-urlencoded"):
			text = form(value)
		case value.Node != nil && value.Kind == yaml.ScalarNode:
			text = value.Value
		}
		out = append(out, example{Summary: e.text("summary"), Text: text})
	}
	return out
}

// form writes one field per line in the form of curl arguments.
func form(value node) string {
	var lines []string
	for k, v := range value.pairs() {
		lines = append(lines, url.QueryEscape(k)+"="+url.QueryEscape(v.Value))
	}
	return strings.Join(lines, "\n&")
}

// fields lists the properties of a schema, nested ones under their dotted path. Schemas of the contracts nest at most
// four levels deep.
func fields(schema node, prefix string, depth int) []row {
	if depth > 4 {
		return nil
	}
	required := schema.get("required").texts()
	var out []row
	for name, property := range schema.get("properties").pairs() {
		property = property.resolve()
		r := fieldRow(prefix+name, property, slices.Contains(required, name))
		r.Text = prose{source: property.text("description")}
		out = append(out, r)
		out = append(out, fields(property, prefix+name+".", depth+1)...)
		out = append(out, fields(property.get("items"), prefix+name+"[].", depth+1)...)
	}
	return out
}

func fieldRow(name string, schema node, required bool) row {
	r := row{Name: name, Required: required, Type: typeName(schema)}
	if c := schema.get("const"); c.Node != nil {
		r.Values = []string{c.Value}
		r.Notes = append(r.Notes, "always "+c.Value)
	}
	if values := schema.get("enum").texts(); len(values) > 0 {
		r.Values = values
		r.Notes = append(r.Notes, "one of "+strings.Join(values, ", "))
	}
	for _, limit := range [][2]string{{"minLength", "at least %s characters"}, {"maxLength", "at most %s characters"},
		{"minimum", "at least %s"}, {"maximum", "at most %s"}, {"maxItems", "at most %s items"},
		{"pattern", "matches %s"}, {"default", "default %s"}} {
		if v := schema.text(limit[0]); v != "" {
			r.Notes = append(r.Notes, fmt.Sprintf(limit[1], v))
		}
	}
	return r
}

func typeName(schema node) string {
	name := schema.text("type")
	if list := schema.get("type").texts(); len(list) > 0 {
		name = strings.Join(list, " or ")
	}
	if name == "array" {
		return "array of " + typeName(schema.get("items"))
	}
	if format := schema.text("format"); format != "" {
		name += " (" + format + ")"
	}
	return name
}
