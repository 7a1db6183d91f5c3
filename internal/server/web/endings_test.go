package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/developers"
)

// affairs is one of everything that can be in progress when an operator or the client ends something.
type affairs struct {
	*fixture
	atOps, atPortal, atDesk, atAccount *browser
	by                                 operator.Act // an admin
	ids                                identifiers
	links                              links
	tokens                             oauth.TokenResponse
	erasure                            privacy.Refused
}

// links are the emailed URLs: invitations by the member, to the member and by the operator, and links for another
// password or address.
type links struct {
	sent, received, colleague, lawyer, member string
	operatorReset, memberReset, lawyerReset   string
	clientReset, clientEmail                  string
}

type identifiers struct{ operator, member, lawyer, colleague, consultation, offer, adjustment, refund, topUp string }

// endings lists the actions, each with its subject.
var endings = []struct {
	name string
	do   func(*affairs) error
}{
	{"erase a client", func(a *affairs) error {
		err := a.erase()
		if errors.As(err, &a.erasure) {
			err = nil
		}
		return err
	}},
	{"disable a client", func(a *affairs) error {
		return a.operators.DisableClient(a.t.Context(), a.by, a.client.ID)
	}},
	{"suspend an application", func(a *affairs) error {
		_, err := a.operators.SuspendApplication(a.t.Context(), a.by, a.app.ID, true)
		return err
	}},
	{"disable a portal member", func(a *affairs) error {
		return a.operators.DisablePerson(a.t.Context(), a.by, a.ids.member)
	}},
	{"suspend a lawyer", func(a *affairs) error {
		_, err := a.operators.SuspendLawyer(a.t.Context(), a.by, a.ids.lawyer)
		return err
	}},
	{"disable an operator", func(a *affairs) error {
		return a.operators.DisablePerson(a.t.Context(), a.by, a.ids.operator)
	}},
	{"leave an operator only the role security", func(a *affairs) error {
		return a.operators.SetRoles(a.t.Context(), a.by, a.ids.operator, []staff.Role{staff.Security})
	}},
}

func (a *affairs) erase() error {
	return a.db.InTx(a.t.Context(), func(tx postgres.Tx) error {
		return a.deps.Privacy.EraseAgain(a.t.Context(), tx, a.client.ID)
	})
}

// begin starts everything. quiet leaves out what delays an erasure. offer gives the lawyer an offer instead of a call.
func begin(t *testing.T, quiet, offer bool) *affairs {
	a := &affairs{fixture: newFixture(t)}
	a.work()
	a.people()
	a.atAccount = a.browser().signIn("client@example.com")
	a.passwords()
	a.tokens = a.redeem(a.answer(a.atAccount, allScopes, "allow"))
	if quiet {
		return a
	}
	a.money()
	a.atDesk.press("/desk/duty", "do", "on")
	if !offer {
		a.ids.consultation = a.inCall(a.atDesk)
		a.tx(func(tx postgres.Tx) {
			if _, _, err := a.consultations.DeclareWithdrawal(t.Context(), tx, a.client.ID,
				a.ids.consultation); err != nil {
				t.Fatal(err)
			}
		})
		return a
	}
	a.ids.consultation = a.start().ID
	if err := a.consultations.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	open := a.db.Pool().QueryRow(t.Context(), "SELECT id FROM offers WHERE state = 'OPEN'")
	if err := open.Scan(&a.ids.offer); err != nil {
		t.Fatal(err)
	}
	return a
}

// people signs everyone in, and sends and accepts invitations.
func (a *affairs) people() {
	ctx := a.t.Context()
	person := func(w *worker) string { return must(a.staff.ByEmail(ctx, a.db.Read(), w.email)).ID }
	join := func(email string) *worker {
		return a.join(staff.NewPerson{Kind: staff.Operator, Email: email, Name: "Olga Operator", Language: "en",
			Roles: []staff.Role{staff.Admin}})
	}
	admin, second, member := join("admin@partners.example"), join("second@partners.example"), a.member(portal.Owner)
	a.atOps, a.atPortal = second.browser, member.browser
	a.ids.operator, a.ids.member = person(second), person(member)
	a.by = operator.Act{Actor: person(admin), Reason: "A test"}
	a.ids.lawyer, a.atDesk = a.newLawyer()
	sent := operator.Act{Actor: a.ids.operator, Reason: "A test"}
	colleague, link, err := a.operators.InviteOperator(ctx, sent, staff.NewPerson{Email: "colleague@partners.example",
		Name: "Oscar Other", Language: "en", Roles: []staff.Role{staff.Support}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.ids.colleague, a.links.colleague = colleague.ID, strings.TrimPrefix(link, a.base)
	_, link, err = a.operators.InviteLawyer(ctx, sent, lawyer.NewLawyer{Email: "new@bar.example", Name: "Lea Lawyer",
		Phone: "+33199000077", Competences: []string{"TAX"}, Languages: []string{"FR"}}, "en")
	if err != nil {
		a.t.Fatal(err)
	}
	a.links.lawyer = strings.TrimPrefix(link, a.base)
	_, link, err = a.operators.InviteMember(ctx, sent, a.app.ID, "newer@crm.example", portal.Developer, "en")
	if err != nil {
		a.t.Fatal(err)
	}
	a.links.member = strings.TrimPrefix(link, a.base)
	if err := a.inviteAs(portal.Caller{StaffID: a.ids.member, ApplicationID: a.app.ID}, "new@crm.example"); err != nil {
		a.t.Fatal(err)
	}
	a.links.sent = a.mailedLink("new@crm.example", "/developers/join")
	a.tx(func(tx postgres.Tx) {
		n := application.NewApplication{Name: "Other CRM", RedirectURIs: []string{redirectURI}}
		other, _, err := a.apps.Create(ctx, tx, n)
		if err != nil {
			a.t.Fatal(err)
		}
		_, link, err := a.deps.Portal.InviteTo(ctx, tx, "cli", other, member.email, portal.Developer, "en")
		if err != nil {
			a.t.Fatal(err)
		}
		a.links.received = strings.TrimPrefix(link, a.base)
	})
}

// passwords requests every email that replaces a password or an address.
func (a *affairs) passwords() {
	ctx := a.t.Context()
	a.exec("UPDATE staff SET password_hash = 'set' WHERE lawyer_id = $1", a.ids.lawyer)
	counsel := must(a.staff.OfLawyer(ctx, a.db.Read(), a.ids.lawyer))
	var of [3]string
	for i, id := range []string{a.ids.operator, a.ids.member, counsel.ID} {
		p := must(a.staff.Get(ctx, a.db.Read(), id))
		a.tx(func(tx postgres.Tx) {
			if err := a.staff.RequestReset(ctx, tx, p.Email); err != nil {
				a.t.Fatal(err)
			}
		})
		of[i] = a.mailedLink(p.Email, "/staff/password/reset")
	}
	a.links.operatorReset, a.links.memberReset, a.links.lawyerReset = of[0], of[1], of[2]
	a.tx(func(tx postgres.Tx) {
		err := errors.Join(a.self.RequestReset(ctx, tx, a.client.Email, "en"),
			a.self.RequestEmail(ctx, tx, a.client.ID, "other@example.com", testPassword, "en"))
		if err != nil {
			a.t.Fatal(err)
		}
	})
	a.links.clientReset = a.mailedLink(a.client.Email, "/password/reset")
	a.links.clientEmail = a.mailedLink("other@example.com", "/account/security/email/confirm")
}

// mailedLink waits for an email to an address with a link to the given page.
func (f *fixture) mailedLink(to, page string) string {
	f.t.Helper()
	for n := 1; ; n++ {
		if m := f.mail(n); m.To == to && strings.Contains(m.Text, f.base+page+"?token=") {
			return f.linkIn(m)
		}
	}
}

// money proposes an adjustment and a refund, each by another operator, and opens a top-up.
func (a *affairs) money() {
	done := a.completedBy(a.ids.lawyer)
	ctx := a.t.Context()
	a.ids.adjustment = must(a.operators.Adjust(ctx, a.by, a.client.ID, 1500)).ID
	a.ids.refund = must(a.operators.GiveBack(ctx, operator.Act{Actor: a.ids.operator, Reason: "A test"}, done, 1500)).ID
	s := a.newCheckout(3000)
	a.ids.topUp = s.ID
	a.tx(func(tx postgres.Tx) {
		if err := a.provider.Pay(ctx, tx, s.ID); err != nil {
			a.t.Fatal(err)
		}
	})
}

func (f *fixture) completedBy(lawyerID string) string {
	c := f.completed()
	f.exec("UPDATE consultations SET lawyer_id = $2 WHERE id = $1", c.ID, lawyerID)
	return c.ID
}

const (
	goesOn = "continues"
	ends   = "ends"
	paused = "is refused until the application is resumed"
	first  = "blocks the erasure"
)

// affair is one thing in progress. It reports what became of it.
type affair struct {
	name  string
	waits privacy.Kind // the erasure is refused because of it
	offer bool         // begins with an offer instead of a call
	now   func(*affairs) string
}

func confirmed(err error) string {
	switch {
	case err == nil:
		return goesOn
	case errors.Is(err, operator.ErrDecided):
		return ends
	}
	return err.Error()
}

// seen describes what a page shows. No one may see an internal error, and every redirect must lead to a page.
func seen(b *browser, path string) string {
	p := b.get(path)
	for range 3 {
		if p.StatusCode != http.StatusSeeOther && p.StatusCode != http.StatusFound {
			break
		}
		to := p.Header.Get("Location")
		if strings.Contains(to, "/login") {
			if p = b.get(to); p.StatusCode == http.StatusOK {
				return ends
			}
			break
		}
		p = b.get(to)
	}
	if p.StatusCode == http.StatusOK {
		return goesOn
	}
	return fmt.Sprintf("is refused with %d", p.StatusCode)
}

func (a *affairs) decide(proposalID string) string {
	third := operator.Act{Actor: a.ids.colleague, Reason: "A test"}
	_, err := a.operators.Confirm(a.t.Context(), third, proposalID)
	return confirmed(err)
}

func (a *affairs) invited(path string) string {
	if p := a.browser().get(path); p.StatusCode != http.StatusOK {
		return ends
	}
	return goesOn
}

// joins reports whether a new person would join the application by a link.
func (a *affairs) joins(path string) string {
	_, token, _ := strings.Cut(path, "token=")
	undone := errors.New("undone")
	err := a.db.InTx(a.t.Context(), func(tx postgres.Tx) error {
		_, _, err := a.deps.Portal.Join(a.t.Context(), tx, token, "Nina New", staffPassword, staff.Device{})
		return errors.Join(err, undone)
	})
	switch {
	case errors.Is(err, portal.ErrSuspended):
		return paused
	case errors.Is(err, portal.ErrBadLink):
		return ends
	case err.Error() == undone.Error():
		return goesOn
	}
	return err.Error()
}

func (a *affairs) refresh(token string) (refused *oauth.Error) {
	_, err := a.oauth.Token(a.t.Context(), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token},
		"client_id": {a.app.ID}, "client_secret": {a.secret}}, "")
	if err != nil && !errors.As(err, &refused) {
		a.t.Fatal(err)
	}
	return refused
}

// withdrawal reports whether the operator still sees it, and the refund due.
func (a *affairs) withdrawal() string {
	w, declared, err := a.consultations.Withdrawn(a.t.Context(), a.db.Read(), a.ids.consultation)
	if err != nil || !declared || !w.Begun() {
		return fmt.Sprintf("is lost: %+v, %v", w, err)
	}
	return goesOn
}

func (a *affairs) call() string {
	path := "/desk/consultations/" + a.ids.consultation
	a.clock.Advance(90 * time.Second)
	form := a.atDesk.get("/desk").form(path + "/end")
	if p := a.atDesk.post(path+"/end", form); p.StatusCode != http.StatusSeeOther {
		return fmt.Sprintf("is refused with %d", p.StatusCode)
	}
	if c := must(a.consultations.Peek(a.t.Context(), a.db.Read(), a.ids.consultation)); c.Status != "CALL_ENDED" {
		return string(c.Status)
	}
	return "continues until its note"
}

func (a *affairs) offered() string {
	var state string
	is := a.db.Pool().QueryRow(a.t.Context(), "SELECT state FROM offers WHERE id = $1", a.ids.offer)
	if err := is.Scan(&state); err != nil {
		a.t.Fatal(err)
	}
	status := must(a.consultations.Peek(a.t.Context(), a.db.Read(), a.ids.consultation)).Status
	if state == "OPEN" {
		return goesOn
	}
	return fmt.Sprintf("ends; the consultation is %s", status)
}

var allAffairs = []affair{
	{name: "proposal to adjust a wallet", waits: privacy.MoneyProposed, now: func(a *affairs) string {
		return a.decide(a.ids.adjustment)
	}},
	{name: "proposal of a refund, from the operator", waits: privacy.MoneyProposed, now: func(a *affairs) string {
		return a.decide(a.ids.refund)
	}},
	{name: "invitation to the application, from the portal member", now: func(a *affairs) string {
		return a.joins(a.links.sent)
	}},
	{name: "invitation to the application, from the operator", now: func(a *affairs) string {
		return a.joins(a.links.member)
	}},
	{name: "invitation of the portal member to another application", now: func(a *affairs) string {
		return a.invited(a.links.received)
	}},
	{name: "invitation of an operator, from the operator", now: func(a *affairs) string {
		return a.invited(a.links.colleague)
	}},
	{name: "invitation of a lawyer, from the operator",
		now: func(a *affairs) string { return a.invited(a.links.lawyer) }},
	{name: "password reset link of the client", now: func(a *affairs) string {
		return a.invited(a.links.clientReset)
	}},
	{name: "link of the client to change the email address", now: func(a *affairs) string {
		_, token, _ := strings.Cut(a.links.clientEmail, "token=")
		_, err := a.self.PendingEmail(a.t.Context(), a.db.Read(), a.client.ID, token)
		switch {
		case err == nil:
			return goesOn
		case errors.Is(err, account.ErrBadLink):
			return ends
		}
		return err.Error()
	}},
	{name: "password reset link of the portal member", now: func(a *affairs) string {
		return a.invited(a.links.memberReset)
	}},
	{name: "password reset link of the lawyer", now: func(a *affairs) string {
		return a.invited(a.links.lawyerReset)
	}},
	{name: "password reset link of the operator", now: func(a *affairs) string {
		return a.invited(a.links.operatorReset)
	}},
	{name: "client secret", now: func(a *affairs) string {
		if refused := a.refresh("none"); refused.Code == oauth.CodeInvalidClient {
			return paused
		}
		return goesOn
	}},
	{name: "access token", now: func(a *affairs) string {
		works := func() bool {
			_, err := a.oauth.Authenticate(a.t.Context(), a.tokens.AccessToken)
			return err == nil
		}
		suspend := func(suspended bool) {
			a.tx(func(tx postgres.Tx) {
				if err := a.apps.SetSuspended(a.t.Context(), tx, a.app.ID, suspended); err != nil {
					a.t.Fatal(err)
				}
			})
		}
		if works() {
			return goesOn
		}
		if !must(a.apps.Get(a.t.Context(), a.db.Read(), a.app.ID)).Suspended {
			return ends
		}
		suspend(false)
		defer suspend(true)
		if works() {
			return paused
		}
		return ends
	}},
	{name: "refresh token", now: func(a *affairs) string {
		switch refused := a.refresh(a.tokens.RefreshToken); {
		case refused == nil:
			return goesOn
		case refused.Code == oauth.CodeInvalidClient:
			return paused
		}
		return ends
	}},
	{name: "session of the client", now: func(a *affairs) string { return seen(a.atAccount, "/account") }},
	{name: "session of the portal member", now: func(a *affairs) string {
		return seen(a.atPortal,
			developers.Path(a.app.ID))
	}},
	{name: "session of the lawyer, in a call", now: func(a *affairs) string { return seen(a.atDesk, "/desk") }},
	{name: "session of the lawyer, with an offer", offer: true, now: func(a *affairs) string {
		return seen(a.atDesk, "/desk")
	}},
	{name: "session of the operator", now: func(a *affairs) string { return seen(a.atOps, "/ops") }},
	{name: "offer", waits: privacy.OpenConsultations, offer: true, now: (*affairs).offered},
	{name: "withdrawal of the client, declared in the call", waits: privacy.OpenConsultations,
		now: (*affairs).withdrawal},
	{name: "call", waits: privacy.OpenConsultations, now: (*affairs).call},
	{name: "payment of a top-up", waits: privacy.TopUpOpen, now: func(a *affairs) string {
		before := a.balance()
		a.report(must(a.payments.Get(a.t.Context(), a.db.Read(), a.ids.topUp)))
		back := must(a.payments.Returning(a.t.Context(), a.db.Read(), a.client.ID))
		switch {
		case len(back) == 1 && back[0].Amount == 3000 && a.balance() == before:
			return "is refunded to its source"
		case a.balance() == before+3000:
			return goesOn
		}
		return ends
	}},
}

// elsewhere lists what other tests cover.
var elsewhere = []struct{ says, file, test string }{
	{"A request whose credentials end while it is sent, or while it waits, is refused and has no effect.",
		"app/outlived_test.go", "TestNoBodyOutlivesItsCredentials"},
	{"The same holds for a form whose sender is signed out during the request.", "server/web/outlived_test.go",
		"TestNoFormOutlivesItsSession"},
	{"The same holds for an action of a portal member who is removed during the request.", "server/web/outlived_test.go",
		"TestNoActOfAMemberOutlivesTheMembership"},
	{"The same holds for an action of an operator who loses the role or is disabled during the request.",
		"server/web/rights_test.go", "TestNoActOfAnOperatorOutlivesTheRight"},
	{"The deliveries of a suspended application are held. Once it is resumed, they are signed with its secret.",
		"domain/webhook/delivery_test.go", "TestDeliveriesWaitForAURLAndForASuspensionToEnd"},
	{"The team of a suspended application can create no secret or invitation and raise no role. Invitations wait " +
		"until it is resumed.",
		"domain/portal/portal_test.go", "TestASuspendedApplicationBeginsNothing"},
	{"The same holds for requests sent while the application is being suspended.", "domain/portal/suspended_test.go",
		"TestNoActOvertakesASuspension"},
	{"The consultations of its clients continue, and its tokens and codes work again once it is resumed.",
		"dev/e2e/token_test.go", "TestASuspendedApplicationsConsultationFinishes"},
	{"A lawyer who is suspended in a call writes its note and is then signed out.",
		"server/web/desk_pages_test.go", "TestALawyerSuspendedInACallFinishesIt"},
	{"An account cannot be erased while a refund to its source is pending.",
		"server/web/obstacles_test.go", "TestAClientWhoLeavesClearsTheWay"},
}

// column carries out the action while everything is in progress, and reports what became of each affair. offer selects
// those that begin with an offer, or the others.
func column(t *testing.T, act int, offer bool) []string {
	a := begin(t, false, offer)
	if err := endings[act].do(a); err != nil {
		t.Fatal(err)
	}
	after := a
	if act == 0 && !offer { // what an erasure does if nothing is in its way
		after = begin(t, true, false)
		if err := endings[act].do(after); err != nil || after.erasure != nil {
			t.Fatal(err, after.erasure)
		}
	}
	became := make([]string, len(allAffairs))
	for i, x := range allAffairs {
		switch {
		case x.offer != offer:
		case act != 0 || x.waits == "":
			became[i] = x.now(after)
		case !a.erasure.Has(x.waits):
			t.Errorf("%s is not in the way of the erasure: %v", x.name, a.erasure)
		default:
			if now := x.now(a); !strings.HasPrefix(now, goesOn) {
				t.Errorf("%s is in the way of the erasure, and %s", x.name, now)
			}
			became[i] = first
		}
	}
	return became
}

// One table, generated from the services, shows what ends and what continues when a person or an application is erased,
// disabled or suspended.
func TestWhatEndsIsWrittenDown(t *testing.T) {
	t.Parallel()
	cells := make([][2][]string, len(endings))
	t.Run("act", func(t *testing.T) {
		for act := range endings {
			for n, offer := range []bool{false, true} {
				t.Run(endings[act].name, func(t *testing.T) {
					t.Parallel()
					cells[act][n] = column(t, act, offer)
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	var b strings.Builder
	b.WriteString("# What ends and what continues\n\n" +
		"Generated by endings_test.go -update, which carries out each action while everything is in progress.\n\n|")
	for _, act := range endings {
		b.WriteString(" | " + act.name)
	}
	b.WriteString(" |\n|" + strings.Repeat("---|", len(endings)+1) + "\n")
	for i, x := range allAffairs {
		b.WriteString("| " + x.name)
		for act := range endings {
			b.WriteString(" | " + cells[act][0][i] + cells[act][1][i])
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\nCovered by other tests:\n\n")
	for _, e := range elsewhere {
		if source := string(must(os.ReadFile("../../" + e.file))); !strings.Contains(source,
			"\nfunc "+e.test+"(t *testing.T)") {
			t.Errorf("%s has no %s", e.file, e.test)
		}
		b.WriteString("- " + e.says + " `" + e.test + "` (" + e.file + ").\n")
	}
	if *update {
		if err := os.WriteFile("endings.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(must(os.ReadFile("endings.md"))); got != b.String() {
		t.Errorf("endings.md is out of date: run this test with -update\n%s", b.String())
	}
}
