package oauth

import (
	"net/http/httptest"
	"strings"
	"testing"

	"partnerd/internal/base/id"
)

func digest(secret string) id.Digest { return id.DigestOf(secret) }

const formType = "application/x-www-form-urlencoded"

func TestFormIsReadFromTheBodyOnly(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("POST", "/api/oauth/token?client_secret=from-url&code=from-url",
		strings.NewReader("client_id=a%20b&empty=&unknown=1"))
	r.Header.Set("Content-Type", formType+"; charset=UTF-8")
	form, fault := ParseForm(r)
	if fault != nil {
		t.Fatal(fault)
	}
	if form.Get("client_id") != "a b" || form.Has("client_secret") || form.Has("code") {
		t.Errorf("form: %v", form)
	}
}

func TestUnreadableFormsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ contentType, body string }{
		"no type":          {"", "a=1"},
		"JSON":             {"application/json", `{"a":1}`},
		"multipart":        {"multipart/form-data; boundary=x", "--x--"},
		"other charset":    {formType + "; charset=utf-16", "a=1"},
		"broken type":      {formType + "; charset", "a=1"},
		"duplicate":        {formType, "a=1&a=1"},
		"duplicate empty":  {formType, "a=1&a="},
		"duplicate hidden": {formType, "a=1&%61=2"},
		"broken escape":    {formType, "a=%zz"},
		"semicolon":        {formType, "a=1;b=2"},
		"NUL in value":     {formType, "a=%00"},
		"NUL in name":      {formType, "a%00=1"},
		"not UTF-8":        {formType, "a=%ff"},
		"too large":        {formType, "a=" + strings.Repeat("x", maxFormBytes)},
	} {
		r := httptest.NewRequest("POST", "/api/oauth/token", strings.NewReader(c.body))
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		_, fault := ParseForm(r)
		if fault == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		isRefusal(t, name, fault, 400, CodeInvalidRequest)
	}
	for name, header := range map[string][]string{
		"bearer, nothing in the body": {"Bearer x"}, "no scheme": {"x"}, "two headers": {"Basic YTpi", "Basic YTpi"},
		"another scheme first": {"Bearer x", "Basic YTpi"},
	} {
		r := httptest.NewRequest("POST", "/api/oauth/token", strings.NewReader("a=1"))
		r.Header = map[string][]string{"Content-Type": {formType}, "Authorization": header}
		_, fault := ParseForm(r)
		isRefusal(t, name, fault, 400, CodeInvalidRequest)
	}
	for name, header := range map[string]string{
		"no base64": "Basic ???", "no colon": "Basic YWI=", "empty": "Basic", "lower case": "basic YWI=",
	} {
		r := httptest.NewRequest("POST", "/api/oauth/token", strings.NewReader("a=1"))
		r.Header = map[string][]string{"Content-Type": {formType}, "Authorization": {header}}
		_, fault := ParseForm(r)
		isRefusal(t, name, fault, 401, CodeInvalidClient)
	}
	for name, set := range map[string][2]string{
		"compressed": {"Content-Encoding", "gzip"}, "two types": {"Content-Type", formType},
	} {
		r := httptest.NewRequest("POST", "/api/oauth/token", strings.NewReader("a=1"))
		r.Header.Set("Content-Type", formType)
		r.Header.Add(set[0], set[1])
		if _, fault := ParseForm(r); fault == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseForm(f *testing.F) {
	for _, s := range []string{"", "a=1", "a=1&a=2", "a=%00", "%", ";", "a=%ff&b=+", "=", "&&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", formType)
		form, fault := ParseForm(r)
		if (form == nil) == (fault == nil) {
			t.Fatalf("form %v and fault %v", form, fault)
		}
		for name, values := range form {
			if len(values) != 1 || !isText(name+values[0]) {
				t.Fatalf("%q accepted", body)
			}
		}
	})
}
