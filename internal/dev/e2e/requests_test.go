package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	platform "partnerd/gen/platform/models"
)

const requestsPath = "/api/platform/v1/requests"

// asked lists the log entries of an application, oldest first, as "METHOD path status code". It leaves out requests for
// the list itself. It waits for n entries, because an entry is written after its response.
func (w *world) asked(t testing.TB, p *partner, query string, n int) (lines []string, items []platform.Request) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests in the log", n), func() bool {
		items = slices.DeleteFunc(w.requestLog(t, p, query),
			func(r platform.Request) bool { return r.Path == requestsPath })
		return len(items) >= n
	})
	slices.Reverse(items)
	for _, r := range items {
		code := ""
		if r.Code != nil {
			code = " " + *r.Code
		}
		lines = append(lines, r.Method+" "+r.Path+" "+http.StatusText(r.Status)+code)
	}
	return lines, items
}

func (w *world) requestLog(t testing.TB, p *partner, query string) []platform.Request {
	t.Helper()
	w.must(t, w.Requests.Flush(t.Context()))
	var page platform.RequestPage
	w.send(t, http.MethodGet, requestsPath+"?limit=100"+query, nil, "Authorization", p.basic()).into(t, &page)
	return page.Items
}

// TestAPartnerSeesWhatHeAsked: a partner can find out why a call was rejected, and the entries reveal nothing of their
// clients or secrets.
func TestAPartnerSeesWhatHeAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	s := w.link(t, a, w.client(t, "c1", true, 3000))
	other := w.link(t, b, w.client(t, "c2", true, 3000))
	before, _ := w.asked(t, a, "", 1)

	other.get(t, "/api/v1/me").is(t, "another application", http.StatusOK, "")
	stale := w.postToken(t, a.refreshForm("unknown"))
	stale.is(t, "a stale token", http.StatusBadRequest, "invalid_grant")
	w.postToken(t, a.refreshForm("unknown", "client_secret", "wrong")).is(t, "not the application",
		http.StatusUnauthorized, "invalid_client")
	w.send(t, http.MethodGet, "/api/v1/me", nil, "Authorization", "Bearer nothing").is(t, "not a token",
		http.StatusUnauthorized, "UNAUTHORIZED")
	s.get(t, "/api/v1/me?secret=query")
	s.get(t, "/api/v1/nothing")
	key := newKey()
	first := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	refused := s.do(t, http.MethodPost, consultations, wish("subject", nil, "description", "my neighbour's secret"),
		"Idempotency-Key", newKey())
	poor := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", newKey())

	want := []string{
		"POST /api/oauth/token Bad Request invalid_grant",
		"GET /api/v1/me Bad Request INVALID_REQUEST", "GET /api/v1/nothing Not Found NOT_FOUND",
		"POST " + consultations + " Created", "POST " + consultations + " Created",
		"POST " + consultations + " Unprocessable Entity VALIDATION_ERROR",
		"POST " + consultations + " " + http.StatusText(poor.Status) + " INSUFFICIENT_FUNDS",
	}
	lines, items := w.asked(t, a, "", len(before)+len(want))
	got := slices.Clone(lines[len(before):])
	slices.Sort(got) // two with the same time have no order
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, r := range items[len(before):] {
		if created := r.Status == http.StatusCreated; created && (!r.IdempotencyKey ||
			r.Replayed == (r.ID == first.Header.Get("X-Request-Id"))) {
			t.Errorf("a creation: %+v", r)
		}
	}
	only, _ := w.asked(t, a, "&refused=true", 5)
	if slices.ContainsFunc(only,
		func(l string) bool { return strings.HasSuffix(l, " OK") || strings.HasSuffix(l, " Created") }) ||
		len(only) != 5 {
		t.Errorf("refused: %q", only)
	}
	eventually(t, "a request for the list in the log", func() bool {
		return slices.ContainsFunc(w.requestLog(t, a, ""),
			func(r platform.Request) bool { return r.Path == requestsPath && r.Status == http.StatusOK })
	})

	one := w.send(t, http.MethodGet, requestsPath+"/"+refused.Header.Get("X-Request-Id"), nil, "Authorization",
		a.basic())
	var detail platform.RequestDetail
	one.into(t, &detail)
	if len(detail.Issues) != 1 || detail.Issues[0].Path != "subject" ||
		detail.Body["description"] != "(21 characters)" || detail.Body["withdrawalWaiverAcknowledged"] != true {
		t.Errorf("detail %s", one)
	}
	var grant platform.RequestDetail
	w.send(t, http.MethodGet, requestsPath+"/"+stale.Header.Get("X-Request-Id"), nil, "Authorization", a.basic()).
		into(t, &grant)
	if len(grant.Issues) != 1 || grant.Issues[0].Path != "refresh_token" ||
		strings.Contains(string(stale.Body), grant.Issues[0].Message) {
		t.Errorf("why the token is stale: %+v", grant.Issues)
	}
	raw, err := json.Marshal(items)
	w.must(t, err)
	for _, secret := range []string{"neighbour", key, "query", s.token.AccessToken, a.ClientSecret} {
		if strings.Contains(string(raw)+string(one.Body), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	w.send(t, http.MethodGet, requestsPath+"/"+refused.Header.Get("X-Request-Id"), nil, "Authorization", b.basic()).
		is(t, "another application's", http.StatusNotFound, "NOT_FOUND")
}
