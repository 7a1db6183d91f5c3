package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// oddHeaders are values that HTTP permits and that the database cannot store as text.
var oddHeaders = []string{"Caf\xe9/1.0", "\xff\xfe\xfd", "a\x80b\x9f", "\u202e\u200b\ufeff", "a\tb",
	strings.Repeat("A", 30_000), strings.Repeat("\xe9", 20_000)}

// R156: no header of a caller causes a server error. A header that does not change the meaning of the request does not
// reject it either.
func TestOddHeadersAreNoServerErrors(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	for _, op := range spec.operations {
		for _, name := range []string{"User-Agent", "X-Request-Id", "Accept-Language", "Accept", "Origin", "Referer",
			"X-Forwarded-For", "Cookie", "If-None-Match", "Traceparent"} {
			for _, value := range oddHeaders {
				r := k.valid(op).as(t, k.s, name, value)
				if name != "Origin" && name != "Cookie" && !op.public && !ok(op, r) && r.Status != http.StatusConflict {
					t.Errorf("%s with %s %.20q: %s", op.id, name, value, r)
				}
			}
		}
		for _, value := range oddHeaders {
			k.valid(op).as(t, k.s, "Idempotency-Key", value)
			for _, scheme := range []string{"", "Bearer ", "Basic ", "bearer  "} {
				k.valid(op).raw(t, k.world, "Authorization", scheme+value)
			}
		}
	}
	if n := k.queryInt(t,
		"SELECT count(*) FROM consultation_evidence WHERE user_agent ~ '[^ -~]' OR length(user_agent) > 300"); n > 0 {
		t.Errorf("%d stored user agents are not printable or not bounded", n)
	}
	if n := k.queryInt(t, "SELECT count(*) FROM consultation_evidence WHERE user_agent = 'Caf/1.0'"); n == 0 {
		t.Error("no consultation of the agent Café")
	}
}
