package web

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func (b *browser) try(email, password string) page {
	b.t.Helper()
	return b.send("/login", "/login", "email", email, "password", password)
}

func generous(d *services) { d.LoginPerAccount, d.LoginPerAddress = 1000, 1000 }

// More processes, parallel attempts, restarts or days allow no more guesses. Nobody can find out whether the account
// exists.
func TestWrongPasswordsAreRememberedByAllProcesses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	held := map[string]bool{}
	for _, email := range []string{"client@example.com", "nobody@example.com"} {
		var judged, refused atomic.Int64
		var guessers sync.WaitGroup
		for range 4 {
			for _, b := range []*browser{f.browser(), f.replica()} {
				guessers.Go(func() {
					for range 3 {
						switch b.try(email, "guess").StatusCode {
						case http.StatusUnprocessableEntity:
							judged.Add(1)
						case http.StatusTooManyRequests:
							refused.Add(1)
						}
					}
				})
			}
		}
		guessers.Wait()
		if judged.Load() != 10 || refused.Load() != 14 {
			t.Errorf("%s: %d judged, %d refused", email, judged.Load(), refused.Load())
		}
		restarted := f.replica()
		p := restarted.try(strings.ToUpper(email), testPassword)
		p.want(t, http.StatusTooManyRequests, "Try again in 60 minutes, or use the link below")
		if p.Header.Get("Retry-After") != "3600" {
			t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
		}
		token := p.form("/login").Get("csrf")
		held[strings.NewReplacer(strings.ToUpper(email), "", token, "").Replace(p.body)] = true
	}
	if len(held) != 1 {
		t.Error("the page tells whether the account exists")
	}
	for range 24 {
		f.clock.Advance(time.Hour)
		b := f.replica()
		b.try("client@example.com", "guess").want(t, http.StatusUnprocessableEntity)
		b.try("client@example.com", "guess").want(t, http.StatusTooManyRequests)
	}
	f.clock.Advance(time.Hour)
	for range 3 { // signing in is not guessing
		f.replica().signIn("client@example.com")
	}
}

// The owner's browser is counted separately, and so is each account in it. It stays the same browser, whoever signs in
// there.
func TestABrowserThatTheAccountKnowsIsCountedByItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	f.newClient("kin@example.com", "Kin")
	owner, stranger := f.browser().signIn("client@example.com"), f.browser()
	signOut := func() { owner.send("/account", "/logout").wantRedirect(t, http.StatusSeeOther, "/") }
	signOut()
	for range 10 {
		stranger.try("client@example.com", "guess").want(t, http.StatusUnprocessableEntity)
	}
	stranger.try("client@example.com", testPassword).want(t, http.StatusTooManyRequests)
	for range 12 {
		owner.signIn("client@example.com")
		signOut()
	}
	for range 10 {
		owner.try("client@example.com", "guess").want(t, http.StatusUnprocessableEntity)
	}
	owner.signIn("kin@example.com")
	signOut()
	owner.try("client@example.com", testPassword).want(t, http.StatusTooManyRequests)
	owner.signIn("kin@example.com")
	signOut()
	f.clock.Advance(time.Hour)
	owner.signIn("client@example.com")
}

func TestTriesToChangeThePasswordAreRemembered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	b, other := f.browser().signIn("client@example.com"), f.replica().signIn("client@example.com")
	change := func(b *browser, present, fresh string) page {
		return b.send("/account/security", "/account/security/password", "present", present, "password", fresh)
	}
	for range 9 {
		change(b, "guess", "a new password").want(t, http.StatusUnprocessableEntity, "not your current password")
	}
	for range 3 { // the current password was not checked
		change(other, "guess", "short").want(t, http.StatusUnprocessableEntity, "8 to 256 characters")
	}
	change(other, "guess", "a new password").want(t, http.StatusUnprocessableEntity, "not your current password")
	p := change(other, testPassword, "a new password")
	p.want(t, http.StatusTooManyRequests, "wait an hour")
	if p.Header.Get("Retry-After") != "3600" {
		t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
	}
	f.clock.Advance(time.Hour)
	change(other, testPassword, "a new password").wantRedirect(t, http.StatusSeeOther,
		"/account/security?done=password")
}
