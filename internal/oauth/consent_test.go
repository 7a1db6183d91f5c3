package oauth

import (
	"slices"
	"testing"

	"partnerd/internal/application"
	"partnerd/internal/postgres"
)

func TestConsentIsKeptPerClientAndApplicationUntilItIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	request := func(asked string) AuthorizeRequest {
		t.Helper()
		r, err := w.svc.ParseAuthorize(ctx, w.db.Read(), w.authorizeQuery("scope", asked))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	approve := func(asked string, granted ...application.Scope) {
		t.Helper()
		var target string
		w.tx(t, func(tx postgres.Tx) (err error) {
			target, err = w.svc.Approve(ctx, tx, request(asked), w.client.ID, granted)
			return err
		})
		w.token(t, w.codeForm(queryOf(t, target).Get("code")))
	}
	want := func(scopes ...application.Scope) {
		t.Helper()
		got, err := w.svc.Remembered(ctx, w.db.Read(), w.client.ID, w.app.ID)
		if err != nil || !slices.Equal(got, scopes) {
			t.Errorf("remembered %v, want %v (%v)", got, scopes, err)
		}
	}
	want()
	approve("profile:read notes:read", application.ProfileRead)
	want(application.ProfileRead)
	approve("wallet:read notes:read", application.WalletRead, application.NotesRead)
	want(application.ProfileRead, application.WalletRead, application.NotesRead)
	approve("profile:read notes:read", application.ProfileRead) // unticked this time
	want(application.ProfileRead, application.WalletRead)
	w.tx(t, func(tx postgres.Tx) error {
		_, err := w.svc.Deny(ctx, tx, request("wallet:read notes:read"), w.client.ID)
		return err
	})
	want(application.ProfileRead)
	if other, err := w.svc.Remembered(ctx, w.db.Read(), w.client.ID, w.other.ID); len(other) != 0 || err != nil {
		t.Errorf("another application has %v %v", other, err)
	}
	w.tx(t, func(tx postgres.Tx) error { return w.svc.Disconnect(ctx, tx, w.client.ID, w.app.ID) })
	want()
	approve("profile:read", application.ProfileRead)
	w.tx(t, func(tx postgres.Tx) error { return w.svc.DisconnectAll(ctx, tx, w.client.ID) })
	want()
	if c, err := w.svc.Connections(ctx, w.db.Read(), w.client.ID); len(c) != 0 || err != nil {
		t.Errorf("connections %v %v", c, err)
	}
}

// What the account page does not show, and the client cannot take back there, is not remembered: a link that the
// application ended, one that a replay ended, and one whose tokens have expired.
func TestConsentLastsAsLongAsTheLink(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, w *world, token TokenResponse){
		"revoked by the application": func(t *testing.T, w *world, token TokenResponse) {
			if err := w.svc.Revoke(t.Context(), w.revokeForm(token.RefreshToken)); err != nil {
				t.Fatal(err)
			}
		},
		"replayed": func(t *testing.T, w *world, token TokenResponse) {
			w.token(t, w.refreshForm(token.RefreshToken))
			w.refused(t, "replay", w.refreshForm(token.RefreshToken), 400, CodeInvalidGrant)
		},
		"expired": func(_ *testing.T, w *world, _ TokenResponse) { w.clk.Advance(RefreshTokenLifetime) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			token := w.link(t, "scope", "profile:read offline_access")
			asBefore := func() (target string) {
				t.Helper()
				r, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), w.authorizeQuery("scope", "profile:read"))
				if err != nil {
					t.Fatal(err)
				}
				w.tx(t, func(tx postgres.Tx) (err error) {
					target, err = w.svc.ApproveAsBefore(t.Context(), tx, r, w.client.ID)
					return err
				})
				return target
			}
			if queryOf(t, asBefore()).Get("code") == "" || !slices.Contains(w.history(t), "created consent_remembered") {
				t.Errorf("a living link is asked about again; history %v", w.history(t))
			}
			end(t, w, token)
			if target := asBefore(); target != "" {
				t.Errorf("approved without asking: %s", target)
			}
			if c := w.connections(t, w.client.ID); len(c) != 0 {
				t.Errorf("the account page shows %v", c)
			}
		})
	}
}

func TestMoneyIsNeverGrantedWithoutAsking(t *testing.T) {
	t.Parallel()
	all := application.AllScopes
	if got := MustAsk(all, all); !slices.Equal(got, []application.Scope{application.WalletTopUp}) {
		t.Errorf("asks for %v", got)
	}
	if got := MustAsk([]application.Scope{application.ProfileRead, application.NotesRead}, []application.Scope{application.ProfileRead}); !slices.Equal(got, []application.Scope{application.NotesRead}) {
		t.Errorf("asks for %v", got)
	}
	if got := MustAsk([]application.Scope{application.ProfileRead}, all); len(got) != 0 {
		t.Errorf("asks for %v", got)
	}
}
