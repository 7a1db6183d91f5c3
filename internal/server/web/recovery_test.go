package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

func (f *fixture) putPasskey(id string, age time.Duration) {
	f.t.Helper()
	f.tx(func(tx postgres.Tx) {
		err := dbtest.Exec(f.t.Context(), tx,
			`INSERT INTO client_passkeys (id, client_id, credential_id, credential, name, created_at) VALUES ($1, $2, $3, '{}', $4, $5)`,
			id, f.client.ID, []byte(id), "key "+id, tx.Now.Add(-age))
		if err != nil {
			f.t.Fatal(err)
		}
	})
}

func TestRecoveryEndsWhatAnIntruderLeftBehind(t *testing.T) {
	t.Parallel()
	for _, keepApp := range []bool{false, true} {
		f := newFixture(t).work()
		thief := f.browser().signIn("client@example.com")
		if m := f.mail(1); !strings.Contains(m.Subject, "from a new browser") || m.To != "client@example.com" {
			t.Errorf("notice of the browser: %+v", m)
		}
		token := f.redeem(f.answer(thief, "profile:read offline_access", "allow"))
		if m := f.mail(2); !strings.Contains(m.Subject, "application "+f.app.Name+" was connected") {
			t.Errorf("notice of the link: %+v", m)
		}
		f.answer(thief, "notes:read", "allow") // its code has not been redeemed yet
		f.mail(3)
		f.putPasskey("psk_old", 31*24*time.Hour)
		f.putPasskey("psk_young", 29*24*time.Hour)

		owner := f.browser()
		owner.send("/password/forgot", "/password/forgot", "email", "client@example.com").want(t, 200)
		link := f.linkIn(f.mail(4))
		p := owner.get(link)
		p.want(t, 200, "key psk_old", "key psk_young", "Application "+f.app.Name, "Browsers that will be signed out")
		form := p.form("/password/reset")
		if !slices.Equal(form["end"], []string{"psk_young", f.app.ID}) {
			t.Errorf("ticked from the start: %v", form["end"])
		}
		if keepApp {
			form["end"] = []string{"psk_young"}
		}
		f.putPasskey("psk_sneaked", 0) // while the form is open
		form.Set("password", "short")
		p = owner.post("/password/reset", form)
		p.want(t, http.StatusUnprocessableEntity)
		if again := p.form("/password/reset"); !slices.Equal(again["end"], form["end"]) {
			t.Errorf("the ticks became %v, want %v", again["end"], form["end"])
		}
		form.Set("password", "a completely new secret")
		owner.post("/password/reset", form).wantRedirect(t, http.StatusSeeOther, "/account/security?done=password")

		thief.get("/account").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount")
		keys, err := f.self.Passkeys(t.Context(), f.db.Read(), f.client.ID)
		if err != nil || len(keys) != 1 || keys[0].ID != "psk_old" {
			t.Errorf("passkeys left: %+v %v", keys, err)
		}
		if _, err := f.oauth.Authenticate(t.Context(), token.AccessToken); (err == nil) != keepApp {
			t.Errorf("kept %v: the application's token: %v", keepApp, err)
		}
		var pending int
		if err := f.db.Pool().QueryRow(t.Context(),
			`SELECT count(*) FROM oauth_grants WHERE activated_at IS NULL AND revoked_at IS NULL`).
			Scan(&pending); err != nil || pending != 0 {
			t.Errorf("%d links are on their way: %v", pending, err)
		}
	}
}

// Lawyers would call the intruder. A number older than 30 days stays, unless another one replaced it in the meantime.
func TestRecoveryRemovesAYoungPhoneNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		age       time.Duration
		untick    bool
		meanwhile string // verified while the form is open
		left      string
	}{
		{age: 29 * 24 * time.Hour},
		{age: 29 * 24 * time.Hour, untick: true, left: "+33639980002"},
		{age: 31 * 24 * time.Hour, left: "+33639980002"},
		{age: 31 * 24 * time.Hour, meanwhile: "+33639980003"},
	} {
		for _, takeBack := range []bool{false, true} {
			f := newFixture(t).work()
			set := func(number string) {
				f.tx(func(tx postgres.Tx) {
					if err := f.accounts.SetPhone(t.Context(), tx, f.client.ID, number, true); err != nil {
						t.Fatal(err)
					}
				})
			}
			set("+33639980002")
			f.clock.Advance(c.age)
			owner, action := f.browser(), "/password/reset"
			var link string
			if takeBack {
				action = "/email/undo"
				thief := f.browser().signIn("client@example.com")
				thief.askEmail("thief@example.com", testPassword).want(t, 200)
				confirm := f.linkIn(f.letter("thief@example.com", "Confirm your new"))
				thief.post(confirm, thief.get(confirm).form(confirm)).wantRedirect(t, http.StatusSeeOther,
					"/account/security?done=email")
				link = f.linkIn(f.letter("client@example.com", "address was changed"))
			} else {
				owner.send("/password/forgot", "/password/forgot", "email", "client@example.com").want(t, 200)
				link = f.linkIn(f.letter("client@example.com", "Choose a new"))
			}
			p := owner.get(link)
			p.want(t, 200, "Phone number +33 ••••••• 02, verified on 1 June 2026")
			form := p.form(action)
			if ticked := len(form["end"]) == 1; ticked != (c.age < 30*24*time.Hour) {
				t.Errorf("%+v: ticked from the start: %v", c, form["end"])
			}
			if c.untick {
				form.Del("end")
			}
			if c.meanwhile != "" {
				set(c.meanwhile)
			}
			form.Set("password", "a completely new secret")
			if got := owner.post(action, form); got.StatusCode != http.StatusSeeOther {
				t.Errorf("%+v: %d", c, got.StatusCode)
			}
			if left, _, err := f.accounts.VerifiedPhone(t.Context(), f.db.Read(), f.client.ID); err != nil ||
				left != c.left {
				t.Errorf("%+v, take-back %t: the number is %q, %v", c, takeBack, left, err)
			}
		}
	}
}

func TestAKnownBrowserIsNoNews(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	second := f.newClient("second@example.com", "Second Client")
	b := f.browser()
	b.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	for n, email := range []string{"client@example.com", second.Email, "client@example.com", second.Email} {
		b.signIn(email)
		if n < 2 {
			if m := f.mail(n + 1); m.To != email || !strings.Contains(m.Text, "Firefox, Linux") {
				t.Errorf("notice %d: %+v", n+1, m)
			}
		}
		b.post("/logout", b.get("/account").form("/logout")).wantRedirect(t, http.StatusSeeOther, "/")
	}
	f.browser().signIn("client@example.com") // its email comes after any unwanted one
	if m := f.mail(3); strings.Contains(m.Text, "Firefox") {
		t.Errorf("a known browser is reported: %+v", m)
	}
}

// A session that ended while the consent page was open cannot approve anything.
func TestApprovalNeedsTheSessionToTheEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	request := f.authorizeURL("profile:read")
	form := b.get(request).form("/oauth/consent")
	form.Set("decision", "allow")
	blocked, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- f.db.InTx(t.Context(), func(tx postgres.Tx) error {
			if _, err := f.accounts.Lock(t.Context(), tx, f.client.ID); err != nil {
				return err
			}
			close(blocked)
			<-release
			_, err := f.accounts.EndSessions(t.Context(), tx, f.client.ID)
			return err
		})
	}()
	<-blocked
	answered := make(chan page, 1)
	go func() { answered <- b.post("/oauth/consent", form) }()
	dbtest.AwaitWaiters(f.t, f.db, 1)
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	(<-answered).wantRedirect(t, http.StatusFound, "/login?next="+url.QueryEscape(request))
	var grants int
	if err := f.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM oauth_grants`).Scan(&grants); err != nil ||
		grants != 0 {
		t.Errorf("%d grants: %v", grants, err)
	}
}
