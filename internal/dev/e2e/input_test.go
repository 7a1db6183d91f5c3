package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// number returns an integer keyword of a schema.
func number(schema object, keyword string) (*big.Int, bool) {
	n, ok := schema[keyword].(json.Number)
	if !ok {
		return nil, false
	}
	i, ok := new(big.Int).SetString(n.String(), 10)
	return i, ok
}

func plus(n *big.Int, d int64) *big.Int { return new(big.Int).Add(n, big.NewInt(d)) }

// badValues are texts that a query parameter with this schema must reject, whatever it means.
func badValues(p parameter) []string {
	out := []string{"\x00", "a\x00b", "", "\xff\xfe"}
	enum, _ := p.raw["enum"].([]any)
	if p.raw["type"] == "integer" {
		out = append(out, "x", "1.5", "1e1", " 1", "0x1", "99999999999999999999", "1\x00", "١")
		if n, ok := number(p.raw, "minimum"); ok {
			out = append(out, plus(n, -1).String(), "-1")
		}
		if n, ok := number(p.raw, "maximum"); ok {
			out = append(out, plus(n, 1).String())
		}
		return out
	}
	if len(enum) > 0 {
		out = append(out, strings.ToLower(enum[0].(string)), enum[0].(string)+" ")
	}
	if n, ok := number(p.raw, "maxLength"); ok {
		out = append(out, strings.Repeat("a", int(n.Int64())+1))
	}
	if free, _ := p.raw["x-trim"].(bool); free {
		return append(out, " ", "\u200b", "a\nb", "a\x00", "\xff")
	}
	// The others are not codes, statuses or cursors.
	return append(out, "nope", "housing", "DRAFT", "😀", "' OR 1=1", strings.Repeat("A", 3000))
}

// R84, R89, R95, R141, H3, H26: every missing, repeated or invalid query parameter is a 400, and the issue names it.
func TestBadQueryParametersAreNamed(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, op := range spec.api() {
		for _, p := range op.parameters {
			if p.in != "query" {
				continue
			}
			if p.required {
				c := k.valid(op)
				c.query.Del(p.name)
				refusedParameter(t, op.id+" without "+p.name, c.as(t, k.s), p.name)
			}
			c := k.valid(op)
			value := p.example
			if value == "" {
				value = "1"
			}
			c.query[p.name] = []string{value, value}
			refusedParameter(t, op.id+" with "+p.name+" twice", c.as(t, k.s), p.name)
			for _, bad := range badValues(p) {
				c := k.valid(op)
				c.query.Set(p.name, bad)
				refusedParameter(t, fmt.Sprintf("%s with %s=%.30q", op.id, p.name, bad), c.as(t, k.s), p.name)
			}
		}
		for _, unknown := range []string{"stauts", "Limit", "externalref", "", "a\x00b", "\xff"} {
			for _, values := range [][]string{{"COMPLETED"}, {"", ""}} {
				c := k.valid(op)
				c.query[unknown] = values
				r := c.as(t, k.s)
				r.is(t, fmt.Sprintf("%s with the query parameter %q", op.id, unknown), http.StatusBadRequest,
					"INVALID_REQUEST")
				if want := strings.ToValidUTF8(unknown, "\ufffd") + " unknown_field"; !slices.Equal(r.issues(),
					[]string{want}) {
					t.Errorf("%s: issues %v, want %s", op.id, r.issues(), want)
				}
			}
		}
		for _, malformed := range []string{"a=%zz", "%", "a;b=1", "limit=%", "limit=1;cursor=2"} {
			c := k.valid(op)
			c.rawQuery = malformed
			c.as(t, k.s).is(t, op.id+" with the query "+malformed, http.StatusBadRequest, "INVALID_REQUEST")
		}
	}
}

// TestIssuesHaveOneOrder: the same errors give the same response, sorted by path and code.
func TestIssuesHaveOneOrder(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for range 20 {
		r := k.s.tryCreate(t, object{"subject": "x", "language": "XX", "competence": "NOPE", "zebra": 1, "ant": 1})
		want := []string{"ant unknown_field", "competence not_in_catalog", "language not_in_catalog",
			"subject too_short", "withdrawalWaiverAcknowledged required", "zebra unknown_field"}
		if !slices.Equal(r.issues(), want) {
			t.Fatalf("issues of a body %v, want %v", r.issues(), want)
		}
		r = k.s.get(t, "/api/v1/coverage?language=XX&competence=NOPE")
		if want := []string{"competence not_in_catalog", "language not_in_catalog"}; !slices.Equal(r.issues(), want) {
			t.Fatalf("issues of parameters %v, want %v", r.issues(), want)
		}
		r = k.s.get(t, "/api/v1/consultations?zebra=1&limit=0&ant=1&status=x")
		if want := []string{"ant unknown_field", "limit too_small", "status invalid_value",
			"zebra unknown_field"}; !slices.Equal(r.issues(), want) {
			t.Fatalf("issues of a query %v, want %v", r.issues(), want)
		}
	}
}

func refusedParameter(t *testing.T, what string, r *reply, name string) {
	t.Helper()
	r.is(t, what, http.StatusBadRequest, "INVALID_REQUEST")
	if !slices.ContainsFunc(r.issues(), func(i string) bool { return strings.HasPrefix(i, name+" ") }) {
		t.Errorf("%s: issues %v do not name %s", what, r.issues(), name)
	}
}

// fault is a body and the issue that it must cause.
type fault struct {
	what  string
	body  object
	issue string
}

// faultsOf returns a body for every error that the schema knows, one error each.
func faultsOf(b *body) (out []fault) {
	required := map[string]bool{}
	for _, name := range b.raw["required"].([]any) {
		required[name.(string)] = true
	}
	for name, raw := range b.raw["properties"].(object) {
		p := raw.(object)
		add := func(what, issue string, value any) {
			o := maps.Clone(b.example)
			o[name] = value
			out = append(out, fault{name + " " + what, o, name + " " + issue})
		}
		if required[name] {
			o := maps.Clone(b.example)
			delete(o, name)
			out = append(out, fault{name + " missing", o, name + " required"})
		}
		add("null", "invalid_type", nil)
		for _, wrong := range []any{
			json.Number("1.5"), json.Number("7"), "text", true, []any{}, []any{"x"}, object{}, object{"a": 1},
		} {
			if !hasType(p["type"].(string), wrong) {
				add(fmt.Sprintf("%T %v", wrong, wrong), "invalid_type", wrong)
			}
		}
		if p["type"] == "string" {
			add("with NUL", "invalid_value", fmt.Sprint(b.example[name], "\x00"))
		}
		if p["x-trim"] == true {
			bad := []string{"\x1b", "\x7f", "\u0085", "\u2028", "\u2029", "\u202a", "\u202e", "\u2066", "\u2069",
				"\ufeff", "\U000E0041"}
			if p["x-lines"] != true {
				bad = append(bad, "\n", "\r", "\t")
			}
			for _, char := range bad {
				add(fmt.Sprintf("with %+q", char), "invalid_value", "abc"+char+"def")
			}
		}
		if n, ok := number(p, "minLength"); ok {
			add("too short", "too_short", strings.Repeat("é", int(n.Int64())-1))
			add("empty", "too_short", "")
			if p["x-trim"] == true {
				add("of spaces", "too_short", strings.Repeat(" ", int(n.Int64())))
				add("of format characters", "too_short", strings.Repeat("\u200b", int(n.Int64())))
			}
		}
		if n, ok := number(p, "maxLength"); ok {
			add("too long", "too_long", "https://crm.example/"+strings.Repeat("x", int(n.Int64())))
		}
		if n, ok := number(p, "minimum"); ok {
			add("too small", "too_small", plus(n, -1))
			add("negative", "too_small", -1)
			add("-0", "too_small", json.Number("-0"))
		}
		if n, ok := number(p, "maximum"); ok {
			add("too large", "invalid_value", plus(n, 1))
			add("huge", "invalid_value", json.Number("1e300"))
			add("of an absurd exponent", "invalid_value", json.Number("1e999999999"))
			add("a fraction that a float rounds up", "invalid_type", json.Number("2999.9999999999999999"))
			add("a fraction that a float rounds down", "invalid_type", json.Number("3000.00000000000000001"))
			add("beyond every number", "invalid_value", json.Number("1"+strings.Repeat("0", 400)))
		}
		switch {
		case p["const"] == true:
			add("false", "waiver_required", false)
		case p["format"] == "uri":
			for _, bad := range []string{"not a url", "/path", "", "https://", "crm.example/back"} {
				add("bad URL "+bad, "invalid_url", bad)
			}
		case p["enum"] != nil:
			for _, bad := range []string{"", "NOPE", "fr", " FR", "FR ", "😀"} {
				add("value "+bad, "invalid_value", bad)
			}
		case name == "waiverTextVersion":
			for _, bad := range []string{"NOPE", "2026-10", " 2026-12", "2026-12 ", "😀"} {
				add("version "+bad, "invalid_value", bad)
			}
		case p["type"] == "string" && p["maxLength"] == nil: // a code of the catalog
			for _, bad := range []string{"", "NOPE", "housing", " HOUSING", "HOUSING ", "😀"} {
				add("code "+bad, "not_in_catalog", bad)
			}
		}
	}
	for _, name := range []string{"unknown", "externalref", "", "__proto__", "phone"} {
		o := maps.Clone(b.example)
		o[name] = "x"
		out = append(out, fault{"unknown field " + name, o, name + " unknown_field"})
	}
	return out
}

func hasType(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case json.Number:
		return name == "integer" && !strings.Contains(v.String(), ".")
	}
	return false
}

// R35–R43, R51, R85, R94, R141, R144, H24, H43, H44, H45: every property of every body, missing, null, of another type,
// out of bounds or unknown, is a 422. Its issue names the property, and nothing is changed.
func TestBadBodiesAreNamed(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, op := range spec.api() {
		if op.body == nil {
			continue
		}
		k.unchanged(t, func() {
			for _, f := range faultsOf(op.body) {
				c := k.valid(op)
				c.body = f.body
				r := c.as(t, k.s)
				r.is(t, op.id+" with "+f.what, http.StatusUnprocessableEntity, "VALIDATION_ERROR")
				name, _, _ := strings.Cut(f.issue, " ")
				other := func(i string) bool { return !strings.HasPrefix(i, name+" ") }
				if !slices.Contains(r.issues(), f.issue) || slices.ContainsFunc(r.issues(), other) {
					t.Errorf("%s with %s: issues %v, want %s", op.id, f.what, r.issues(), f.issue)
				}
			}
			for _, text := range []string{
				"[]", `"text"`, "1", "null", "true", strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
			} {
				c := k.valid(op)
				c.body, c.header = text, append(c.header, "Content-Type", "application/json")
				r := c.as(t, k.s)
				r.is(t, fmt.Sprintf("%s with %.20s", op.id, text), http.StatusUnprocessableEntity, "VALIDATION_ERROR")
				if !slices.Equal(r.issues(), []string{" invalid_type"}) {
					t.Errorf("%s with %.20s: issues %v", op.id, text, r.issues())
				}
			}
		})
	}
}

// R2, R50, R141, R156, H48: a body that is not JSON in UTF-8 of a reasonable size is a 400, before any other check of
// the body.
func TestUnreadableBodiesAreRefused(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, op := range spec.api() {
		if op.body == nil {
			continue
		}
		raw, err := json.Marshal(op.body.example)
		if err != nil {
			t.Fatal(err)
		}
		good := string(raw)
		open := good[:len(good)-1]
		for what, body := range map[string]string{
			"nothing": "", "spaces": "   ", "half": open, "no JSON": "nope", "twice": good + good,
			"something behind": good + " x", "a brace behind": good + "}", "a comment": "/* */" + good,
			"NaN": `{"amountCents":NaN}`, "single quotes": strings.ReplaceAll(good, `"`, "'"), "a BOM": "\ufeff" + good,
			"a raw NUL": open + ",\"a\":\"\x00\"}", "a raw line feed": open + ",\"a\":\"\n\"}",
			"NUL behind": good + "\x00", "invalid UTF-8": open + ",\"a\":\"\xff\xfe\"}",
			"an invalid escape": open + `,"a":"\x41"}`, "UTF-16": "\xff\xfe{\x00}\x00",
			"1 MB":           open + `,"a":"` + strings.Repeat("x", 1<<20) + `"}`,
			"1 MB of spaces": good + strings.Repeat(" ", 1<<20), "deep arrays": strings.Repeat("[", 30_000),
			"deep objects": strings.Repeat(`{"a":`, 12_000),
		} {
			c := k.valid(op)
			c.body, c.header = body, append(c.header, "Content-Type", "application/json")
			k.unchanged(t, func() {
				c.as(t, k.s).is(t, op.id+" with "+what, http.StatusBadRequest, "INVALID_REQUEST")
			})
		}
		for _, pair := range []string{`\ud800`, `\udc00`, `\ud800\ud800`, `\udc00\ud800`, `a\ud800a`, `\ud83d\u0041`} {
			c := k.valid(op)
			c.body, c.header = open+`,"a":"`+pair+`"}`, append(c.header, "Content-Type", "application/json")
			c.as(t, k.s).is(t, op.id+" with half a pair "+pair, http.StatusUnprocessableEntity, "VALIDATION_ERROR")
		}
		for name := range op.body.example {
			c := k.valid(op)
			value, _ := json.Marshal(op.body.example[name])
			c.body, c.header = fmt.Sprintf("%s,%q:%s}", open, name, value), append(c.header, "Content-Type",
				"application/json")
			r := c.as(t, k.s)
			r.is(t, op.id+" with two of "+name, http.StatusUnprocessableEntity, "VALIDATION_ERROR")
			if !slices.Equal(r.issues(), []string{name + " invalid_value"}) {
				t.Errorf("%s with two of %s: issues %v", op.id, name, r.issues())
			}
		}
		k.unchanged(t, func() { refusedMedia(t, k, op, good) })
	}
}

func refusedMedia(t *testing.T, k *cast, op *operation, good string) {
	t.Helper()
	for _, media := range []string{"-", "", "text/plain", "text/json", "application/xml",
		"application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=latin1",
		"application/jsonp", "application/*", "*/*", ";", "application/json;"} {
		c := k.valid(op)
		c.body, c.header = good, append(c.header, "Content-Type", media)
		if media == "application/json;" {
			continue // some clients send it, and it means the same
		}
		c.as(t, k.s).is(t, op.id+" as "+media, http.StatusBadRequest, "INVALID_REQUEST")
	}
	c := k.valid(op)
	c.body, c.header = good, append(c.header, "Content-Type", "application/json", "Content-Type", "text/plain")
	c.as(t, k.s).is(t, op.id+" with two Content-Types", http.StatusBadRequest, "INVALID_REQUEST")
	c = k.valid(op)
	c.body, c.header = good, append(c.header, "Content-Type", "application/json", "Content-Encoding", "gzip")
	c.as(t, k.s).is(t, op.id+" said to be compressed", http.StatusBadRequest, "INVALID_REQUEST")
}

// R37, R38, R43, R85, R102, R145, H45, T38: values just within the bounds are accepted, however they are written.
func TestGoodBodiesAreAccepted(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, op := range spec.api() {
		if op.body == nil {
			continue
		}
		accepted := func(what string, body any, header ...string) {
			t.Helper()
			c := k.valid(op)
			c.body, c.header = body, append(c.header, header...)
			if r := c.as(t, k.s); !ok(op, r) {
				t.Errorf("%s with %s: %s", op.id, what, r)
			} else if op.id == "createConsultation" {
				k.s.cancel(t, r.value()["id"].(string)).is(t, "cancel", http.StatusOK, "")
			}
		}
		for name, raw := range op.body.raw["properties"].(object) {
			p := raw.(object)
			set := func(what string, value any) {
				t.Helper()
				o := maps.Clone(op.body.example)
				o[name] = value
				accepted(name+" "+what, o)
			}
			if n, ok := number(p, "maxLength"); ok && p["format"] == nil {
				set("of the greatest length", strings.Repeat("😀", int(n.Int64())))
				set("of the greatest length and spaces", "\u00a0 "+strings.Repeat("é", int(n.Int64()))+" \n")
				set("combining", strings.Repeat("e\u0301", int(n.Int64())))
			}
			if n, ok := number(p, "minLength"); ok {
				set("of the least length", strings.Repeat("é", int(n.Int64())))
			}
			if n, ok := number(p, "minimum"); ok {
				set("least", n)
				set("least with a fraction of 0", json.Number(n.String()+".0"))
				set("least with an exponent", json.Number("2E3"))
			}
			if n, ok := number(p, "maximum"); ok && name != "amountCents" {
				set("greatest", n)
			}
		}
		raw, err := json.MarshalIndent(op.body.example, "\t", "\t")
		if err != nil {
			t.Fatal(err)
		}
		for _, media := range []string{
			"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8",
		} {
			accepted(media, string(raw), "Content-Type", media)
		}
		accepted("the identity encoding", string(raw), "Content-Type", "application/json",
			"Content-Encoding", "identity")
	}
	accept := func(what, field string, value any) {
		t.Helper()
		r := k.s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": 2000,
			"returnUrl": "https://crm.example/", field: value})
		r.is(t, what, http.StatusOK, "")
	}
	accept("amount 100000", "amountCents", 100_000)
	for _, u := range []string{"https://crm.example", "http://localhost:3000/back?a=1#x", "http://127.0.0.1/",
		"https://crm.example:8443/ä%20?x=" + url.QueryEscape("é")} {
		if strings.Contains(u, "ä") {
			u = strings.ReplaceAll(u, "ä", "%C3%A4")
		}
		accept("returnUrl "+u, "returnUrl", u)
	}
}
