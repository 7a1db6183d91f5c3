package oauth

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/infra/postgres"
)

// Specification section 5 rule 4.
func TestReplayOfARefreshTokenRevokesItsSessionOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, bystander := w.link(t), w.link(t)
	second := w.token(t, w.refreshForm(first.RefreshToken))
	third := w.token(t, w.refreshForm(second.RefreshToken))
	w.refused(t, "replay with a wrong secret", w.refreshForm(first.RefreshToken, "client_secret", "wrong"), 401,
		CodeInvalidClient)
	w.refused(t, "replay by another application", w.refreshForm(first.RefreshToken, "client_id", w.other.ID,
		"client_secret", w.otherSecret), 400, CodeInvalidGrant)
	if !w.alive(t, third.AccessToken) {
		t.Fatal("a replay by someone else ended the session")
	}
	w.refused(t, "replay", w.refreshForm(first.RefreshToken), 400, CodeInvalidGrant)
	for _, access := range []string{first.AccessToken, second.AccessToken, third.AccessToken} {
		if w.alive(t, access) {
			t.Error("an access token of the replayed session is accepted")
		}
	}
	w.refused(t, "newest refresh token of the replayed session", w.refreshForm(third.RefreshToken), 400,
		CodeInvalidGrant)
	if !w.alive(t, bystander.AccessToken) {
		t.Error("another session of the same client ended")
	}
	w.token(t, w.refreshForm(bystander.RefreshToken))
}

func TestReplayOfACodeRevokesWhatItGave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.code(t)
	got, bystander := w.token(t, w.codeForm(code)), w.link(t)
	w.refused(t, "replay", w.codeForm(code), 400, CodeInvalidGrant)
	if w.alive(t, got.AccessToken) || !w.alive(t, bystander.AccessToken) {
		t.Error("the replay did not end exactly its own session")
	}
	w.refused(t, "refresh after the replay", w.refreshForm(got.RefreshToken), 400, CodeInvalidGrant)
}

// A code leaked into a log or a Referer header must not be enough to end a grant.
func TestInvalidReplayOfACodeRevokesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.code(t)
	got := w.token(t, w.codeForm(code))
	for what, form := range map[string]url.Values{
		"other application": w.codeForm(code, "client_id", w.other.ID, "client_secret", w.otherSecret),
		"wrong verifier":    w.codeForm(code, "code_verifier", strings.Repeat("x", 43)),
		"other redirect":    w.codeForm(code, "redirect_uri", callback+"?tenant=1"),
	} {
		w.refused(t, what, form, 400, CodeInvalidGrant)
	}
	w.refused(t, "wrong secret", w.codeForm(code, "client_secret", "wrong"), 401, CodeInvalidClient)
	if !w.alive(t, got.AccessToken) {
		t.Error("an invalid replay ended the session")
	}
	w.token(t, w.refreshForm(got.RefreshToken))
}

const racers = 10

// race sends one form from ten callers through two services on one database, and returns the successes. The grant stays
// locked until most callers wait for it, so that they really compete.
func race(t *testing.T, w *world, form url.Values) []TokenResponse {
	t.Helper()
	services := []*Service{w.svc, w.replica(t)}
	answers := make([]TokenResponse, racers)
	var won atomic.Int32
	var all sync.WaitGroup
	w.tx(t, func(tx postgres.Tx) error {
		lockRows(t, tx, form)
		for i := range racers {
			all.Go(func() {
				answer, err := services[i%2].Token(t.Context(), form, "")
				if err == nil {
					answers[won.Add(1)-1] = answer
					return
				}
				isRefusal(t, "loser", err, 400, CodeInvalidGrant)
			})
		}
		waitForWaiters(t, tx, racers/2)
		return nil
	})
	all.Wait()
	return answers[:won.Load()]
}

func lockRows(t *testing.T, tx postgres.Tx, form url.Values) {
	t.Helper()
	var err error
	if form.Has("code") {
		_, _, err = lockCode(t.Context(), tx, digest(form.Get("code")))
	} else {
		_, _, err = lockRefreshToken(t.Context(), tx, digest(form.Get("refresh_token")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waitForWaiters returns when n statements of this database wait for a lock.
func waitForWaiters(t *testing.T, tx postgres.Tx, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), postgres.LockTimeout-time.Second)
	defer cancel()
	fresh := postgres.SQL(postgres.Backend, `SELECT pg_stat_clear_snapshot()`)
	waiters := postgres.SQL(postgres.Backend,
		`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	for waiting := 0; waiting < n; {
		if _, err := tx.Exec(ctx, fresh); err != nil {
			t.Fatalf("%d of %d waited: %v", waiting, n, err)
		}
		if err := tx.QueryRow(ctx, waiters).Scan(&waiting); err != nil {
			t.Fatalf("%d of %d waited: %v", waiting, n, err)
		}
	}
}

func TestParallelRedemptionsOfOneCodeHaveOneWinner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bystander := w.link(t)
	for range 5 {
		won := race(t, w, w.codeForm(w.code(t)))
		if len(won) != 1 {
			t.Fatalf("%d redemptions succeeded", len(won))
		}
		if w.alive(t, won[0].AccessToken) {
			t.Error("the other redemptions were replays, and the session lives")
		}
	}
	if !w.alive(t, bystander.AccessToken) {
		t.Error("another session ended")
	}
}

func TestParallelRefreshesWithOneTokenHaveOneWinner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bystander := w.link(t)
	for range 5 {
		won := race(t, w, w.refreshForm(w.link(t).RefreshToken))
		if len(won) != 1 {
			t.Fatalf("%d refreshes succeeded", len(won))
		}
		if w.alive(t, won[0].AccessToken) {
			t.Error("the other refreshes were replays, and the session lives")
		}
	}
	if !w.alive(t, bystander.AccessToken) {
		t.Error("another session ended")
	}
}

func TestDisconnectRacingRefreshLeavesNothingAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 10 {
		got := w.link(t)
		var refreshed TokenResponse
		var both sync.WaitGroup
		both.Go(func() { refreshed, _ = w.svc.Token(t.Context(), w.refreshForm(got.RefreshToken), "") })
		both.Go(func() {
			err := w.db.InTx(t.Context(),
				func(tx postgres.Tx) error { return w.svc.Disconnect(t.Context(), tx, w.client.ID, w.app.ID) })
			if err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if w.alive(t, got.AccessToken) || refreshed.AccessToken != "" && w.alive(t, refreshed.AccessToken) {
			t.Fatal("a token survived the disconnection")
		}
		if refreshed.RefreshToken != "" {
			w.refused(t, "refresh after disconnection", w.refreshForm(refreshed.RefreshToken), 400, CodeInvalidGrant)
		}
	}
}
