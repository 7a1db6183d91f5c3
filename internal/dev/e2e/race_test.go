package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"partnerd/gen/partner/models"
	"partnerd/internal/domain/consultation"
)

// atOnce sends n requests at the same time.
func atOnce(n int, send func(i int) *reply) []*reply {
	out := make([]*reply, n)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-gate
			out[i] = send(i)
		})
	}
	close(gate)
	all.Wait()
	return out
}

func count(replies []*reply) map[string]int {
	n := map[string]int{}
	for _, r := range replies {
		n[fmt.Sprint(r.Status, " ", r.code())]++
	}
	return n
}

// R151: 2000 cents pay for one consultation, however many requests compete.
func TestParallelCreatesSpendTheMoneyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, price))
	got := count(atOnce(50, func(int) *reply { return s.tryCreate(t, wish()) }))
	if got["201 "] != 1 || got["409 INSUFFICIENT_FUNDS"] != 49 {
		t.Errorf("responses: %v", got)
	}
	s.hasWallet(t, "afterwards", price, price)
	if ids, _ := s.page(t, consultations+"?limit=50", ""); len(ids) != 1 {
		t.Errorf("consultations: %v", ids)
	}
	w.checkBooks(t)
}

// R103, R104: 50 identical requests under one key are one consultation, one hold, one set of events, and equal bodies.
func TestParallelTwinsAreOneConsultation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 200_000))
	key := newKey()
	replies := atOnce(50,
		func(int) *reply { return s.do(t, http.MethodPost, consultations, wish(), "Idempotency-Key", key) })
	fresh := 0
	for _, r := range replies {
		if r.Status != http.StatusCreated || string(r.Body) != string(replies[0].Body) {
			t.Errorf("%s, another was %s", r, replies[0])
		}
		if r.Header.Get("Idempotent-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d responses say that they are the first", fresh)
	}
	s.hasWallet(t, "afterwards", 200_000, price)
	var c models.Consultation
	replies[0].into(t, &c)
	a.receiver.awaitAll(t, c.ID, started)
	if n := w.queryInt(t, "SELECT count(*) FROM consultations"); n != 1 {
		t.Errorf("%d consultations", n)
	}
	w.checkBooks(t)
}

// R101: duplicates of a top-up are one payment page.
func TestParallelTopUpTwinsAreOnePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	key := newKey()
	replies := atOnce(20, func(int) *reply {
		return s.do(t, http.MethodPost, "/api/v1/wallet/topup-session", object{"amountCents": 2000,
			"returnUrl": "https://crm.example/"}, "Idempotency-Key", key)
	})
	for _, r := range replies {
		if r.Status != http.StatusOK || string(r.Body) != string(replies[0].Body) {
			t.Errorf("%s, another was %s", r, replies[0])
		}
	}
	if n := w.queryInt(t, "SELECT count(*) FROM topup_sessions"); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// R105: of 20 requests with one key and different bodies one succeeds, the others are conflicts.
func TestParallelBodiesUnderOneKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 200_000))
	key := newKey()
	got := count(atOnce(20, func(i int) *reply {
		return s.do(t, http.MethodPost, consultations, wish("subject", fmt.Sprint("Subject ", i)),
			"Idempotency-Key", key)
	}))
	if got["201 "] != 1 || got["409 IDEMPOTENCY_CONFLICT"] != 19 {
		t.Errorf("responses: %v", got)
	}
	s.hasWallet(t, "afterwards", 200_000, price)
	w.checkBooks(t)
}

// R154, H10: 10 redemptions of one code: at most one gets tokens, and the double use ends them.
func TestParallelRedemptionsOfOneCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 0)
	for range 5 {
		code := w.code(t, a, c1)
		replies := atOnce(10, func(int) *reply { return w.postToken(t, a.codeForm(code)) })
		got := count(replies)
		if got["200 "] > 1 || got["200 "]+got["400 invalid_grant"] != 10 {
			t.Errorf("responses: %v", got)
		}
		endedTokens(t, w, a, c1, replies)
	}
}

// endedTokens asserts that tokens issued by a raced exchange no longer work.
func endedTokens(t *testing.T, w *world, a *partner, c1 *person, replies []*reply) {
	t.Helper()
	for _, r := range replies {
		if r.Status != http.StatusOK {
			continue
		}
		var v token
		r.into(t, &v)
		w.session(a, c1, v).get(t, "/api/v1/me").is(t, "access token of a replayed grant", http.StatusUnauthorized,
			"UNAUTHORIZED")
		w.postToken(t, a.refreshForm(*v.RefreshToken)).is(t, "refresh token of a replayed grant", http.StatusBadRequest,
			"invalid_grant")
	}
}

// R153: 10 refreshes with one token: at most one succeeds, and the session ends because the token was reused.
func TestParallelRefreshesOfOneToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, c1 := w.partner(t, "CRM A"), w.client(t, "c1", true, 0)
	for range 5 {
		s := w.link(t, a, c1)
		replies := atOnce(10, func(int) *reply { return w.postToken(t, a.refreshForm(s.token.RefreshToken)) })
		got := count(replies)
		if got["200 "] > 1 || got["200 "]+got["400 invalid_grant"] != 10 {
			t.Errorf("responses: %v", got)
		}
		s.get(t, "/api/v1/me").is(t, "the session", http.StatusUnauthorized, "UNAUTHORIZED")
		endedTokens(t, w, a, c1, replies)
	}
}

// R152: a cancellation and the start of the call: exactly one wins, and the money and the events agree.
func TestCancelRacesTheStartOfTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	l := w.lawyer(t, "l1")
	for i := range 12 {
		c := s.create(t)
		w.assign(t, l, c.ID)
		join := w.ring(t, l, c.ID)
		var joined error
		cancel := atOnce(2, func(side int) *reply {
			if (side+i)%2 == 0 {
				return s.cancel(t, c.ID)
			}
			joined = w.Consultations.HandleCallEvent(t.Context(), join)
			return nil
		})[i%2]
		w.must(t, joined)
		v := s.read(t, c.ID)
		switch {
		case cancel.Status == http.StatusOK && v.Status == "CANCELLED" && v.CallStartedAt == nil:
			s.hasWallet(t, "when the cancellation won", 10_000, 0)
			a.receiver.awaitAll(t, c.ID, started+" assigned cancelled refunded")
		case cancel.Status == http.StatusConflict && cancel.code() == "NOT_CANCELLABLE" && v.Status == "IN_CALL":
			s.hasWallet(t, "when the call won", 10_000, price)
			w.must(t, w.Consultations.EndCall(t.Context(), w.lease(t, l), c.ID))
			w.must(t, w.Consultations.NoUsefulCall(t.Context(), w.lease(t, l), c.ID, consultation.TooShort))
			a.receiver.awaitAll(t, c.ID, started+" assigned call_started call_ended expired refunded")
		default:
			t.Fatalf("both or none: %s, the consultation is %+v", cancel, v)
		}
		w.checkBooks(t)
	}
}

// R56, X3, X13: a cancellation and a lawyer who accepts at the same time agree on the result.
func TestCancelRacesTheAssignment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 10_000))
	l := w.lawyer(t, "l1")
	for i := range 8 {
		c := s.create(t)
		var offer string
		eventually(t, "an offer", func() bool {
			err := w.DB.Pool().QueryRow(t.Context(),
				"SELECT id FROM offers WHERE consultation_id = $1 AND state = 'OPEN'", c.ID).Scan(&offer)
			return err == nil
		})
		var accepted error
		cancel := atOnce(2, func(side int) *reply {
			if (side+i)%2 == 0 {
				return s.cancel(t, c.ID)
			}
			accepted = w.Consultations.AcceptOffer(t.Context(), w.lease(t, l), offer)
			return nil
		})[i%2]
		cancel.is(t, "cancel", http.StatusOK, "")
		if v := s.read(t, c.ID); v.Status != "CANCELLED" {
			t.Errorf("after the cancellation it is %s (accept: %v)", v.Status, accepted)
		}
		s.hasWallet(t, "after the cancellation", 10_000, 0)
		eventually(t, "the lawyer is free", func() bool {
			return w.queryInt(t, "SELECT count(*) FROM lawyers WHERE id = $1 AND state = 'AVAILABLE'", l) == 1
		})
		w.checkBooks(t)
	}
}

// R24, R25, R56: 20 cancellations of one consultation release once.
func TestParallelCancelsReleaseOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.partner(t, "CRM A")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	c := s.create(t)
	replies := atOnce(20, func(int) *reply { return s.cancel(t, c.ID) })
	for _, r := range replies {
		if r.Status != http.StatusOK || string(r.Body) != string(replies[0].Body) {
			t.Errorf("%s, another was %s", r, replies[0])
		}
	}
	a.receiver.awaitAll(t, c.ID, started+" cancelled refunded")
	s.hasWallet(t, "afterwards", 10_000, 0)
	w.checkBooks(t)
}

// R20, R155: two clicks of two browsers on one payment page, pay and cancel, and 20 more: one decision.
func TestParallelClicksOnACheckout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.link(t, w.partner(t, "CRM A"), w.client(t, "c1", true, 0))
	for range 5 {
		before := s.wallet(t).BalanceCents
		checkout := s.checkout(t, 2000)
		var mu sync.Mutex
		var fault error
		atOnce(6, func(i int) *reply {
			b := w.browser()
			p, err := b.Open(t.Context(), checkout.String())
			if err == nil {
				form, noForm := p.Form("action") // none if another click was faster
				if noForm == nil {
					_, err = b.Send(t.Context(), p, form, nil, []string{"pay", "cancel"}[i%2])
				}
			}
			mu.Lock()
			defer mu.Unlock()
			fault = errors.Join(fault, err)
			return nil
		})
		w.must(t, fault)
		back, _ := s.settled(t, checkout)
		want := before
		if back == "https://crm.example/wallet?client=1&topup=success" {
			want += 2000
		}
		s.hasWallet(t, "after "+back, want, 0)
		w.checkBooks(t)
	}
}
