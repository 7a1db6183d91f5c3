package oauth

import (
	"slices"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
)

func (w *world) history(t *testing.T) (out []string) {
	t.Helper()
	all, err := w.svc.History(t.Context(), w.db.Read(), w.client.ID, w.app.ID, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(all) {
		if e.GrantID == "" || e.ClientID != w.client.ID || e.ApplicationID != w.app.ID ||
			e.CreatedAt.After(w.clk.Now()) {
			t.Errorf("event: %+v", e)
		}
		out = append(out, e.Event+" "+string(e.Reason))
	}
	return out
}

func TestEveryChangeOfAGrantIsOnRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(w *world)
		want []string
	}{
		"refreshed": {func(w *world) { w.token(t, w.refreshForm(w.link(t).RefreshToken)) },
			[]string{"created client_consented", "activated code_redeemed", "refreshed refresh_token_used"}},
		"refused attempts leave nothing": {func(w *world) {
			got := w.link(t)
			w.refused(t, "secret", w.refreshForm(got.RefreshToken, "client_secret", "x"), 401, CodeInvalidClient)
			w.refused(t, "scope", w.refreshForm(got.RefreshToken, "scope", "x"), 400, CodeInvalidRequest)
		}, []string{"created client_consented", "activated code_redeemed"}},
		"refresh token replayed, three times": {func(w *world) {
			got := w.link(t)
			w.token(t, w.refreshForm(got.RefreshToken))
			for range 3 {
				w.refused(t, "replay", w.refreshForm(got.RefreshToken), 400, CodeInvalidGrant)
			}
		}, []string{"created client_consented", "activated code_redeemed", "refreshed refresh_token_used",
			"replayed refresh_token_replayed", "revoked refresh_token_replayed"}},
		"code replayed": {func(w *world) {
			code := w.code(t)
			w.token(t, w.codeForm(code))
			w.refused(t, "replay", w.codeForm(code), 400, CodeInvalidGrant)
		}, []string{"created client_consented", "activated code_redeemed", "replayed code_replayed",
			"revoked code_replayed"}},
		"revoked by the application, twice": {func(w *world) {
			got := w.link(t)
			for range 2 {
				if err := w.svc.Revoke(t.Context(), w.revokeForm(got.RefreshToken)); err != nil {
					t.Error(err)
				}
			}
		}, []string{"created client_consented", "activated code_redeemed", "revoked revoked_by_application"}},
		"disconnected": {func(w *world) {
			w.link(t)
			w.tx(t, func(tx postgres.Tx) error { return w.svc.Disconnect(t.Context(), tx, w.client.ID, w.app.ID) })
		}, []string{"created client_consented", "activated code_redeemed", "revoked disconnected_by_client"}},
		"unlinked by the operator, before the code was redeemed": {func(w *world) {
			w.code(t)
			w.unlinkAll(t, ReasonOperator, 1)
			w.unlinkAll(t, ReasonOperator, 0)
		}, []string{"created client_consented", "revoked operator"}},
		"disabled": {func(w *world) {
			w.link(t)
			w.disable(t, true)
		}, []string{"created client_consented", "activated code_redeemed", "revoked operator"}},
		"recovered": {func(w *world) {
			w.link(t)
			w.code(t)
			w.tx(t, func(tx postgres.Tx) error {
				return w.svc.Recover(t.Context(), tx, w.client.ID, account.Recovery{Shown: []string{w.app.ID},
					Ticked: []string{w.app.ID}})
			})
		}, []string{"created client_consented", "activated code_redeemed", "created client_consented",
			"revoked account_recovered", "revoked account_recovered"}},
		"recovered, and kept": {func(w *world) {
			w.link(t)
			w.code(t)
			w.tx(t, func(tx postgres.Tx) error {
				return w.svc.Recover(t.Context(), tx, w.client.ID, account.Recovery{Shown: []string{w.app.ID}})
			})
		}, []string{"created client_consented", "activated code_redeemed", "created client_consented",
			"revoked account_recovered"}},
		"erased": {func(w *world) {
			w.link(t)
			w.unlinkAll(t, ReasonErasure, 1)
		}, []string{"created client_consented", "activated code_redeemed", "revoked client_erased"}},
		"not refreshed in time": {func(w *world) {
			w.link(t)
			w.purgeAfter(t, RefreshTokenLifetime, 0)
			w.purgeAfter(t, PurgeEvery, 0)
		}, []string{"created client_consented", "activated code_redeemed", "revoked expired"}},
		"over without a refresh token": {func(w *world) {
			w.link(t, "scope", "profile:read")
			w.purgeAfter(t, PurgeEvery, 0)
			w.purgeAfter(t, PurgeEvery, 0)
		}, []string{"created client_consented", "activated code_redeemed", "revoked expired"}},
		"not redeemed in time": {func(w *world) {
			w.code(t)
			w.purgeAfter(t, CodeLifetime, 0)
			w.purgeAfter(t, PurgeEvery, 0)
		}, []string{"created client_consented", "revoked expired"}},
	} {
		w := newWorld(t)
		c.play(w)
		if got := w.history(t); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		var reason, event *string
		err := w.db.Pool().QueryRow(t.Context(), `SELECT max(g.revoked_reason), max(e.reason) FROM oauth_grants g
			LEFT JOIN oauth_grant_events e ON e.grant_id = g.id AND e.event = 'revoked' AND e.created_at = g.revoked_at`).Scan(&reason, &event)
		if err != nil || (reason == nil) != (event == nil) || reason != nil && *reason != *event {
			t.Errorf("%s: the grant and its history differ (%v)", name, err)
		}
	}
}

func (w *world) unlinkAll(t *testing.T, why Reason, want int) {
	t.Helper()
	w.tx(t, func(tx postgres.Tx) error {
		n, err := w.svc.UnlinkAll(t.Context(), tx, w.client.ID, why)
		if n != want {
			t.Errorf("%d grants ended, want %d", n, want)
		}
		return err
	})
}

func TestHistoryIsOnlyAddedTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link(t)
	owner := dbtest.Owner(t, w.db)
	for _, sql := range []string{
		`UPDATE oauth_grant_events SET reason = 'x'`, `DELETE FROM oauth_grant_events`, `TRUNCATE oauth_grant_events`,
	} {
		if _, err := owner.Pool().Exec(t.Context(), sql); !postgres.IsCheck(err, "append_only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestHistoryOutlivesItsGrantForAYear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.token(t, w.refreshForm(w.link(t).RefreshToken))
	if err := w.svc.Revoke(t.Context(), w.revokeForm(got.RefreshToken)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{refreshedRetention, 4}, {time.Second, 3}, {eventRetention - refreshedRetention - time.Second, 3},
		{time.Second, 0}} {
		w.clk.Advance(c.after)
		if _, err := w.svc.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(w.history(t)); n != c.want {
			t.Errorf("%d events on %s, want %d", n, w.clk.Now(), c.want)
		}
	}
}

// The purge finds old events of the history by kind and age, wherever they are, in limited batches per transaction.
func TestThePurgeOfTheHistoryReadsOnlyWhatIsPast(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t)
	const past, some = 25, 10
	if _, err := w.db.Pool().Exec(t.Context(),
		`INSERT INTO oauth_grant_events (grant_id, application_id, client_id, event, reason, created_at)
		SELECT 'grt', 'app', 'cli_' || n % 100, kind, '', $1::timestamptz - CASE WHEN kind = 'created' THEN interval '100 days' WHEN n % 800 = 0 THEN interval '31 days' ELSE interval '1 day' END
		FROM (SELECT n, CASE WHEN n % 20 = 1 THEN 'created' ELSE 'refreshed' END AS kind FROM generate_series(1, 20000) n) rows`, w.clk.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := dbtest.Owner(t, w.db).Pool().Exec(t.Context(), "ANALYZE oauth_grant_events"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{some, some, past - 2*some, 0} {
		w.tx(t, func(tx postgres.Tx) error {
			var before, after int
			if err := tx.QueryRow(t.Context(), historyReadsSQL).Scan(&before); err != nil {
				return err
			}
			n, err := deleteEvents(t.Context(), tx, EventRefreshed, tx.Now.Add(-refreshedRetention), some)
			if err != nil {
				return err
			}
			if err := tx.QueryRow(t.Context(), historyReadsSQL).Scan(&after); err != nil {
				return err
			}
			if read := after - before; n != want || read > 2*want { // selected and deleted
				t.Errorf("%d rows were read to delete %d events, want %d", read, n, want)
			}
			return nil
		})
	}
}

var historyReadsSQL = postgres.SQL(postgres.Backend, `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables WHERE relname = 'oauth_grant_events'`)

// No kind of event is kept forever.
func TestEveryEventHasItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made, left int
	if err := w.db.Pool().QueryRow(t.Context(),
		`WITH made AS (INSERT INTO oauth_grant_events (grant_id, application_id, client_id, event, reason, created_at)
		SELECT 'grt', 'app', 'cli', (regexp_matches(pg_get_constraintdef(oid), '''([a-z]+)''::', 'g'))[1], '', $1 FROM pg_constraint
		WHERE conname = 'oauth_grant_events_event_check' RETURNING 1) SELECT count(*) FROM made`,
		w.clk.Now().Add(-eventRetention-time.Second)).Scan(&made); err != nil {
		t.Fatal(err)
	}
	if _, err := w.svc.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM oauth_grant_events").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if made != len(kept) || left > 0 {
		t.Errorf("%d of %d kinds are left", left, made)
	}
}
