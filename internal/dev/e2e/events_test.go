package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/models"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/telephony"
)

const started = "created payment_authorized matching"

// searchLongOver backdates a MATCHING consultation by 30 minutes and waits for X4.
func (w *world) searchLongOver(t testing.TB, id string) {
	t.Helper()
	w.exec(t, `UPDATE consultations SET search_started_at = search_started_at - interval '30 minutes', timer_at = timer_at - interval '30 minutes' WHERE id = $1`, id)
	w.awaitStatus(t, id, consultation.PendingCallback)
}

func (w *world) awaitStatus(t testing.TB, id string, want consultation.Status) {
	t.Helper()
	eventually(t, string(want), func() bool {
		return w.queryInt(t, "SELECT count(*) FROM consultations WHERE id = $1 AND status = $2", id, string(want)) == 1
	})
}

// R15, R44, R53, R120–R134, T2, T3, T4, T8, T12: the events of a completed consultation, in order and with their
// required content. When an event arrives, the API already shows what it reports.
func TestEventsOfACompletedConsultation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	a.receiver.before(func(e crm.Event) { holdsAtReceipt(t, s, e) })
	l := w.lawyer(t, "l1")
	c := s.create(t, "externalRef", "CASE-1")
	s.get(t, consultations+"/"+c.ID+"/note").is(t, "note before the call", http.StatusNotFound, "NOTE_NOT_AVAILABLE")
	a.receiver.await(t, c.ID, "matching") // before the money moves on
	w.complete(t, l, c.ID)
	a.receiver.awaitAll(t, c.ID, started+" assigned call_started call_ended note_available completed")
	statuses := strings.Fields("DRAFT MATCHING MATCHING ASSIGNED IN_CALL CALL_ENDED COMPLETED COMPLETED")
	deliveries := map[string]bool{}
	for i, e := range a.receiver.Events(c.ID) {
		if e.Data.Status != statuses[i] || e.Sequence != i+1 || e.Data.ExternalRef == nil ||
			*e.Data.ExternalRef != "CASE-1" || e.Data.Competence != "HOUSING" {
			t.Errorf("event %d: %s", i+1, e.Body)
		}
		if hasDuration := e.Data.DurationSec != nil; hasDuration != (i >= 5) {
			t.Errorf("event %d: durationSec is there: %t", i+1, hasDuration)
		}
		if deliveries[e.Delivery] || !strings.HasPrefix(e.Delivery, "dlv_test_") ||
			!strings.HasPrefix(e.ID, "evt_test_") {
			t.Errorf("event %d: delivery %s, id %s", i+1, e.Delivery, e.ID)
		}
		deliveries[e.Delivery] = true
	}
	v := s.read(t, c.ID)
	if v.Status != "COMPLETED" || !v.NoteAvailable || v.DurationSec == nil || v.AssignedAt == nil ||
		v.CallStartedAt == nil || v.CallEndedAt == nil || v.CompletedAt == nil {
		t.Errorf("record: %+v", v)
	}
	r := s.get(t, consultations+"/"+c.ID+"/note")
	var n models.NotePreview
	r.into(t, &n)
	if r.Status != http.StatusOK || n.ConsultationID != c.ID || n.Preview != preview || len(r.value()) != 3 {
		t.Errorf("note (R17, R48): %s", r)
	}
	s.cancel(t, c.ID).is(t, "cancel when completed", http.StatusConflict, "NOT_CANCELLABLE")
	s.hasWallet(t, "after completion", 8000, 0)
	goodwill(t, w, s, l, c.ID)
}

// R134: a URL is used only once it has responded to a signed ping. The ping is checked against the contract like every
// webhook.
func TestAURLIsProvenByAPing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	other := newReceiver(t)
	other.trust(a.WebhookSecret)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.base+"/api/platform/v1/endpoint",
		strings.NewReader(fmt.Sprintf(`{"url":%q}`, other.url)))
	w.must(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.SetBasicAuth(a.ClientID, a.ClientSecret)
	answer, err := (&http.Client{Timeout: patience}).Do(request)
	w.must(t, err)
	w.must(t, answer.Body.Close())
	if pings := other.attemptsOf("webhook.ping"); answer.StatusCode != http.StatusOK || len(pings) != 1 ||
		len(a.receiver.attemptsOf("webhook.ping")) != 0 {
		t.Fatalf("status %d, %d pings", answer.StatusCode, len(pings))
	}
	other.await(t, s.create(t).ID, "matching")
}

// goodwill: X15 and X16 after the completion.
func goodwill(t *testing.T, w *world, s *session, lawyer, id string) {
	t.Helper()
	w.must(t, w.Consultations.SubmitNote(t.Context(), w.lease(t, lawyer), id, canary+" corrected", "Corrected preview"))
	w.refund(t, id, price)
	e := s.partner.receiver.await(t, id, "refunded")
	if e.Data.Status != "COMPLETED" || e.Data.DurationSec == nil {
		t.Errorf("refunded: %s", e.Body)
	}
	s.partner.receiver.awaitAll(t, id, started+" assigned call_started call_ended note_available completed "+
		"note_available refunded")
	if n := s.get(t, consultations+"/"+id+"/note"); n.value()["preview"] != "Corrected preview" {
		t.Errorf("corrected note: %s", n)
	}
	if v := s.read(t, id); v.Status != "COMPLETED" || v.RefundedCents == nil || *v.RefundedCents != price {
		t.Errorf("refunded record: %+v", v)
	}
	s.hasWallet(t, "after the refund", 10_000, 0)
}

// holdsAtReceipt: R122, R123, R124, R127.
func holdsAtReceipt(t *testing.T, s *session, e crm.Event) {
	switch strings.TrimPrefix(e.Type, "consultation.") {
	case "payment_authorized":
		if v := s.wallet(t); v.AvailableCents != v.BalanceCents-price {
			t.Errorf("at %s: %+v", e.Type, v)
		}
	case "note_available", "completed":
		s.get(t, consultations+"/"+e.Data.ID+"/note").is(t, "note at "+e.Type, http.StatusOK, "")
	case "refunded":
		if v := s.wallet(t); v.HeldCents != 0 || v.AvailableCents != 10_000 {
			t.Errorf("at %s: %+v", e.Type, v)
		}
	}
}

// R56, R57, R125, R126, T3, T32, X4, X5, X8, X13, X14: if no lawyer accepts within 30 minutes, a callback with a due
// time follows. From there a lawyer may still accept, or the client may cancel. If the guarantee is broken, the
// consultation expires and the money is released.
func TestEventsWithoutALawyer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withIncidents)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	missed, cancelled, served := s.create(t), s.create(t), s.create(t)
	for _, c := range []models.Consultation{missed, cancelled, served} {
		w.searchLongOver(t, c.ID)
		v := s.read(t, c.ID)
		if v.Status != "PENDING_CALLBACK" || v.CallbackDueAt == nil ||
			time.Time(*v.CallbackDueAt).Sub(time.Time(v.UpdatedAt)).Hours() != 24 {
			t.Errorf("pending: %+v", v)
		}
		a.receiver.await(t, c.ID, "pending_callback")
	}
	s.hasWallet(t, "while waiting", 10_000, 3*price)
	s.cancel(t, cancelled.ID).is(t, "cancel while waiting", http.StatusOK, "")
	a.receiver.awaitAll(t, cancelled.ID, started+" pending_callback cancelled refunded")

	w.exec(t, "UPDATE consultations SET callback_due_at = callback_due_at - interval '24 hours', timer_at = timer_at "+
		"- interval '24 hours' WHERE id = $1", missed.ID)
	w.awaitStatus(t, missed.ID, consultation.Expired)
	a.receiver.awaitAll(t, missed.ID, started+" pending_callback expired refunded")
	if v := s.read(t, missed.ID); v.Status != "EXPIRED" || v.ExpiredAt == nil || v.RefundedCents == nil ||
		v.DurationSec != nil {
		t.Errorf("expired: %+v", v)
	}
	s.cancel(t, missed.ID).is(t, "cancel when expired", http.StatusConflict, "NOT_CANCELLABLE")
	s.hasWallet(t, "after the guarantee was missed", 10_000, price)

	l := w.lawyer(t, "l1")
	w.assign(t, l, served.ID)
	w.must(t, w.Consultations.Withdraw(t.Context(), w.lease(t, l), served.ID, consultation.ConflictOfInterest))
	second := w.lawyer(t, "l2")
	w.assign(t, second, served.ID)
	a.receiver.awaitAll(t, served.ID, started+" pending_callback assigned pending_callback assigned")
	if v := s.read(t, served.ID); v.Status != "ASSIGNED" || v.AssignedAt == nil {
		t.Errorf("served: %+v", v)
	}
}

// R57, X7, X9, X10, X12: during and after the call, a cancellation is rejected and changes nothing. A useless call or
// an unreachable client releases the money.
func TestEventsOfACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	l := w.lawyer(t, "l1")
	c := s.create(t)
	w.assign(t, l, c.ID)
	w.call(t, l, c.ID)
	unchanged := func(when string) {
		t.Helper()
		before := s.read(t, c.ID)
		s.cancel(t, c.ID).is(t, "cancel "+when, http.StatusConflict, "NOT_CANCELLABLE")
		if after := s.read(t, c.ID); after.Status != before.Status ||
			!time.Time(after.UpdatedAt).Equal(time.Time(before.UpdatedAt)) {
			t.Errorf("cancel %s changed %+v to %+v", when, before, after)
		}
		s.hasWallet(t, when, 10_000, price)
	}
	unchanged("during the call")
	w.must(t, w.Consultations.EndCall(t.Context(), w.lease(t, l), c.ID))
	unchanged("after the call")
	s.get(t, consultations+"/"+c.ID+"/note").is(t, "note before it is written", http.StatusNotFound,
		"NOTE_NOT_AVAILABLE")
	w.must(t, w.Consultations.NoUsefulCall(t.Context(), w.lease(t, l), c.ID, consultation.TooShort))
	a.receiver.awaitAll(t, c.ID, started+" assigned call_started call_ended expired refunded")
	for _, e := range a.receiver.Events(c.ID)[5:] {
		if e.Data.DurationSec == nil {
			t.Errorf("%s says nothing of the duration", e.Type)
		}
	}
	s.hasWallet(t, "after a call of no use", 10_000, 0)

	again := s.create(t)
	w.assign(t, l, again.ID)
	w.must(t, w.Consultations.Withdraw(t.Context(), w.lease(t, l), again.ID, consultation.NotMyField))
	a.receiver.awaitAll(t, again.ID, started+" assigned matching")
	w.exec(t, "UPDATE lawyers SET state = 'OFFLINE' WHERE id = $1", l)
	second := w.lawyer(t, "l2")
	w.assign(t, second, again.ID)
	w.notReached(t, second, again.ID)
	w.awaitStatus(t, again.ID, consultation.Expired)
	a.receiver.awaitAll(t, again.ID, started+" assigned matching assigned expired refunded")
	s.hasWallet(t, "when the client was not reached", 10_000, 0)
}

// notReached makes the first attempt and skips the time to the others; the client answers none.
func (w *world) notReached(t testing.TB, lawyerID, consultationID string) {
	t.Helper()
	w.must(t, w.Consultations.StartCall(t.Context(), w.lease(t, lawyerID), consultationID))
	for n := 1; n <= 3; n++ {
		var call telephony.Call
		eventually(t, fmt.Sprint("attempt ", n), func() bool {
			c, active, err := w.Telephony.Active(t.Context(), w.DB.Read(), consultationID)
			w.must(t, err)
			call = c
			return active && c.Attempt == n
		})
		w.report(t, call.ID, telephony.Event{ID: "t1", Kind: telephony.LegAnswered, Role: telephony.Lawyer})
		w.report(t, call.ID, telephony.Event{ID: "t1a", Kind: telephony.LegDigits, Role: telephony.Lawyer, Digits: "1"})
		w.report(t, call.ID, telephony.Event{ID: "t2", Kind: telephony.LegFailed, Role: telephony.Client,
			Reason: telephony.Busy})
		if n < 3 {
			w.must(t, w.Consultations.ChooseRedial(t.Context(), w.lease(t, lawyerID), consultationID, true))
			w.exec(t, "UPDATE consultations SET next_dial_at = now(), timer_at = now() WHERE id = $1 AND next_dial_at IS NOT NULL", consultationID)
		}
	}
}

// R131, R133, R134, R138, R139, T9: a failed delivery is retried with the same id and bytes and a new signature. Later
// events do not wait for it. This test removes the time between attempts.
func TestFailedDeliveriesComeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	const failing = "consultation.payment_authorized"
	a.receiver.answering(func(rw http.ResponseWriter, eventType string) bool {
		n := len(a.receiver.attemptsOf(failing))
		if eventType != failing || n > 3 {
			return false
		}
		rw.Header().Set("Location", "/elsewhere")
		rw.WriteHeader([]int{http.StatusInternalServerError, http.StatusFound, http.StatusNotFound}[n-1])
		return true
	})
	c := s.create(t)
	eventually(t, "the matching event", func() bool { return strings.Contains(a.receiver.types(c.ID), "matching") })
	for n := 1; n <= 3; n++ {
		eventually(t, "attempt recorded", func() bool {
			return w.queryInt(t,
				"SELECT count(*) FROM webhook_deliveries WHERE attempts = $1 AND lease_token IS NULL "+
					"AND state = 'PENDING'", n) == 1
		})
		// The result of another event's delivery may not be recorded yet.
		if wait := w.queryInt(t, "SELECT extract(epoch FROM next_at - now())::int FROM webhook_deliveries WHERE attempts = $1 AND state = 'PENDING'", n); wait < []int{2, 20, 85}[n-1] {
			t.Errorf("after attempt %d the next one comes in %d s", n, wait)
		}
		w.exec(t, "UPDATE webhook_deliveries SET next_at = now() WHERE attempts = $1 AND state = 'PENDING'", n)
	}
	a.receiver.awaitAll(t, c.ID, started)
	tries := a.receiver.attemptsOf(failing)
	if len(tries) != 4 {
		t.Fatalf("%d attempts", len(tries))
	}
	for i, x := range tries {
		if x.Delivery != tries[0].Delivery || string(x.Body) != string(tries[0].Body) ||
			x.Number != []string{"1", "2", "3", "4"}[i] {
			t.Errorf("attempt %d: %+v", i+1, x)
		}
	}
}

// R8, H54, H55, T15: when the client disconnects, consultations under way continue and so do their events. Reading
// requires a new link.
func TestEventsGoOnAfterRevocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	c1 := w.client(t, "c1", true, 10_000)
	s := w.link(t, a, c1)
	c := s.create(t)
	s.disconnect(t)
	s.get(t, consultations+"/"+c.ID).is(t, "read after disconnecting", http.StatusUnauthorized, "UNAUTHORIZED")
	w.complete(t, w.lawyer(t, "l1"), c.ID)
	a.receiver.awaitAll(t, c.ID, started+" assigned call_started call_ended note_available completed")
	w.link(t, a, c1).get(t, consultations+"/"+c.ID+"/note").is(t, "note after linking again", http.StatusOK, "")
}

// R4, R13, R14, R15, R31–R34, R121: with simulated lawyers and phones, a consultation completes by itself.
func TestASimulatedLawyerDoesItAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	coverage := func(competence, language string) (v models.Coverage) {
		s.get(t, "/api/v1/coverage?"+url.Values{"competence": {competence}, "language": {language}}.Encode()).
			into(t, &v)
		return v
	}
	eventually(t, "lawyers online", func() bool { return coverage("HOUSING", "FR").LawyersOnline > 0 })
	if v := coverage("HOUSING", "FR"); !v.Available {
		t.Errorf("served pair: %+v", v)
	}
	if v := coverage("IP", "PT"); v.Available || v.LawyersOnline != 0 || v.EstimatedWaitSeconds != nil {
		t.Errorf("pair that no lawyer serves: %+v", v)
	}
	waiting := s.create(t, "competence", "IP", "language", "PT")
	c := s.create(t)
	a.receiver.await(t, c.ID, "completed")
	a.receiver.awaitAll(t, c.ID, started+" assigned call_started call_ended note_available completed")
	if v := s.read(t, c.ID); v.DurationSec == nil || *v.DurationSec < 1 || *v.DurationSec > 60 {
		t.Errorf("record: %+v", v)
	}
	if v := s.read(t, waiting.ID); v.Status != "MATCHING" {
		t.Errorf("no lawyer serves it, but it is %s", v.Status)
	}
	s.hasWallet(t, "at the end", 8000, price)
}
