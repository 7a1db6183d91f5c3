package developers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
)

// Deps contains the dependencies of the developer portal besides the shell.
type Deps struct {
	Catalog     *catalog.Service
	Clock       *sandbox.Clock // nil in live
	Conformance *conformance.Service
	MailFolder  string      // folder in which a sandbox on the reader's machine stores emails; empty if emails are sent
	Playground  *Playground // nil in live
	Portal      *portal.Service
	Requests    *requestlog.Log
	Staff       *staff.Service
	Webhooks    *webhook.Service
}

// Pages serves the developer portal.
type Pages struct {
	*signin.Pages
	deps Deps
}

// New creates the pages.
func New(s *signin.Pages, d Deps) *Pages { return &Pages{Pages: s, deps: d} }

const (
	developersApps = "/developers/apps"
	doneArgs       = "developers done" // name in the context of the arguments of what just succeeded
)

// Read is a page of an application. Section is the part of the portal to which it belongs.
type Read struct {
	Path, Section string
	Show          func(echo.Context, staff.Session, portal.Membership) error
}

// Act is an action of an application's member. The text "dev.do.NAME" is its label, "dev.do.NAME.text" its explanation.
type Act struct {
	Name, Path string
	Need       portal.Role // required role; empty for actions without an application
	Fresh      bool        // it gives access, and needs a recent sign-in
	Danger     bool
	Ends       bool // it only ends or checks something, and goes on while the application is suspended
	Counts     bool // the text that says it is done takes the [doneArgs] that its page sets
	Fields     func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error)
	Check      func(form url.Values) error // as in [operators.Act]
	// Do is for actions that have the same effect when sent twice.
	Do func(ctx context.Context, c Call) (Done, error)
	// Once is for actions that must run only once, see [shell.Shell.Once].
	Once func(ctx context.Context, tx postgres.Tx, c Call) (Done, error)
	// Long is the same for actions with their own transactions.
	Long  func(ctx context.Context, c Call) (Done, error)
	Limit ratelimit.Purpose // of Once and Long; empty for none
	// of Limit; 0 for the limit of operations that send webhooks
	PerMinute int
	Back      string // the page from which the action was opened
}

// Call is the input of an action. Subject is the ID after that of the application.
type Call struct {
	By      portal.Caller
	Of      application.Application
	Subject string
	Lang    string
	Form    url.Values
}

// Done is the result of an action.
type Done struct {
	Secrets []forms.Fact // shown once, for Once only
	Finding string       // text key of the result
	Args    []any        // of Finding
	At      *time.Time   // the last of Args, if it is a time
	To      string       // page to continue to; empty for Back
}

// Register adds the routes.
func (p *Pages) Register(e *echo.Echo, read []string) {
	e.Match(read, shell.DevelopersLogin, p.Page(p.StaffLoginForm))
	if p.Sandbox {
		e.Match(read, "/developers/signup", p.Page(p.developerSignUpForm))
		e.POST("/developers/signup", p.Page(p.SignInOnce(p.OwnStaffForm, p.StaffOn, p.developerSignUp)))
	}
	e.Match(read, "/developers/join", p.Page(p.joinForm))
	e.POST("/developers/join", p.Page(p.VisitorOnce(p.OwnStaffForm, p.join)))
	e.Match(read, shell.DevelopersDesk, p.withPartner(p.developers))
	for _, r := range p.Reads() {
		e.Match(read, r.Path, p.withPartner(func(c echo.Context, s staff.Session) error {
			m, err := p.membership(c, s)
			if err != nil {
				return err
			}
			c.Set(shell.SectionKey, r.Section)
			return shell.Missing(r.Show(c, s, m))
		}))
	}
	for _, a := range p.Acts() {
		if a.Need == "" && !p.Sandbox {
			continue
		}
		e.Match(read, a.Path, p.withAct(a, p.askDev))
		e.POST(a.Path, p.withAct(a, p.doDev))
	}
}

// withPartner is [signin.Pages.WithStaff] for partners.
func (p *Pages) withPartner(h func(echo.Context, staff.Session) error) echo.HandlerFunc {
	return p.WithStaff(func(c echo.Context, s staff.Session) error {
		if s.Person.Kind != staff.Partner {
			return p.NotYours(c, s)
		}
		if !shell.Sane(c.QueryParams()) {
			return shell.StatusError(http.StatusNotFound)
		}
		return h(c, s)
	})
}

// membership returns the person's membership in the application of the path. It responds with 404 if they are not a
// member.
func (p *Pages) membership(c echo.Context, s staff.Session) (portal.Membership, error) {
	for _, name := range c.ParamNames() {
		if !shell.Identifier.MatchString(c.Param(name)) {
			return portal.Membership{}, shell.StatusError(http.StatusNotFound)
		}
	}
	m, err := p.deps.Portal.Membership(c.Request().Context(), p.DB.Read(),
		portal.Caller{StaffID: s.Person.ID, ApplicationID: c.Param("app")})
	return m, shell.Missing(err)
}

func (p *Pages) withAct(a Act, h func(echo.Context, staff.Session, Act, Call) error) echo.HandlerFunc {
	return p.withPartner(func(c echo.Context, s staff.Session) error {
		by := portal.Caller{StaffID: s.Person.ID, ApplicationID: c.Param("app"), Device: signin.DeviceOf(c)}
		call := Call{By: by, Subject: c.Param("id"), Lang: p.Language(c), Form: c.Request().PostForm}
		if a.Need != "" {
			m, err := p.membership(c, s)
			if err != nil {
				return err
			}
			if call.Of = m.Application; !m.Role.May(a.Need) {
				return p.NotYours(c, s)
			}
			shell.Rests(c, portal.Right{Caller: by, Need: a.Need})
		}
		if a.Fresh && !s.Fresh(p.DB.Clock().Now()) {
			return p.KeepAndSignIn(c)
		}
		return h(c, s, a, call)
	})
}

// Path returns the path of a page of an application.
func Path(applicationID string, parts ...string) string {
	return strings.Join(append([]string{developersApps, applicationID}, parts...), "/")
}

// showDev renders a page of the portal. A page about an application has its navigation.
func (p *Pages) showDev(c echo.Context, status int, s staff.Session, name, title string, data any) error {
	v := shell.View{Title: title, Data: data}
	if app := c.Param("app"); app != "" {
		section, _ := c.Get(shell.SectionKey).(string)
		for _, r := range p.Reads() {
			if r.Section == r.Path {
				part := strings.TrimPrefix(strings.TrimPrefix(r.Path, developersApps+"/:app"), "/")
				if part == "" {
					part = "overview"
				}
				v.Sections = append(v.Sections, shell.Section{URL: strings.Replace(r.Path, ":app", app, 1),
					Name: "dev.section." + part, Current: r.Path == section})
			}
		}
	}
	for _, a := range p.Acts() {
		if a.Name == c.QueryParam("done") {
			v.Done = "dev.do." + a.Name + ".done"
			if args, ok := c.Get(doneArgs).([]any); ok && a.Counts {
				v.DoneArgs = args
			} else if a.Counts {
				v.Done = "" // its page has nothing to count
			}
		}
	}
	return p.RenderStaff(c, status, s, name, v)
}

func (p *Pages) dev(c echo.Context, s staff.Session, v forms.Page) error {
	v.DropEmpty()
	return p.showDev(c, http.StatusOK, s, "ops", v.Heading, v)
}

// devLinks lists those of the named actions that the role may do. subject is the ID after that of the application.
func (p *Pages) devLinks(m portal.Membership, subject string, names ...string) (list []forms.Action) {
	for _, name := range names {
		for _, a := range p.Acts() {
			if a.Name == name && m.Role.May(a.Need) {
				list = append(list, forms.Action{URL: strings.NewReplacer(":app", m.Application.ID, ":id", subject).
					Replace(a.Path), Key: "dev.do." + name, Danger: a.Danger})
			}
		}
	}
	return list
}

// devActView is the page of an action.
type devActView struct {
	Act     string // text key of its label
	Subject string
	Action  string
	Back    string
	Danger  bool
	Once    string // key of the form, for an action that runs once
	Fields  []forms.Field
	Faults  []forms.Fault
	Kept    bool   // filled in with values sent before the person signed in again
	Finding string // text key
	Args    []any  // of Finding
}

// knownDevSubject returns "not found" unless the subject of the action belongs to the application. Actions with fields,
// and every POST, check this themselves.
func (p *Pages) knownDevSubject(ctx context.Context, a Act, call Call) (err error) {
	tx, found := p.DB.Read(), true
	switch a.Name {
	case "remove":
		_, err = p.deps.Portal.Membership(ctx, tx, portal.Caller{StaffID: call.Subject, ApplicationID: call.Of.ID})
	case "uninvite":
		var waiting []portal.Invitation
		_, waiting, err = p.deps.Portal.PeopleOf(ctx, tx, call.Of.ID)
		found = slices.ContainsFunc(waiting, func(i portal.Invitation) bool { return i.ID == call.Subject })
	case "redeliver":
		_, err = p.deps.Webhooks.Delivery(ctx, tx, call.Of.ID, call.Subject)
	}
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	return shell.Missing(err)
}

func (p *Pages) askDev(c echo.Context, s staff.Session, a Act, call Call) error {
	if err := p.knownDevSubject(c.Request().Context(), a, call); err != nil {
		return err
	}
	kept := p.KeptForm(c, s.Person.ID)
	if kept != nil {
		call.Form = kept
	}
	return p.showDevAct(c, http.StatusOK, s, a, call, devActView{Kept: kept != nil}, nil)
}

// showDevAct shows the form. After a refusal it shows the sent values and the reasons.
func (p *Pages) showDevAct(c echo.Context, status int, s staff.Session, a Act, call Call, v devActView,
	refused error,
) error {
	v.Act, v.Subject, v.Action, v.Back, v.Danger = "dev.do."+a.Name, call.Of.Name, c.Request().URL.Path,
		devBack(a, call), a.Danger
	if a.Once != nil || a.Long != nil {
		v.Once = shell.NewFormKey()
	}
	if a.Fields != nil {
		list, err := a.Fields(c.Request().Context(), p.DB.Read(), call)
		if err != nil {
			return shell.Missing(err)
		}
		v.Faults = append(v.Faults, forms.FaultsOf(refused, list)...)
		v.Fields = forms.Placed(forms.SentAgain(list, call.Form), v.Faults)
	} else {
		v.Faults = append(v.Faults, forms.FaultsOf(refused, nil)...)
	}
	c.Set(shell.SectionKey, a.Back)
	return p.showDev(c, status, s, "devact", v.Act, v)
}

func devBack(a Act, call Call) string {
	return strings.NewReplacer(":app", call.Of.ID, ":id", call.Subject).Replace(a.Back)
}

// offered refuses a form with invalid fields, and returns all of its errors.
func (p *Pages) offered(ctx context.Context, a Act, call Call) error {
	if a.Fields == nil {
		return nil
	}
	fields, err := a.Fields(ctx, p.DB.Read(), call)
	if err != nil {
		return err
	}
	var domain []problem.Issue
	if a.Check != nil {
		domain = problem.IssuesOf(a.Check(call.Form))
	}
	return forms.ValuesOf(fields, call.Form, domain)
}

func (p *Pages) actOnDev(ctx context.Context, a Act, call Call) (Done, error) {
	if err := p.offered(ctx, a, call); err != nil {
		return Done{}, err
	}
	return a.Do(ctx, call)
}

func (p *Pages) doDev(c echo.Context, s staff.Session, a Act, call Call) error {
	if call.Of.Suspended && !a.Ends {
		return p.showDevAct(c, http.StatusConflict, s, a, call, devActView{}, portal.ErrSuspended)
	}
	if a.Once != nil || a.Long != nil {
		return p.doDevOnce(c, s, a, call)
	}
	done, err := p.actOnDev(c.Request().Context(), a, call)
	switch {
	case err != nil:
		return p.devRefused(c, s, a, call, err)
	case done.Finding != "":
		return p.showDevAct(c, http.StatusOK, s, a, call, devActView{Finding: done.Finding, Args: done.Args}, nil)
	}
	return c.Redirect(http.StatusSeeOther, cmp.Or(done.To, devBack(a, call)+"?done="+a.Name))
}

// doDevOnce carries out the action of a form once, and redirects to the same page however often the form is sent.
func (p *Pages) doDevOnce(c echo.Context, s staff.Session, a Act, call Call) error {
	ctx := c.Request().Context()
	r, err := shell.SentForm(c, s.ID)
	if err != nil {
		return err
	}
	if err = p.offered(ctx, a, call); err == nil && a.Limit != "" {
		err = p.deps.Portal.Take(ctx, call.By, a.Limit, cmp.Or(a.PerMinute, ratelimit.PostsPerMinute))
	}
	page := func(done Done) shell.FormAnswer {
		back := cmp.Or(done.To, devBack(a, call)+"?done="+a.Name)
		v := shell.ShownAnswer{Act: "dev.do." + a.Name, Subject: call.Of.Name, Back: back, Secrets: done.Secrets,
			Finding: done.Finding, Args: done.Args, At: done.At}
		return shell.Answered(r, p.DB.Clock().Now(), v)
	}
	to := ""
	switch {
	case err != nil:
	case a.Long != nil:
		to, err = p.OnceAlone(ctx, r, func(ctx context.Context) (shell.FormAnswer, error) {
			done, err := a.Long(ctx, call)
			return page(done), err
		})
	default:
		to, err = p.Once(ctx, r, func(tx postgres.Tx) (shell.FormAnswer, error) {
			done, err := a.Once(ctx, tx, call)
			return page(done), err
		})
	}
	if err != nil {
		return p.devRefused(c, s, a, call, err)
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// devRefused shows the form again with its errors, or an error page if the form cannot solve the problem.
func (p *Pages) devRefused(c echo.Context, s staff.Session, a Act, call Call, err error) error {
	var declared *problem.Error
	switch {
	case errors.Is(err, problem.ErrNotFound):
		return shell.StatusError(http.StatusNotFound)
	case errors.Is(err, portal.ErrForbidden): // their role has changed since the page was loaded
		return p.NotYours(c, s)
	case errors.Is(err, problem.ErrRateLimited) && errors.As(err, &declared):
		return shell.TooMany(c, declared.RetryAfter)
	}
	f, err := p.FormFault(c, s, err)
	if f != nil {
		return p.showDevAct(c, http.StatusConflict, s, a, call, devActView{Faults: []forms.Fault{*f}}, nil)
	}
	if forms.FaultsOf(err, nil) == nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return p.showDevAct(c, http.StatusUnprocessableEntity, s, a, call, devActView{}, err)
}
