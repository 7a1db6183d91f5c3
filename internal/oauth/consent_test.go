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
	approve := func(asked string, granted ...application.Scope) {
		t.Helper()
		r, err := w.svc.ParseAuthorize(ctx, w.db.Read(), w.authorizeQuery("scope", asked))
		if err != nil {
			t.Fatal(err)
		}
		w.tx(t, func(tx postgres.Tx) error { _, err := w.svc.Approve(ctx, tx, r, w.client.ID, granted); return err })
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
