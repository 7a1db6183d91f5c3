package oauth

import (
	"slices"
	"sync"
	"testing"
	"time"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
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
		got, err := w.svc.Remembered(ctx, w.db.Read(), w.client.ID, w.app.ID, w.app.RedirectURIs[0])
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
	if other, err := w.svc.Remembered(ctx, w.db.Read(), w.client.ID, w.other.ID,
		w.other.RedirectURIs[0]); len(other) != 0 || err != nil {
		t.Errorf("another application has %v %v", other, err)
	}
	w.tx(t, func(tx postgres.Tx) error { return w.svc.Disconnect(ctx, tx, w.client.ID, w.app.ID) })
	want()
	approve("profile:read", application.ProfileRead)
	w.tx(t, func(tx postgres.Tx) error {
		_, err := w.svc.UnlinkAll(ctx, tx, w.client.ID, ReasonErasure)
		return err
	})
	want()
	if c, err := w.svc.Connections(ctx, w.db.Read(), w.client.ID); len(c) != 0 || err != nil {
		t.Errorf("connections %v %v", c, err)
	}
}

// ends lists the ways in which a client's last grant for an application can end.
var ends = map[string]func(t *testing.T, w *world, token TokenResponse){
	"revoked by the application": func(t *testing.T, w *world, token TokenResponse) {
		if err := w.svc.Revoke(t.Context(), w.revokeForm(token.RefreshToken)); err != nil {
			t.Fatal(err)
		}
	},
	"refresh token replayed": func(t *testing.T, w *world, token TokenResponse) {
		w.token(t, w.refreshForm(token.RefreshToken))
		w.refused(t, "replay", w.refreshForm(token.RefreshToken), 400, CodeInvalidGrant)
	},
	"expired": func(_ *testing.T, w *world, _ TokenResponse) { w.clk.Advance(RefreshTokenLifetime) },
	"disconnected": func(t *testing.T, w *world, _ TokenResponse) {
		w.tx(t, func(tx postgres.Tx) error { return w.svc.Disconnect(t.Context(), tx, w.client.ID, w.app.ID) })
	},
	"recovered": func(t *testing.T, w *world, _ TokenResponse) {
		w.tx(t, func(tx postgres.Tx) error { return w.svc.Recover(t.Context(), tx, w.client.ID, account.Recovery{}) })
	},
	"unlinked by the operator": func(t *testing.T, w *world, _ TokenResponse) {
		w.tx(t, func(tx postgres.Tx) error {
			_, err := w.svc.Unlink(t.Context(), tx, w.client.ID, w.app.ID, ReasonOperator)
			return err
		})
	},
	"disabled and enabled": func(t *testing.T, w *world, _ TokenResponse) {
		w.disable(t, true)
		w.disable(t, false)
	},
	"suspended for too long": func(t *testing.T, w *world, _ TokenResponse) {
		w.tx(t, func(tx postgres.Tx) error { return w.applications.SetSuspended(t.Context(), tx, w.app.ID, true) })
		w.clk.Advance(RefreshTokenLifetime)
		w.tx(t, func(tx postgres.Tx) error { return w.applications.SetSuspended(t.Context(), tx, w.app.ID, false) })
	},
}

// asBefore requests scopes. It returns where the browser goes if nothing has to be asked, otherwise "".
func (w *world) asBefore(t *testing.T, scopes string) (target string) {
	t.Helper()
	r, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), w.authorizeQuery("scope", scopes))
	if err != nil {
		t.Fatal(err)
	}
	w.tx(t, func(tx postgres.Tx) (err error) {
		target, err = w.svc.ApproveAsBefore(t.Context(), tx, r, w.client.ID)
		return err
	})
	return target
}

// Consent lasts as long as the grant. A later grant with fewer scopes does not bring it back.
func TestConsentLastsAsLongAsTheLink(t *testing.T) {
	t.Parallel()
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			token := w.link(t, "scope", "profile:read notes:read offline_access")
			if queryOf(t, w.asBefore(t, "profile:read")).Get("code") == "" ||
				!slices.Contains(w.history(t), "created consent_remembered") {
				t.Errorf("a living link is asked about again; history %v", w.history(t))
			}
			end(t, w, token)
			if target := w.asBefore(t, "profile:read"); target != "" {
				t.Errorf("approved without asking: %s", target)
			}
			if c := w.connections(t, w.client.ID); len(c) != 0 {
				t.Errorf("the account page shows %v", c)
			}
			w.link(t, "scope", "profile:read offline_access")
			if w.asBefore(t, "profile:read") == "" {
				t.Error("what the new link carries is asked about again")
			}
			if target := w.asBefore(t, "notes:read"); target != "" {
				t.Errorf("consent came back with the new link: %s", target)
			}
		})
	}
}

func TestConsentWhoseCodeWasNotRedeemedDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.link(t, "scope", "profile:read offline_access")
	code := w.code(t, "scope", "notes:read offline_access")
	if target := w.asBefore(t, "notes:read"); target != "" {
		t.Errorf("approved without asking: %s", target)
	}
	w.token(t, w.codeForm(code))
	if w.asBefore(t, "notes:read") == "" {
		t.Error("asked about again after the code was redeemed")
	}
	refuse(t, w, "notes:read")
	w.code(t, "scope", "notes:read") // consented again, but not redeemed
	if target := w.asBefore(t, "notes:read"); target != "" {
		t.Errorf("an older link stands in for a consent that did not come about: %s", target)
	}
}

func refuse(t *testing.T, w *world, scopes string) {
	t.Helper()
	r, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), w.authorizeQuery("scope", scopes))
	if err != nil {
		t.Fatal(err)
	}
	w.clk.Advance(time.Second)
	w.tx(t, func(tx postgres.Tx) error {
		_, err := w.svc.Deny(t.Context(), tx, r, w.client.ID)
		return err
	})
}

// A grant approved without asking while all grants end either ends with them or is not approved.
func TestNoLinkSlipsThroughWhileAllEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, err := w.svc.ParseAuthorize(t.Context(), w.db.Read(), w.authorizeQuery("scope", "profile:read"))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		w.link(t, "scope", "profile:read offline_access")
		var race sync.WaitGroup
		for range 3 {
			race.Go(func() {
				err := w.db.InTx(t.Context(), func(tx postgres.Tx) error {
					_, err := w.svc.ApproveAsBefore(t.Context(), tx, r, w.client.ID)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		race.Go(func() {
			err := w.db.InTx(t.Context(), func(tx postgres.Tx) error {
				_, err := w.svc.UnlinkAll(t.Context(), tx, w.client.ID, ReasonOperator)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		race.Wait()
		var left int
		if err := w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM oauth_grants WHERE revoked_at IS NULL`).
			Scan(&left); err != nil || left > 0 {
			t.Fatalf("%d grants are left (%v)", left, err)
		}
	}
}

func TestMoneyIsNeverGrantedWithoutAsking(t *testing.T) {
	t.Parallel()
	all := application.AllScopes
	if got := MustAsk(all, all); !slices.Equal(got, []application.Scope{application.WalletTopUp}) {
		t.Errorf("asks for %v", got)
	}
	if got := MustAsk([]application.Scope{application.ProfileRead, application.NotesRead},
		[]application.Scope{application.ProfileRead}); !slices.Equal(got, []application.Scope{application.NotesRead}) {
		t.Errorf("asks for %v", got)
	}
	if got := MustAsk([]application.Scope{application.ProfileRead}, all); len(got) != 0 {
		t.Errorf("asks for %v", got)
	}
}

// Scopes that spend money or show what a lawyer wrote can be refused individually. Without the other scopes a
// connection is useless.
func TestWhatCanBeRefusedAlone(t *testing.T) {
	t.Parallel()
	var got []application.Scope
	for _, s := range application.AllScopes {
		if MayRefuse(s) {
			got = append(got, s)
		}
	}
	if want := application.Ordered([]application.Scope{application.WalletTopUp, application.ConsultationsWrite,
		application.NotesRead}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
