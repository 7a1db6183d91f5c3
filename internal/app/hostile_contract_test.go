package app

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/openapi"
)

// describedOperation is an operation as a contract describes its request.
type describedOperation struct {
	ID           string `yaml:"operationId"`
	method, path string
	Parameters   []describedParameter
	RequestBody  struct {
		Content map[string]struct {
			Schema struct {
				Ref string `yaml:"$ref"`
			}
			Examples map[string]struct{ Value map[string]any }
		}
	} `yaml:"requestBody"`
	properties []string // of the body
}

type describedParameter struct {
	Ref      string `yaml:"$ref"`
	Name, In string
	Example  any
}

const typeJSON, typeForm = "application/json", "application/x-www-form-urlencoded"

// readContracts returns the operations of all contracts by method and path, in the router's notation.
func readContracts(t *testing.T) map[string]describedOperation {
	t.Helper()
	out := map[string]describedOperation{}
	for _, source := range [][]byte{openapi.Partner, openapi.Platform, openapi.Desk, openapi.Sandbox} {
		var document struct {
			Paths      map[string]map[string]describedOperation
			Components struct {
				Parameters map[string]describedParameter
				Schemas    map[string]struct{ Properties map[string]any }
			}
		}
		if err := yaml.Unmarshal(source, &document); err != nil {
			t.Fatal(err)
		}
		for path, item := range document.Paths {
			for method, op := range item {
				op.method, op.path = strings.ToUpper(method), strings.NewReplacer("{", ":", "}", "").Replace(path)
				for n, p := range op.Parameters {
					if p.Ref != "" {
						op.Parameters[n] = document.Components.Parameters[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
					}
				}
				for _, media := range op.RequestBody.Content {
					ref := media.Schema.Ref
					op.properties = slices.Sorted(
						maps.Keys(document.Components.Schemas[ref[strings.LastIndex(ref, "/")+1:]].Properties),
					)
					if len(op.properties) == 0 || len(media.Examples) == 0 {
						t.Fatalf("%s: no property or no example of %q", op.ID, ref)
					}
				}
				out[op.method+" "+op.path] = op
			}
		}
	}
	return out
}

// partner sends requests that the contracts describe.
type partner struct {
	*intruder
	bank     *bank
	token    string                // of a client with money, a consultation with events, and a webhook endpoint
	identify func(r *http.Request) // adds the client's browser session
	real     map[string]string     // replacements for example values, by prefix
	grants   map[string]string     // form field → a value that works once, of a client used for nothing else
	guest    string                // that client
	player   operator.Credentials  // of an application whose clock is advanced
	keys     int
}

func (i *intruder) partner(b *bank) *partner {
	p := &partner{intruder: i, bank: b, grants: map[string]string{}}
	var client string
	client, p.token = b.client()
	p.guest, _ = b.client()
	if err := b.app.DB.InTx(i.t.Context(), func(tx postgres.Tx) error {
		return b.app.Wallet.Adjust(i.t.Context(), tx, client, 100_000, "Test")
	}); err != nil {
		i.t.Fatal(err)
	}
	b.signLawyerIn()
	var err error
	if p.player, err = b.app.CreateApplication(i.t.Context(),
		application.NewApplication{Name: "Player", RedirectURIs: b.crm.RedirectURIs, Scopes: application.AllScopes},
		""); err != nil {
		i.t.Fatal(err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	i.t.Cleanup(receiver.Close)
	p.real = map[string]string{"app_": b.crm.ID, "sk_": b.secret, "https://crm.example/callback": b.crm.RedirectURIs[0],
		"https://crm.example/webhooks": receiver.URL}
	consultation := b.send(i.t.Context(), http.MethodPost, "/api/v1/consultations",
		map[string]string{"Authorization": "Bearer " + p.token, "Idempotency-Key": "first"},
		`{"competence": "FAMILY", "subject": "Test", "withdrawalWaiverAcknowledged": true}`)
	p.real["con_"], _ = consultation.body["id"].(string)
	for prefix, path := range map[string]string{"evt_": "events", "dlv_": "deliveries"} {
		basic := base64.StdEncoding.EncodeToString([]byte(b.crm.ID + ":" + b.secret))
		list := b.send(i.t.Context(), http.MethodGet, "/api/platform/v1/"+path,
			map[string]string{"Authorization": "Basic " + basic}, "")
		items, _ := list.body["items"].([]any)
		if consultation.status != http.StatusCreated || len(items) == 0 {
			i.t.Fatalf("create: %d %s, %s: %d %s", consultation.status, consultation.raw, path, list.status, list.raw)
		}
		p.real[prefix], _ = items[0].(map[string]any)["id"].(string)
	}
	return p
}

// request is a request that the contract describes, to be changed in one place.
type request struct {
	path, contentType string
	query, form       url.Values
	header            http.Header
	json              map[string]string // property → raw JSON; hostile values may be invalid JSON
	more              string            // further raw properties
	raw               string            // replaces the whole body
}

// valid returns a request with this example of a body and every value that has an example.
func (p *partner) valid(op describedOperation, contentType string, example map[string]any) *request {
	if p.keys++; p.keys%8 == 0 { // fewer than any rate limit counted in the database
		if err := p.bank.app.DB.InTx(p.t.Context(), func(tx postgres.Tx) error {
			_, err := tx.Exec(p.t.Context(), postgres.SQL(postgres.Batch, `DELETE FROM rate_buckets`))
			return err
		}); err != nil {
			p.t.Fatal(err)
		}
	}
	if op.ID == "examineEndpoint" { // another operation may have removed the URL
		if err := p.bank.app.DB.InTx(p.t.Context(), func(tx postgres.Tx) error {
			return p.bank.app.Webhooks.SetURL(p.t.Context(), tx, p.bank.crm.ID, p.real["https://crm.example/webhooks"])
		}); err != nil {
			p.t.Fatal(err)
		}
	}
	r := &request{path: op.path, contentType: contentType, query: url.Values{}, header: http.Header{}}
	switch {
	case strings.HasPrefix(op.path, "/api/v1/"):
		r.header.Set("Authorization", "Bearer "+p.token)
	case strings.HasPrefix(op.path, "/api/platform/v1/sandbox/"): // a separate application, whose clock is advanced
		setBasic(r.header, p.player.ClientID, p.player.ClientSecret)
	case strings.HasPrefix(op.path, "/api/platform/v1/application"):
		// a new application each time, which is changed and whose secret is rotated
		made, err := p.bank.app.CreateApplication(p.t.Context(),
			application.NewApplication{Name: "Rotated", RedirectURIs: p.bank.crm.RedirectURIs}, "")
		if err != nil {
			p.t.Fatal(err)
		}
		setBasic(r.header, made.ClientID, made.ClientSecret)
	case strings.HasPrefix(op.path, "/api/platform/"):
		setBasic(r.header, p.bank.crm.ID, p.bank.secret)
	case strings.HasPrefix(op.path, "/api/desk/"):
		r.header.Set("Cookie", staff.CookieName(false)+"="+p.bank.lawyer)
	}
	for _, parameter := range op.Parameters {
		switch value := p.value(parameter.Example); {
		case parameter.Example == nil:
		case parameter.In == "path":
			r.path = strings.Replace(r.path, ":"+parameter.Name, value, 1)
		case parameter.In == "query":
			r.query.Set(parameter.Name, value)
		case parameter.Name == "X-CSRF-Token":
			r.header.Set(parameter.Name, staff.FormToken(p.bank.lawyer))
		case parameter.Name == "Idempotency-Key":
			r.header.Set(parameter.Name, fmt.Sprint("key", p.keys))
		default:
			r.header.Set(parameter.Name, value)
		}
	}
	switch contentType {
	case typeJSON:
		r.json = map[string]string{}
		for name, v := range example {
			if text, ok := v.(string); ok {
				v = p.value(text)
			}
			r.json[name] = asJSON(p.t, v)
		}
	case typeForm:
		r.form = url.Values{}
		for name, v := range example {
			r.form.Set(name, p.value(v))
		}
		for name := range r.form {
			if value := p.grant(name); value != "" {
				r.form.Set(name, value)
			}
		}
	}
	return r
}

// value returns the replacement for an example value.
func (p *partner) value(example any) string {
	text := fmt.Sprint(example)
	for prefix, value := range p.real {
		if strings.HasPrefix(text, prefix) {
			return value
		}
	}
	return text
}

// grant returns a working value for a field of the token or revoke endpoint, or "" for other fields.
func (p *partner) grant(field string) string {
	switch field {
	case "code_verifier":
		return codeVerifier
	case "code", "refresh_token", "token":
		if p.grants[field] == "" {
			p.grants[field] = p.bank.code(p.guest)
			if field != "code" {
				p.grants[field] = p.bank.redeem(p.grants[field]).RefreshToken
			}
		}
	}
	return p.grants[field]
}

func setBasic(h http.Header, id, secret string) {
	h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(id+":"+secret)))
}

func asJSON(t *testing.T, v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// try sends the request and returns the status.
func (p *partner) try(op describedOperation, r *request) int {
	body := r.raw
	switch {
	case body != "":
	case r.json != nil:
		var properties []string
		for _, name := range slices.Sorted(maps.Keys(r.json)) {
			properties = append(properties, asJSON(p.t, name)+":"+r.json[name])
		}
		body = "{" + strings.Join(properties, ",") + r.more + "}"
	case r.form != nil:
		body = r.form.Encode()
	}
	q := httptest.NewRequest(op.method, "/", strings.NewReader(body))
	u, err := url.Parse(r.path + "?" + r.query.Encode())
	if err != nil {
		p.t.Fatal(err)
	}
	q.URL, q.RequestURI, q.Header = u, u.RequestURI(), r.header
	if r.contentType != "" {
		q.Header.Set("Content-Type", r.contentType)
	}
	if op.ID == "authorize" {
		p.identify(q)
	}
	w := p.send(q)
	for field, value := range p.grants { // a failed authentication uses nothing up
		if r.form.Get(field) == value && w.Code != http.StatusUnauthorized {
			delete(p.grants, field)
		}
	}
	// so that the money is available again for the next request
	if op.ID == "createConsultation" && w.Code == http.StatusCreated {
		var created struct{ ID string }
		if err := json.Unmarshal(w.Body.Bytes(), &created); err != nil {
			p.t.Fatal(err)
		}
		cancel := httptest.NewRequest(http.MethodPost, op.path+"/"+created.ID+"/cancel", nil)
		cancel.Header.Set("Authorization", "Bearer "+p.token)
		if got := p.send(cancel); got.Code != http.StatusOK {
			p.t.Errorf("cancel: %d %s", got.Code, got.Body)
		}
	}
	return w.Code
}

// attackOperation sends each example of op unchanged, which must be accepted, and then with one change.
func (p *partner) attackOperation(op describedOperation) {
	if len(op.RequestBody.Content) == 0 {
		p.attackExample(op, "", nil)
	}
	for contentType, media := range op.RequestBody.Content {
		for _, name := range slices.Sorted(maps.Keys(media.Examples)) {
			p.attackExample(op, contentType, media.Examples[name].Value)
		}
	}
}

func (p *partner) attackExample(op describedOperation, contentType string, example map[string]any) {
	valid := func() *request { return p.valid(op, contentType, example) }
	changed := func(change func(r *request)) {
		r := valid()
		change(r)
		p.try(op, r)
	}
	if status := p.try(op, valid()); slices.Contains([]int{400, 401, 403, 415, 422, 429}, status) {
		p.t.Errorf("%s: the example %v is refused: %d", op.ID, example, status)
	}
	for _, parameter := range op.Parameters {
		in := func(r *request) map[string][]string {
			if parameter.In == "header" {
				return r.header
			}
			return r.query
		}
		if parameter.In == "path" {
			for _, v := range hostile {
				r := valid()
				r.path = strings.Replace(op.path, ":"+parameter.Name, url.PathEscape(v), 1)
				p.try(op, r)
			}
			continue
		}
		for _, v := range hostile {
			changed(func(r *request) { in(r)[parameter.Name] = []string{v} })
			changed(func(r *request) { in(r)[parameter.Name] = append(in(r)[parameter.Name], v) })
		}
		changed(func(r *request) { delete(in(r), parameter.Name) })
	}
	for _, v := range hostile {
		changed(func(r *request) { r.query.Set("nobody", v) })
		changed(func(r *request) { r.header.Set("Authorization", "Bearer "+v) })
		changed(func(r *request) { setBasic(r.header, v, v) })
	}
	switch contentType {
	case typeJSON:
		p.attackJSON(op, changed)
	case typeForm:
		p.attackForm(op, changed)
	}
}

func (p *partner) attackJSON(op describedOperation, changed func(func(r *request))) {
	values := slices.Clone(hostileValues)
	for _, v := range hostile {
		values = append(values, asJSON(p.t, v))
	}
	for _, name := range append(op.properties, "nobody") {
		for _, v := range values {
			changed(func(r *request) { r.json[name] = v })
		}
		changed(func(r *request) { delete(r.json, name) })
		changed(func(r *request) { r.more = `,"` + name + `":` + cmp.Or(r.json[name], "0") }) // a duplicate property
		changed(func(r *request) { r.more = `,"` + strings.ToUpper(name) + `":` + cmp.Or(r.json[name], "0") })
	}
	for _, body := range hostileJSON {
		changed(func(r *request) { r.json, r.raw = nil, body })
	}
	for _, t := range contentTypes {
		changed(func(r *request) { r.contentType = t })
	}
}

func (p *partner) attackForm(op describedOperation, changed func(func(r *request))) {
	for _, name := range append(op.properties, "nobody") {
		for _, v := range hostile {
			changed(func(r *request) { r.form.Set(name, v) })
		}
		changed(func(r *request) { r.form.Del(name) })
		changed(func(r *request) { r.form.Add(name, r.form.Get(name)) })
		changed(func(r *request) { r.form[strings.ToUpper(name)] = r.form[name] })
		// authenticated by the header, as by an application's library that puts no credentials in the form
		changed(func(r *request) {
			r.form.Del("client_id")
			r.form.Del("client_secret")
			r.form.Del(name)
			setBasic(r.header, p.bank.crm.ID, p.bank.secret)
		})
	}
	for _, t := range contentTypes {
		changed(func(r *request) { r.contentType = t })
	}
}
