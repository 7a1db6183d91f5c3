package e2e

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/gen/partner/models"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/operator"
)

func (w *world) postTokenOnce(t testing.TB, form url.Values, keys ...string) *reply {
	t.Helper()
	var header []string
	for _, k := range keys {
		header = append(header, "Idempotency-Key", k)
	}
	r := w.send(t, http.MethodPost, "/api/oauth/token", form, header...)
	for _, name := range []string{"access_token", "refresh_token"} {
		if s, ok := r.value()[name].(string); ok {
			w.secret(s)
		}
	}
	return r
}

// T24: a retry returns the lost response byte for byte, and marks it as replayed.
func TestATokenRequestCanBeRepeated(t *testing.T) {
	t.Parallel()
	k := newCast(t)
	form := k.a.refreshForm(k.s.token.RefreshToken)
	first := k.postTokenOnce(t, form, "key of the refresh")
	first.is(t, "refresh", http.StatusOK, "")
	for range 3 {
		again := k.postTokenOnce(t, form, "key of the refresh")
		if again.Status != http.StatusOK || !bytes.Equal(again.Body, first.Body) ||
			again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("repeated: %s, want %s", again, first)
		}
	}
	if first.Header.Get("Idempotent-Replayed") != "" {
		t.Error("the first response says that it is replayed")
	}
	k.postTokenOnce(t, k.a.refreshForm("another"), "key of the refresh").is(t, "another form", http.StatusBadRequest,
		"invalid_request")
	var v token
	first.into(t, &v)
	k.session(k.a, k.c1, v).get(t, "/api/v1/me").is(t, "after all", http.StatusOK, "")

	for what, keys := range map[string][]string{
		"empty": {""}, "too long": {strings.Repeat("k", 256)}, "not ASCII": {"clé"}, "twice": {"a", "a"},
	} {
		k.postTokenOnce(t, k.a.refreshForm(*v.RefreshToken), keys...).is(t, "key that is "+what, http.StatusBadRequest,
			"invalid_request")
	}
	k.postTokenOnce(t, form).is(t, "without the key", http.StatusBadRequest, "invalid_grant")
	k.session(k.a, k.c1, v).get(t, "/api/v1/me").is(t, "after the replay", http.StatusUnauthorized, "UNAUTHORIZED")
}

// H27, RFC 6749 section 10.10: an address that guesses secrets is slowed down by its rate limit. Neither the owner of
// the secret nor other applications notice, not even at the same address.
func TestGuessingASecretDoesNotLockTheOwnerOut(t *testing.T) {
	t.Parallel()
	k := newCast(t, func(s *setup) { s.RateTokenFailures = 60 })
	guess := k.a.refreshForm("x", "client_secret", "wrong")
	refused := 0
	eventually(t, "429 for the guesser", func() bool {
		r := k.postToken(t, guess)
		if r.Status == http.StatusUnauthorized {
			refused++
			return false
		}
		limited(t, "guessing", r)
		r.is(t, "guessing", http.StatusTooManyRequests, "temporarily_unavailable")
		return true
	})
	if refused < 60 || refused > 180 { // the rate limit refills during the guesses
		t.Errorf("slowed down after %d guesses: the rate limit of the address is 60", refused)
	}
	k.postToken(t, k.a.refreshForm(k.s.token.RefreshToken)).is(t, "the owner refreshes", http.StatusOK, "")
	k.postToken(t, k.b.refreshForm("stale")).is(t, "another application", http.StatusBadRequest, "invalid_grant")
	k.postToken(t, k.a.refreshForm("stale")).is(t, "a stale token", http.StatusBadRequest, "invalid_grant")
}

// R8, T16: a suspended application is told so everywhere immediately. Its client's paid consultation continues. Once it
// is reinstated, everything is as before.
func TestASuspendedApplicationsConsultationFinishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, c := w.partner(t, "CRM"), w.client(t, "client", true, 10_000)
	s := w.link(t, p, c)
	lawyer := w.lawyer(t, "lawyer")
	consultation := s.create(t)
	w.assign(t, lawyer, consultation.ID)
	code := w.code(t, p, c)

	by := operator.Act{Actor: "test", Reason: "Abuse"}
	if _, err := w.Operator.SuspendApplication(t.Context(), by, p.ClientID, true); err != nil {
		t.Fatal(err)
	}
	s.get(t, "/api/v1/me").is(t, "access token", http.StatusUnauthorized, "UNAUTHORIZED")
	w.postToken(t, p.refreshForm(s.token.RefreshToken)).is(t, "refresh", http.StatusUnauthorized, "invalid_client")
	w.postToken(t, p.codeForm(code)).is(t, "code", http.StatusUnauthorized, "invalid_client")

	w.call(t, lawyer, consultation.ID)
	w.must(t, w.Consultations.EndCall(t.Context(), w.lease(t, lawyer), consultation.ID))
	w.must(t, w.Consultations.SubmitNote(t.Context(), w.lease(t, lawyer), consultation.ID, canary, preview))

	if _, err := w.Operator.SuspendApplication(t.Context(), by, p.ClientID, false); err != nil {
		t.Fatal(err)
	}
	if got := s.read(t, consultation.ID); got.Status != models.ConsultationStatusCOMPLETED {
		t.Errorf("the consultation is %s", got.Status)
	}
	s.hasWallet(t, "after the consultation", 10_000-price, 0)
	w.postToken(t, p.refreshForm(s.token.RefreshToken)).is(t, "refresh after the resumption", http.StatusOK, "")
	w.postToken(t, p.codeForm(code)).is(t, "code after the resumption", http.StatusOK, "")
}

// TestActsOfOperatorsAreAudited: every change of an application or of the keys is an audit entry with actor and reason,
// without a secret.
func TestActsOfOperatorsAreAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	p := w.partner(t, "CRM")
	by := operator.Act{Actor: "cli:anna", Reason: "Because"}
	name := "New name"
	_, err := w.Operator.UpdateApplication(t.Context(), by, p.ClientID, application.Change{Name: &name})
	w.must(t, err)
	_, err = w.Operator.SuspendApplication(t.Context(), by, p.ClientID, true)
	w.must(t, err)
	_, err = w.Operator.SuspendApplication(t.Context(), by, p.ClientID, false)
	w.must(t, err)
	secret, until, err := w.Operator.RotateApplicationSecret(t.Context(), by, p.ClientID,
		application.Rotation{Overlap: time.Hour})
	w.must(t, err)
	w.secret(secret)
	if left := until.Sub(w.DB.Clock().Now()); left <= 0 || left > time.Hour {
		t.Errorf("the previous secret works for %s", left)
	}
	key, err := w.Operator.RotateSigningKey(t.Context(), by)
	w.must(t, err)
	_, err = w.Operator.RetireSigningKey(t.Context(), by, key.ID)
	w.must(t, err)
	for action, subject := range map[string]string{
		"application.update": p.ClientID, "application.suspend": p.ClientID, "application.resume": p.ClientID,
		"application.rotate_secret": p.ClientID, "key.rotate": key.ID, "key.retire": key.ID,
	} {
		if n := w.queryInt(t, `SELECT count(*) FROM audit_entries WHERE action = $1 AND subject = $2 AND actor = 'cli:anna' AND reason = 'Because'`, action, subject); n != 1 {
			t.Errorf("%s: %d entries", action, n)
		}
	}
	if n := w.queryInt(t, `SELECT count(*) FROM audit_entries WHERE action = 'application.create' AND subject = $1`,
		p.ClientID); n != 1 {
		t.Errorf("application.create: %d entries", n)
	}
	if n := w.queryInt(t,
		`SELECT count(*) FROM audit_entries WHERE position($1 in details) > 0 OR position($2 in details) > 0`,
		secret, p.ClientSecret); n != 0 {
		t.Error("the audit holds a secret")
	}
	// Without a reason nothing is done.
	if _, err := w.Operator.SuspendApplication(t.Context(), operator.Act{Actor: "cli:anna"},
		p.ClientID, true); err == nil {
		t.Error("done without a reason")
	}
	if n := w.queryInt(t, `SELECT count(*) FROM applications WHERE suspended_at IS NOT NULL`); n != 0 {
		t.Error("an act that could not be recorded took effect")
	}
}
