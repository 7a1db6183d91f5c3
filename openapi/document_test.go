package openapi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"partnerd/openapi"
)

type object = map[string]any

// contract is the parsed document with a compiler of its schemas. It is parsed once and only read.
type contract struct {
	source   []byte
	doc      object
	mu       sync.Mutex // the compiler is not safe for parallel use
	compiler *jsonschema.Compiler
}

// documents are the contracts, each with a parse that all tests share.
var documents = map[string]func() (*contract, error){
	"partner":  sync.OnceValues(func() (*contract, error) { return parse(openapi.Partner) }),
	"platform": sync.OnceValues(func() (*contract, error) { return parse(openapi.Platform) }),
	"desk":     sync.OnceValues(func() (*contract, error) { return parse(openapi.Desk) }),
	"sandbox":  sync.OnceValues(func() (*contract, error) { return parse(openapi.Sandbox) }),
}

func parse(source []byte) (*contract, error) {
	asJSON, err := openapi.JSON(source)
	if err != nil {
		return nil, err
	}
	doc, compiler, err := openapi.Schemas(asJSON)
	if err != nil {
		return nil, err
	}
	return &contract{source: source, doc: doc, compiler: compiler}, nil
}

func document(t *testing.T, name string) *contract {
	t.Helper()
	c, err := documents[name]()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func partner(t *testing.T) *contract {
	t.Helper()
	return document(t, "partner")
}

// each runs a test on every contract.
func each(t *testing.T, test func(t *testing.T, c *contract)) {
	t.Helper()
	t.Parallel()
	for name := range documents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, document(t, name))
		})
	}
}

// node is a place in the document: its JSON pointer and its value, with references resolved.
type node struct {
	pointer string
	value   object
	isRef   bool // it was reached through a $ref
}

func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D").Replace(key)
}

func (c *contract) at(t *testing.T, keys ...string) node {
	t.Helper()
	n := node{value: c.doc}
	for _, key := range keys {
		n = c.child(t, n, key)
	}
	return n
}

// codes returns the values of code in the JSON body of an error response.
func (c *contract) codes(t *testing.T, response node) []string {
	t.Helper()
	media, ok := c.children(t, response, "content")["application/json"]
	if !ok {
		return nil
	}
	return texts(c.children(t, c.child(t, media, "schema"), "properties")["code"].value["enum"])
}

func (c *contract) child(t *testing.T, n node, key string) node {
	t.Helper()
	value, ok := n.value[key].(object)
	if !ok {
		t.Fatalf("%s/%s is not an object", n.pointer, key)
	}
	return c.follow(t, node{pointer: n.pointer + "/" + escape(key), value: value})
}

func (c *contract) follow(t *testing.T, n node) node {
	t.Helper()
	ref, ok := n.value["$ref"].(string)
	if !ok {
		return n
	}
	keys := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	target := c.at(t, keys...)
	target.isRef = true
	return target
}

// children returns the entries of the object under key, or none if key is absent.
func (c *contract) children(t *testing.T, n node, key string) map[string]node {
	t.Helper()
	found := map[string]node{}
	if _, ok := n.value[key]; !ok {
		return found
	}
	parent := c.child(t, n, key)
	for name := range parent.value {
		found[name] = c.child(t, parent, name)
	}
	return found
}

type operation struct {
	node
	id, method, path string
	webhook          bool
}

func (o operation) isAPI() bool {
	return strings.HasPrefix(o.path, "/api/v1/") || strings.HasPrefix(o.path, "/api/platform/v1/") ||
		strings.HasPrefix(o.path, "/api/desk/v1/")
}

func (c *contract) operations(t *testing.T) []operation {
	t.Helper()
	var all []operation
	for _, section := range []string{"paths", "webhooks"} {
		items := c.children(t, node{value: c.doc}, section)
		for _, path := range slices.Sorted(maps.Keys(items)) {
			for _, method := range slices.Sorted(maps.Keys(items[path].value)) {
				op := c.child(t, items[path], method)
				id, _ := op.value["operationId"].(string)
				all = append(all, operation{node: op, id: id, method: method, path: path,
					webhook: section == "webhooks"})
			}
		}
	}
	return all
}

func (c *contract) parameters(t *testing.T, op operation) []node {
	t.Helper()
	list, _ := op.value["parameters"].([]any)
	found := make([]node, 0, len(list))
	for i, entry := range list {
		found = append(found, c.follow(t, node{pointer: fmt.Sprintf("%s/parameters/%d", op.pointer, i),
			value: entry.(object)}))
	}
	return found
}

// schemaHolders lists every parameter, header and media type of the document, because these have a schema and examples.
func (c *contract) schemaHolders(t *testing.T) []node {
	t.Helper()
	byPointer := map[string]node{}
	addBodies := func(owner node) {
		for _, media := range c.children(t, owner, "content") {
			byPointer[media.pointer] = media
		}
	}
	addResponse := func(response node) {
		addBodies(response)
		for _, header := range c.children(t, response, "headers") {
			byPointer[header.pointer] = header
		}
	}
	components := c.at(t, "components")
	for _, section := range []string{"parameters", "headers"} {
		for _, n := range c.children(t, components, section) {
			byPointer[n.pointer] = n
		}
	}
	for _, n := range c.children(t, components, "responses") {
		addResponse(n)
	}
	for _, op := range c.operations(t) {
		for _, n := range c.parameters(t, op) {
			byPointer[n.pointer] = n
		}
		if _, ok := op.value["requestBody"]; ok {
			addBodies(c.child(t, op.node, "requestBody"))
		}
		for _, n := range c.children(t, op.node, "responses") {
			addResponse(n)
		}
	}
	holders := make([]node, 0, len(byPointer))
	for _, pointer := range slices.Sorted(maps.Keys(byPointer)) {
		holders = append(holders, byPointer[pointer])
	}
	return holders
}

func (c *contract) compile(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	schema, err := c.compiler.Compile(openapi.DocumentURL + "#" + pointer)
	if err != nil {
		t.Fatalf("compile %s: %v", pointer, err)
	}
	return schema
}

func (c *contract) schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	return c.compile(t, "/components/schemas/"+name)
}

// examplesOf returns the examples of a parameter, header or media type by name; a single one has the name "".
func (c *contract) examplesOf(t *testing.T, n node) map[string]any {
	t.Helper()
	found := map[string]any{}
	if value, ok := n.value["example"]; ok {
		found[""] = value
	}
	for name, example := range c.children(t, n, "examples") {
		value, ok := example.value["value"]
		if !ok {
			t.Errorf("%s has no value", example.pointer)
		}
		found[name] = value
	}
	return found
}

// exampleList returns the examples in the schema itself.
func exampleList(schema node) []any {
	list, _ := schema.value["examples"].([]any)
	return list
}

func texts(value any) []string {
	list, _ := value.([]any)
	found := make([]string, 0, len(list))
	for _, entry := range list {
		found = append(found, fmt.Sprint(entry))
	}
	return found
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func sameSet(a, b []string) bool { return slices.Equal(sorted(a), sorted(b)) }
