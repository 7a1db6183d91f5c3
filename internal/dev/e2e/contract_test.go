package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"partnerd/openapi"
)

type object = map[string]any

// contract is openapi/partner.yaml, compiled to check what the service sends.
type contract struct {
	tree       object
	operations []*operation // by path and method
	webhooks   map[string]*operation
	anyError   *jsonschema.Schema // of paths and methods that the document does not have
	oauthError *jsonschema.Schema
}

type operation struct {
	id, method, path string
	public           bool
	scopes           []string // all of them are required
	parameters       []parameter
	body             *body // nil if the operation takes no JSON
	responses        map[int]*response
}

type parameter struct {
	name, in string
	required bool
	raw      object
	schema   *jsonschema.Schema
	example  string
}

type body struct {
	raw     object
	schema  *jsonschema.Schema
	example object
}

type response struct {
	headers map[string]parameter
	content map[string]*jsonschema.Schema
	raw     map[string]object
	codes   []string
	says    []string // codes, messages and issues in the examples of errors
}

// reader compiles the document. It exists once, before the first test.
type reader struct {
	tree     object
	compiler *jsonschema.Compiler
}

func readContract(source []byte) *contract {
	asJSON, err := openapi.JSON(source)
	must(err)
	tree, compiler, err := openapi.Schemas(asJSON)
	must(err)
	r := &reader{tree, compiler}

	c := &contract{tree: r.tree, webhooks: map[string]*operation{}}
	paths := r.tree["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(object)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			c.operations = append(c.operations, r.operation("paths", path, method, item[method].(object)))
		}
	}
	webhooks, _ := r.tree["webhooks"].(object)
	for name, item := range webhooks {
		c.webhooks[name] = r.operation("webhooks", name, "post", item.(object)["post"].(object))
	}
	schemas := r.tree["components"].(object)["schemas"].(object)
	if schemas["OAuthError"] != nil { // the Partner API
		c.anyError = r.compile("/components/schemas/ApiError")
		c.oauthError = r.compile("/components/schemas/OAuthError")
	}
	return c
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (r *reader) compile(pointer string) *jsonschema.Schema {
	return r.compiler.MustCompile(openapi.DocumentURL + "#" + pointer)
}

// resolve follows a reference; pointer is the location of v.
func (r *reader) resolve(v object, pointer string) (object, string) {
	ref, ok := v["$ref"].(string)
	if !ok {
		return v, pointer
	}
	pointer = strings.TrimPrefix(ref, "#")
	var at any = r.tree
	for _, name := range strings.Split(pointer, "/")[1:] {
		at = at.(object)[name]
	}
	return at.(object), pointer
}

func escape(segment string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(segment)
}

func (r *reader) operation(section, path, method string, raw object) *operation {
	op := &operation{id: raw["operationId"].(string), method: strings.ToUpper(method), path: path,
		responses: map[int]*response{}}
	security := raw["security"].([]any)
	op.public = len(security) == 0
	for _, s := range security {
		scopes, _ := s.(object)["oauth2"].([]any) // a session of the desk has none
		for _, scope := range scopes {
			op.scopes = append(op.scopes, scope.(string))
		}
	}
	here := "/" + section + "/" + escape(path) + "/" + method
	parameters, _ := raw["parameters"].([]any)
	for i, p := range parameters {
		op.parameters = append(op.parameters, r.parameter(p.(object), fmt.Sprintf("%s/parameters/%d", here, i)))
	}
	if request, ok := raw["requestBody"].(object); ok {
		if media, ok := request["content"].(object)["application/json"].(object); ok {
			schema, pointer := r.resolve(media["schema"].(object), here+"/requestBody/content/application~1json/schema")
			op.body = &body{raw: schema, schema: r.compile(pointer), example: firstExample(media).(object)}
		}
	}
	for status, answer := range raw["responses"].(object) {
		n, err := strconv.Atoi(status)
		if err != nil {
			continue // the 2XX with which partners respond to webhooks
		}
		op.responses[n] = r.response(answer.(object), here+"/responses/"+status)
	}
	return op
}

// firstExample returns the richest example: the document lists the full one first, and it also sorts first by name.
func firstExample(media object) any {
	examples := media["examples"].(object)
	var best any
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		value := examples[name].(object)["value"]
		if o, ok := value.(object); best == nil || ok && len(o) > len(best.(object)) {
			best = value
		}
	}
	return best
}

func (r *reader) parameter(raw object, pointer string) parameter {
	raw, pointer = r.resolve(raw, pointer)
	schema, schemaPointer := r.resolve(raw["schema"].(object), pointer+"/schema")
	p := parameter{raw: schema, schema: r.compile(schemaPointer)}
	p.name, _ = raw["name"].(string)
	p.in, _ = raw["in"].(string)
	p.required, _ = raw["required"].(bool)
	if e := raw["example"]; e != nil {
		p.example = fmt.Sprint(e)
	}
	return p
}

func (r *reader) response(raw object, pointer string) *response {
	raw, pointer = r.resolve(raw, pointer)
	out := &response{headers: map[string]parameter{}, content: map[string]*jsonschema.Schema{},
		raw: map[string]object{}}
	headers, _ := raw["headers"].(object)
	for name, h := range headers {
		out.headers[name] = r.parameter(h.(object), pointer+"/headers/"+name)
	}
	content, _ := raw["content"].(object)
	for media, m := range content {
		schema, at := r.resolve(m.(object)["schema"].(object), pointer+"/content/"+escape(media)+"/schema")
		out.content[media], out.raw[media] = r.compile(at), schema
		properties, _ := schema["properties"].(object)
		code, _ := properties["code"].(object)
		codes, _ := code["enum"].([]any)
		for _, c := range codes {
			out.codes = append(out.codes, c.(string))
		}
		examples, _ := m.(object)["examples"].(object)
		for _, e := range examples {
			if value, ok := e.(object)["value"].(object); ok && len(out.codes) > 0 {
				out.says = append(out.says, sayings(value)...)
			}
		}
	}
	return out
}

// find returns the operation of a request, and whether the path exists.
func (c *contract) find(method, path string) (op *operation, known bool) {
	segments := strings.Split(path, "/")
	for _, o := range c.operations {
		match := slices.EqualFunc(strings.Split(o.path, "/"), segments, func(t, s string) bool {
			return t == s || strings.HasPrefix(t, "{") && s != ""
		})
		if match {
			known = true
			if o.method == method || method == http.MethodHead && o.method == http.MethodGet {
				return o, true
			}
		}
	}
	return nil, known
}

// api returns the operations below /api/v1.
func (c *contract) api() []*operation {
	return slices.DeleteFunc(slices.Clone(c.operations), func(o *operation) bool { return o.public })
}

func (c *contract) operation(id string) *operation {
	return c.operations[slices.IndexFunc(c.operations, func(o *operation) bool { return o.id == id })]
}

// allowed returns the methods of a path. HEAD is allowed with GET.
func (c *contract) allowed(path string) (methods []string) {
	for _, o := range c.operations {
		if o.path == path {
			methods = append(methods, o.method)
			if o.method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	slices.Sort(methods)
	return methods
}

func (o *operation) parameter(in, name string) *parameter {
	i := slices.IndexFunc(o.parameters, func(p parameter) bool {
		return p.in == in && http.CanonicalHeaderKey(p.name) == http.CanonicalHeaderKey(name)
	})
	if i < 0 {
		return nil
	}
	return &o.parameters[i]
}

// undeclared lists the properties of v that schema does not name. A response must not contain any by accident.
func (c *contract) undeclared(schema object, v any, at string) (found []string) {
	schema, _ = (&reader{tree: c.tree}).resolve(schema, "")
	switch v := v.(type) {
	case object:
		properties, _ := schema["properties"].(object)
		for name, value := range v {
			p, ok := properties[name].(object)
			if !ok {
				found = append(found, at+name)
				continue
			}
			found = append(found, c.undeclared(p, value, at+name+".")...)
		}
	case []any:
		items, _ := schema["items"].(object)
		for _, value := range v {
			found = append(found, c.undeclared(items, value, at+"[].")...)
		}
	}
	return found
}
