package e2e

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// cast is a world with two partners and two clients. The first pair has a consultation in each of two states.
type cast struct {
	*world
	a, b       *partner
	c1, c2     *person
	s          *session // a with c1, all scopes
	open, done string   // consultations of s: MATCHING, and COMPLETED with a note
}

func newCast(t testing.TB, options ...option) *cast {
	t.Helper()
	k := &cast{world: newWorld(t, options...)}
	k.a, k.b = k.partner(t, "CRM A"), k.partner(t, "CRM B")
	k.c1, k.c2 = k.client(t, "c1", true, 100_000), k.client(t, "c2", true, 100_000)
	k.s = k.link(t, k.a, k.c1)
	lawyer := k.lawyer(t, "l1")
	k.done = k.s.create(t, "externalRef", "CASE-1").ID
	k.complete(t, lawyer, k.done)
	k.exec(t, "UPDATE lawyers SET state = 'OFFLINE' WHERE id = $1", lawyer)
	k.open = k.s.create(t).ID
	return k
}

// call is a request to an operation. The calls of cast.valid are valid.
type call struct {
	method, path string
	id           string // replaces {id}, escaped
	query        url.Values
	rawQuery     string // used instead of query
	body         any
	header       []string
}

// valid creates a request to op from the examples of the document.
func (k *cast) valid(op *operation) call {
	c := call{method: op.method, path: op.path, query: url.Values{}, id: k.open}
	if op.id == "getConsultationNote" {
		c.id = k.done
	}
	for _, p := range op.parameters {
		switch {
		case p.in == "query" && p.required:
			c.query.Set(p.name, p.example)
		case p.in == "header" && p.name == "Idempotency-Key":
			c.header = append(c.header, p.name, newKey())
		}
	}
	if op.body != nil {
		c.body = maps.Clone(op.body.example)
	}
	return c
}

func (c call) target() string {
	path := strings.ReplaceAll(c.path, "{id}", c.id)
	switch {
	case c.rawQuery != "":
		path += "?" + c.rawQuery
	case len(c.query) > 0:
		path += "?" + c.query.Encode()
	}
	return path
}

// as sends the call with a session's token. Further headers follow those of the call.
func (c call) as(t testing.TB, s *session, header ...string) *reply {
	t.Helper()
	return s.do(t, c.method, c.target(), c.body, append(c.header, header...)...)
}

// raw sends the call without adding a token.
func (c call) raw(t testing.TB, w *world, header ...string) *reply {
	t.Helper()
	return w.send(t, c.method, c.target(), c.body, append(c.header, header...)...)
}

// ok reports whether the operation succeeded with a documented status.
func ok(op *operation, r *reply) bool {
	return r.Status < http.StatusBadRequest && op.responses[r.Status] != nil
}

// state is everything that a rejected request could have changed.
func (k *cast) state(t testing.TB) (out [7]int) {
	t.Helper()
	for i, sql := range []string{
		"SELECT count(*) FROM consultations", "SELECT count(*) FROM holds", "SELECT count(*) FROM topup_sessions",
		"SELECT count(*) FROM ledger_transactions", "SELECT count(*) FROM webhook_events",
		"SELECT sum(available_cents) FROM wallets",
		"SELECT sum(held_cents) FROM wallets",
	} {
		out[i] = k.queryInt(t, sql)
	}
	return out
}

// unchanged runs f and asserts that it changed nothing, not even partly.
func (k *cast) unchanged(t testing.TB, f func()) {
	t.Helper()
	before := k.state(t)
	f()
	if after := k.state(t); after != before {
		t.Errorf("refused requests changed the state from %v to %v", before, after)
	}
}
