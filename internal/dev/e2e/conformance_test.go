package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	platform "partnerd/gen/platform/models"
)

// TestTheChecklistMeasuresItself: the checklist of what is missing before going live is measured. It shrinks as the
// partner's program meets the requirements.
func TestTheChecklistMeasuresItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers)
	p, b := w.partner(t, "CRM"), w.partner(t, "another")
	missing := func() (names []string) {
		t.Helper()
		w.must(t, w.Requests.Flush(t.Context()))
		var list platform.Checklist
		w.send(t, http.MethodGet, "/api/platform/v1/checklist", nil, "Authorization", p.basic()).into(t, &list)
		for _, i := range list.Items {
			if !i.Done && i.NotChecked == nil {
				names = append(names, i.Name)
			}
		}
		if list.Done != (len(names) == 0) {
			t.Errorf("done is %v with %q missing", list.Done, names)
		}
		return names
	}
	never := []string{"contact"} // a sandbox does not check addresses of this machine
	if got, want := missing(), append(slices.Clone(never), "signature", "duplicates", "unknown", "gone", "events",
		"refresh", "retry"); !slices.Equal(got, want) {
		t.Fatalf("at the beginning %q, want %q", got, want)
	}
	w.send(t, http.MethodGet, "/api/platform/v1/endpoint/examination", nil, "Authorization", p.basic()).is(t,
		"before the first one", http.StatusNotFound, "NOT_FOUND")

	examine := func(p *partner) (r *reply) {
		t.Helper()
		p.receiver.beExamined(func() {
			r = w.send(t, http.MethodPost, "/api/platform/v1/endpoint/examine", nil, "Authorization", p.basic())
		})
		return r
	}
	examined := examine(p)
	var report, kept platform.Examination
	examined.into(t, &report)
	for _, x := range report.Results {
		if !x.Passed && !x.Advice {
			t.Errorf("%s: %s", x.Name, *x.Fault)
		}
	}
	w.send(t, http.MethodGet, "/api/platform/v1/endpoint/examination", nil, "Authorization", p.basic()).into(t, &kept)
	if !kept.Passed || !time.Time(kept.At).Equal(time.Time(report.At).Truncate(time.Microsecond)) {
		t.Errorf("kept %v %v, was %v", kept.Passed, kept.At, report.At)
	}
	if n := w.queryInt(t, "SELECT count(*) FROM webhook_events"); n != 0 {
		t.Errorf("an endpoint check left %d events", n)
	}

	s := w.link(t, p, w.client(t, "c", true, 10_000))
	s = w.session(p, s.person, w.getToken(t, p.refreshForm(s.token.RefreshToken)))
	key := newKey()
	first := s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key)
	p.receiver.await(t, first.value()["id"].(string), "completed")
	if got, want := missing(), append(slices.Clone(never), "events"); !slices.Equal(got, want) {
		t.Errorf("in the end %q, want %q", got, want)
	}

	w.send(t, http.MethodGet, "/api/platform/v1/endpoint/examination", nil, "Authorization", b.basic()).is(t,
		"another application's", http.StatusNotFound, "NOT_FOUND")
	for range 3 {
		examined = examine(b)
	}
	examined.is(t, "the third within a minute", http.StatusTooManyRequests, "RATE_LIMITED")
}
