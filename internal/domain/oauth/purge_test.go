package oauth

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// purgeAfter advances the clock and purges; want grants must be deleted.
func (w *world) purgeAfter(t *testing.T, d time.Duration, want int) {
	t.Helper()
	w.clk.Advance(d)
	if n, err := w.svc.Purge(t.Context()); n != want || err != nil {
		t.Errorf("%d grants deleted, want %d (%v)", n, want, err)
	}
}

// ended counts the grants that ended by expiry, and their events.
func (w *world) ended(t *testing.T) (grants, events int) {
	t.Helper()
	err := w.db.Pool().QueryRow(t.Context(),
		`SELECT (SELECT count(*) FROM oauth_grants WHERE revoked_reason = 'expired'),
		(SELECT count(*) FROM oauth_grant_events WHERE event = 'revoked' AND reason = 'expired')`).
		Scan(&grants, &events)
	if err != nil {
		t.Fatal(err)
	}
	return grants, events
}

func TestWhenAGrantIsPurged(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { t := start.Add(d); return &t }
	const day, access = 24 * time.Hour, AccessTokenLifetime + AnswerRetention
	for name, c := range map[string]struct {
		grant       grantRow
		refreshable *time.Time
		want        time.Duration
	}{
		"code on its way":    {grantRow{}, nil, CodeLifetime},
		"access token alone": {grantRow{ActivatedAt: at(time.Minute)}, nil, time.Minute + access},
		"access token alone, used": {grantRow{ActivatedAt: at(0), LastUsedAt: at(time.Hour)}, nil,
			time.Hour + access},
		"refresh token": {grantRow{ActivatedAt: at(0), LastUsedAt: at(day)}, at(90 * day), 90 * day},
		"refresh token about to expire": {grantRow{ActivatedAt: at(0), LastUsedAt: at(90 * day)},
			at(90*day + time.Second), 90*day + access},
		"ended": {grantRow{ActivatedAt: at(0), RevokedAt: at(day)}, at(90 * day),
			day + Retention},
		"ended, never redeemed": {grantRow{RevokedAt: at(day)}, nil, day + Retention},
	} {
		c.grant.CreatedAt = start
		var refreshable time.Time
		if c.refreshable != nil {
			refreshable = *c.refreshable
		}
		if got := c.grant.purgeFrom(refreshable).Sub(start); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAGrantLivesUntilTheLastOfItsTokensRunsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.code(t)
	w.purgeAfter(t, CodeLifetime-time.Second, 0)
	got := w.token(t, w.codeForm(code))
	for range 3 {
		w.purgeAfter(t, RefreshTokenLifetime-time.Microsecond, 0)
		got = w.token(t, w.refreshForm(got.RefreshToken))
	}
	if len(w.connections(t, w.client.ID)) != 1 {
		t.Error("the link is gone")
	}
	w.purgeAfter(t, RefreshTokenLifetime, 0)
	if len(w.connections(t, w.client.ID)) != 0 {
		t.Error("the client is shown a link that ran out")
	}
	w.refused(t, "too late", w.refreshForm(got.RefreshToken), 400, CodeInvalidGrant)
	if h := w.history(t); h[len(h)-1] != "revoked expired" {
		t.Errorf("history: %q", h)
	}
	w.purgeAfter(t, Retention-time.Microsecond, 0)
	w.purgeAfter(t, time.Microsecond, 1)
}

func TestThePurgeLeavesAnAccessTokenItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t, "scope", "profile:read")
	w.purgeAfter(t, AccessTokenLifetime-time.Microsecond, 0)
	if !w.alive(t, got.AccessToken) {
		t.Error("ended before its access token")
	}
}

func TestPurgeForgetsOnlyWhatEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live, ended := w.link(t), w.link(t)
	used := live.RefreshToken
	live = w.token(t, w.refreshForm(used))
	if err := w.svc.Revoke(t.Context(), w.revokeForm(ended.RefreshToken)); err != nil {
		t.Fatal(err)
	}
	w.purgeAfter(t, Retention-time.Microsecond, 0)
	w.purgeAfter(t, time.Microsecond, 1)
	next := w.token(t, w.refreshForm(live.RefreshToken))
	w.refused(t, "replay long after", w.refreshForm(used), 400, CodeInvalidGrant)
	if w.alive(t, next.AccessToken) {
		t.Error("the replay was not recognized")
	}
}

// The refresh began before its token expired, and commits after the purge has passed.
func TestARefreshThatHoldsTheGrantKeepsItAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	w.purgeAfter(t, RefreshTokenLifetime-time.Microsecond, 0)
	next := digest("rt_next")
	w.tx(t, func(tx postgres.Tx) error {
		if _, _, err := lockRefreshToken(t.Context(), tx, digest(got.RefreshToken)); err != nil {
			return err
		}
		w.purgeAfter(t, time.Microsecond, 0)
		if used, err := rotateRefreshToken(t.Context(), tx, digest(got.RefreshToken), &next); err != nil || !used {
			t.Errorf("the refresh was not to be: %v", err)
		}
		return nil
	})
	w.purgeAfter(t, time.Hour, 0)
	if grants, events := w.ended(t); grants != 0 || events != 0 {
		t.Errorf("%d ended, %d events", grants, events)
	}
	w.token(t, w.refreshForm("rt_next"))
}

// The refresh began before its token expired, and reaches the lock after the purge.
func TestARefreshBehindThePurgeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	w.purgeAfter(t, CodeLifetime, 0)
	w.clk.Advance(RefreshTokenLifetime - CodeLifetime - time.Microsecond)
	var refresh sync.WaitGroup
	w.tx(t, func(tx postgres.Tx) error {
		tx.Now = tx.Now.Add(time.Microsecond)
		if _, _, err := purgeGrants(t.Context(), tx); err != nil {
			return err
		}
		refresh.Go(func() { w.refused(t, "refresh", w.refreshForm(got.RefreshToken), 400, CodeInvalidGrant) })
		dbtest.AwaitWaiters(t, w.db, 1)
		return nil
	})
	refresh.Wait()
	if grants, events := w.ended(t); grants != 1 || events != 1 {
		t.Errorf("%d ended, %d events", grants, events)
	}
}

// At the time of expiry either the refresh succeeds or the grant ends, never both or neither.
func TestRefreshesRacingThePurge(t *testing.T) {
	t.Parallel()
	const grants = 16
	for range 3 {
		w := newWorld(t)
		second := w.replica(t)
		var links [grants]TokenResponse
		for i := range links {
			links[i] = w.link(t)
		}
		w.purgeAfter(t, RefreshTokenLifetime-time.Microsecond, 0)
		var refreshed atomic.Int32
		var all sync.WaitGroup
		for _, link := range links {
			all.Go(func() {
				next, err := w.svc.Token(t.Context(), w.refreshForm(link.RefreshToken), "")
				if err != nil {
					return
				}
				refreshed.Add(1)
				if !w.alive(t, next.AccessToken) {
					t.Error("a refresh succeeded and its grant ended")
				}
			})
		}
		for _, s := range []*Service{w.svc, second} {
			all.Go(func() {
				w.clk.Advance(time.Microsecond)
				if _, err := s.Purge(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.purgeAfter(t, 0, 0)
		if ended, events := w.ended(t); ended != grants-int(refreshed.Load()) || events != ended {
			t.Errorf("%d of %d refreshed, %d ended, %d events", refreshed.Load(), grants, ended, events)
		}
	}
}

// Each grant ends once, even if grants are processed in several batches by several processes. Tokens are deleted, even
// in several batches.
func TestManyProcessesEndManyGrantsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const grants, tokens = 3*purgedGrants + 1, 2*purgedTokens + 1
	for _, sql := range []string{
		`INSERT INTO oauth_grants (id, application_id, client_id, scopes, created_at, activated_at, purge_at)
			SELECT 'gra_test_' || n, $1, $2, '{profile:read,offline_access}', $3, $3, $3 FROM generate_series(1, ` +
			strconv.Itoa(grants) + `) n`,
		`INSERT INTO oauth_refresh_tokens (hash, grant_id, created_at, expires_at)
			SELECT sha256(id::bytea), id, $3, $3::timestamptz + interval '90 days' FROM oauth_grants WHERE application_id = $1 AND client_id = $2`,
		`INSERT INTO oauth_refresh_tokens (hash, grant_id, created_at, expires_at, used_at)
			SELECT sha256(n::text::bytea), id, $3, $3, $3 FROM oauth_grants, generate_series(1, ` +
			strconv.Itoa(tokens) + `) n WHERE id = 'gra_test_1' AND application_id = $1 AND client_id = $2`,
	} {
		w.tx(t, func(tx postgres.Tx) error { return dbtest.Exec(t.Context(), tx, sql, w.app.ID, w.client.ID, tx.Now) })
	}
	processes := []*Service{w.svc, w.replica(t), w.replica(t)}
	purge := func() (deleted int) {
		var all sync.WaitGroup
		var sum atomic.Int64
		for _, s := range processes {
			all.Go(func() {
				n, err := s.Purge(t.Context())
				if err != nil {
					t.Error(err)
				}
				sum.Add(int64(n))
			})
		}
		all.Wait()
		return int(sum.Load())
	}
	for _, c := range []struct {
		after              time.Duration
		deleted, gone, say int
	}{
		{RefreshTokenLifetime - time.Microsecond, 0, 0, 0},
		{time.Microsecond, 0, grants, grants},
		{Retention - time.Microsecond, 0, grants, grants},
		{time.Microsecond, grants, 0, grants},
	} {
		w.clk.Advance(c.after)
		deleted := purge()
		if gone, say := w.ended(t); deleted != c.deleted || gone != c.gone || say != c.say {
			t.Errorf("%s: %d deleted, %d ended, %d events, want %+v", w.clk.Now(), deleted, gone, say, c)
		}
	}
}

// A request with a token of a grant to be deleted has locked the token and waits for the grant. The purge must not wait
// for the token.
func TestPurgeNeverWaitsForATokenThatIsPresented(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	if err := w.svc.Revoke(t.Context(), w.revokeForm(got.RefreshToken)); err != nil {
		t.Fatal(err)
	}
	w.tx(t, func(tx postgres.Tx) error {
		if err := dbtest.Exec(t.Context(), tx, `SELECT FROM oauth_refresh_tokens WHERE hash = $1 FOR UPDATE`,
			digest(got.RefreshToken)); err != nil {
			return err
		}
		w.purgeAfter(t, Retention, 0)
		return nil
	})
	w.purgeAfter(t, 0, 1)
}
