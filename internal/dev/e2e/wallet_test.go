package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/models"
	"partnerd/internal/base/id"
	"partnerd/internal/domain/payment"
)

// decide presses a button on a checkout page and returns the page that follows.
func (s *session) decide(t testing.TB, checkout *url.URL, button string) *crm.Page {
	t.Helper()
	b := s.w.browser()
	p, err := b.Open(t.Context(), checkout.String())
	s.w.must(t, err)
	f, err := p.Form("action")
	s.w.must(t, err)
	p, err = b.Send(t.Context(), p, f, nil, button)
	s.w.must(t, err)
	if p.Status != http.StatusOK {
		t.Errorf("after %s: %d %s", button, p.Status, p.Text)
	}
	return p
}

// settled reloads a checkout page until it offers the link back to the partner. It returns the link and the page's
// text.
func (s *session) settled(t testing.TB, checkout *url.URL) (back, text string) {
	t.Helper()
	eventually(t, "the way back from the checkout", func() bool {
		p, err := s.w.browser().Open(t.Context(), checkout.String())
		s.w.must(t, err)
		for _, link := range p.Links {
			// The link reports the result.
			if strings.HasPrefix(link, "https://crm.example/") && strings.Contains(link, "topup=") {
				back, text = link, p.Text
				return true
			}
		}
		return false
	})
	return back, text
}

// R20, R27, R28, R86, H30, H31, T30: the wallet is credited with the amount once the client has paid on the page. The
// page shows where it leads back to and does not redirect by itself.
func TestTopUpThroughTheCheckoutPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	r := s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": 5000,
		"returnUrl": "https://crm.example/wallet?client=1"})
	r.is(t, "session", http.StatusOK, "")
	var session models.TopupSession
	r.into(t, &session)
	left := time.Time(session.ExpiresAt).Sub(w.DB.Clock().Now())
	if !strings.HasPrefix(session.CheckoutURL, w.base+"/checkout/") || left > time.Hour || left < 59*time.Minute ||
		!strings.HasSuffix(r.value()["expiresAt"].(string), "Z") {
		t.Errorf("session: %s", r)
	}
	u, err := url.Parse(session.CheckoutURL)
	w.must(t, err)
	p, err := w.browser().Open(t.Context(), u.String())
	if err != nil || p.Status != http.StatusOK || !strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("checkout page: %v %+v", err, p)
	}
	s.hasWallet(t, "before paying", 0, 0)
	s.decide(t, u, "pay")
	back, _ := s.settled(t, u)
	if back != "https://crm.example/wallet?client=1&topup=success" {
		t.Errorf("way back: %s", back)
	}
	s.hasWallet(t, "after paying", 5000, 0)
	var page models.WalletTransactionPage
	s.get(t, "/api/v1/wallet/transactions").into(t, &page)
	if len(page.Items) != 1 || page.Items[0].Type != "TOPUP" || page.Items[0].AmountCents != 5000 ||
		page.Items[0].BalanceAfterCents != 5000 || page.NextCursor != nil {
		t.Errorf("history: %+v", page)
	}
	p, err = w.browser().Open(t.Context(), u.String())
	w.must(t, err)
	if len(p.Forms) != 0 {
		if _, err := p.Form("action"); err == nil {
			t.Error("a paid session can be paid again")
		}
	}
}

// TestPaymentsArriveWhereNobodyWorks: sandbox payments arrive even if serving and working processes are separate. A
// process that only works has no address to report payments to, so the serving processes report them.
func TestPaymentsArriveWhereNobodyWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	s.topUp(t, 5000)
	s.hasWallet(t, "after paying", 5000, 0)
}

// R20, R28: cancelled and expired checkouts move no money; a payment is decided once.
func TestCheckoutsThatAreNotPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	cancelled, expired, late := s.checkout(t, 5000), s.checkout(t, 5000), s.checkout(t, 5000)
	form, err := w.browser().Open(t.Context(), cancelled.String())
	w.must(t, err)
	s.decide(t, cancelled, "cancel")
	if back, _ := s.settled(t, cancelled); back != "https://crm.example/wallet?client=1&topup=cancelled" {
		t.Errorf("way back: %s", back)
	}
	if r := w.send(t, http.MethodPost, cancelled.Path, form.Forms[0].Values); r.Status != http.StatusForbidden {
		t.Errorf("a form of another browser: %s", r)
	}
	w.exec(t, "UPDATE topup_sessions SET expires_at = now() - interval '1 second' WHERE id = $1",
		strings.TrimPrefix(expired.Path, "/checkout/"))
	if p, err := w.browser().Open(t.Context(), expired.String()); err != nil || p.Status != http.StatusOK {
		t.Errorf("expired checkout: %v", err)
	} else if _, err := p.Form("action"); err == nil {
		t.Error("an expired session can be paid")
	}
	b := w.browser()
	p, err := b.Open(t.Context(), late.String())
	w.must(t, err)
	f, err := p.Form("action")
	w.must(t, err)
	w.exec(t, "UPDATE topup_sessions SET expires_at = now() - interval '1 second' WHERE id = $1",
		strings.TrimPrefix(late.Path, "/checkout/"))
	if _, err := b.Send(t.Context(), p, f, nil, "pay"); err != nil {
		t.Fatal(err)
	}
	s.hasWallet(t, "after none was paid", 0, 0)
	for _, path := range []string{"/checkout/top_test_00000000000000000000000000", "/checkout/%00",
		"/checkout/😀", "/checkout/", "/checkout/" + strings.Repeat("x", 5000)} {
		if r := w.send(t, http.MethodGet, path, nil); r.Status != http.StatusNotFound {
			t.Errorf("%s: %s", path, r)
		}
	}
}

// R155, T30: the provider may report a payment many times, concurrently and again: one credit. An unsigned, invalid or
// non-matching report credits nothing.
func TestPaymentNoticesCreditOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withIncidents)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	checkout := s.checkout(t, 5000)
	session := strings.TrimPrefix(checkout.Path, "/checkout/")
	secret := w.noticeSecret(t)
	post := func(n payment.Notice, secret string, age time.Duration) *reply {
		raw, err := json.Marshal(n)
		w.must(t, err)
		return w.send(t, http.MethodPost, "/payments/notices/sandbox", raw, "Content-Type", "application/json",
			payment.SignatureHeader, payment.SignNotice(secret, w.DB.Clock().Now().Add(-age), raw))
	}
	notice := payment.Notice{ID: "ntc_1", Type: payment.CheckoutPaid, SessionID: session, AmountCents: 5000,
		Currency: "EUR", CreatedAt: w.DB.Clock().Now()}
	for what, r := range map[string]*reply{
		"wrong secret": post(notice, "nope", 0), "no secret": post(notice, "", 0),
		"too old":  post(notice, secret, 301*time.Second),
		"unsigned": w.send(t, http.MethodPost, "/payments/notices/sandbox", notice),
		"no JSON": w.send(t, http.MethodPost, "/payments/notices/sandbox", "{", payment.SignatureHeader,
			payment.SignNotice(secret, w.DB.Clock().Now(), []byte("{"))),
		"1 MB": w.send(t, http.MethodPost, "/payments/notices/sandbox", strings.Repeat("x", 1<<20)),
		"NUL in a session": post(payment.Notice{ID: "ntc_0", Type: payment.CheckoutPaid, SessionID: "top\x00",
			AmountCents: 5000, Currency: "EUR"}, secret, 0),
	} {
		r.is(t, what, http.StatusBadRequest, "INVALID_REQUEST")
	}
	w.send(t, http.MethodPost, "/payments/notices/other", notice).is(t, "unknown provider", http.StatusNotFound,
		"NOT_FOUND")
	for i, change := range []func(*payment.Notice){
		func(n *payment.Notice) { n.AmountCents = 5001 }, func(n *payment.Notice) { n.Currency = "USD" },
		func(n *payment.Notice) { n.SessionID = "top_other" },
		func(n *payment.Notice) { n.Type = "checkout.unknown" },
	} {
		n := notice
		n.ID = fmt.Sprint("ntc_misfit_", i)
		change(&n)
		post(n, secret, 0).is(t, "a notice that does not fit is taken and kept", http.StatusNoContent, "")
	}
	s.hasWallet(t, "after bad notices", 0, 0)
	answers := make(chan *reply)
	for i := range 20 {
		n := notice
		n.ID = fmt.Sprint("ntc_", i%2)
		go func() { answers <- post(n, secret, 0) }()
	}
	for range 20 {
		(<-answers).is(t, "notice", http.StatusNoContent, "")
	}
	s.hasWallet(t, "after twenty notices", 5000, 0)
}

// noticeSecret derives the key of the built-in provider as the program does.
func (w *world) noticeSecret(t testing.TB) string {
	t.Helper()
	return deriveFromMaster(t, w, "payment notices")
}

// H24: all errors are reported together, so a partner who fixes one does not meet the next.
func TestEveryFaultOfATopUpIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	for _, c := range []struct {
		body object
		want string
	}{
		{object{"amountCents": 1, "returnUrl": "javascript:alert(1)"}, "amountCents too_small, returnUrl invalid_url"},
		{object{"amountCents": 1, "returnUrl": 2}, "amountCents too_small, returnUrl invalid_type"},
		{object{"amountCents": 2000, "returnUrl": "http://crm.example/"}, "returnUrl invalid_url"},
		{object{"returnUrl": "https://crm.example/"}, "amountCents required"},
	} {
		r := s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", c.body)
		r.is(t, fmt.Sprint(c.body), http.StatusUnprocessableEntity, "VALIDATION_ERROR")
		if got := strings.Join(r.issues(), ", "); got != c.want {
			t.Errorf("%v: %s", c.body, r)
		}
	}
	if r := s.get(t,
		"/api/v1/consultations?createdAfter=2026-06-01T10:30:00+02:00"); r.Status != http.StatusBadRequest ||
		!strings.Contains(string(r.Body), "%2B") {
		t.Errorf("a + that means a space: %s", r)
	}
}

// H29: a payment is at most 100 000 cents and the wallet holds at most 200 000. Both are checked when the session is
// created and when it is paid.
func TestTheWalletHasACeiling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 100_000))
	first, second := s.checkout(t, 100_000), s.checkout(t, 100_000)
	r := s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": 100_001,
		"returnUrl": "https://crm.example/"})
	r.is(t, "too much at once", http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	s.decide(t, first, "pay")
	eventually(t, "the credit", func() bool { return s.wallet(t).BalanceCents == 200_000 })
	r = s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": 2000,
		"returnUrl": "https://crm.example/"})
	r.is(t, "above the ceiling", http.StatusConflict, "WALLET_LIMIT_EXCEEDED")
	b := w.browser()
	p, err := b.Open(t.Context(), second.String())
	w.must(t, err)
	f, err := p.Form("action")
	w.must(t, err)
	if p, err = b.Send(t.Context(), p, f, nil, "pay"); err != nil || p.Status != http.StatusConflict {
		t.Errorf("paying above the ceiling: %v %+v", err, p)
	}
	s.hasWallet(t, "at the ceiling", 200_000, 0)
}

// R24, R25, R26, H1, T2, T28, T29: every movement is in the history, newest first, with consistent running figures.
// Only the partner's own consultations are named.
func TestWalletHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c1 := w.client(t, "c1", true, 10_000)
	s, other := w.link(t, a, c1), w.link(t, b, c1)
	l := w.lawyer(t, "l1")
	done := s.create(t)
	w.complete(t, l, done.ID)
	w.exec(t, "UPDATE lawyers SET state = 'OFFLINE' WHERE id = $1", l)
	w.refund(t, done.ID, 500)
	foreign := other.create(t)
	other.cancel(t, foreign.ID)
	s.topUp(t, 3000)
	want := "TOPUP +3000, RELEASE +2000, HOLD -2000, REFUND +500, CAPTURE -2000, HOLD -2000, ADJUSTMENT +10000"
	for _, view := range []struct {
		s   *session
		own string
	}{{s, done.ID}, {other, foreign.ID}} {
		var page models.WalletTransactionPage
		view.s.get(t, "/api/v1/wallet/transactions?limit=50").into(t, &page)
		var got []string
		for i, x := range page.Items {
			got = append(got, fmt.Sprintf("%s %+d", x.Type, x.AmountCents))
			if i > 0 && time.Time(x.CreatedAt).After(time.Time(page.Items[i-1].CreatedAt)) {
				t.Errorf("item %d is newer than the one before", i)
			}
			if x.ConsultationID != nil && *x.ConsultationID != view.own {
				t.Errorf("%s names the consultation %s of another partner", x.Type, *x.ConsultationID)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("history %v, want %s", got, want)
		}
		checkFigures(t, page.Items)
	}
	s.hasWallet(t, "at the end", 10_000-price+500+3000, 0)
}

// checkFigures asserts that each figure follows from the item before it in time.
func checkFigures(t *testing.T, newestFirst []models.WalletTransaction) {
	t.Helper()
	var balance, available int64
	for i := len(newestFirst) - 1; i >= 0; i-- {
		x := newestFirst[i]
		switch x.Type {
		case "HOLD", "RELEASE":
			available += x.AmountCents
		case "CAPTURE":
			balance += x.AmountCents
		default:
			balance, available = balance+x.AmountCents, available+x.AmountCents
		}
		if x.BalanceAfterCents != balance || x.AvailableAfterCents != available || x.Currency != "EUR" ||
			!strings.HasPrefix(x.ID, id.Transaction+"_test_") {
			t.Errorf("item %+v, want balance %d and available %d after it", x, balance, available)
		}
	}
}
