package e2e

import (
	"net/http"
	"regexp"
	"testing"
)

// TestTheRequestLeadsToTheConsultationInTheLog: the X-Request-Id of a creation, its retry or a read leads to the
// consultation in the log. The consultation leads to the request that created it.
func TestTheRequestLeadsToTheConsultationInTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, c := w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000)
	s := w.link(t, p, c)
	key := newKey()
	first := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	first.is(t, "create", http.StatusCreated, "")
	id := first.value()["id"].(string)
	again := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	again.is(t, "create again", http.StatusCreated, "")
	read := s.get(t, consultations+"/"+id)
	cancelled := s.cancel(t, id)
	refused := s.cancel(t, id)
	unknown := s.get(t, consultations+"/con_of_nobody")
	requestID := func(r *reply) string { return regexp.QuoteMeta(r.Header.Get("X-Request-Id")) }
	of := " application=" + s.partner.ClientID + " client=" + s.person.ID
	for what, r := range map[string]*reply{
		"create": first, "create again": again, "read": read, "cancel": cancelled, "cancel again": refused,
	} {
		eventually(t, what+" is in the log", func() bool {
			return w.logs.matches(`msg=request requestId=` + requestID(r) + ` [^\n]*` + of +
				` consultation=` + id + `\n`)
		})
	}
	eventually(t, "an unknown one is in the log", func() bool {
		return w.logs.matches(`msg=request requestId=` + requestID(unknown) + ` [^\n]*` + of + ` consultation=""\n`)
	})
	if !w.logs.matches(`msg=consultation consultation=` + id + of + ` [^\n]*trigger=\S+ [^\n]* requestId=` +
		requestID(first) + `\n`) {
		t.Error("the creation does not name its request")
	}
}
