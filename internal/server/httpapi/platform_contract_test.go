package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"partnerd/openapi"
)

type object = map[string]any

// observer checks every response of the Platform API against its contract, and records which responses occurred.
type observer struct {
	t        *testing.T
	base     string
	tree     object
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	seen     map[string]bool // "operationId status"
}

func newObserver(t *testing.T, base string) *observer {
	t.Helper()
	asJSON, err := openapi.JSON(openapi.Platform)
	if err != nil {
		t.Fatal(err)
	}
	tree, compiler, err := openapi.Schemas(asJSON)
	if err != nil {
		t.Fatal(err)
	}
	return &observer{t: t, base: base, tree: tree, compiler: compiler, seen: map[string]bool{}}
}

// answer is a received response.
type answer struct {
	status int
	header http.Header
	body   object
	raw    string
}

// call sends a request with the credentials, given as "id:secret" or empty, and checks the response.
func (o *observer) call(credentials, method, path string, body any, header ...string) answer {
	o.t.Helper()
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			o.t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.base+path, reader)
	if err != nil {
		o.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if id, secret, ok := strings.Cut(credentials, ":"); ok {
		req.SetBasicAuth(id, secret)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		o.t.Errorf("%s %s: %d with %q, which is not JSON", method, path, a.status, raw)
		return a
	}
	a.body, _ = value.(object)
	o.check(method, req.URL.Path, a, value)
	return a
}

func (o *observer) check(method, path string, a answer, value any) {
	o.t.Helper()
	template, op := o.find(method, path)
	if op == nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed &&
			a.status != http.StatusUnauthorized {
			o.t.Errorf("%s %s is not in the contract and answered %d", method, path, a.status)
		}
		return
	}
	id := op["operationId"].(string)
	response, ok := op["responses"].(object)[fmt.Sprint(a.status)].(object)
	if !ok {
		o.t.Errorf("%s answered %d, which the contract does not have: %s", id, a.status, a.raw)
		return
	}
	pointer := fmt.Sprintf("/paths/%s/%s/responses/%d", escape(template), strings.ToLower(method), a.status)
	if ref, ok := response["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/responses/")
		pointer = "/components/responses/" + name
		response = o.tree["components"].(object)["responses"].(object)[name].(object)
	}
	headers := o.tree["components"].(object)["headers"].(object)
	for name, ref := range response["headers"].(object) {
		declared := headers[strings.TrimPrefix(ref.(object)["$ref"].(string), "#/components/headers/")].(object)
		if declared["required"] == true && a.header.Get(name) == "" {
			o.t.Errorf("%s %d lacks the header %s", id, a.status, name)
		}
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		o.t.Errorf("%s %d has the media type %q", id, a.status, got)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	schema, err := o.compiler.Compile(openapi.DocumentURL + "#" + pointer + "/content/application~1json/schema")
	if err != nil {
		o.t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		o.t.Errorf("%s %d: %v\n%s", id, a.status, err, a.raw)
	}
	o.seen[fmt.Sprintf("%s %d", id, a.status)] = true
}

func (o *observer) find(method, path string) (template string, op object) {
	for template, item := range o.tree["paths"].(object) {
		parts, segments := strings.Split(template, "/"), strings.Split(path, "/")
		match := len(parts) == len(segments)
		for i := range min(len(parts), len(segments)) {
			match = match && (parts[i] == segments[i] || strings.HasPrefix(parts[i], "{"))
		}
		if op, ok := item.(object)[strings.ToLower(method)].(object); match && ok {
			return template, op
		}
	}
	return "", nil
}

func escape(segment string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(segment)
}
