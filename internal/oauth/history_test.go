package oauth

import (
	"slices"
	"testing"
	"time"

	"partnerd/internal/account"
	"partnerd/internal/dbtest"
	"partnerd/internal/postgres"
)

func (w *world) history(t *testing.T) (out []string) {
	t.Helper()
	all, err := w.svc.History(t.Context(), w.db.Read(), w.client.ID, w.app.ID, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(all) {
		if e.GrantID == "" || e.ClientID != w.client.ID || e.ApplicationID != w.app.ID || e.CreatedAt.After(w.clk.Now()) {
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
		}, []string{"created client_consented", "activated code_redeemed", "refreshed refresh_token_used", "replayed refresh_token_replayed", "revoked refresh_token_replayed"}},
		"code replayed": {func(w *world) {
			code := w.code(t)
			w.token(t, w.codeForm(code))
			w.refused(t, "replay", w.codeForm(code), 400, CodeInvalidGrant)
		}, []string{"created client_consented", "activated code_redeemed", "replayed code_replayed", "revoked code_replayed"}},
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
				return w.svc.Recover(t.Context(), tx, w.client.ID, account.Recovery{Shown: []string{w.app.ID}, Ticked: []string{w.app.ID}})
			})
		}, []string{"created client_consented", "activated code_redeemed", "created client_consented", "revoked account_recovered", "revoked account_recovered"}},
		"recovered, and kept": {func(w *world) {
			w.link(t)
			w.code(t)
			w.tx(t, func(tx postgres.Tx) error {
				return w.svc.Recover(t.Context(), tx, w.client.ID, account.Recovery{Shown: []string{w.app.ID}})
			})
		}, []string{"created client_consented", "activated code_redeemed", "created client_consented", "revoked account_recovered"}},
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
	for _, sql := range []string{`UPDATE oauth_grant_events SET reason = 'x'`, `DELETE FROM oauth_grant_events`, `TRUNCATE oauth_grant_events`} {
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
	}{{refreshedRetention, 4}, {time.Second, 3}, {eventRetention - refreshedRetention - time.Second, 3}, {time.Second, 0}} {
		w.clk.Advance(c.after)
		if _, err := w.svc.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(w.history(t)); n != c.want {
			t.Errorf("%d events on %s, want %d", n, w.clk.Now(), c.want)
		}
	}
}
