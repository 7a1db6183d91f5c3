package e2e

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"partnerd/internal/infra/access"
)

// TestUsesAreCounted: clients see successful uses, by the data that each revealed. Uses still counted in memory are
// written before the program ends.
func TestUsesAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	for path, status := range map[string]int{
		"/api/v1/me": 200, "/api/v1/wallet": 200, "/api/v1/wallet/transactions": 200, "/api/v1/consultations": 200,
		"/api/v1/consultations/con_none": 404, "/api/v1/consultations/con_none/note": 404,
		"/api/v1/catalog/languages": 200,
	} {
		code := ""
		if status == http.StatusNotFound {
			code = "NOT_FOUND"
		}
		s.get(t, path).is(t, path, status, code)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	counts, err := w.Access.Of(t.Context(), w.DB.Read(), s.person.ID, time.Now().AddDate(0, 0, -1))
	got := map[access.Category]int64{}
	for _, c := range counts {
		got[c.Category] += c.Uses
	}
	if want := map[access.Category]int64{access.Profile: 1, access.Wallet: 2, access.Consultations: 1}; err != nil ||
		!maps.Equal(got, want) {
		t.Errorf("got %v, want %v: %v", got, want, err)
	}
}
