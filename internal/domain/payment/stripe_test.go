package payment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/telemetry/telemetrytest"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// withStripe returns a live deployment that takes payments through a stand-in for Stripe.
func withStripe(t *testing.T) (*fixture, *standIn) {
	f := newFixture(t)
	s := newStandIn(t, f.clock)
	f.payments.cfg.Sandbox = false
	f.payments.cfg.Provider = NewStripe(StripeConfig{SecretKey: stripeKey,
		WebhookSecret: stripeWebhookKey, APIBase: s.url})
	return f, s
}

func (f *fixture) open(id string) string {
	f.t.Helper()
	url, err := f.payments.OpenCheckout(f.t.Context(), id, "en")
	if err != nil {
		f.t.Fatal(err)
	}
	return url
}

// post passes an event to the service, signed as Stripe does.
func (f *fixture) post(event []byte) error {
	signed := stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{Payload: event, Secret: stripeWebhookKey,
		Timestamp: f.clock.Now()})
	return f.payments.HandleNotice(f.t.Context(), StripeProvider, event, signed.Header)
}

// The provider's session is created once, when the client first opens the checkout, even with many concurrent visits.
func TestStripeCheckoutIsMadeOnceWhenOpened(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(2500)
	if session.Provider != StripeProvider || session.CheckoutURL != "http://localhost:8080/checkout/"+session.ID ||
		len(s.requests) != 0 {
		t.Fatalf("session %+v, requests %q", session, s.requests)
	}
	urls := make([]string, 8)
	var all sync.WaitGroup
	for i := range urls {
		all.Go(func() {
			var err error
			if urls[i], err = f.payments.OpenCheckout(t.Context(), session.ID, "en"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c := s.only()
	if len(slices.Compact(urls)) != 1 || urls[0] != c.URL || c.Amount != 2500 || c.Reference != session.ID ||
		c.Expires != session.ExpiresAt.Unix() {
		t.Errorf("urls %q, at Stripe %+v", urls, c)
	}
	before := len(s.requests)
	if f.open(session.ID) != c.URL || len(s.requests) != before {
		t.Error("a later visit asked Stripe again")
	}
	f.clock.Advance(time.Hour)
	if _, err := f.payments.OpenCheckout(t.Context(), session.ID, "en"); !errors.Is(err, ErrSessionClosed) {
		t.Errorf("after an hour: %v", err)
	}
}

// Stripe's page and receipt are in the language in which the client opened the checkout.
func TestStripeCheckoutIsInTheLanguageOfTheClient(t *testing.T) {
	t.Parallel()
	for _, lang := range append(slices.Clone(text.Languages), "de") {
		f, s := withStripe(t)
		if _, err := f.payments.OpenCheckout(t.Context(), f.session(2500).ID, lang); err != nil {
			t.Fatal(err)
		}
		want, known := productNames[lang], text.Known(lang)
		if known != lang {
			want = productNames[known]
		}
		if c := s.only(); c.Product != want || c.Product == "" || c.Locale != known {
			t.Errorf("%s: product %q, locale %q", lang, c.Product, c.Locale)
		}
	}
	if productNames["fr"] == productNames["en"] {
		t.Error("one name for both languages")
	}
}

// A request to Stripe is a span of its caller. No key, amount or ID is recorded.
func TestWhatStripeIsAskedIsAStep(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	tracer, spans := telemetrytest.New(t)
	stripe := NewStripe(StripeConfig{SecretKey: stripeKey, WebhookSecret: stripeWebhookKey,
		APIBase: s.url, Tracer: tracer})
	ctx, request := tracer.Start(t.Context(), "request")
	made, err := stripe.CreateCheckout(ctx, CheckoutRequest{Language: "en", Key: "key-canary", SessionID: "tus_canary",
		Amount: 432_100, ExpiresAt: f.clock.Now().Add(time.Hour), SuccessURL: s.url, CancelURL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	if err := stripe.Expire(ctx, "cs_unknown_canary"); err == nil {
		t.Error("an unknown session was expired")
	}
	request.End(nil)
	posts := spans.Named("POST")
	if len(posts) != 2 || !posts[0].Client || !posts[0].Child || posts[0].Failed ||
		posts[0].Attributes["http.response.status_code"] != "200" ||
		!posts[1].Failed || posts[1].Attributes["error.type"] != posts[1].Attributes["http.response.status_code"] {
		t.Errorf("%+v", posts)
	}
	for _, secret := range []string{stripeKey, "canary", "432100", made.Ref} {
		if strings.Contains(spans.Told(), secret) {
			t.Errorf("%s is told", secret)
		}
	}
}

// A visit near the end still gives the client the 30 minutes that Stripe requires.
func TestStripeCheckoutOpenedLate(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(2000)
	f.clock.Advance(45 * time.Minute)
	f.open(session.ID)
	if c := s.only(); c.Expires != f.clock.Now().Add(31*time.Minute).Unix() {
		t.Errorf("expires at %v", time.Unix(c.Expires, 0).UTC())
	}
	f.clock.Advance(20 * time.Minute)
	if err := f.post(s.pay(s.only(), "evt_1")); err != nil || f.outcomes() != "evt_1 credited_late" ||
		f.balance() != 2000 {
		t.Errorf("paid after our hour: %v, %q, %d", err, f.outcomes(), f.balance())
	}
	f.sound()
}

// After a lost response the same request is sent again, so there is one session. A refusal starts over.
func TestStripeCheckoutSurvivesFailures(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(2000)
	s.fail = []int{500}
	if _, err := f.payments.OpenCheckout(t.Context(), session.ID, "en"); !errors.Is(err, problem.ErrUnavailable) {
		t.Fatalf("Stripe down: %v", err)
	}
	f.clock.Advance(time.Minute)
	f.open(session.ID)
	if n := len(slices.Compact(slices.Clone(s.requests))); n != 1 {
		t.Errorf("keys %q, want the same each time", s.requests)
	}
	// The process dies between Stripe's response and storing it.
	if _, err := f.db.Pool().Exec(t.Context(),
		`UPDATE topup_sessions SET provider_ref = NULL, provider_url = NULL`); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	if f.open(session.ID) != s.only().URL {
		t.Error("another address after a crash")
	}
	// The next visit after a crash may be in another language, which is another request.
	if _, err := f.db.Pool().Exec(t.Context(),
		`UPDATE topup_sessions SET provider_ref = NULL, provider_url = NULL`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.payments.OpenCheckout(t.Context(), session.ID, "fr"); err != nil {
		t.Errorf("in another language after a crash: %v", err)
	}
	second := f.session(2000)
	s.fail = []int{400}
	if _, err := f.payments.OpenCheckout(t.Context(), second.ID, "en"); !errors.Is(err, problem.ErrUnavailable) {
		t.Fatalf("refused: %v", err)
	}
	f.clock.Advance(time.Second)
	f.open(second.ID)
	if n := len(s.requests); s.requests[n-1] == s.requests[n-2] {
		t.Error("the refused request's key was used again")
	}
}

// Every course of a payment at Stripe: the events in their order of arrival, and the outcome.
func TestStripeNotices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		course   func(f *fixture, s *standIn, c *stripeSession) [][]byte
		outcomes string
		balance  int64
		status   Status
		incident bool
	}{
		"paid": {func(f *fixture, s *standIn, c *stripeSession) [][]byte { return [][]byte{s.pay(c, "evt_1")} },
			"evt_1 credited", 2000, Paid, false},
		"paid, sent again": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			e := s.pay(c, "evt_1")
			return [][]byte{e, e, e}
		}, "evt_1 credited", 2000, Paid, false},
		"paid late": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			f.clock.Advance(50 * time.Hour)
			return [][]byte{s.pay(c, "evt_1")}
		}, "evt_1 credited_late", 2000, Paid, false},
		"bank debit": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Status = "complete"
			completed := s.event("evt_1", "checkout.session.completed", c)
			c.PaymentStatus = "paid"
			return [][]byte{completed, s.event("evt_2", "checkout.session.async_payment_succeeded", c)}
		}, "evt_1 pending, evt_2 credited", 2000, Paid, false},
		"bank debit, the wrong way round": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Status = "complete"
			completed := s.event("evt_1", "checkout.session.completed", c)
			c.PaymentStatus = "paid"
			return [][]byte{s.event("evt_2", "checkout.session.async_payment_succeeded", c), completed}
		}, "evt_1 pending, evt_2 credited", 2000, Paid, false},
		"bank debit under way": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Status = "complete"
			return [][]byte{s.event("evt_1", "checkout.session.completed", c)}
		}, "evt_1 pending", 0, Open, false},
		"bank debit fails": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Status = "complete"
			return [][]byte{s.event("evt_1", "checkout.session.completed", c),
				s.event("evt_2", "checkout.session.async_payment_failed", c)}
		}, "evt_1 pending, evt_2 cancelled", 0, Cancelled, false},
		"expired": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			f.clock.Advance(61 * time.Minute)
			c.Status = "expired"
			return [][]byte{s.event("evt_1", "checkout.session.expired", c)}
		}, "evt_1 expired", 0, Expired, false},
		"ended by hand at Stripe": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Status = "expired"
			return [][]byte{s.event("evt_1", "checkout.session.expired", c)}
		}, "evt_1 cancelled", 0, Cancelled, false},
		"expired arrives after paid": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.pay(c, "evt_1"), s.event("evt_2", "checkout.session.expired", c)}
		}, "evt_1 credited, evt_2 cancel_ignored", 2000, Paid, false},
		"other amount": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Amount = 1900
			return [][]byte{s.pay(c, "evt_1")}
		}, "evt_1 amount_mismatch", 0, Open, true},
		"other currency": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			return [][]byte{[]byte(strings.Replace(string(s.pay(c, "evt_1")), `"eur"`, `"usd"`, 1))}
		}, "evt_1 currency_mismatch", 0, Open, true},
		"paid twice, by two sessions": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			other := *c
			other.ID, other.Intent = "cs_test_2", "pi_2"
			return [][]byte{s.pay(c, "evt_1"), s.pay(&other, "evt_2")}
		}, "evt_1 credited, evt_2 paid_twice", 2000, Paid, true},
		"unknown top-up": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Reference = "top_none"
			return [][]byte{s.pay(c, "evt_1")}
		}, "evt_1 unknown_session", 0, Open, true},
		"somebody else's session": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			c.Reference = ""
			return [][]byte{s.pay(c, "evt_1")}
		}, "", 0, Open, false},
		"another kind of event": {func(f *fixture, s *standIn, c *stripeSession) [][]byte {
			return [][]byte{s.event("evt_1", "payment_intent.succeeded", c),
				s.event("evt_2", "checkout.session.unheard_of", c)}
		}, "", 0, Open, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := withStripe(t)
			session := f.session(2000)
			f.open(session.ID)
			for i, e := range c.course(f, s, s.only()) {
				if err := f.post(e); err != nil {
					t.Fatalf("event %d: %v", i, err)
				}
			}
			if f.outcomes() != c.outcomes || f.balance() != moneyOf(c.balance) || f.status(session.ID) != c.status {
				t.Errorf("outcomes %q, balance %d, status %s", f.outcomes(), f.balance(), f.status(session.ID))
			}
			if logged := strings.Contains(f.log.String(), "level=ERROR"); logged != c.incident {
				t.Errorf("log %q", f.log)
			}
			pending, err := f.payments.Pending(t.Context(), f.db.Read(), session.ID)
			if err != nil || pending != (c.outcomes == "evt_1 pending") {
				t.Errorf("pending %v, %v", pending, err)
			}
			f.sound()
		})
	}
}

// Anything that Stripe did not sign recently with our endpoint's secret is rejected.
func TestStripeNoticesThatAreRefused(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	f.open(f.session(2000).ID)
	event := s.pay(s.only(), "evt_1")
	sign := func(body []byte, secret string, at time.Time) string {
		return stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{Payload: body,
			Secret: secret, Timestamp: at}).Header
	}
	keyless := f.service(Config{Provider: NewStripe(StripeConfig{SecretKey: stripeKey})})
	for name, c := range map[string]struct {
		payments         *Service
		provider, header string
		body             []byte
		want             error
	}{
		"forged": {f.payments, StripeProvider, sign(event, "whsec_guess", f.clock.Now()), event,
			ErrBadSignature},
		"unsigned": {f.payments, StripeProvider, "", event, ErrBadSignature},
		"other body": {f.payments, StripeProvider, sign(event, stripeWebhookKey, f.clock.Now()),
			append(slices.Clone(event), ' '), ErrBadSignature},
		"old": {f.payments, StripeProvider,
			sign(event, stripeWebhookKey, f.clock.Now().Add(-5*time.Minute)), event, ErrBadSignature},
		"from later": {f.payments, StripeProvider,
			sign(event, stripeWebhookKey, f.clock.Now().Add(5*time.Minute)), event, ErrBadSignature},
		"old, with a fresh time before": {f.payments, StripeProvider,
			fmt.Sprintf("t=%d,", f.clock.Now().Unix()) + sign(event, stripeWebhookKey, f.clock.Now().Add(-time.Hour)),
			event, ErrBadSignature},
		"fresh, with an old time before": {f.payments, StripeProvider,
			fmt.Sprintf("t=%d,", f.clock.Now().Add(-time.Hour).Unix()) + sign(event, stripeWebhookKey, f.clock.Now()),
			event, ErrBadSignature},
		"no time": {f.payments, StripeProvider,
			strings.SplitN(sign(event, stripeWebhookKey, f.clock.Now()), ",", 2)[1], event, ErrBadSignature},
		"no secret": {keyless, StripeProvider, sign(event, "", f.clock.Now()), event,
			ErrBadSignature},
		"not an event": {f.payments, StripeProvider,
			sign([]byte(`{}`), stripeWebhookKey, f.clock.Now()), []byte(`{}`), ErrBadNotice},
		"other address": {f.payments, SandboxProvider, sign(event, stripeWebhookKey, f.clock.Now()),
			event, ErrUnknownProvider},
	} {
		if err := c.payments.HandleNotice(t.Context(), c.provider, c.body, c.header); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if f.balance() != 0 || f.outcomes() != "" {
		t.Errorf("balance %d, notices %q", f.balance(), f.outcomes())
	}
	if h := f.payments.SignatureHeader(StripeProvider); h != "Stripe-Signature" {
		t.Errorf("header %q", h)
	}
}

// Stripe also posts events of test mode and of connected accounts to a live endpoint, with its signature. They move no
// money.
func TestStripeNoticesOfAnotherModeOrAccountAreIgnored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, account string
		livemode     bool
		want         string
	}{
		{"sk_test_1", "", false, "evt_1 credited"}, {"rk_test_1", "", false, "evt_1 credited"},
		{"sk_live_1", "", true, "evt_1 credited"}, {"rk_live_1", "", true, "evt_1 credited"},
		{"sk_live_1", "null", true, "evt_1 credited"}, {"sk_live_1", "", false, ""}, {"rk_live_1", "", false, ""},
		{"sk_test_1", "", true, ""}, {"rk_test_1", "", true, ""}, {"sk_live_1", `"acct_other"`, true, ""},
		{"sk_test_1", `"acct_other"`, false, ""},
	} {
		f, s := withStripe(t)
		session := f.session(2000)
		f.open(session.ID)
		f.payments.cfg.Provider = NewStripe(StripeConfig{SecretKey: c.key,
			WebhookSecret: stripeWebhookKey, APIBase: s.url})
		e := strings.Replace(string(s.pay(s.only(), "evt_1")), `"livemode": false`,
			fmt.Sprintf(`"livemode": %t`, c.livemode), 1)
		if c.account != "" {
			e = strings.Replace(e, `"object": "event"`, `"object": "event", "account": `+c.account, 1)
		}
		for range 2 {
			if err := f.post([]byte(e)); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		ignored := c.want == ""
		if f.outcomes() != c.want || (f.balance() == 0) != ignored || f.payments.foreign.Load() > 0 != ignored {
			t.Errorf("%+v: outcomes %q, balance %d, %d ignored", c, f.outcomes(), f.balance(),
				f.payments.foreign.Load())
		}
		if strings.Contains(f.log.String(), `level=WARN msg="payment notice is ignored"`) != ignored {
			t.Errorf("%+v: log %s", c, f.log)
		}
	}
}

// A client who goes back ends the session at Stripe first, so that it cannot be paid in another tab.
func TestCancelAtStripe(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	unopened := f.session(2000)
	if err := f.payments.CancelCheckout(t.Context(), unopened.ID); err != nil || f.status(unopened.ID) != Cancelled ||
		len(s.requests) != 0 {
		t.Errorf("never opened: %v, %s, %q", err, f.status(unopened.ID), s.requests)
	}
	session := f.session(2000)
	f.open(session.ID)
	if err := f.payments.CancelCheckout(t.Context(), session.ID); err != nil || f.status(session.ID) != Cancelled ||
		s.only().Status != "expired" {
		t.Errorf("opened: %v, %s, %+v", err, f.status(session.ID), s.only())
	}
	if err := f.post(s.event("evt_1", "checkout.session.expired", s.only())); err != nil ||
		f.outcomes() != "evt_1 cancel_ignored" {
		t.Errorf("Stripe's own word on it: %v, %q", err, f.outcomes())
	}
	paid := f.session(2000)
	f.open(paid.ID)
	event := s.pay(s.sessions["cs_test_2"], "evt_2")
	if err := f.payments.CancelCheckout(t.Context(), paid.ID); !errors.Is(err, ErrSessionClosed) ||
		f.status(paid.ID) != Open {
		t.Errorf("paid meanwhile: %v, %s", err, f.status(paid.ID))
	}
	if err := f.post(event); err != nil || f.balance() != 2000 {
		t.Errorf("then its notice: %v, %d", err, f.balance())
	}
	f.sound()
}

func (f *fixture) refund(c RefundCommand) (parts []RefundPart, err error) {
	c.ClientID, c.Actor, c.Reason = client, "cli:demo", "Withdrawal"
	err = f.db.InTx(f.t.Context(), func(tx postgres.Tx) error {
		parts, err = f.payments.Refund(f.t.Context(), tx, c)
		return err
	})
	return parts, err
}

func (f *fixture) refunds() (list string) {
	f.t.Helper()
	err := f.db.Pool().QueryRow(f.t.Context(), `SELECT coalesce(string_agg(amount_cents || ' ' || state || ' ' || attempts, ', ' ORDER BY id), '') FROM topup_refunds`).Scan(&list)
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

func (f *fixture) sendRefunds(want int) {
	f.t.Helper()
	if n, err := f.payments.SendRefunds(f.t.Context()); err != nil || n != want {
		f.t.Fatalf("sent %d refunds, %v; want %d", n, err, want)
	}
}

// An unused top-up leaves the wallet immediately and reaches its source once, whatever fails on the way.
func TestRefundAtStripe(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(5000)
	f.open(session.ID)
	if err := f.post(s.pay(s.only(), "evt_1")); err != nil {
		t.Fatal(err)
	}
	parts, err := f.refund(RefundCommand{Amount: 2000})
	if err != nil || len(parts) != 1 || parts[0].Amount != 2000 || f.balance() != 3000 {
		t.Fatalf("refund %+v, %v, balance %d", parts, err, f.balance())
	}
	f.sound()
	s.fail = []int{500}
	f.sendRefunds(1)
	if f.refunds() != "2000 PENDING 1" {
		t.Errorf("after a failure: %q", f.refunds())
	}
	f.sendRefunds(0)
	f.clock.Advance(time.Minute)
	f.sendRefunds(1)
	if f.refunds() != "2000 SENT 2" || s.refunded["pi_1"] != 2000 {
		t.Errorf("then: %q, at Stripe %v", f.refunds(), s.refunded)
	}
	// The response was lost. On a retry, Stripe refunds nothing twice.
	if _, err := f.db.Pool().Exec(t.Context(),
		`UPDATE topup_refunds SET state = 'PENDING', ended_at = NULL`); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Hour)
	f.sendRefunds(1)
	if s.refunded["pi_1"] != 2000 {
		t.Errorf("at Stripe %v", s.refunded)
	}
	// Someone refunded the rest manually at Stripe. Stripe refuses permanently, and the ledger check reports it.
	s.refunded["pi_1"] = 5000
	if _, err := f.refund(RefundCommand{TopUpID: session.ID}); err != nil || f.balance() != 0 {
		t.Fatalf("rest: %v, balance %d", err, f.balance())
	}
	f.sendRefunds(1)
	findings, err := books.Verify(t.Context(), f.db.Read())
	if err != nil || len(findings) != 1 || !strings.Contains(findings[0], "the provider refused it") {
		t.Errorf("findings %q, %v", findings, err)
	}
}

// A refund whose response was lost is found at Stripe, even after Stripe has dropped the idempotency key. It is also
// found on a later page of the list.
func TestARefundWhoseAnswerWasLostIsGivenOnce(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(50_000)
	f.open(session.ID)
	if err := f.post(s.pay(s.only(), "evt_1")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.refund(RefundCommand{Amount: 2000}); err != nil {
		t.Fatal(err)
	}
	s.loses(true)
	f.sendRefunds(1)
	s.loses(false)
	if f.refunds() != "2000 PENDING 1" || s.refunded["pi_1"] != 2000 {
		t.Fatalf("the answer was lost: %q, at Stripe %v", f.refunds(), s.refunded)
	}
	s.aDayLater("pi_1", 150)
	f.clock.Advance(25 * time.Hour)
	f.sendRefunds(1)
	if f.refunds() != "2000 SENT 2" || s.refunded["pi_1"] != 2000 {
		t.Errorf("%q, at Stripe %v", f.refunds(), s.refunded)
	}
}

// Concurrent requests refund no cent twice.
func TestParallelRefundsOfTopUps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 2 {
		if err := f.notice(paid(fmt.Sprint("n", i), f.session(2000))); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := f.refund(RefundCommand{Amount: 1500}); err != nil && !errors.Is(err, ErrNothingToRefund) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f.balance() != 1000 || strings.Count(f.refunds(), "PENDING") != 3 {
		t.Errorf("balance %d, refunds %q", f.balance(), f.refunds())
	}
	f.sound()
	f.sendRefunds(3)
	if strings.Contains(f.refunds(), "PENDING") {
		t.Errorf("refunds %q", f.refunds())
	}
}

// H29: a checkout opened at the provider counts against the ceiling while it may be paid. That ends when it is
// credited, cancelled, refused by the provider, failed or expired. A checkout that was never opened does not count.
func TestOpenedCheckoutsCountAgainstTheCeiling(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func(f *fixture, s *standIn, first Session)
		frees bool
	}{
		"not yet":  {func(*fixture, *standIn, Session) {}, false},
		"credited": {func(f *fixture, s *standIn, _ Session) { _ = f.post(s.pay(s.only(), "evt_1")) }, false},
		"cancelled": {func(f *fixture, _ *standIn, first Session) {
			_ = f.payments.CancelCheckout(f.t.Context(), first.ID)
		}, true},
		"over": {func(f *fixture, _ *standIn, _ Session) { f.clock.Advance(time.Hour) }, true},
		"money on its way": {func(f *fixture, s *standIn, _ Session) {
			_ = f.post(s.event("evt_1", "checkout.session.completed", s.only()))
			f.clock.Advance(time.Hour)
		}, false},
		"came to nothing": {func(f *fixture, s *standIn, _ Session) {
			_ = f.post(s.event("evt_1", "checkout.session.completed", s.only()))
			_ = f.post(s.event("evt_2", "checkout.session.async_payment_failed", s.only()))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := withStripe(t)
			f.payments.cfg.WalletCeiling = 150_000
			first := f.session(100_000)
			f.session(100_000) // never opened
			f.open(first.ID)
			c.end(f, s, first)
			second, err := f.create(100_000)
			if f.balance() == 0 {
				if err != nil {
					t.Fatal(err)
				}
				_, err = f.payments.OpenCheckout(t.Context(), second.ID, "en")
			}
			if c.frees && err != nil || !c.frees && !errors.Is(err, ErrWalletLimitExceeded) {
				t.Errorf("another checkout: %v; notices %s", err, f.outcomes())
			}
		})
	}
}

// A checkout that the provider refused to create does not count, and neither does one above the ceiling.
func TestRefusedCheckoutsDoNotCountAgainstTheCeiling(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	f.payments.cfg.WalletCeiling = 150_000
	refused, big, small := f.session(100_000), f.session(100_000), f.session(50_000)
	s.fail = []int{400}
	if _, err := f.payments.OpenCheckout(t.Context(), refused.ID, "en"); !errors.Is(err, problem.ErrUnavailable) {
		t.Fatalf("refused: %v", err)
	}
	f.open(big.ID)
	if _, err := f.payments.OpenCheckout(t.Context(), refused.ID, "en"); !errors.Is(err, ErrWalletLimitExceeded) {
		t.Errorf("above the ceiling: %v", err)
	}
	f.open(small.ID)
}

// Of checkouts opened at the same time, only as many as fit under the ceiling lead to the provider.
func TestCheckoutsOpenedAtOnceDoNotPassTheCeiling(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	f.payments.cfg.WalletCeiling = 100_000
	var opened atomic.Int32
	var all sync.WaitGroup
	for _, session := range []Session{f.session(100_000), f.session(100_000), f.session(100_000)} {
		all.Go(func() {
			_, err := f.payments.OpenCheckout(t.Context(), session.ID, "en")
			if err == nil {
				opened.Add(1)
			} else if !errors.Is(err, ErrWalletLimitExceeded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if opened.Load() != 1 || s.only().Amount != 100_000 {
		t.Errorf("%d opened", opened.Load())
	}
}

// The second payer waits for the first and is checked after that.
func TestASecondPageIsJudgedAfterTheFirst(t *testing.T) {
	t.Parallel()
	f, _ := withStripe(t)
	f.payments.cfg.WalletCeiling = 100_000
	begin := func(session Session, meanwhile func()) error {
		return f.db.InTx(t.Context(), func(tx postgres.Tx) error {
			_, err := f.payments.Begin(t.Context(), tx, session.ID)
			if err == nil {
				meanwhile()
			}
			return err
		})
	}
	one, two := f.session(100_000), f.session(100_000)
	second := make(chan error, 1)
	first := begin(one, func() {
		go func() { second <- begin(two, func() {}) }()
		for deadline := time.Now().Add(10 * time.Second); ; {
			var waits bool
			err := f.db.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
			if err != nil || time.Now().After(deadline) {
				t.Errorf("nobody waits (%v)", err)
			}
			if waits || t.Failed() || len(second) > 0 {
				return
			}
		}
	})
	if err := <-second; first != nil || !errors.Is(err, ErrWalletLimitExceeded) {
		t.Errorf("the first: %v, the second: %v", first, err)
	}
}

// A refused refund says why. A refund appears as a movement without an application.
func TestRefundsSayWhyNotAndNameNoApplication(t *testing.T) {
	t.Parallel()
	f, s := withStripe(t)
	session := f.session(2000)
	f.open(session.ID)
	if err := f.post(s.pay(s.only(), "evt_1")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command RefundCommand
		want    error
	}{
		"unknown top-up":     {RefundCommand{TopUpID: "top_none"}, ErrUnknownTopUp},
		"less than nothing":  {RefundCommand{Amount: -1}, ErrRefundAmount},
		"more than is there": {RefundCommand{Amount: 2001}, ErrNothingToRefund},
	} {
		c.command.ClientID, c.command.Actor, c.command.Reason = client, "cli:demo", "Test"
		if _, err := f.refund(c.command); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.refund(RefundCommand{ClientID: client, Actor: "client:" + client,
		Reason: "Withdrawal"}); err != nil {
		t.Fatal(err)
	}
	items, _, err := f.wallets.Transactions(t.Context(), f.db.Read(), client, 0, 10)
	if err != nil || len(items) != 2 || items[0].Type != wallet.Adjustment || items[0].ApplicationID != "" ||
		items[1].ApplicationID != application {
		t.Errorf("%+v, %v", items, err)
	}
	f.sound()
}
