package e2e

import (
	"net/http"
	"testing"
	"time"

	"partnerd/gen/partner/models"
)

const clockPath = "/api/platform/v1/sandbox/clock/advance"

// advance advances an application's clock, as its partner does.
func (w *world) advance(t testing.TB, p *partner, d time.Duration) {
	t.Helper()
	for left := int64(d / time.Second); left > 0; {
		r := w.send(t, http.MethodPost, clockPath, map[string]any{"seconds": left}, "Authorization", p.basic())
		if r.Status != http.StatusOK {
			t.Fatalf("advance: %s", r)
		}
		done, rest := int64(r.value()["advancedSeconds"].(float64)), int64(r.value()["remainingSeconds"].(float64))
		if done+rest != left {
			t.Errorf("%d of %d seconds passed, %d remain", done, left, rest)
		}
		left = rest
	}
}

func (p *partner) basic() string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(p.ClientID, p.ClientSecret)
	return r.Header.Get("Authorization")
}

// H60: the 24 and a half hours of a consultation that no lawyer takes pass in seconds, for one application only. The
// clock stops at every event: the guarantee starts when the search has ended, not before.
func TestAPartnerPlaysADayInSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withIncidents) // operators are notified of a broken guarantee
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c1, c2 := w.client(t, "c1", true, 10_000), w.client(t, "c2", true, 10_000)
	s, other := w.link(t, a, c1), w.link(t, b, c2)
	key := newKey()
	var first, foreign models.Consultation
	s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key).into(t, &first)
	foreign = other.create(t)

	old := s
	refresh := func() {
		t.Helper()
		s = w.session(a, c1, w.getToken(t, a.refreshForm(s.token.RefreshToken)))
	}
	began := time.Now()
	w.advance(t, a, 30*time.Minute-10*time.Second)
	old.get(t, consultations).is(t, "an access token after 15 minutes", http.StatusUnauthorized, "UNAUTHORIZED")
	refresh()
	if v := s.read(t, first.ID); v.Status != "MATCHING" {
		t.Fatalf("10 s before the end of the search: %s", v.Status)
	}
	w.advance(t, a, 24*time.Hour-time.Minute)
	refresh()
	if v := s.read(t, first.ID); v.Status != "PENDING_CALLBACK" ||
		time.Until(time.Time(*v.CallbackDueAt)) > 2*time.Minute {
		t.Fatalf("a minute before the end of the guarantee: %s, due %v", v.Status, v.CallbackDueAt)
	}
	w.advance(t, a, 2*time.Minute)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if c := s.read(t, first.ID); c.Status != "EXPIRED" || c.RefundedCents == nil || *c.RefundedCents != price {
		t.Errorf("after the day: %+v", c)
	}
	a.receiver.awaitAll(t, first.ID, started+" pending_callback expired refunded")

	var again models.Consultation
	s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key).into(t, &again)
	if again.ID == first.ID {
		t.Error("the key is remembered after a day")
	}
	if c := other.read(t, foreign.ID); c.Status != "MATCHING" || c.CreatedAt != foreign.CreatedAt {
		t.Errorf("another application's: %s, created %v", c.Status, c.CreatedAt)
	}
	w.advance(t, a, 90*24*time.Hour)
	w.postToken(t, a.refreshForm(s.token.RefreshToken)).is(t, "a refresh token after 90 days", http.StatusBadRequest,
		"invalid_grant")
}

// TestTheClockStopsForWhatHappensOnTheWay: actions of simulated lawyers and phones also happen in order. No offer or
// call is lost because its time was skipped.
func TestTheClockStopsForWhatHappensOnTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	c := s.create(t)
	w.advance(t, a, 10*time.Minute)
	a.receiver.awaitAll(t, c.ID, started+" assigned call_started call_ended note_available completed")
	if v := s.read(t, c.ID); v.Status != "COMPLETED" || *v.DurationSec > 5 {
		t.Errorf("%s after %d s of a call", v.Status, *v.DurationSec)
	}
}

// TestACallOfTwentyMinutesInSeconds: a call that neither side ends lasts 20 minutes.
func TestACallOfTwentyMinutesInSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	c1 := w.client(t, "c1", true, 10_000)
	s := w.link(t, a, c1)
	c := s.create(t)
	l := w.lawyer(t, "l1")
	w.assign(t, l, c.ID)
	w.call(t, l, c.ID)
	w.awaitStatus(t, c.ID, "IN_CALL")
	w.advance(t, a, 21*time.Minute)
	w.awaitStatus(t, c.ID, "CALL_ENDED")
	if v := w.session(a, c1, w.getToken(t, a.refreshForm(s.token.RefreshToken))).read(t, c.ID); *v.DurationSec != 1200 {
		t.Errorf("the call took %d s", *v.DurationSec)
	}
}

func TestTheClockRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	a := w.partner(t, "CRM A")
	for body, status := range map[string]int{
		`{"seconds":0}`: 422, `{"seconds":-1}`: 422, `{"seconds":7776001}`: 422, `{}`: 422, `{"seconds":1.5}`: 422,
		`{"seconds":1,"x":1}`: 422, `[]`: 422, `{`: 400,
	} {
		if r := w.send(t, http.MethodPost, clockPath, body, "Authorization", a.basic(),
			"Content-Type", "application/json"); r.Status != status {
			t.Errorf("%s: %s, want %d", body, r, status)
		}
	}
	w.send(t, http.MethodPost, clockPath, `{"seconds":1}`, "Content-Type", "application/json").is(t, "nobody",
		http.StatusUnauthorized, "UNAUTHORIZED")
	w.send(t, http.MethodGet, clockPath, nil, "Authorization", a.basic()).is(t, "GET", http.StatusMethodNotAllowed,
		"METHOD_NOT_ALLOWED")
}
