package edge

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

type headKey struct{}

// Handler normalises a request before next routes it. A HEAD request below one of the prefixes in getsHead is routed as
// the corresponding GET; net/http drops the body.
func Handler(next http.Handler, getsHead ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := normalPath(r.URL)
		head := r.Method == http.MethodHead && hasPrefix(r.URL.Path, getsHead)
		if path != r.URL.RawPath || head {
			r = copyOf(r, path, head)
		}
		next.ServeHTTP(w, r)
	})
}

func copyOf(r *http.Request, path string, head bool) *http.Request {
	ctx := r.Context()
	if head {
		ctx = context.WithValue(ctx, headKey{}, true)
	}
	r = r.WithContext(ctx)
	u := *r.URL
	u.RawPath = path
	if r.URL = &u; head {
		r.Method = http.MethodGet
	}
	return r
}

// Method returns the method of the request as it was sent.
func Method(r *http.Request) string {
	if r.Context().Value(headKey{}) != nil {
		return http.MethodHead
	}
	return r.Method
}

func hasPrefix(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// normalPath returns the raw path of u with all unreserved characters unescaped (RFC 3986 section 6.2.2.2). It returns
// "" if no escape remains.
func normalPath(u *url.URL) string {
	if u.RawPath == "" {
		return ""
	}
	var b strings.Builder
	escaped := false
	for rest := u.RawPath; rest != ""; {
		if c := unreserved(rest); c != 0 {
			b.WriteByte(c)
			rest = rest[3:]
			continue
		}
		escaped = escaped || rest[0] == '%'
		b.WriteByte(rest[0])
		rest = rest[1:]
	}
	if !escaped {
		return ""
	}
	return b.String()
}

// unreserved returns the unreserved character whose escape s starts with, or 0 if there is none.
func unreserved(s string) byte {
	if len(s) < 3 || s[0] != '%' {
		return 0
	}
	text, err := url.PathUnescape(s[:3])
	if err != nil {
		return 0
	}
	switch c := text[0]; {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
		return c
	}
	return 0
}
