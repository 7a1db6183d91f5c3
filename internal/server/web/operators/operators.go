package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
)

// Deps contains the dependencies of the operators' desk besides the shell.
type Deps struct {
	Accounts      *account.Service
	Applications  *application.Service
	Books         *books.Service
	Catalog       *catalog.Service
	Consultations *consultation.Service
	Idempotency   *idempotency.Service
	Lawyers       *lawyer.Service
	OAuth         *oauth.Service
	Operator      *operator.Service
	Payments      *payment.Service
	Portal        *portal.Service
	SelfService   *account.SelfService
	Staff         *staff.Service
	Wallet        *wallet.Service
	Webhooks      *webhook.Service
}

// Pages serves the operators' desk.
type Pages struct {
	*signin.Pages
	deps Deps
}

// New creates the pages.
func New(s *signin.Pages, d Deps) *Pages { return &Pages{Pages: s, deps: d} }

// everybody stands for all operators.
var everybody []staff.Role

func only(roles ...staff.Role) []staff.Role { return roles }

// Read is a page for operators. Section is the part of the desk to which it belongs.
type Read struct {
	Path, Section string
	Roles         []staff.Role
	Show          func(echo.Context, staff.Session) error
}

// Act is an action of operators. It has a page that asks for its values and a reason, and a form that carries it out.
// The text "ops.do.NAME" is its label, "ops.do.NAME.text" its explanation.
type Act struct {
	Name, Path string
	Roles      []staff.Role
	Fresh      bool // it gives access or moves money, and needs a recent sign-in
	Danger     bool // it ends something or moves money
	Tells      Told // who is emailed about it, or why no one is
	Fields     func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error)
	// validates the values in the domain, together with the fields; nil if Do validates them
	Check   func(form url.Values) error
	Do      func(ctx context.Context, c Call) (Done, error)
	Back    func(subject string) string   // the page from which the action was opened
	Secrets []string                      // text keys of the secrets that it shows once
	Made    func(secrets []string) string // page to continue to after the secrets; nil for Back
}

// Told is who is notified of an action, as in operators.md.
type Told string

// Who is notified. Any other value begins with "no one: " and the reason.
const (
	ToldClient  Told = "the client"
	ToldLawyer  Told = "the lawyer"
	ToldPerson  Told = "the person"
	ToldPartner Told = "the owners and the contact"
	ToldInvited Told = "the person invited"
	ToldJoining Told = "the person invited, the owners and the contact"
	toldByEvent Told = "no one: the partner receives the event and the client sees it"
)

// Call is the input of an action. Subject is the ID in its path.
type Call struct {
	By      operator.Act
	Subject string
	Lang    string
	Form    url.Values
}

// Done is the result of an action.
type Done struct {
	To string // page to continue to; empty for Back
}

// Register adds the routes.
func (p *Pages) Register(e *echo.Echo, read []string) {
	for _, r := range p.Reads() {
		e.Match(read, r.Path, p.WithOperator(r.Roles, func(c echo.Context, s staff.Session) error {
			if !shell.Sane(c.QueryParams()) {
				return shell.StatusError(http.StatusNotFound)
			}
			if err := p.knownSubject(c, r.Path); err != nil {
				return err
			}
			c.Set(shell.SectionKey, r.Section)
			return shell.Missing(r.Show(c, s))
		}))
	}
	for _, a := range p.Acts() {
		e.Match(read, a.Path, p.withOpsAct(a, p.askAct))
		e.POST(a.Path, p.withOpsAct(a, p.doAct))
	}
}

// withOpsAct is [signin.Pages.WithOperator] for an action. It checks that the subject belongs to the section, and
// requires a recent sign-in if the action needs one.
func (p *Pages) withOpsAct(a Act, h func(echo.Context, staff.Session, Act) error) echo.HandlerFunc {
	return p.WithOperator(a.Roles, func(c echo.Context, s staff.Session) error {
		if err := p.knownSubject(c, a.Path); err != nil {
			return err
		}
		c.Set(shell.SectionKey, pageOfAct(a.Path))
		if a.Fresh && !s.Fresh(p.DB.Clock().Now()) {
			return p.KeepAndSignIn(c)
		}
		return h(c, s, a)
	})
}

// knownSubject returns "not found" unless the ID in the path belongs to the section of the path. Otherwise a person who
// may only act on lawyers could act on an operator through the lawyers' path.
func (p *Pages) knownSubject(c echo.Context, path string) (err error) {
	subject := c.Param("id")
	if !strings.Contains(path, ":id") {
		return nil
	}
	if !shell.Identifier.MatchString(subject) {
		return shell.StatusError(http.StatusNotFound)
	}
	ctx, tx := c.Request().Context(), p.DB.Read()
	switch section := SectionOf(path); section {
	case "consultations":
		_, err = p.deps.Consultations.Peek(ctx, tx, subject)
	case "clients":
		_, err = p.deps.Accounts.Get(ctx, tx, subject)
	case "lawyers":
		_, err = p.deps.Lawyers.Get(ctx, tx, subject)
	case "applications":
		_, err = p.deps.Applications.Get(ctx, tx, subject)
	case "people":
		_, err = p.deps.Operator.Person(ctx, tx, subject)
	case "proposals":
		_, err = p.deps.Operator.Proposal(ctx, tx, subject)
	case "deliveries": // of an application; its page checks both
	default:
		err = fmt.Errorf("nobody knows what %s is about", path)
	}
	return shell.Missing(err)
}

// SectionOf returns the part of the desk to which a path belongs.
func SectionOf(path string) string {
	section, _, _ := strings.Cut(strings.TrimPrefix(path, shell.OperatorDesk+"/"), "/")
	return section
}

// pageOfAct returns the page of the section to which an action belongs. Proposals are decided on the board.
func pageOfAct(path string) string {
	if section := SectionOf(path); section != "proposals" {
		return Path(section)
	}
	return shell.OperatorDesk
}

// showOps renders a page of the operators' desk. The query parameter done names the action that has just succeeded.
func (p *Pages) showOps(c echo.Context, status int, s staff.Session, name, title string, data any) error {
	section, _ := c.Get(shell.SectionKey).(string)
	v := shell.View{Title: title, Data: data}
	for _, r := range p.Reads() {
		if r.Section == r.Path && s.Person.May(r.Roles...) {
			name := strings.TrimPrefix(r.Path, shell.OperatorDesk+"/")
			if r.Path == shell.OperatorDesk {
				name = "board"
			}
			v.Sections = append(v.Sections, shell.Section{URL: r.Path, Name: "ops.section." + name,
				Current: r.Path == section})
		}
	}
	for _, a := range p.Acts() {
		if a.Name == c.QueryParam("done") {
			v.Done = "ops.do." + a.Name + ".done"
		}
	}
	if c.QueryParam("done") == "proposed" {
		v.Done = "ops.proposed"
	}
	return p.RenderStaff(c, status, s, name, v)
}

// links lists those of the named actions that the person may do on a subject.
func (p *Pages) links(s staff.Session, subject string, names ...string) (list []forms.Action) {
	for _, name := range names {
		for _, a := range p.Acts() {
			if a.Name == name && s.Person.May(a.Roles...) {
				list = append(list, forms.Action{URL: strings.Replace(a.Path, ":id", subject, 1), Key: "ops.do." + name,
					Danger: a.Danger})
			}
		}
	}
	return list
}

// opsActView is the page of an action.
type opsActView struct {
	Act     string // text key of its label
	Name    string // of the subject; empty if the ID suffices
	Subject string
	Action  string
	Back    string
	Danger  bool
	Entry   string // ID of the future audit entry, so that the same form acts only once
	Fields  []forms.Field
	Faults  []forms.Fault
	Kept    bool // filled in with values sent before the person signed in again
}

func (p *Pages) askAct(c echo.Context, s staff.Session, a Act) error {
	kept := p.KeptForm(c, s.Person.ID)
	if kept != nil {
		c.Request().PostForm = kept
	}
	return p.showAct(c, http.StatusOK, s, a, opsActView{Kept: kept != nil}, nil)
}

// showAct shows the form. After a refusal it shows the sent values and the reasons.
func (p *Pages) showAct(c echo.Context, status int, s staff.Session, a Act, v opsActView, refused error) error {
	subject := c.Param("id")
	ctx, tx := c.Request().Context(), p.DB.Read()
	v.Act, v.Subject, v.Action, v.Back, v.Danger = "ops.do."+a.Name, subject, c.Request().URL.Path, a.Back(subject),
		a.Danger
	v.Entry = tx.NewID(id.Audit)
	name, err := p.titleOf(ctx, tx, subject)
	if err != nil {
		return shell.Missing(err)
	}
	v.Name = name
	if a.Fields != nil {
		fields, err := a.Fields(ctx, tx, Call{Subject: subject, Lang: p.Language(c)})
		if err != nil {
			return shell.Missing(err)
		}
		v.Fields = fields
	}
	v.Fields = append(v.Fields, forms.Field{Name: "reason", Label: "ops.field.reason", Hint: "ops.field.reason.hint",
		Type: "text", Max: maxReason})
	v.Faults = append(v.Faults, forms.FaultsOf(refused, v.Fields)...)
	v.Fields = forms.Placed(forms.SentAgain(v.Fields, c.Request().PostForm), v.Faults)
	return p.showOps(c, status, s, "opsact", v.Act, v)
}

var auditEntry = regexp.MustCompile(`^aud_(test_)?[0-9a-z]{26}$`)

const maxReason = 500

// doAct carries out the action of the form once.
func (p *Pages) doAct(c echo.Context, s staff.Session, a Act) error {
	form := c.Request().PostForm
	subject := c.Param("id")
	call := Call{Subject: subject, Lang: p.Language(c), Form: form,
		By: operator.Act{Actor: s.Person.ID, Reason: strings.TrimSpace(form.Get("reason")),
			Entry: form.Get(shell.EntryField)}}
	if !auditEntry.MatchString(call.By.Entry) {
		return shell.StatusError(http.StatusBadRequest)
	}
	ctx := c.Request().Context()
	r := shell.FormRequest(s.ID, call.By.Entry, c.Request().URL.Path, form)
	to, err := p.SentBefore(ctx, r)
	if err == nil && to == "" {
		to, err = p.actOnce(ctx, a, call, r)
	}
	if err == nil {
		return c.Redirect(http.StatusSeeOther, to)
	}
	f, err := p.FormFault(c, s, err)
	if f != nil {
		return p.showAct(c, http.StatusConflict, s, a, opsActView{Faults: []forms.Fault{*f}}, nil)
	}
	if declared := (*problem.Error)(nil); errors.Is(err, problem.ErrRateLimited) && errors.As(err, &declared) {
		return shell.TooMany(c, declared.RetryAfter)
	}
	var missing shell.StatusError
	if forms.FaultsOf(err, nil) == nil && errors.As(shell.Missing(err), &missing) {
		return missing
	}
	if forms.FaultsOf(err, nil) == nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return p.showAct(c, http.StatusUnprocessableEntity, s, a, opsActView{}, err)
}

// ActOn carries out an action if all fields of the form are valid. Otherwise it returns all errors of the form.
func (p *Pages) ActOn(ctx context.Context, a Act, call Call) (Done, error) {
	var fields []forms.Field
	if a.Fields != nil {
		var err error
		if fields, err = a.Fields(ctx, p.DB.Read(), call); err != nil {
			return Done{}, err
		}
	}
	domain := problem.Line("reason", call.By.Reason, maxReason, forms.InSentence)
	if a.Check != nil {
		domain = append(domain, problem.IssuesOf(a.Check(call.Form))...)
	}
	if err := forms.ValuesOf(fields, call.Form, domain); err != nil {
		return Done{}, err
	}
	return a.Do(postgres.Resting(ctx, operator.Right{Person: call.By.Actor, Roles: a.Roles}), call)
}

// actOnce carries out an action and returns the page to continue to. The audit entry prevents a repetition. Secrets are
// stored in the transaction of the action, because they cannot be shown later.
func (p *Pages) actOnce(ctx context.Context, a Act, call Call, r idempotency.Request) (to string, err error) {
	back := a.Back(call.Subject) + "?done=" + a.Name
	call.By.Keep = func(ctx context.Context, tx postgres.Tx, secrets []string) error {
		page := shell.ShownAnswer{Act: "ops.do." + a.Name, Subject: call.Subject, Back: back}
		if a.Made != nil {
			page.Back = a.Made(secrets)
		}
		for i, secret := range secrets {
			page.Secrets = append(page.Secrets, forms.FactOf(a.Secrets[i], secret))
		}
		return p.deps.Idempotency.Keep(ctx, tx, r, http.StatusSeeOther, shell.Answered(r, tx.Now, page))
	}
	done, err := p.ActOn(ctx, a, call)
	if err != nil {
		again, fault := audit.Has(ctx, p.DB.Read(), call.By.Entry)
		if fault != nil || !again {
			return "", errors.Join(err, fault)
		}
	}
	answer := shell.FormAnswer{To: cmp.Or(done.To, back)}
	to, err = p.Once(ctx, r, func(postgres.Tx) (shell.FormAnswer, error) { return answer, nil })
	if errors.Is(err, idempotency.ErrConflict) { // the same form with other values, sent after this one was done
		return answer.To, nil
	}
	return to, err
}

// AmountInput formats an amount as people type it in a language: "20,00" in French, "20.00" otherwise.
func AmountInput(c money.Cents, lang string) string {
	return strings.Trim(c.Format(lang), "€\u00a0")
}

// Path returns a path of the operators' desk.
func Path(parts ...string) string { return shell.OperatorDesk + "/" + strings.Join(parts, "/") }

// backToSubject returns the page of a subject in a section.
func backToSubject(section string) func(string) string {
	return func(subject string) string { return Path(section, subject) }
}

func backToSection(section string) func(string) string {
	return func(string) string { return Path(section) }
}
