package oauth

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

func TestPrincipalIsTheApplicationInTheClientsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var quick application.Application
	var secret string
	w.tx(t, func(tx postgres.Tx) (err error) {
		quick, secret, err = w.applications.Create(t.Context(), tx, application.NewApplication{Name: "Quick CRM",
			RedirectURIs: []string{callback}, RecordingEnabled: true, RatePerMinute: 60, ClientRatePerMinute: 6})
		return err
	})
	got := w.token(t, w.codeForm(w.code(t, "client_id", quick.ID, "scope", "wallet:read"), "client_id", quick.ID,
		"client_secret", secret))
	p, err := w.svc.Authenticate(t.Context(), got.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	if p.ApplicationID != quick.ID || p.ClientID != w.client.ID || p.GrantID == "" || p.RatePerMinute != 60 ||
		p.ClientRatePerMinute != 6 || !p.RecordingEnabled {
		t.Errorf("principal: %+v", p)
	}
	for _, s := range application.AllScopes {
		if p.Has(s) != (s == application.WalletRead) {
			t.Errorf("has %s: %v", s, p.Has(s))
		}
	}
}

func TestConnectionsAreGroupedAndDisconnectedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.clk.Now()
	first := w.link(t, "scope", "profile:read wallet:read offline_access")
	w.clk.Advance(time.Hour)
	second, pending := w.link(t, "scope", "notes:read offline_access"), w.code(t)
	foreign := w.token(t, w.codeForm(w.code(t, "client_id", w.other.ID, "scope", "profile:read"),
		"client_id", w.other.ID, "client_secret", w.otherSecret))

	got := w.connections(t, w.client.ID)
	if len(got) != 2 || got[0].Application.ID != w.other.ID || got[1].Application.ID != w.app.ID {
		t.Fatalf("connections: %+v", got)
	}
	c := got[1]
	if application.FormatScopes(c.Scopes) != "profile:read wallet:read notes:read offline_access" ||
		!c.Since.Equal(start) || c.LastUsed == nil || !c.LastUsed.Equal(w.clk.Now()) ||
		c.Application.Name != "Demo CRM" {
		t.Errorf("connection: %+v", c)
	}
	if others := w.connections(t, w.second.ID); len(others) != 0 {
		t.Errorf("another client sees %+v", others)
	}
	w.tx(t, func(tx postgres.Tx) error { return w.svc.Disconnect(t.Context(), tx, w.second.ID, w.app.ID) })
	if !w.alive(t, second.AccessToken) {
		t.Error("another client's disconnection ended the session")
	}
	for range 2 {
		w.tx(t, func(tx postgres.Tx) error { return w.svc.Disconnect(t.Context(), tx, w.client.ID, w.app.ID) })
	}
	if w.alive(t, first.AccessToken) || w.alive(t, second.AccessToken) || !w.alive(t, foreign.AccessToken) {
		t.Error("not exactly the application's sessions ended")
	}
	w.refused(t, "refresh", w.refreshForm(second.RefreshToken), 400, CodeInvalidGrant)
	w.refused(t, "code on its way", w.codeForm(pending), 400, CodeInvalidGrant)
	if got := w.connections(t, w.client.ID); len(got) != 1 || got[0].Application.ID != w.other.ID {
		t.Errorf("connections: %+v", got)
	}
	if again := w.link(t); !w.alive(t, again.AccessToken) {
		t.Error("the client cannot link again")
	}
}

func TestConsentAloneIsNoConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.code(t)
	if got := w.connections(t, w.client.ID); len(got) != 0 {
		t.Errorf("connections: %+v", got)
	}
}

func TestLastUseIsKeptToTheMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	start := w.clk.Now()
	for _, c := range []struct{ after, want time.Duration }{
		{59 * time.Second, 0}, {time.Second, time.Minute}, {30 * time.Second, time.Minute},
		{30 * time.Second, 2 * time.Minute},
	} {
		w.clk.Advance(c.after)
		if !w.alive(t, got.AccessToken) {
			t.Fatal("refused")
		}
		if used := w.connections(t, w.client.ID)[0].LastUsed; !used.Equal(start.Add(c.want)) {
			t.Errorf("after %s: last used %s, want +%s", w.clk.Now().Sub(start), used.Sub(start), c.want)
		}
	}
}

// A refresh that holds the grant's row lock must not delay API calls.
func TestAuthenticateNeverWaitsForALock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	w.clk.Advance(2 * time.Minute)
	w.tx(t, func(tx postgres.Tx) error {
		if _, _, err := lockRefreshToken(t.Context(), tx, digest(got.RefreshToken)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), postgres.LockTimeout/2)
		defer cancel()
		if _, err := w.svc.Authenticate(ctx, got.AccessToken); err != nil || ctx.Err() != nil {
			t.Errorf("waited: %v %v", err, ctx.Err())
		}
		return nil
	})
}

// A failure to record the last use does not fail the call, but is logged.
func TestAuthenticateGoesOnWhenTheUseCannotBeRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.link(t)
	var logged bytes.Buffer
	w.svc.log = slog.New(slog.NewTextHandler(&logged, nil))
	if _, err := dbtest.Owner(t, w.db).Pool().Exec(t.Context(),
		`ALTER TABLE oauth_grants ADD CONSTRAINT unused CHECK (last_used_at IS NULL) NOT VALID`); err != nil {
		t.Fatal(err)
	}
	if w.alive(t, got.AccessToken); logged.Len() > 0 {
		t.Errorf("nothing was to be recorded: %s", logged.String())
	}
	w.clk.Advance(usedResolution)
	if !w.alive(t, got.AccessToken) {
		t.Error("refused")
	}
	if !strings.Contains(logged.String(), "level=WARN") || !strings.Contains(logged.String(), `unused`) ||
		strings.Contains(logged.String(), got.AccessToken) {
		t.Errorf("logged: %s", logged.String())
	}
}

func (w *world) connections(t *testing.T, clientID string) []Connection {
	t.Helper()
	got, err := w.svc.Connections(t.Context(), w.db.Read(), clientID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
