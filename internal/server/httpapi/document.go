package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"partnerd/internal/domain/application"
	"partnerd/openapi"
)

const (
	schemePartner     = "oauth2"  // security scheme of the Partner API
	schemePlatform    = "basic"   // of the Platform API
	schemeDesk        = "session" // of the Desk API
	idempotencyHeader = "Idempotency-Key"
)

// document holds a contract's rules for each operation, with every schema compiled.
type document struct {
	operations map[string]*operation // by operationId
	paths      map[string][]string   // path template → methods
}

type operation struct {
	id         string
	public     bool                // no access token required
	scopes     []application.Scope // all of them are required
	parameters []parameter
	body       *body // nil if the operation accepts no JSON
}

type parameter struct {
	name, in string
	required bool
	integer  bool
	boolean  bool
	trimmed  bool // a free text, see package text
	fallback string
	schema   textSchema
}

// textSchema is the schema of a parameter. It rejects text that a URL can contain but the database cannot store.
type textSchema struct{ *jsonschema.Schema }

// Validate checks the text before it applies the schema.
func (s textSchema) Validate(value any) error {
	if text, ok := value.(string); ok && (!utf8.ValidString(text) || strings.ContainsRune(text, 0)) {
		return &jsonschema.ValidationError{SchemaURL: s.Location,
			ErrorKind: &kind.Format{Got: text, Want: "UTF-8 without U+0000"}}
	}
	return s.Schema.Validate(value)
}

// body is a closed JSON object.
type body struct {
	schema  *jsonschema.Schema
	trimmed map[string]bool // names of free texts, see package text
	lines   map[string]bool // names of multi-line free texts
}

// The parts of the document that are read.
type rawDocument struct {
	Paths      map[string]map[string]rawOperation
	Components struct{ Parameters map[string]rawParameter }
}

type rawOperation struct {
	OperationID string
	Security    []map[string][]string
	Parameters  []rawParameter
	RequestBody struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	}
}

type rawParameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
	Schema   struct {
		Type    string
		Default any
		Trim    bool `json:"x-trim"`
	}
}

// readDocument compiles a contract whose operations are public or require scheme. It fails on an operation whose
// security it cannot enforce.
func readDocument(source []byte, scheme string) (*document, error) {
	asJSON, err := openapi.JSON(source)
	if err != nil {
		return nil, err
	}
	var raw rawDocument
	if err := json.Unmarshal(asJSON, &raw); err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	tree, c, err := openapi.Schemas(asJSON)
	if err != nil {
		return nil, err
	}
	c.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: validateDateTime})
	d := &document{operations: map[string]*operation{}, paths: map[string][]string{}}
	for path, item := range raw.Paths {
		for method, o := range item {
			op, err := d.compile(c, &raw, tree, scheme, path, method, o)
			if err != nil {
				return nil, fmt.Errorf("contract, operation %q: %w", o.OperationID, err)
			}
			d.operations[op.id] = op
			d.paths[path] = append(d.paths[path], strings.ToUpper(method))
			if method == "get" {
				d.paths[path] = append(d.paths[path], http.MethodHead) // see edge.Handler
			}
		}
		slices.Sort(d.paths[path])
	}
	return d, nil
}

func (d *document) compile(c *jsonschema.Compiler, raw *rawDocument, tree any, scheme, path, method string,
	o rawOperation,
) (*operation, error) {
	op := &operation{id: o.OperationID}
	switch {
	case op.id == "" || d.operations[op.id] != nil:
		return nil, fmt.Errorf("operationId is missing or used twice")
	case o.Security == nil:
		return nil, fmt.Errorf("no security decision")
	case len(o.Security) == 0:
		op.public = true
	case len(o.Security) != 1 || len(o.Security[0]) != 1 || o.Security[0][scheme] == nil:
		return nil, fmt.Errorf("security is not the scheme %s alone", scheme)
	default:
		for _, s := range o.Security[0][scheme] {
			if !slices.Contains(application.AllScopes, application.Scope(s)) {
				return nil, fmt.Errorf("unknown scope %q", s)
			}
			op.scopes = append(op.scopes, application.Scope(s))
		}
	}
	for i, p := range o.Parameters {
		pointer := fmt.Sprintf("/paths/%s/%s/parameters/%d", escape(path), method, i)
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p, pointer = raw.Components.Parameters[name], "/components/parameters/"+name
		}
		schema, err := c.Compile(openapi.DocumentURL + "#" + pointer + "/schema")
		if err != nil {
			return nil, err
		}
		fallback := ""
		if p.Schema.Default != nil {
			fallback = fmt.Sprint(p.Schema.Default)
		}
		op.parameters = append(op.parameters, parameter{p.Name, p.In, p.Required, p.Schema.Type == "integer",
			p.Schema.Type == "boolean", p.Schema.Trim, fallback, textSchema{schema}})
	}
	content, ok := o.RequestBody.Content["application/json"]
	if !ok {
		return op, nil
	}
	name, ok := strings.CutPrefix(content.Schema.Ref, "#/components/schemas/")
	if !ok {
		return nil, fmt.Errorf("the request body is not a named schema")
	}
	schema, err := c.Compile(openapi.DocumentURL + "#/components/schemas/" + name)
	if err != nil {
		return nil, err
	}
	op.body = &body{schema, marked(tree, name, "x-trim"), marked(tree, name, "x-lines")}
	return op, nil
}

// validateDateTime accepts the same times as Go's time package: RFC 3339 in capitals, without leap seconds. Its
// rejections are reported as issues. A rejection by the generated code alone would not be.
func validateDateTime(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	return new(time.Time).UnmarshalText([]byte(text))
}

// marked returns the properties that carry an extension unknown to the validator.
func marked(tree any, schema, extension string) map[string]bool {
	out := map[string]bool{}
	at := func(v any, key string) map[string]any {
		m, _ := v.(map[string]any)
		child, _ := m[key].(map[string]any)
		return child
	}
	for name, p := range at(at(at(at(tree, "components"), "schemas"), schema), "properties") {
		m, _ := p.(map[string]any)
		out[name], _ = m[extension].(bool)
	}
	return out
}

// allowed returns the methods of the path template that matches path, or nil if none matches.
func (d *document) allowed(path string) []string {
	segments := strings.Split(path, "/")
	for template, methods := range d.paths {
		match := slices.EqualFunc(strings.Split(template, "/"), segments, func(t, s string) bool {
			return t == s || strings.HasPrefix(t, "{") && s != ""
		})
		if match {
			return methods
		}
	}
	return nil
}

// routes returns the matching paths in the notation of the router.
func (d *document) routes(match func(path string) bool) []string {
	var out []string
	for template := range d.paths {
		if match(template) {
			out = append(out, strings.NewReplacer("{", ":", "}", "").Replace(template))
		}
	}
	return out
}

// parameter returns the operation's parameter with that name and location.
func (o *operation) parameter(in, name string) *parameter {
	i := slices.IndexFunc(o.parameters, func(p parameter) bool {
		return p.in == in && (p.name == name || in == "header" &&
			http.CanonicalHeaderKey(p.name) == http.CanonicalHeaderKey(name))
	})
	if i < 0 {
		return nil
	}
	return &o.parameters[i]
}

func escape(segment string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(segment)
}
