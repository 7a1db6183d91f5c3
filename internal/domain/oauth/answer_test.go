package oauth

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

const key = "0b7f9f0e-5b0a-4a53-9d0c-6a3f2f1f7c11"

func (w *world) once(t *testing.T, form url.Values) TokenResponse {
	t.Helper()
	r, err := w.svc.Token(t.Context(), form, key)
	if err != nil {
		t.Fatalf("token request refused: %v", err)
	}
	return r
}

func (w *world) refusedOnce(t *testing.T, what string, form url.Values, status int, code string) {
	t.Helper()
	_, err := w.svc.Token(t.Context(), form, key)
	isRefusal(t, what, err, status, code)
}

// Trap T24: an application whose connection broke after our commit retries its request and loses nothing.
func TestARepeatedRequestWithItsKeyIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, form := range map[string]url.Values{
		"code": w.codeForm(w.code(t)), "refresh": w.refreshForm(w.link(t).RefreshToken),
	} {
		if _, err := w.db.Pool().Exec(t.Context(), `DELETE FROM oauth_token_answers`); err != nil {
			t.Fatal(err)
		}
		first := w.once(t, form)
		w.clk.Advance(AnswerRetention - time.Microsecond)
		again := w.once(t, form)
		if first.Replayed || !again.Replayed {
			t.Errorf("%s: replayed %v, then %v", name, first.Replayed, again.Replayed)
		}
		again.Replayed = false
		if again != first {
			t.Errorf("%s: %+v became %+v", name, first, again)
		}
		if !w.alive(t, first.AccessToken) {
			t.Errorf("%s: the repetition ended the session", name)
		}
		w.token(t, w.refreshForm(first.RefreshToken))
	}
}

func TestAnAnswerIsKeptForAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	form := w.refreshForm(w.link(t).RefreshToken)
	got := w.once(t, form)
	w.clk.Advance(AnswerRetention)
	w.refusedOnce(t, "after a minute it is a replay", form, 400, CodeInvalidGrant)
	if w.alive(t, got.AccessToken) {
		t.Error("the replay did not end the session")
	}
}

// Without the key or with another one, a retry counts as reuse.
func TestOnlyTheSameKeyRepeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, repeat := range map[string]string{
		"no key": "", "another key": key + "x", "another case": strings.ToUpper(key),
	} {
		form := w.refreshForm(w.link(t).RefreshToken)
		w.clk.Advance(AnswerRetention)
		got := w.once(t, form)
		_, err := w.svc.Token(t.Context(), form, repeat)
		isRefusal(t, name, err, 400, CodeInvalidGrant)
		if w.alive(t, got.AccessToken) {
			t.Errorf("%s: the session lives", name)
		}
	}
}

func TestAKeyBelongsToOneForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, bystander := w.link(t), w.link(t)
	form := w.refreshForm(before.RefreshToken)
	got := w.once(t, form)
	for name, other := range map[string]url.Values{
		"another token":     w.refreshForm(bystander.RefreshToken),
		"the new token":     w.refreshForm(got.RefreshToken),
		"another parameter": w.refreshForm(before.RefreshToken, "scope", "profile:read"),
		"a code":            w.codeForm(w.code(t)),
	} {
		w.refusedOnce(t, name, other, 400, CodeInvalidRequest)
	}
	if !w.alive(t, got.AccessToken) || !w.alive(t, bystander.AccessToken) {
		t.Error("a refused form ended a session")
	}
	w.token(t, w.refreshForm(bystander.RefreshToken)) // nothing was consumed
	if again := w.once(t, form); again.AccessToken != got.AccessToken {
		t.Error("the answer is lost")
	}
}

// A stored response is only for the same application, which must authenticate again and must not be suspended.
func TestAnAnswerNeedsTheSameApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	form := w.refreshForm(w.link(t).RefreshToken)
	got := w.once(t, form)
	repeat := func(changes ...string) url.Values { return w.refreshForm(form.Get("refresh_token"), changes...) }
	w.refusedOnce(t, "wrong secret", repeat("client_secret", "wrong"), 401, CodeInvalidClient)
	w.refusedOnce(t, "no secret", repeat("client_secret", "-"), 401, CodeInvalidClient)
	w.refusedOnce(t, "another application", repeat("client_id", w.other.ID, "client_secret", w.otherSecret), 400,
		CodeInvalidGrant)
	w.tx(t, func(tx postgres.Tx) error { return w.applications.SetSuspended(t.Context(), tx, w.app.ID, true) })
	w.refusedOnce(t, "suspended", form, 401, CodeInvalidClient)
	var fresh string
	w.tx(t, func(tx postgres.Tx) (err error) {
		if err := w.applications.SetSuspended(t.Context(), tx, w.app.ID, false); err != nil {
			return err
		}
		fresh, _, err = w.applications.RotateSecret(t.Context(), tx, w.app.ID,
			application.Rotation{Overlap: application.SecretOverlap})
		return err
	})
	if again := w.once(t, repeat("client_secret", fresh)); again.AccessToken != got.AccessToken {
		t.Error("a rotated secret lost the answer")
	}
}

// R8: what the client has ended stays ended, even for a request that already got its response.
func TestAnAnswerIsNotRepeatedWhenTheSessionHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	form := w.codeForm(w.code(t))
	w.once(t, form)
	w.tx(t, func(tx postgres.Tx) error { return w.svc.Disconnect(t.Context(), tx, w.client.ID, w.app.ID) })
	w.refusedOnce(t, "after the disconnection", form, 400, CodeInvalidGrant)
}

func TestAFaultNamesTheMissingParameter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for grantType, form := range map[string]url.Values{
		"code": w.codeForm(w.code(t)), "refresh": w.refreshForm(w.link(t).RefreshToken),
	} {
		for name := range form {
			if name == "client_secret" {
				continue // 401 does not say what is wrong
			}
			without := maps.Clone(form)
			without.Del(name)
			var refused *Error
			if _, err := w.svc.Token(t.Context(), without, ""); !errors.As(err, &refused) || refused.Status != 400 ||
				refused.Description != name+" is required." {
				t.Errorf("%s without %s: %v", grantType, name, err)
			}
		}
	}
}

func TestRefusalsLeaveTheKeyFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.code(t)
	w.refusedOnce(t, "wrong verifier", w.codeForm(code, "code_verifier", strings.Repeat("x", 43)), 400,
		CodeInvalidGrant)
	w.refusedOnce(t, "no verifier", w.codeForm(code, "code_verifier", "-"), 400, CodeInvalidRequest)
	if got := w.once(t, w.codeForm(code)); got.Replayed {
		t.Error("a refusal was kept")
	}
}

// If duplicates run concurrently on two replicas, one is executed; the others wait and get its response.
func TestParallelRequestsWithOneKeyGetOneAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, form := range []url.Values{w.refreshForm(w.link(t).RefreshToken), w.codeForm(w.code(t))} {
		services := []*Service{w.svc, w.replica(t)}
		answers := make([]TokenResponse, racers)
		var all sync.WaitGroup
		w.tx(t, func(tx postgres.Tx) error {
			lockRows(t, tx, form)
			for i := range racers {
				all.Go(func() {
					var err error
					if answers[i], err = services[i%2].Token(t.Context(), form, form.Get("grant_type")); err != nil {
						t.Error(err)
					}
				})
			}
			waitForWaiters(t, tx, racers/2)
			return nil
		})
		all.Wait()
		firsts := 0
		for _, a := range answers {
			if !a.Replayed {
				firsts++
			}
			if a.AccessToken != answers[0].AccessToken || a.RefreshToken != answers[0].RefreshToken {
				t.Error("the answers differ")
			}
		}
		if firsts != 1 || !w.alive(t, answers[0].AccessToken) {
			t.Errorf("%d of %d worked, session alive %v", firsts, racers, w.alive(t, answers[0].AccessToken))
		}
	}
}

func TestAnswersAreSealedAndPurged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.once(t, w.refreshForm(w.link(t).RefreshToken))
	var sealed []byte
	if err := w.db.Pool().QueryRow(t.Context(), `SELECT answer_sealed FROM oauth_token_answers`).
		Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	if len(sealed) == 0 || bytes.Contains(sealed, []byte(got.RefreshToken)) ||
		bytes.Contains(sealed, []byte("access_token")) {
		t.Error("tokens are readable in the database")
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{AnswerRetention - time.Microsecond, 0}, {time.Microsecond, 1}, {0, 0}} {
		w.clk.Advance(c.after)
		if n, err := w.svc.PurgeAnswers(t.Context()); n != c.want || err != nil {
			t.Errorf("purged %d %v, want %d", n, err, c.want)
		}
	}
}

// Retiring a compromised key ends the tokens it signed, but not the grant of an application that lost a response.
func TestARetiredKeyDoesNotLoseTheSessionOfARetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	form := w.refreshForm(w.link(t).RefreshToken)
	first := w.once(t, form)
	var retired []Key
	w.tx(t, func(tx postgres.Tx) (err error) {
		if retired, err = w.svc.SigningKeys(t.Context(), tx); err != nil {
			return err
		}
		for _, k := range retired {
			if err := w.svc.RetireSigningKey(t.Context(), tx, k.ID); err != nil {
				return err
			}
		}
		return nil
	})
	w.clk.Advance(2 * time.Second)
	if w.alive(t, first.AccessToken) {
		t.Fatal("the key is not retired: this test proves nothing")
	}
	again := w.once(t, form)
	if !again.Replayed || again.AccessToken == first.AccessToken || again.RefreshToken != first.RefreshToken ||
		again.Scope != first.Scope || !w.alive(t, again.AccessToken) {
		t.Errorf("%+v became %+v", first, again)
	}
	if third := w.once(t, form); third != again {
		t.Errorf("%+v became %+v", again, third)
	}
	if err := w.svc.Revoke(t.Context(), w.revokeForm(first.RefreshToken)); err != nil {
		t.Fatal(err)
	}
	w.refusedOnce(t, "after the session ended", form, 400, CodeInvalidGrant)
}

// TestARepetitionNeedsOneConnection also covers outdated keys in memory. If a retry needed a second database
// connection, enough concurrent retries would block each other.
func TestARepetitionNeedsOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	form := w.refreshForm(w.link(t).RefreshToken)
	first := w.once(t, form)
	w.tx(t, func(tx postgres.Tx) error {
		old, err := w.svc.SigningKeys(t.Context(), tx)
		if err != nil {
			return err
		}
		if err := w.svc.RetireSigningKey(t.Context(), tx, old[0].ID); err != nil {
			return err
		}
		return dbtest.Exec(t.Context(), tx, `UPDATE signing_keys SET retired_at = $1 WHERE kid = $2`,
			tx.Now.Add(keysPatient), old[0].ID)
	})
	single, err := postgres.Open(t.Context(), w.db.Pool().Config().ConnString(),
		postgres.Options{MaxConns: 1, Clock: w.clk, Test: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(single.Close)
	w.db = single
	w.svc = w.replica(t)
	w.clk.Advance(keysFresh - time.Millisecond) // the keys are not reread, and the signing key is retired
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again, err := w.svc.Token(ctx, form, key)
	if err != nil || !again.Replayed || again.AccessToken == first.AccessToken ||
		again.RefreshToken != first.RefreshToken {
		t.Errorf("%+v became %+v, %v", first, again, err)
	}
}

// failing makes the statement with that text fail, as if the database were gone, while it is armed.
type failing struct {
	text  string
	armed atomic.Bool
}

func (f *failing) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !f.armed.Load() || q.SQL != f.text {
		return ctx
	}
	ended, end := context.WithCancel(ctx)
	end()
	return ended
}

func (f *failing) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (f *failing) TraceBatchStart(ctx context.Context, conn *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		ctx = f.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: q.SQL})
	}
	return ctx
}

func (f *failing) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (f *failing) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// An application that gets invalid_grant discards its tokens. An internal failure must never return that error.
func TestAFaultIsNoRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fault := &failing{}
	db, err := postgres.Open(t.Context(), w.db.Pool().Config().ConnString(),
		postgres.Options{MaxConns: 2, Clock: w.clk, Tracer: fault})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w.db = db
	w.svc = w.replica(t)
	form := w.refreshForm(w.link(t).RefreshToken)
	for _, step := range []struct{ text, when string }{
		{lockRefreshTokenSQL.String(), "a refresh locks"}, {rotateRefreshTokenSQL.String(), "a refresh rotates"},
		{liveGrantSQL.String(), "an answer is repeated"},
	} {
		if step.text == liveGrantSQL.String() {
			w.once(t, form)
		}
		fault.text = step.text
		fault.armed.Store(true)
		_, err := w.svc.Token(t.Context(), form, key)
		fault.armed.Store(false)
		var refused *Error
		if err == nil || errors.As(err, &refused) {
			t.Errorf("%s: %v", step.when, err)
		}
	}
	if again := w.once(t, form); !again.Replayed || !w.alive(t, again.AccessToken) {
		t.Errorf("afterwards: %+v", again)
	}
}
