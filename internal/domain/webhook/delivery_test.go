package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

func TestDeliveryCarriesHeadersAndASignatureOfTheExactBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	r := newReceiver(t, status(http.StatusNoContent))
	app, secret := w.application(r.URL + "/hooks?tenant=7")
	if !regexp.MustCompile(`^whsec_test_[A-Za-z0-9_-]{43}$`).MatchString(secret) {
		t.Errorf("secret %q", secret)
	}
	c := w.consultation(app)
	w.run(w.svc)
	seconds := 754
	w.emit(c, 1, Event{Type: Completed, Status: "COMPLETED", DurationSec: &seconds})
	d := w.settled(app, 1)[0]
	p := r.seen()[0]

	var got struct {
		ID   string
		Type Type
		Data consultationData
	}
	if err := json.Unmarshal(p.body, &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != d.EventID || got.Type != Completed || got.Data.ID != c.ConsultationID ||
		got.Data.Status != "COMPLETED" || got.Data.Competence != "HOUSING" || got.Data.ExternalRef != "case-7" ||
		*got.Data.DurationSec != 754 {
		t.Errorf("body %s", p.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": userAgent, "X-Service-Event": "consultation.completed",
		"X-Service-Delivery": d.ID, "X-Service-Attempt": "1", "X-Service-Sequence": "1",
		"X-Service-Signature-Previous": "", "Idempotency-Key": "", "Accept-Encoding": "",
	} {
		if p.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, p.header.Get(name), want)
		}
	}
	if p.method != http.MethodPost {
		t.Errorf("method %s", p.method)
	}
	if err := Verify(secret, p.header.Get("X-Service-Signature"), p.body, p.at); err != nil {
		t.Error(err)
	}
	if at := signedAt(t, p); p.at.Sub(at) > 2*time.Second || p.at.Before(at) {
		t.Errorf("signed at %v, arrived at %v", at, p.at)
	}
	if d.State != Delivered || d.EndedAt == nil || d.NextAt != nil || d.Type != Completed {
		t.Errorf("delivery %+v", d)
	}
	a := w.attempts(d, app)
	if len(a) != 1 || a[0].Number != 1 || a[0].StatusCode != 204 || a[0].Error != "" {
		t.Errorf("attempts %+v", a)
	}
	if line := w.log.String(); !strings.Contains(line, d.ID) || strings.Contains(line, "case-7") ||
		strings.Contains(line, secret) {
		t.Errorf("log: %s", line)
	}
}

func signedAt(t *testing.T, p post) time.Time {
	t.Helper()
	m := regexp.MustCompile(`^t=(\d{10}),v1=[0-9a-f]{64}$`).FindStringSubmatch(p.header.Get("X-Service-Signature"))
	if m == nil {
		t.Fatalf("signature %q", p.header.Get("X-Service-Signature"))
	}
	seconds, _ := strconv.ParseInt(m[1], 10, 64)
	return time.Unix(seconds, 0)
}

func TestFirstAttemptsKeepTheOrderOfTheConsultationAndFailuresHoldNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	entered, proceed := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(entered)
			<-proceed
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	app, _ := w.application(r.URL)
	other := newReceiver(t, status(http.StatusOK))
	otherApp, _ := w.application(other.URL)
	c, second := w.consultation(app), w.consultation(otherApp)
	w.run(w.svc)
	w.emit(c, 1, creation...)
	<-entered
	// Another delivery completes while the first attempt of event 1 is in progress.
	w.emit(second, 1, creation...)
	w.settled(otherApp, 1)
	if n := len(r.seen()); n != 1 {
		t.Errorf("%d events were attempted while the first attempt of event 1 was open", n)
	}
	close(proceed)
	items := w.settled(app, 1)
	if items[0].State != Pending || items[1].State != Delivered || items[2].State != Delivered {
		t.Errorf("states %s %s %s", items[0].State, items[1].State, items[2].State)
	}
	for _, posts := range [][]post{r.seen()[:3], other.seen()} {
		var order []string
		for _, p := range posts {
			order = append(order, p.header.Get("X-Service-Sequence")+p.header.Get("X-Service-Event"))
		}
		want := []string{"1consultation.created", "2consultation.payment_authorized", "3consultation.matching"}
		if !slices.Equal(order, want) {
			t.Errorf("order %v", order)
		}
	}
}

// The clock runs through the whole schedule: the same delivery and bytes each time, a fresh signature, then nothing
// more.
func TestAFailingDeliveryIsRetriedByTheScheduleAndThenGivenUp(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	w.svc.sender.now = clk.Now
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "down\x00 \xff")
	})
	app, secret := w.application(r.URL)
	c := w.consultation(app)
	w.run(w.svc)
	w.emit(c, 1, creation[0])
	for n := 1; n <= MaxAttempts; n++ {
		d := w.settled(app, n)[0]
		p := r.seen()[n-1]
		if first := r.seen()[0]; p.header.Get(HeaderDelivery) != d.ID || string(p.body) != string(first.body) ||
			p.header.Get(HeaderAttempt) != strconv.Itoa(n) {
			t.Errorf("attempt %d: %v %s", n, p.header, p.body)
		}
		if err := Verify(secret, p.header.Get(HeaderSignature), p.body, clk.Now()); err != nil {
			t.Errorf("attempt %d: %v", n, err)
		}
		if n == MaxAttempts {
			break
		}
		wait := d.NextAt.Sub(clk.Now())
		if base := schedule[n-1]; d.State != Pending || wait < base*8/10 || wait > base*12/10 {
			t.Errorf("after attempt %d: %s, wait %v, want about %v", n, d.State, wait, base)
		}
		clk.Advance(wait)
	}
	clk.Advance(30 * 24 * time.Hour)
	d := w.deliveries(app)[0]
	if d.State != Failed || d.EndedAt == nil || d.Attempts != MaxAttempts {
		t.Errorf("after the last attempt: %+v", d)
	}
	a := w.attempts(d, app)
	if len(a) != MaxAttempts || a[0].StatusCode != 502 || a[0].Error != "status: responded with 502" ||
		a[0].ResponseBody != "down\uFFFD \uFFFD" {
		t.Errorf("attempts %+v", a)
	}
	// An event a month later proves that nothing else is sent.
	w.emit(c, 2, creation[1])
	eventually(t, "the next event is attempted", func() bool { return len(r.seen()) > MaxAttempts })
	if p := r.seen()[MaxAttempts]; p.header.Get(HeaderSequence) != "2" {
		t.Errorf("a delivery that was given up was sent again: %v", p.header)
	}
}

func TestRetryAfterMovesTheNextAttempt(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	app, _ := w.application(r.URL)
	c := w.consultation(app)
	w.run(w.svc)
	w.emit(c, 1, creation[0])
	if wait := w.settled(app, 1)[0].NextAt.Sub(clk.Now()); wait < 8*time.Second || wait > 12*time.Second {
		t.Errorf("next attempt after %v, want twice the delay of 5 s ± 20 %%", wait)
	}
}

func TestGoneDisablesTheEndpointAndHoldsItsDeliveries(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusGone)
		}
	})
	healthy := newReceiver(t, status(http.StatusOK))
	app, _ := w.application(r.URL)
	healthyApp, _ := w.application(healthy.URL)
	c, other := w.consultation(app), w.consultation(healthyApp)
	w.run(w.svc)
	w.emit(c, 1, creation...)
	w.eventuallyDisabled(app, DisabledGone)
	clk.Advance(time.Minute)
	w.emit(other, 1, creation...)
	w.settled(healthyApp, 1)
	if n := len(r.seen()); n != 1 {
		t.Fatalf("a disabled endpoint was sent %d events", n-1)
	}
	w.tx(func(tx postgres.Tx) error { return w.svc.EnableEndpoint(t.Context(), tx, app) })
	eventually(t, "held deliveries go", func() bool {
		return !slices.ContainsFunc(w.deliveries(app), func(d Delivery) bool { return d.State != Delivered })
	})
	e, err := w.svc.Endpoint(t.Context(), w.db.Read(), app)
	if err != nil || e.DisabledAt != nil || e.FailingSince != nil {
		t.Errorf("endpoint %+v %v", e, err)
	}
}

func TestEnablingChangesNothingOfAnEndpointThatIsNotDisabledAndNeverWhenItWasSet(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	app, _ := w.application("http://127.0.0.1:9/")
	set := clk.Now()
	w.exec("UPDATE webhook_endpoints SET failing_since = $1", set)
	clk.Advance(time.Hour)
	enable := func() Endpoint {
		w.tx(func(tx postgres.Tx) error { return w.svc.EnableEndpoint(t.Context(), tx, app) })
		e, err := w.svc.Endpoint(t.Context(), w.db.Read(), app)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if e := enable(); !e.UpdatedAt.Equal(set) || e.FailingSince == nil || !e.FailingSince.Equal(set) {
		t.Errorf("not disabled: %+v", e)
	}
	w.exec("UPDATE webhook_endpoints SET disabled_at = $1, disabled_reason = 'failing'", clk.Now())
	if e := enable(); !e.UpdatedAt.Equal(set) || e.FailingSince != nil || e.DisabledAt != nil {
		t.Errorf("disabled: %+v", e)
	}
	if err := w.svc.EnableEndpoint(t.Context(), w.db.Read(), "app_nobody"); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("nobody's: %v", err)
	}
}

func (w *world) eventuallyDisabled(app, reason string) {
	w.t.Helper()
	eventually(w.t, "endpoint disabled", func() bool {
		e, err := w.svc.Endpoint(w.t.Context(), w.db.Read(), app)
		return err == nil && e.DisabledAt != nil && e.DisabledReason == reason
	})
}

func TestAnEndpointIsDisabledAfterFiveDaysOfFailuresAndASuccessStartsAnew(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n != 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	app, _ := w.application(r.URL)
	w.run(w.svc)
	failingSince := func() *time.Time {
		e, err := w.svc.Endpoint(t.Context(), w.db.Read(), app)
		if err != nil || e.DisabledAt != nil {
			t.Fatalf("%+v %v", e, err)
		}
		return e.FailingSince
	}
	send := func() { // a new consultation, so the event waits for no other
		n := len(r.seen())
		w.emit(w.consultation(app), 1, creation[0])
		eventually(t, "attempt", func() bool { return len(r.seen()) > n })
		w.settled(app, 1)
	}
	send()
	if failingSince() == nil {
		t.Error("the first failure left no mark")
	}
	w.exec(`UPDATE webhook_deliveries SET state = 'FAILED', ended_at = now()`)
	clk.Advance(DisableAfter + time.Hour)
	send()
	if failingSince() != nil {
		t.Error("the success did not remove the mark")
	}
	send()
	w.exec(`UPDATE webhook_deliveries SET state = 'FAILED', ended_at = now() WHERE state = 'PENDING'`)
	clk.Advance(DisableAfter - time.Minute)
	send()
	if since := failingSince(); since == nil || !since.Equal(clk.Now().Add(time.Minute-DisableAfter)) {
		t.Errorf("failing since %v", since)
	}
	clk.Advance(time.Minute)
	w.emit(w.consultation(app), 1, creation[0])
	w.eventuallyDisabled(app, DisabledFailing)
}

func TestDeliveriesWaitForAURLAndForASuspensionToEnd(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, status(http.StatusOK))
	without, _ := w.application("")
	suspended, secret := w.application(r.URL)
	w.exec("UPDATE applications SET suspended_at = now() WHERE id = $1", suspended)
	healthy, _ := w.application(r.URL)
	w.run(w.svc)
	for _, app := range []string{without, suspended, healthy} {
		w.emit(w.consultation(app), 1, creation...)
	}
	w.settled(healthy, 1)
	clk.Advance(30 * 24 * time.Hour)
	w.emit(w.consultation(healthy), 1, creation[0])
	w.settled(healthy, 1)
	if n := len(r.seen()); n != 4 {
		t.Fatalf("%d deliveries, want only the 4 of the healthy application", n)
	}
	w.tx(func(tx postgres.Tx) error { return w.svc.SetURL(t.Context(), tx, without, r.URL) })
	w.exec("UPDATE applications SET suspended_at = NULL WHERE id = $1", suspended)
	for _, app := range []string{without, suspended} {
		for _, d := range w.settled(app, 1) {
			if d.State != Delivered || d.Attempts != 1 {
				t.Errorf("%+v", d)
			}
		}
	}
	signed := 0
	for _, p := range r.seen() {
		if Verify(secret, p.header.Get(HeaderSignature), p.body, p.at) == nil {
			signed++
		}
	}
	if signed != len(creation) {
		t.Errorf("%d of %d deliveries of the resumed application are signed with its secret", signed, len(creation))
	}
}

func TestRollbackLeavesNoEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	r := newReceiver(t, status(http.StatusOK))
	app, _ := w.application(r.URL)
	c := w.consultation(app)
	w.run(w.svc)
	broken := errors.New("the business rule refused")
	err := w.db.InTx(t.Context(), func(tx postgres.Tx) error {
		if err := w.svc.Emit(t.Context(), tx, c, 1, creation...); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	w.emit(c, 1, creation[2])
	w.settled(app, 1)
	if p := r.seen(); len(p) != 1 || p[0].header.Get(HeaderEvent) != string(Matching) || len(w.deliveries(app)) != 1 {
		t.Errorf("%d posts after a rollback and one event", len(p))
	}
	err = w.db.InTx(t.Context(), func(tx postgres.Tx) error { return w.svc.Emit(t.Context(), tx, c, 1, creation[0]) })
	if !postgres.IsUnique(err, "") {
		t.Errorf("a sequence number was used twice: %v", err)
	}
}

func TestRotationSignsWithBothSecretsForADay(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, status(http.StatusOK))
	app, old := w.application(r.URL)
	c := w.consultation(app)
	w.run(w.svc)
	var fresh string
	w.tx(func(tx postgres.Tx) (err error) {
		fresh, _, err = w.svc.RotateSecret(t.Context(), tx, app, Rotation{})
		return err
	})
	w.emit(c, 1, creation[0])
	w.settled(app, 1)
	p := r.seen()[0]
	if err := Verify(fresh, p.header.Get(HeaderSignature), p.body, p.at); err != nil {
		t.Errorf("new secret: %v", err)
	}
	if err := Verify(old, p.header.Get(HeaderSignaturePrevious), p.body, p.at); err != nil {
		t.Errorf("old secret: %v", err)
	}
	if err := w.svc.ProveURL(t.Context(), app, r.URL); err != nil {
		t.Fatal(err)
	}
	ping := r.seen()[1]
	for name := range p.header {
		if ping.header.Get(name) == "" && name != HeaderTest {
			t.Errorf("the ping lacks the header %s of every event", name)
		}
	}
	if err := Verify(old, ping.header.Get(HeaderSignaturePrevious), ping.body, ping.at); err != nil {
		t.Errorf("old secret of the ping: %v", err)
	}
	clk.Advance(SecretOverlap)
	w.emit(c, 2, creation[1])
	w.settled(app, 1)
	if err := w.svc.ProveURL(t.Context(), app, r.URL); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.seen()[2:] {
		if p.header.Get(HeaderSignaturePrevious) != "" {
			t.Errorf("the old secret signs after its day: %s", p.header.Get(HeaderEvent))
		}
	}
}

func TestTheLogIsTheApplicationsOwnAndPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	other, _ := w.application("")
	c := w.consultation(app)
	w.emit(c, 1, creation...)
	w.emit(w.consultation(other), 1, creation[0])
	page, more, err := w.svc.Deliveries(t.Context(), w.db.Read(), app, DeliveryFilter{ConsultationID: c.ConsultationID,
		State: Pending, Limit: 2})
	if err != nil || len(page) != 2 || !more {
		t.Fatalf("%v %v %v", page, more, err)
	}
	rest, more, err := w.svc.Deliveries(t.Context(), w.db.Read(), app, DeliveryFilter{Before: page[1].Position()})
	if err != nil || len(rest) != 1 || more {
		t.Fatalf("%v %v %v", rest, more, err)
	}
	if a := w.attempts(rest[0], app); len(a) != 0 {
		t.Errorf("attempts of an unsent delivery: %v", a)
	}
	if _, err := w.svc.Attempts(t.Context(), w.db.Read(), other, rest[0].ID); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("a foreign delivery: %v", err)
	}
	if _, err := w.svc.Endpoint(t.Context(), w.db.Read(), "app_none"); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("a missing endpoint: %v", err)
	}
	err = w.db.InTx(t.Context(),
		func(tx postgres.Tx) error { return w.svc.SetURL(t.Context(), tx, app, "ftp://crm.example") })
	if p, ok := problem.As(err); !ok || !errors.Is(err, problem.ErrValidation) ||
		p.Issues[0].Code != problem.IssueInvalidURL {
		t.Errorf("a bad URL: %v", err)
	}
}

// A leaked signing secret is replaced immediately, while the previous one, which endpoints still verify with, signs
// until its expiry.
func TestTheCurrentSigningSecretIsReplacedWhileThePreviousOneStays(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, clk, sandbox())
	r := newReceiver(t, status(http.StatusOK))
	app, old := w.application(r.URL)
	ends := clk.Now().Add(SecretOverlap)
	rotate := func(how Rotation) (secret string, err error) {
		var until time.Time
		err = w.db.InTx(t.Context(), func(tx postgres.Tx) (err error) {
			secret, until, err = w.svc.RotateSecret(t.Context(), tx, app, how)
			return err
		})
		if err == nil && !until.Equal(ends) {
			t.Errorf("%+v: the previous secret is said to sign until %v", how, until)
		}
		return secret, err
	}
	if _, err := rotate(Rotation{KeepPrevious: true}); !errors.Is(err, problem.ErrNoPreviousSecret) {
		t.Errorf("without a previous secret: %v", err)
	}
	if _, err := rotate(Rotation{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rotate(Rotation{KeepPrevious: true, EndPrevious: true}); !errors.Is(err, problem.ErrMalformed) {
		t.Errorf("kept and ended: %v", err)
	}
	clk.Advance(time.Hour)
	fresh, err := rotate(Rotation{KeepPrevious: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Duration{0, SecretOverlap - time.Hour} {
		clk.Advance(at)
		if err := w.svc.ProveURL(t.Context(), app, r.URL); err != nil {
			t.Fatal(err)
		}
		p := r.seen()[len(r.seen())-1]
		if err := Verify(fresh, p.header.Get(HeaderSignature), p.body, p.at); err != nil {
			t.Errorf("new secret: %v", err)
		}
		if signs := Verify(old, p.header.Get(HeaderSignaturePrevious), p.body, p.at) == nil; signs != (at == 0) {
			t.Errorf("after %s more the previous secret signs: %t", at, signs)
		}
	}
}
