package web

import (
	"encoding/csv"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/shell"
)

func (b *browser) send(path, action string, values ...string) page {
	b.t.Helper()
	form := b.get(path).form(action)
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return b.post(action, form)
}

func TestSignUpLeadsThroughTheMailboxToWhereItBegan(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	b := f.browser()
	next := f.authorizeURL("profile:read")
	b.get("/login?next="+url.QueryEscape(next)).want(t, 200, "Create an account")
	form := b.get("/signup?next=" + url.QueryEscape(next)).form("/signup")
	form.Set("name", "New Client")
	form.Set("email", "new@client.example")
	b.post("/signup", form).want(t, 200, "Check your email", "new@client.example")
	link := f.linkIn(f.mail(1))
	for range 2 {
		b.get(link).want(t, 200, "Choose your password", "new@client.example", `autocomplete="new-password"`)
	}
	form = b.get(link).form("/signup/confirm")
	form.Set("password", "short")
	b.post("/signup/confirm", form).want(t, http.StatusUnprocessableEntity,
		`aria-describedby="password-hint password-fault"`, "<title>Error: choose your password")
	form.Set("password", testPassword)
	b.post("/signup/confirm", form).wantRedirect(t, http.StatusSeeOther, next)
	b.get(next).want(t, 200, "You are signed in as New Client (new@client.example)")
	b.get("/account").want(t, 200, "€0.00", "Verify my number")
	f.browser().get(link).want(t, http.StatusGone, "This link no longer works")
	f.browser().signIn("new@client.example")
}

func TestSignUpAndResetSayTheSameToEverybody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, ask := range []func(b *browser, email string) page{
		func(b *browser, email string) page {
			return b.send("/signup", "/signup", "name", "X", "email", email)
		},
		func(b *browser, email string) page {
			return b.send("/password/forgot", "/password/forgot", "email", email)
		},
	} {
		known, unknown := ask(f.browser(), "client@example.com"), ask(f.browser(), "nobody@example.com")
		if known.StatusCode != 200 || unknown.StatusCode != 200 ||
			strings.ReplaceAll(known.body, "client@", "nobody@") != unknown.body {
			t.Errorf("answers differ:\n%s\n%s", known.body, unknown.body)
		}
	}
}

func TestFaultsOfSignUpStayInTheForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	b.send("/signup", "/signup", "name", " ", "email", "a@b.example").want(t, http.StatusUnprocessableEntity,
		"A value is required.", `value="a@b.example"`, "autofocus")
	b.send("/signup", "/signup", "name", "A", "email", "nonsense").want(t, http.StatusUnprocessableEntity,
		"“nonsense” is not an email address.", `value="A"`)
	p := b.send("/signup", "/signup", "name", "Ann at evil.example", "email", "nonsense")
	p.want(t, http.StatusUnprocessableEntity, `id="name-fault"`, "A name must not contain a web address",
		`id="email-fault"`)
	b.send("/password/forgot", "/password/forgot", "email", "nonsense").want(t, http.StatusUnprocessableEntity,
		"Enter your email address")
	f.browser().post("/signup", url.Values{"name": {"A"}, "email": {"a@b.example"}}).want(t, http.StatusForbidden,
		"open for too long")
	b.header.Set("Sec-Fetch-Site", "cross-site")
	b.post("/signup", url.Values{"name": {"A"}, "email": {"a@b.example"}}).want(t, http.StatusForbidden)
}

func TestMailsAreThrottledForAnAddressAndANetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	ask := func(email string) page { return b.send("/password/forgot", "/password/forgot", "email", email) }
	for i := range shell.MailsPerAccount + 1 {
		p := ask("client@example.com")
		if want := map[bool]int{true: 429, false: 200}[i == shell.MailsPerAccount]; p.StatusCode != want {
			t.Errorf("try %d: %d", i+1, p.StatusCode)
		}
	}
	for range shell.MailsPerAddress {
		ask("other@example.com")
	}
	if p := ask("third@example.com"); p.StatusCode != 429 || p.Header.Get("Retry-After") == "" {
		t.Errorf("the network is not throttled: %d", p.StatusCode)
	}
}

func TestResetByMailSignsTheOwnerInAndEverybodyElseOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	thief := f.browser()
	thief.header.Set("Accept-Language", "fr")
	thief.signIn("client@example.com")
	f.mail(1) // about the sign-in
	b := f.browser()
	b.header.Set("Accept-Language", "fr")
	b.send("/password/forgot", "/password/forgot", "email", "client@example.com").want(t, 200,
		"Consultez votre messagerie")
	m := f.mail(2)
	if !strings.Contains(m.Text, "Bonjour Demo Client") {
		t.Errorf("mail: %+v", m)
	}
	link := f.linkIn(m)
	b.send(link, "/password/reset", "password", "password1").want(t, http.StatusUnprocessableEntity,
		"ressemble trop à un mot de passe courant")
	b.send(link, "/password/reset", "password", "un tout nouveau secret").wantRedirect(t, http.StatusSeeOther,
		"/account/security?done=password")
	b.get("/account/security?done=password").want(t, 200, "Votre mot de passe a été modifié")
	thief.get("/account").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount")
	b.get(link).want(t, http.StatusGone)
	b.post("/password/reset", url.Values{"token": {"x"}, "password": {"y"}}).want(t, http.StatusGone)
	if n := f.mail(3); !strings.Contains(n.Subject, "Alerte de sécurité") {
		t.Errorf("notice: %+v", n)
	}
}

func TestStrangersWhoGuessDoNotLockTheOwnerOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *services) { d.LoginPerAccount = 3 })
	owner := f.browser().signIn("client@example.com")
	owner.post("/logout", owner.get("/account").form("/logout")).wantRedirect(t, http.StatusSeeOther, "/")
	stranger := f.browser()
	form := stranger.get("/login").form("/login")
	form.Set("email", "client@example.com")
	form.Set("password", "guess")
	var p page
	for range 4 {
		p = stranger.post("/login", form)
	}
	p.want(t, http.StatusTooManyRequests)
	owner.signIn("client@example.com")

	owner.post("/logout", owner.get("/account").form("/logout"))
	for range 4 { // the owner's browser must not guess without limit either
		p = owner.send("/login", "/login", "email", "client@example.com", "password", "guess")
	}
	p.want(t, http.StatusTooManyRequests)
}

func TestSecurityPageChangesThePasswordAndEndsSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b, other := f.browser().signIn("client@example.com"), f.browser()
	other.header.Set("User-Agent", "Mozilla/5.0 (iPhone) Version/17 Safari/604.1")
	other.signIn("client@example.com")
	p := b.get("/account/security")
	p.want(t, 200, "Safari, iPhone", "this browser", "from 127.0.0.1",
		"Passkeys are not available at this address")
	change := func(present, fresh string) page {
		return b.send("/account/security", "/account/security/password", "present", present, "password", fresh)
	}
	change("wrong", "a new password").want(t, http.StatusUnprocessableEntity, "not your current password",
		"<title>Error: security")
	change(testPassword, "short").want(t, http.StatusUnprocessableEntity, "8 to 256 characters")
	sessions, err := f.accounts.Sessions(t.Context(), f.db.Read(), f.client.ID, "")
	if err != nil || len(sessions) != 2 {
		t.Fatal(sessions, err)
	}
	b.get("/account/security").want(t, 200, "Sign out all other browsers")
	for _, s := range sessions {
		if s.Device.UserAgent != "" && strings.Contains(s.Device.UserAgent, "iPhone") {
			b.send("/account/security", "/account/security/sessions/"+s.ID+"/end").wantRedirect(t, http.StatusSeeOther,
				"/account/security?done=session")
		}
	}
	other.get("/account").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount")
	b.get("/account").want(t, 200)
	change(testPassword, "a new password").wantRedirect(t, http.StatusSeeOther, "/account/security?done=password")
	b.get("/account/security?done=password").want(t, 200, `role="status"`)
	if !f.known(b, "client@example.com") || f.known(other, "client@example.com") {
		t.Error("the browser with which the password was changed is unknown, or another one known")
	}
}

func TestPhoneIsVerifiedOnThePage(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	b := f.browser().signIn("client@example.com")
	number := func(phone string) page { return b.send("/account/phone", "/account/phone", "phone", phone) }
	number("call me").want(t, http.StatusUnprocessableEntity, "We cannot call this number", `value="call me"`)
	number("01 42 68 53 00").want(t, http.StatusUnprocessableEntity, "cannot receive text messages")
	number("06 39 98 00 02").wantRedirect(t, http.StatusSeeOther, "/account/phone?done=sent")
	code := f.code(1)
	p := b.get("/account/phone?done=sent")
	p.want(t, 200, "We have sent you a code", "+33 ••••••• 02", `autocomplete="one-time-code"`, `inputmode="numeric"`)
	if strings.Contains(p.body, "39980002") {
		t.Error("the page tells the number")
	}
	wrong := "9" + code[1:]
	if code[0] == '9' {
		wrong = "0" + code[1:]
	}
	enter := func(code string) page { return b.send("/account/phone", "/account/phone/code", "code", code) }
	enter(wrong).want(t, http.StatusUnprocessableEntity, "This code is wrong", "<title>Error: phone number")
	enter(code).wantRedirect(t, http.StatusSeeOther, "/account/phone?done=phone")
	b.get("/account").want(t, 200, "Lawyers call you on +33 ••••••• 02")
	if phone, ok, _ := f.accounts.VerifiedPhone(t.Context(), f.db.Read(), f.client.ID); phone != "+33639980002" || !ok {
		t.Errorf("phone %q %v", phone, ok)
	}
	b.post("/account/phone/code", url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))},
		"code": {code}}).want(t,
		http.StatusUnprocessableEntity, "no longer valid")

	if strings.Contains(p.body, `id="present"`) {
		t.Error("the first number asks for the password")
	}
	b.get("/account/phone").want(t, 200, `autocomplete="current-password"`, "/password/forgot")
	number("06 39 98 00 03").want(t, http.StatusUnprocessableEntity, "A value is required.", `value="06 39 98 00 03"`,
		"<title>Error: phone number")
	b.send("/account/phone", "/account/phone", "phone", "06 39 98 00 03", "present", testPassword).wantRedirect(t,
		http.StatusSeeOther, "/account/phone?done=sent")
}

func TestWhatProtectsTheAccountAsksForAFreshSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	b.get("/account/phone").want(t, 200)
	f.clock.Advance(account.FreshSignIn + time.Second)
	for path, next := range map[string]string{
		"/account/phone": "/account/phone", "/account/privacy/erase": "/account/privacy/erase",
		"/account/privacy/export": "/account/privacy/export",
		"/account/wallet/refund":  "/account/wallet/refund",
	} {
		b.get(path).wantRedirect(t, http.StatusSeeOther, "/login?again=1&next="+url.QueryEscape(next))
	}
	csrf := url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))}}
	for _, path := range []string{"/account/privacy/erase", "/account/wallet/refund"} {
		b.post(path, csrf).wantRedirect(t, http.StatusSeeOther, "/login?again=1&next="+url.QueryEscape(path))
	}
	b.get("/account").want(t, 200)
	before := b.cookie(shell.SessionCookie)
	form := b.get("/login?again=1&next=%2Faccount%2Fphone")
	form.want(t, 200, "sign in again", `value="client@example.com"`)
	b.send("/login?again=1&next=%2Faccount%2Fphone", "/login", "password", testPassword).wantRedirect(t,
		http.StatusSeeOther, "/account/phone")
	b.get("/account/phone").want(t, 200)
	if _, err := f.accounts.Session(t.Context(), f.db.Read(), before); err == nil ||
		before == b.cookie(shell.SessionCookie) {
		t.Error("the session was not renewed")
	}
}

func TestWalletPagesAndStatements(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.start()
	f.tx(func(tx postgres.Tx) {
		for range 30 {
			if err := f.wallet.Adjust(t.Context(), tx, f.client.ID, 100, "=gift"); err != nil {
				t.Fatal(err)
			}
		}
	})
	b := f.browser().signIn("client@example.com")
	p := b.get("/account/wallet")
	p.want(t, 200, "€60.00", "€20.00", "€80.00", "Older transactions", "June 2026")
	p = b.get("/account/wallet?before=7")
	p.want(t, 200, "Consultation: reserved, not charged yet", `<span class="hint">via Demo CRM</span>`,
		"/account/consultations/"+c.ID, "Back to the latest")
	if strings.Contains(p.body, "Older transactions") {
		t.Error("there are no older ones")
	}
	b.get("/account/wallet?before=x").want(t, 200, "Older transactions")
	b.get("/account/wallet/statement/2026-06?lang=fr").want(t, 200, "Relevé\u00a0: juin 2026", "80,00\u00a0€",
		"Demo Client, client@example.com")
	b.get("/account/wallet/statement/2026-05?lang=en").want(t, 200, "No transactions this month")
	p = b.get("/account/wallet/statement/2026-06.csv")
	rows, err := csv.NewReader(strings.NewReader(p.body)).ReadAll()
	if err != nil || len(rows) != 33 || rows[3][3] != "'=gift" ||
		p.Header.Get("Content-Type") != "text/csv; charset=utf-8" ||
		!strings.Contains(p.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("CSV: %d rows %v %v", len(rows), err, p.Header)
	}
	for _, bad := range []string{"2026-13", "x", "2026-06.txt", "%00"} {
		b.get("/account/wallet/statement/"+bad).want(t, 404)
	}
	p = b.get("/account/wallet/refund")
	if p.want(t, http.StatusOK, "no unused money"); len(p.form("/account/wallet/refund")) != 0 {
		t.Error("a button for no money")
	}
}

// A client without money can top up themselves. The checkout shows the amount first and leads back to the wallet.
func TestTopUpFromTheWallet(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	send := func(amount string) page { return b.send("/account/wallet", "/account/wallet/topup", "amount", amount) }
	for _, bad := range []string{"", "x", "1", "-2000", "2001", "20000000000000000000"} {
		send(bad).want(t, http.StatusUnprocessableEntity, "Choose one of the amounts", `aria-invalid="true"`,
			"<title>Error: wallet")
	}
	to := send("4000").Header.Get("Location")
	id := strings.TrimSuffix(strings.TrimPrefix(to, "/checkout/"), "?done=not-yet")
	s, err := f.payments.Get(t.Context(), f.db.Read(), id)
	if err != nil || s.ClientID != f.client.ID || s.ApplicationID != "" || s.Amount != 4000 {
		t.Fatalf("%s: %+v %v", to, s, err)
	}
	b.get(to).want(t, 200, "€40.00")
	f.tx(func(tx postgres.Tx) {
		if err := f.wallet.Adjust(t.Context(), tx, f.client.ID, payment.DefaultWalletCeiling, "gift"); err != nil {
			t.Fatal(err)
		}
	})
	send("20000").want(t, http.StatusConflict, "over its limit")
	for range clients.TopUpsPerAccount {
		send("2000")
	}
	send("2000").want(t, http.StatusTooManyRequests)
}

// A client who is sent by an application sees the way back to it on every page of the account, and no other way.
func TestTheWayBackToTheApplicationThatSentTheClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	back := `<a href="https://crm.example/" rel="noreferrer">Back to Demo CRM</a>`
	from := "?application=" + f.app.ID
	none := func(path string) {
		t.Helper()
		if p := b.get(path); strings.Contains(p.body, "Back to") {
			t.Errorf("%s shows a way back", path)
		}
	}
	none("/account/phone" + from) // not linked
	f.redeem(f.answer(b, allScopes, "allow"))
	none("/account/wallet?application=https://evil.example")
	none("/account/wallet?application=app_other")
	if kept := b.cookie(clients.WayBackCookie); kept != "" {
		t.Errorf("%q is kept, although no such application is linked", kept)
	}
	f.tx(func(tx postgres.Tx) { // the way leads to where the client was linked, whatever was registered first
		_, _, err := f.apps.Update(t.Context(), tx, f.app.ID,
			application.Change{RedirectURIs: []string{"https://first.example/cb", redirectURI}}, false)
		if err != nil {
			t.Fatal(err)
		}
	})
	b.get("/account/phone"+from).want(t, 200, back)
	b.get("/account/wallet").want(t, 200, back) // also after a form, without the parameter
	b.send("/account/apps", "/account/apps/"+f.app.ID+"/disconnect")
	none("/account/wallet")
}

// The amounts on the wallet page and in the statement add up to the ledger, for every kind of movement.
func TestAmountsOnTheWalletPageAddUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.newCheckout(4550)
	f.provider.decided[s.ID] = payment.CheckoutPaid
	f.report(s)
	first := f.start() // adds €50.00
	f.tx(func(tx postgres.Tx) {
		err := f.wallet.Capture(t.Context(), tx, first.ID)
		if err == nil {
			err = f.wallet.Refund(t.Context(), tx, first.ID, 500)
		}
		if err == nil {
			_, err = f.payments.Refund(t.Context(), tx, payment.RefundCommand{ClientID: f.client.ID, Amount: 600,
				Actor: "cli:demo", Reason: "Withdrawal"})
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	balance, err := f.wallet.Balance(t.Context(), f.db.Read(), f.client.ID)
	if err != nil {
		t.Fatal(err)
	}
	b := f.browser().signIn("client@example.com")
	for path, want := range map[string]struct {
		sum  money.Cents
		rows int
	}{
		"/account/wallet?lang=en":                   {balance.Available, 4}, // including the consultation
		"/account/wallet/statement/2026-06?lang=en": {balance.Balance, 5},
	} {
		p := b.get(path)
		p.want(t, 200)
		cells := ledgerCell.FindAllStringSubmatch(p.body, -1)
		var sum, newest money.Cents
		for i := 0; i+1 < len(cells); i += 2 {
			sum += cents(t, cells[i][1])
			if after := cents(t, cells[i+1][1]); i == 0 || strings.Contains(path, "statement") {
				newest = after
			}
		}
		if sum != want.sum || newest != want.sum || len(cells) != 2*want.rows {
			t.Errorf("%s: %d rows sum to %d and end at %d, the ledger says %d\n%s",
				path, len(cells)/2, sum, newest, want.sum, p.body)
		}
	}
	b.get("/account/wallet?lang=fr").want(t, 200, "Consultation\u00a0: débitée puis remboursée",
		"5,00\u00a0€ remboursés", "Remboursement sur votre moyen de paiement")
}

// The wallet and the statement say what each adjustment was for, in the client's language.
func TestAdjustmentsSayWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	known := map[string][2]string{
		wallet.OpeningBalance:     {"Opening balance", "Solde d’ouverture"},
		wallet.SandboxMoney:       {"Sandbox money", "Argent fictif du bac à sable"},
		wallet.TopUpReturned:      {"Refunded to your payment method", "Remboursement sur votre moyen de paiement"},
		wallet.PaymentTakenBack:   {"Top-up reversed by your bank", "Recharge annulée par votre banque"},
		wallet.PaymentRestored:    {"Top-up restored by your bank", "Recharge rétablie par votre banque"},
		wallet.OperatorCorrection: {"Correction by our team", "Correction par notre équipe"},
		"Goodwill":                {"Correction by our team", "Correction par notre équipe"},
	}
	f.tx(func(tx postgres.Tx) {
		for description := range known {
			if err := f.wallet.Adjust(t.Context(), tx, f.client.ID, 100, description); err != nil {
				t.Fatal(err)
			}
		}
	})
	b := f.browser().signIn("client@example.com")
	for _, path := range []string{"/account/wallet", "/account/wallet/statement/2026-06"} {
		en, fr := b.get(path+"?lang=en"), b.get(path+"?lang=fr")
		for _, text := range known {
			en.want(t, http.StatusOK, text[0])
			fr.want(t, http.StatusOK, text[1])
		}
	}
}

var ledgerCell = regexp.MustCompile(`<td data-label="[^"]*" class="number">([^<]*)</td>`)

// cents reads an English amount.
func cents(t *testing.T, shown string) money.Cents {
	t.Helper()
	sign, digits := money.Cents(1), strings.NewReplacer("€", "", ".", "", ",", "").Replace(html.UnescapeString(shown))
	if rest, minus := strings.CutPrefix(digits, "−"); minus {
		sign, digits = -1, rest
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatalf("amount %q: %v", shown, err)
	}
	return sign * money.Cents(n)
}

func TestConsultationsShowTheirStateAndCanBeCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.start()
	path := "/account/consultations/" + c.ID
	b := f.browser().signIn("client@example.com")
	p := b.get("/account/consultations")
	p.want(t, 200, "Separation & custody", "Looking for a lawyer", "30 min left", "Demo CRM",
		"Withdraw from the contract here", "Pause updates")
	if p.Header.Get("Refresh") != "15" {
		t.Errorf("Refresh %q", p.Header.Get("Refresh"))
	}
	if p = b.get("/account/consultations?live=0"); p.Header.Get("Refresh") != "" {
		t.Error("it follows all the same")
	}
	b.get(path).want(t, 200, "What to do?", "Proof of your request", "version "+consultation.WaiverVersion, "€20.00")
	file := b.get(path + "/proof.json")
	file.want(t, 200, `"statement": "withdrawalWaiverAcknowledged: true"`, `"consultationId": "`+c.ID+`"`,
		"droit de rétractation", `"howToVerify"`)
	if got := file.Header.Get("Content-Disposition"); got != `attachment; filename="proof-`+c.ID+`.json"` {
		t.Errorf("the proof is %q", got)
	}
	stranger := f.browser().signIn(f.newClient("other@example.com", "Other").Email)
	for _, part := range []string{"", "/cancel", "/withdraw", "/proof.json"} {
		stranger.get(path+part).want(t, 404)
		stranger.post(path+"/cancel",
			url.Values{"csrf": {shell.CSRFToken(stranger.cookie(shell.SessionCookie))}}).want(t, 404)
	}
	b.post(path+"/cancel", url.Values{}).want(t, http.StatusForbidden)
	b.send(path+"/cancel", path+"/cancel").wantRedirect(t, http.StatusSeeOther, path+"?done=cancelled")
	p = b.get(path + "?done=cancelled")
	p.want(t, 200, "Cancelled", "the reserved money is available again")
	if p.Header.Get("Refresh") != "" {
		t.Error("it follows although nothing is open")
	}
	b.get("/account/wallet").want(t, 200, "€50.00", "Consultation: nothing charged, reservation released")
	b.get(path+"/cancel").want(t, 200, "can no longer be cancelled")
}

// A client who did not answer the call is not told that no lawyer was found.
func TestAnExpiredConsultationSaysWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := "/account/consultations/" + f.start().ID
	b := f.browser().signIn("client@example.com")
	for why, texts := range map[consultation.Reason][2]string{
		consultation.ClientNotReached: {"You could not be reached in three attempts; nothing was charged",
			"Vous n’avez pas pu être joint en trois tentatives"},
		consultation.GuaranteeMissed: {"No lawyer could be found; nothing was charged",
			"Aucun avocat n’a pu être trouvé"},
		consultation.TooShort: {"The call was too short to help; nothing was charged",
			"L’appel a été trop court pour être utile"},
	} {
		f.tx(func(tx postgres.Tx) {
			if err := dbtest.Exec(t.Context(), tx,
				"UPDATE consultations SET status = 'EXPIRED', timer_at = NULL, expired_at = now(), end_reason = $1",
				string(why)); err != nil {
				t.Fatal(err)
			}
		})
		b.get(path+"?lang=en").want(t, 200, texts[0])
		b.get(path+"?lang=fr").want(t, 200, texts[1])
		b.get("/account/consultations").want(t, 200, texts[1])
	}
}

func TestWithdrawalIsConfirmedAndAcknowledgedByMail(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	c := f.start()
	path := "/account/consultations/" + c.ID
	b := f.browser()
	b.header.Set("Accept-Language", "fr")
	b.signIn("client@example.com")
	f.mail(1) // about the sign-in
	b.get(path).want(t, 200, "Se rétracter du contrat ici")
	b.get(path+"/withdraw").want(t, 200, "Demo Client (client@example.com)", c.ID, "Confirmer la rétractation")
	for range 2 { // a second click changes nothing
		b.post(path+"/withdraw", url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))}}).wantRedirect(t,
			http.StatusSeeOther, path+"?done=withdrawn")
	}
	m := f.mail(2)
	for _, part := range []string{
		c.ID, "via Demo CRM", "1er juin 2026 à 10:30 CEST", "20,00\u00a0€", "Elle est annulée",
	} {
		if !strings.Contains(m.Text, part) {
			t.Errorf("receipt lacks %q: %s", part, m.Text)
		}
	}
	b.get(path+"?done=withdrawn").want(t, 200, "Vous vous êtes rétracté du contrat le", "Annulée")
	if got, err := f.consultations.GetForClient(t.Context(), f.db.Read(), f.client.ID, c.ID); err != nil ||
		got.Status != consultation.Cancelled {
		t.Errorf("%+v %v", got, err)
	}
	f.outbox.mu.Lock()
	defer f.outbox.mu.Unlock()
	if len(f.outbox.mails) != 2 {
		t.Errorf("%d receipts", len(f.outbox.mails)-1)
	}
}

func TestDisconnectingCanCancelWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.start()
	b := f.browser().signIn("client@example.com")
	f.redeem(f.answer(b, allScopes, "allow"))
	b.get("/account/apps").want(t, 200, "Consultations started", "<dd>1</dd>",
		"Disconnect and cancel consultations not yet started")
	action := "/account/apps/" + f.app.ID + "/disconnect"
	b.send("/account/apps", action, "cancel", "1").wantRedirect(t, http.StatusSeeOther, "/account/apps?done=app-cancel")
	b.get("/account/apps?done=app-cancel").want(t, 200, "Consultations that had not started were cancelled")
	if got, _ := f.consultations.GetForClient(t.Context(), f.db.Read(),
		f.client.ID, c.ID); got.Status != consultation.Cancelled {
		t.Errorf("status %s", got.Status)
	}
}

func TestClientsSeeWhatApplicationsUsed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	f.redeem(f.answer(b, allScopes, "allow"))
	b.get("/account/apps").want(t, 200, "None.")
	log := f.deps.Access
	other := f.newClient("other@example.com", "Other")
	log.Count(other.ID, f.app.ID, access.Notes, f.clock.Now())
	for _, ago := range []int{40, 1, 1, 0} {
		log.Count(f.client.ID, f.app.ID, access.Wallet, f.clock.Now().AddDate(0, 0, -ago))
	}
	log.Count(f.client.ID, f.app.ID, access.Profile, f.clock.Now())
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := b.get("/account/apps")
	p.want(t, 200, "Uses: 3<br>", "last on 1 June 2026, 10:30 CEST",
		`<time datetime="2026-05-31">31 May 2026</time></dt><dd>Wallet: 2</dd>`, "Profile: 1<br>Wallet: 1")
	if strings.Contains(p.body, "Lawyers’ summaries") || strings.Contains(p.body, "April") {
		t.Errorf("uses of others, or long ago:\n%s", p.body)
	}
	b.send("/account/apps", "/account/apps/"+f.app.ID+"/disconnect")
	b.get("/account/apps").want(t, 200, "No longer connected", "Uses: 3<br>")
	b.header.Set("Accept-Language", "fr")
	b.get("/account/apps").want(t, 200, "31 mai 2026", "Portefeuille\u00a0: 2")
}

func TestExportAndErasureOnThePage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.start()
	b := f.browser().signIn("client@example.com")
	f.redeem(f.answer(b, allScopes, "allow"))
	p := b.get("/account/privacy/export")
	p.want(t, 200)
	var e privacy.Export
	if err := json.Unmarshal([]byte(p.body), &e); err != nil || e.Profile.Phone != "+33639980002" ||
		len(e.Consultations) != 1 || e.Consultations[0].Subject != "Separation & custody" ||
		e.Consultations[0].Waiver == nil || len(e.Wallet.Transactions) != 2 || len(e.Connections) != 1 ||
		len(e.Sessions) != 1 {
		t.Errorf("export: %+v %v", e, err)
	}
	if !strings.Contains(p.Header.Get("Content-Disposition"), `filename="partnerd-2026-06-01.json"`) {
		t.Errorf("%v", p.Header)
	}
	post := func() page {
		return b.post("/account/privacy/erase", url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))},
			"present": {testPassword}})
	}
	b.get("/account/privacy").want(t, 200, "A consultation is under way")
	post().want(t, http.StatusConflict, "A consultation is under way")
	b.send("/account/consultations/"+c.ID+"/cancel", "/account/consultations/"+c.ID+"/cancel")
	post().want(t, http.StatusConflict, "did not come from a top-up")
	f.tx(func(tx postgres.Tx) {
		if err := f.wallet.Adjust(t.Context(), tx, f.client.ID, -5000, "spent"); err != nil {
			t.Fatal(err)
		}
	})
	open := f.newCheckout(2000)
	post().want(t, http.StatusConflict, "A top-up is still open")
	f.clock.Advance(open.ExpiresAt.Sub(f.clock.Now()))
	b.signInAt("/login?again=1", "client@example.com")
	b.get("/account/privacy/erase").want(t, 200, "client@example.com", "cannot be undone",
		`autocomplete="current-password"`, "/password/forgot")
	b.send("/account/privacy/erase", "/account/privacy/erase", "present", testPassword).want(t, 200,
		"Your account was erased", "client@example.com")
	b.get("/account").wantRedirect(t, http.StatusFound, "/login?next=%2Faccount")
	b.send("/login", "/login", "email", "client@example.com", "password", testPassword).
		want(t, http.StatusUnprocessableEntity)
	f.newClient("client@example.com", "Somebody New") // the address is free
}

func TestAnErasureNeedsThePresentPasswordAndTriesAtItAreCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	erase := func(present string) page {
		return b.send("/account/privacy/erase", "/account/privacy/erase", "present", present)
	}
	erase("").want(t, http.StatusUnprocessableEntity, "not your current password", "<title>Error: erase your account")
	for range shell.PasswordsPerMinute - 1 {
		erase("guess").want(t, http.StatusUnprocessableEntity, "not your current password")
	}
	erase(testPassword).want(t, http.StatusTooManyRequests)
	b.get("/account").want(t, 200)
}

func TestAnErasureWaitsUntilTheEarlierAddressCannotTakeTheAccountBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	thief := f.browser().signIn("client@example.com")
	thief.askEmail("thief@example.com", testPassword).want(t, 200)
	link := f.linkIn(f.letter("thief@example.com", "Confirm your new"))
	thief.post(link, thief.get(link).form(link)).wantRedirect(t, http.StatusSeeOther, "/account/security?done=email")
	undo := f.linkIn(f.letter("client@example.com", "address was changed"))
	thief.get("/account/privacy").want(t, 200,
		"Until 8 June 2026, 10:30 CEST, the previous address can be used to recover")
	thief.get("/account/privacy/erase").want(t, 200, "Until 8 June 2026, 10:30 CEST")
	thief.get("/account/privacy?lang=fr").want(t, 200, "Jusqu’au 8 juin 2026 à 10:30 CEST")
	form := url.Values{"csrf": {shell.CSRFToken(thief.cookie(shell.SessionCookie))}, "present": {testPassword}}
	thief.post("/account/privacy/erase?lang=en", form).want(t, http.StatusConflict, "Until 8 June 2026, 10:30 CEST")
	f.browser().get(undo).want(t, 200, "Recover your account")
	f.clock.Advance(account.UndoLifetime)
	thief.signInAt("/login?again=1", "thief@example.com")
	thief.send("/account/privacy/erase", "/account/privacy/erase", "present", testPassword).
		want(t, 200, "Your account was erased")
}

func (b *browser) signInAt(path, email string) {
	b.t.Helper()
	b.send(path, "/login", "email", email, "password", testPassword).wantRedirect(b.t, http.StatusSeeOther, "/account")
}

func TestConsentIsRememberedButForMoney(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	f.redeem(f.answer(b, "profile:read wallet:read", "allow"))
	straight := func(scopes string, changes ...string) bool {
		p := b.get(f.authorizeURL(scopes, changes...))
		u, err := url.Parse(p.Header.Get("Location"))
		return err == nil && p.StatusCode == http.StatusFound && u.Query().Get("code") != ""
	}
	if !straight("profile:read") || !straight("wallet:read profile:read") {
		t.Error("asked again for what was allowed before")
	}
	if straight("profile:read", "prompt", "consent") {
		t.Error("not asked although the application wishes so")
	}
	p := b.get(f.authorizeURL("profile:read notes:read"))
	p.want(t, 200, "You have already allowed:", `<input type="hidden" name="scope" value="profile:read">`,
		`<input type="checkbox" name="scope" value="notes:read"`)
	f.redeem(f.answer(b, "profile:read wallet:topup", "allow"))
	if straight("wallet:topup") || straight("profile:read wallet:topup") {
		t.Error("money was granted in silence")
	}
	other := f.browser().signIn(f.newClient("other@example.com", "Other").Email)
	if p := other.get(f.authorizeURL("profile:read")); p.StatusCode != 200 {
		t.Error("one client's consent counts for another")
	}
	b.send("/account/apps", "/account/apps/"+f.app.ID+"/disconnect")
	if straight("profile:read") {
		t.Error("consent outlives the disconnection")
	}
}

// TestTheClientChoosesTheHoursOfCalls checks that the chosen time zone becomes that of the account.
func TestTheClientChoosesTheHoursOfCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser().signIn("client@example.com")
	b.header.Set("Accept-Language", "fr")
	send := func(zone string) page {
		return b.post("/account/phone/zone", url.Values{"csrf": {shell.CSRFToken(b.cookie(shell.SessionCookie))},
			"zone": {zone}})
	}
	b.get("/account/phone").want(t, 200, "<option selected>Europe/Paris</option>")
	send("Pacific/Tahiti").wantRedirect(t, http.StatusSeeOther, "/account/phone?done=zone")
	b.get("/account/phone?done=zone").want(t, 200, "<option selected>Pacific/Tahiti</option>",
		"Le fuseau horaire est enregistré")
	for _, none := range []string{"", "Local", "Mars/Olympus", "../../etc/passwd"} {
		send(none).want(t, http.StatusBadRequest)
	}
	zone, err := f.accounts.TimeZone(t.Context(), f.db.Read(), f.client.ID)
	if err != nil || zone.String() != "Pacific/Tahiti" {
		t.Errorf("%v, %v", zone, err)
	}
	c := f.start()
	until := shell.FormatDateIn("fr", zone, *c.Deadline()) // ten hours behind UTC
	for _, path := range []string{"/account/consultations", "/account/consultations/" + c.ID} {
		b.get(path).want(t, http.StatusOK, "jusqu’au "+until)
	}
}
