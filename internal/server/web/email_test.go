package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/shell"
)

// letter waits for an email to an address whose subject contains some words, and removes it.
func (f *fixture) letter(to, subject string) mail.Message {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		f.outbox.mu.Lock()
		i := slices.IndexFunc(f.outbox.mails,
			func(m mail.Message) bool { return m.To == to && strings.Contains(m.Subject, subject) })
		if i >= 0 {
			m := f.outbox.mails[i]
			f.outbox.mails = slices.Delete(f.outbox.mails, i, i+1)
			f.outbox.mu.Unlock()
			return m
		}
		f.outbox.mu.Unlock()
	}
	f.t.Fatalf("no mail to %s about %q", to, subject)
	return mail.Message{}
}

func (f *fixture) known(b *browser, email string) bool {
	f.t.Helper()
	_, ok, err := f.accounts.Knows(f.t.Context(), f.db.Read(), b.cookie(shell.KnownCookie), email)
	if err != nil {
		f.t.Fatal(err)
	}
	return ok
}

func (b *browser) askEmail(email, present string) page {
	b.t.Helper()
	return b.send(clients.EmailFormAddress, clients.EmailFormAddress, "email", email, "present", present)
}

func TestAnAddressIsChangedAndTakenBackOnThePages(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	thief := f.browser().signIn("client@example.com")
	token := f.redeem(f.answer(thief, "profile:read offline_access", "allow"))
	thief.get("/account/security").want(t, 200, "You sign in with client@example.com.",
		`href="/account/security/email"`)
	p := thief.get(clients.EmailFormAddress)
	p.want(t, 200, "Your account uses the address client@example.com", `type="email" autocomplete="email"`,
		`autocomplete="current-password"`, "/password/forgot")
	thief.askEmail("new@example.com", testPassword).want(t, 200, "Check your email", "new@example.com")
	link := f.linkIn(f.letter("new@example.com", "Confirm your new"))
	f.letter("client@example.com", "was requested")

	f.browser().get(link).wantRedirect(t, http.StatusFound, "/login?next="+url.QueryEscape(link))
	f.newClient("other@example.com", "Other Client")
	other := f.browser().signIn("other@example.com")
	other.get(link).want(t, http.StatusGone, "This link no longer works")
	other.post(link, url.Values{"csrf": {shell.CSRFToken(other.cookie(shell.SessionCookie))}}).want(t, http.StatusGone)
	thief.post(link, url.Values{}).want(t, http.StatusForbidden)

	for range 2 { // looking uses nothing up
		thief.get(link).want(t, 200, "Confirm your new email address", "From now on, you sign in with new@example.com",
			"a link sent to client@example.com can undo")
	}
	thief.post(link, thief.get(link).form(link)).wantRedirect(t, http.StatusSeeOther, "/account/security?done=email")
	thief.get("/account/security?done=email").want(t, 200, "Your email address was changed.",
		"You sign in with new@example.com.")
	thief.get(link).want(t, http.StatusGone)
	thief.post(link, url.Values{"csrf": {shell.CSRFToken(thief.cookie(shell.SessionCookie))}}).want(t, http.StatusGone)
	if !f.known(thief, "new@example.com") {
		t.Error("the browser does not know the account by its new address")
	}

	undo := f.linkIn(f.letter("client@example.com", "address was changed"))
	owner := f.browser()
	p = owner.get(undo)
	p.want(t, 200, "Recover your account", "This gives your account the address client@example.com again",
		"Application "+f.app.Name, "Browsers that will be signed out")
	form := p.form("/email/undo")
	form.Set("password", "short")
	owner.post("/email/undo", form).want(t, http.StatusUnprocessableEntity, "8 to 256 characters",
		"<title>Error: recover your account")
	form.Set("password", "a completely new secret")
	owner.post("/email/undo", form).wantRedirect(t, http.StatusSeeOther, "/account/security?done=undone")
	owner.get("/account/security?done=undone").want(t, 200, "Your account has its previous email address again",
		"You sign in with client@example.com.")
	thief.get("/account").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount")
	if _, err := f.oauth.Authenticate(t.Context(), token.AccessToken); err == nil {
		t.Error("the application's token works on")
	}
	owner.get(undo).want(t, http.StatusGone)
	if f.known(thief, "client@example.com") || !f.known(owner, "client@example.com") {
		t.Error("the account knows the thief's browser, or not the owner's")
	}
}

func TestAskingForAnAddressSaysTheSameToEverybody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.newClient("taken@example.com", "Other Client")
	b := f.browser().signIn("client@example.com")
	taken, free := b.askEmail("taken@example.com", testPassword), b.askEmail("wasnt@example.com", testPassword)
	if taken.StatusCode != 200 || free.StatusCode != 200 ||
		strings.ReplaceAll(taken.body, "taken@", "wasnt@") != free.body {
		t.Errorf("answers differ:\n%s\n%s", taken.body, free.body)
	}
}

func TestFaultsOfAnAddressStayInTheForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	b.askEmail("nonsense", testPassword).want(t, http.StatusUnprocessableEntity, "“nonsense” is not an email address.",
		`value="nonsense"`, "<title>Error: change your email address", "autofocus")
	b.askEmail("client@example.com", testPassword).want(t, http.StatusUnprocessableEntity,
		"This is already your email address")
	p := b.askEmail("new@example.com", "wrong")
	p.want(t, http.StatusUnprocessableEntity, "not your current password", `value="new@example.com"`)
	if strings.Contains(p.body, `value="wrong"`) {
		t.Error("the page repeats a password")
	}
}

// Attempts at the password of an account count together, whether at the sign-in or at a change of the password.
func TestGuessesAtThePresentPasswordCountTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	for range shell.MailsPerAccount {
		b.askEmail("new@example.com", "wrong").want(t, http.StatusUnprocessableEntity)
	}
	b.askEmail("new@example.com", "wrong").want(t, http.StatusTooManyRequests)
	for i := range shell.PasswordsPerMinute - shell.MailsPerAccount + 1 {
		p := b.send("/account/security", "/account/security/password", "present", "wrong", "password", "a new password")
		if want := map[bool]int{true: 429,
			false: 422}[i == shell.PasswordsPerMinute-shell.MailsPerAccount]; p.StatusCode != want {
			t.Errorf("try %d: %d, want %d", i+1, p.StatusCode, want)
		}
	}
}

func TestAnAddressThatWasTakenMeanwhileIsSaidClearly(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	b := f.browser().signIn("client@example.com")
	b.askEmail("new@example.com", testPassword).want(t, 200)
	link := f.linkIn(f.letter("new@example.com", "Confirm your new"))
	f.newClient("NEW@example.com", "Quicker")
	b.post(link, b.get(link).form(link)).want(t, http.StatusConflict,
		"Another account now uses this email address")

	b.askEmail("second@example.com", testPassword).want(t, 200)
	link = f.linkIn(f.letter("second@example.com", "Confirm your new"))
	b.post(link, b.get(link).form(link)).wantRedirect(t, http.StatusSeeOther, "/account/security?done=email")
	undo := f.linkIn(f.letter("client@example.com", "address was changed"))
	squatter := f.newClient("client@example.com", "Squatter")
	take := func() page { return b.send(undo, "/email/undo", "password", "a completely new secret") }
	take().want(t, http.StatusConflict, "Another account now uses this email address",
		"This link will still work")
	f.tx(func(tx postgres.Tx) {
		if _, err := f.accounts.Erase(t.Context(), tx, squatter.ID); err != nil {
			t.Fatal(err)
		}
	})
	take().wantRedirect(t, http.StatusSeeOther, "/account/security?done=undone")
}
