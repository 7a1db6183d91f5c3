package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
)

// everybody are all operators.
var everybody []staff.Role

func only(roles ...staff.Role) []staff.Role { return roles }

// opsRead is a page that operators see. Its section is the part of the desk where it belongs.
type opsRead struct {
	Path, Section string
	Roles         []staff.Role
	Show          func(echo.Context, staff.Session) error
}

// opsAct is something that operators do: a page that asks for what it needs and for the reason, and the form that does
// it. Its name is that of the texts "ops.do.NAME" (what it is called) and "ops.do.NAME.text" (what it means).
type opsAct struct {
	Name, Path string
	Roles      []staff.Role
	Fresh      bool // it opens something or moves money: a person who signed in a while ago signs in again
	Danger     bool // it ends something or moves money
	Tells      told // who gets a mail about it, or why nobody does
	Fields     func(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error)
	// what the domain refuses of the values, said with what the fields refuse; nil: Do says it
	Check   func(form url.Values) error
	Do      func(ctx context.Context, c opsCall) (opsDone, error)
	Back    func(subject string) string   // the page it was asked for from
	Secrets []string                      // keys of the names of what it shows once
	Made    func(secrets []string) string // where it leads from its secrets; nil for back
}

// told is whom an act concerns, as operators.md says it.
type told string

// Who is told. Any other value begins with "nobody: " and the reason.
const (
	toldClient  told = "the client"
	toldLawyer  told = "the lawyer"
	toldPerson  told = "the person"
	toldPartner told = "the owners and the contact"
	toldInvited told = "the person invited"
	toldJoining told = "the person invited, the owners and the contact"
	toldByEvent told = "nobody: the partner gets the event, and the client sees it"
)

// opsCall is what an act is asked to do. Subject is the identifier in its address.
type opsCall struct {
	By      operator.Act
	Subject string
	Lang    string
	Form    url.Values
}

// opsDone is what came of an act.
type opsDone struct {
	To string // where to go on instead of back
}

// opsField is a field of an act's form.
type opsField struct {
	Name, Label, Hint string
	Type              string // of the input; or select, checks, lines, shown
	Value             string
	At                *time.Time // what is shown, when that is an instant
	Options           []opsOption
	Optional          bool
	Known             []string // values that the browser suggests
	Max               int      // characters; 0: no bound
	Least, Most       int      // of a number
	Of                string   // what the domain calls it, when that is not its name
	Faults            []fault  // of what was sent
}

// Described are the identifiers of what a reader is told of a field.
func (f opsField) Described() string {
	var ids []string
	if f.Hint != "" {
		ids = append(ids, f.Name+"-hint")
	}
	if f.Faults != nil {
		ids = append(ids, f.Name+"-fault")
	}
	return strings.Join(ids, " ")
}

type opsOption struct {
	Value, Text string
	Key         bool // Text is a key
	Chosen      bool
}

// opsPage is a page made of blocks.
type opsPage struct {
	Heading string
	Name    string // whose page it is, after the heading; empty when the identifier says it all
	Code    string // identifier, after the heading
	Search  []opsField
	Blocks  []opsBlock
	Older   string
}

type opsBlock struct {
	Title, Alert, Hint string // keys
	Args               []any  // of Alert
	Ask                bool   // the reader is told whom to write to about Alert
	Facts              []opsFact
	Head               []string // keys
	Rows               [][]opsCell
	Pre                string // text that is shown as it is
	Table              bool   // has rows, or says that there is none
	Links              []opsLink
}

type opsFact struct {
	Label string
	Cell  opsCell
}

// opsCell is one value: text as it is, or the wording of a key; or an instant.
type opsCell struct {
	Text, Key string
	Args      []any
	URL       string
	Code      bool
	Also      string   // a code after the wording
	More      *opsCell // more words after the wording
	At        *time.Time
	Exact     bool // At is told to the second
	Day       bool // At is told by its day alone
}

type opsLink struct {
	URL, Key string
	Danger   bool
}

func plain(s string) opsCell { return opsCell{Text: s} }
func code(s string) opsCell  { return opsCell{Text: s, Code: s != ""} }
func linked(url, s string) opsCell {
	return opsCell{Text: s, URL: url, Code: true}
}

// coded is the wording of a code that the program keeps, "" for none, and what was said with it.
func coded(s string, also ...string) opsCell {
	if s == "" {
		return code(strings.Join(also, " "))
	}
	return opsCell{Key: "ops.code." + s, Also: strings.Join(also, " ")}
}

// rateCell is the share of deliveries that arrived; nothing when none was made.
func rateCell(h webhook.Health) opsCell {
	if h.Delivered+h.Failed == 0 {
		return opsCell{}
	}
	return worded("ops.percent", h.Rate())
}

func worded(key string, args ...any) opsCell { return opsCell{Key: key, Args: args} }
func at(t time.Time) opsCell                 { return opsCell{At: &t} }
func exactly(t time.Time) opsCell            { return opsCell{At: &t, Exact: true} }
func maybeAt(t *time.Time) opsCell           { return opsCell{At: t} }

// opsSection is a link of the desk's navigation.
type opsSection struct {
	URL, Name string
	Current   bool
}

func (p *Pages) registerOps(e *echo.Echo, read []string) {
	for _, r := range p.opsReads() {
		e.Match(read, r.Path, p.withOperator(r.Roles, func(c echo.Context, s staff.Session) error {
			if !sane(c.QueryParams()) {
				return statusError(http.StatusNotFound)
			}
			if err := p.knownSubject(c, r.Path); err != nil {
				return err
			}
			c.Set(opsSectionKey, r.Section)
			return opsMissing(r.Show(c, s))
		}))
	}
	for _, a := range p.opsActs() {
		e.Match(read, a.Path, p.withOpsAct(a, p.askAct))
		e.POST(a.Path, p.withOpsAct(a, p.doAct))
	}
}

// withOpsAct is [Pages.withOperator] for an act: on a subject of its section, and after a fresh sign-in where it takes
// one.
func (p *Pages) withOpsAct(a opsAct, h func(echo.Context, staff.Session, opsAct) error) echo.HandlerFunc {
	return p.withOperator(a.Roles, func(c echo.Context, s staff.Session) error {
		if err := p.knownSubject(c, a.Path); err != nil {
			return err
		}
		c.Set(opsSectionKey, sectionOf(a.Path))
		if a.Fresh && !s.Fresh(p.deps.DB.Clock().Now()) {
			return p.keepAndSignIn(c)
		}
		return h(c, s, a)
	})
}

// knownSubject is "not found" unless the identifier in the address belongs to the section of the path: whoever may act
// on a lawyer must not reach an operator by the lawyers' address.
func (p *Pages) knownSubject(c echo.Context, path string) (err error) {
	subject := c.Param("id")
	if !strings.Contains(path, ":id") {
		return nil
	}
	if !identifier.MatchString(subject) {
		return statusError(http.StatusNotFound)
	}
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	switch section := opsSectionOf(path); section {
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
	case "deliveries": // of an application: its page looks for both
	default:
		err = fmt.Errorf("nobody knows what %s is about", path)
	}
	return opsMissing(err)
}

// opsSectionOf is the part of the desk to which an address belongs.
func opsSectionOf(path string) string {
	section, _, _ := strings.Cut(strings.TrimPrefix(path, operatorDesk+"/"), "/")
	return section
}

const opsSectionKey = "ops section"

// sectionOf is the part of the desk where an act belongs; proposals are decided on the board.
func sectionOf(path string) string {
	if section := opsSectionOf(path); section != "proposals" {
		return opsPath(section)
	}
	return operatorDesk
}

// opsMissing makes a page of what there is not "not found".
func opsMissing(err error) error {
	for _, missing := range []error{
		problem.ErrNotFound, lawyer.ErrNotFound, staff.ErrNotFound, operator.ErrNoProposal,
	} {
		if errors.Is(err, missing) {
			return statusError(http.StatusNotFound)
		}
	}
	return err
}

// showOps renders a page of the operators' desk. done names the act that has just succeeded.
func (p *Pages) showOps(c echo.Context, status int, s staff.Session, name, title string, data any) error {
	section, _ := c.Get(opsSectionKey).(string)
	v := view{Title: title, Data: data}
	for _, r := range p.opsReads() {
		if r.Section == r.Path && s.Person.May(r.Roles...) {
			name := strings.TrimPrefix(r.Path, operatorDesk+"/")
			if r.Path == operatorDesk {
				name = "board"
			}
			v.Sections = append(v.Sections, opsSection{r.Path, "ops.section." + name, r.Path == section})
		}
	}
	for _, a := range p.opsActs() {
		if a.Name == c.QueryParam("done") {
			v.Done = "ops.do." + a.Name + ".done"
		}
	}
	if c.QueryParam("done") == "proposed" {
		v.Done = "ops.proposed"
	}
	return p.renderStaff(c, status, s, name, v)
}

// links are those acts of names that the person may do for a subject.
func (p *Pages) links(s staff.Session, subject string, names ...string) (list []opsLink) {
	for _, name := range names {
		for _, a := range p.opsActs() {
			if a.Name == name && s.Person.May(a.Roles...) {
				list = append(list, opsLink{strings.Replace(a.Path, ":id", subject, 1), "ops.do." + name, a.Danger})
			}
		}
	}
	return list
}

// opsActView is the page of an act.
type opsActView struct {
	Act     string // key of its name
	Name    string // of the subject; empty when the identifier says it all
	Subject string
	Action  string
	Back    string
	Danger  bool
	Entry   string // identifier of the audit entry that it will make: the same form acts once
	Fields  []opsField
	Faults  []fault
	Kept    bool // it is filled in with what was sent before the reader signed in
}

func (p *Pages) askAct(c echo.Context, s staff.Session, a opsAct) error {
	kept := p.keptForm(c, s.Person.ID)
	if kept != nil {
		c.Request().PostForm = kept
	}
	return p.showAct(c, http.StatusOK, s, a, opsActView{Kept: kept != nil}, nil)
}

// showAct shows the form, with what was sent and why it is refused, when it is.
func (p *Pages) showAct(c echo.Context, status int, s staff.Session, a opsAct, v opsActView, refused error) error {
	subject := c.Param("id")
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	v.Act, v.Subject, v.Action, v.Back, v.Danger = "ops.do."+a.Name, subject, c.Request().URL.Path, a.Back(subject),
		a.Danger
	v.Entry = tx.NewID(id.Audit)
	name, err := p.titleOf(ctx, tx, subject)
	if err != nil {
		return opsMissing(err)
	}
	v.Name = name
	if a.Fields != nil {
		fields, err := a.Fields(ctx, tx, opsCall{Subject: subject, Lang: p.language(c)})
		if err != nil {
			return opsMissing(err)
		}
		v.Fields = fields
	}
	v.Fields = append(v.Fields, opsField{Name: "reason", Label: "ops.field.reason", Hint: "ops.field.reason.hint",
		Type: "text", Max: maxReason})
	v.Faults = append(v.Faults, faultsOf(refused, v.Fields)...)
	v.Fields = placed(sentAgain(v.Fields, c.Request().PostForm), v.Faults)
	return p.showOps(c, status, s, "opsact", v.Act, v)
}

var auditEntry = regexp.MustCompile(`^aud_(test_)?[0-9a-z]{26}$`)

const maxReason = 500

// entryField is [onceField] of the operators' forms: its key is the identifier of the audit's entry.
const entryField = "entry"

// doAct does what the form asks, once.
func (p *Pages) doAct(c echo.Context, s staff.Session, a opsAct) error {
	form := c.Request().PostForm
	subject := c.Param("id")
	call := opsCall{Subject: subject, Lang: p.language(c), Form: form,
		By: operator.Act{Actor: s.Person.ID, Reason: strings.TrimSpace(form.Get("reason")),
			Entry: form.Get(entryField)}}
	if !auditEntry.MatchString(call.By.Entry) {
		return statusError(http.StatusBadRequest)
	}
	ctx := c.Request().Context()
	r := formRequest(s.ID, call.By.Entry, c.Request().URL.Path, form)
	to, err := p.sentBefore(ctx, r)
	if err == nil && to == "" {
		to, err = p.actOnce(ctx, a, call, r)
	}
	if err == nil {
		return c.Redirect(http.StatusSeeOther, to)
	}
	f, err := p.formFault(c, s, err)
	if f != nil {
		return p.showAct(c, http.StatusConflict, s, a, opsActView{Faults: []fault{*f}}, nil)
	}
	if declared := (*problem.Error)(nil); errors.Is(err, problem.ErrRateLimited) && errors.As(err, &declared) {
		return tooMany(c, declared.RetryAfter)
	}
	var missing statusError
	if faultsOf(err, nil) == nil && errors.As(opsMissing(err), &missing) {
		return missing
	}
	if faultsOf(err, nil) == nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return p.showAct(c, http.StatusUnprocessableEntity, s, a, opsActView{}, err)
}

// actOn acts on a form whose fields hold what they take; a form that does not is refused with everything that is wrong.
func (p *Pages) actOn(ctx context.Context, a opsAct, call opsCall) (opsDone, error) {
	var fields []opsField
	if a.Fields != nil {
		var err error
		if fields, err = a.Fields(ctx, p.deps.DB.Read(), call); err != nil {
			return opsDone{}, err
		}
	}
	domain := problem.Line("reason", call.By.Reason, maxReason, inSentence)
	if a.Check != nil {
		domain = append(domain, problem.IssuesOf(a.Check(call.Form))...)
	}
	if err := valuesOf(fields, call.Form, domain); err != nil {
		return opsDone{}, err
	}
	return a.Do(postgres.Resting(ctx, operator.Right{Person: call.By.Actor, Roles: a.Roles}), call)
}

// actOnce does an act and returns where it leads. The audit's entry keeps it from being done twice; secrets are kept in
// the transaction of the act, because nobody can tell them afterwards.
func (p *Pages) actOnce(ctx context.Context, a opsAct, call opsCall, r idempotency.Request) (to string, err error) {
	back := a.Back(call.Subject) + "?done=" + a.Name
	call.By.Keep = func(ctx context.Context, tx postgres.Tx, secrets []string) error {
		page := shownAnswer{Act: "ops.do." + a.Name, Subject: call.Subject, Back: back}
		if a.Made != nil {
			page.Back = a.Made(secrets)
		}
		for i, secret := range secrets {
			page.Secrets = append(page.Secrets, fact{a.Secrets[i], secret})
		}
		return p.deps.Idempotency.Keep(ctx, tx, r, http.StatusSeeOther, answered(r, tx.Now, page))
	}
	done, err := p.actOn(ctx, a, call)
	if err != nil {
		again, fault := audit.Has(ctx, p.deps.DB.Read(), call.By.Entry)
		if fault != nil || !again {
			return "", errors.Join(err, fault)
		}
	}
	answer := formAnswer{To: cmp.Or(done.To, back)}
	to, err = p.once(ctx, r, func(postgres.Tx) (formAnswer, error) { return answer, nil })
	if errors.Is(err, idempotency.ErrConflict) { // a twin with other values, after this was done
		return answer.To, nil
	}
	return to, err
}

// amountInput writes an amount as people of a language type it: "20,00" in French, "20.00" otherwise.
func amountInput(c money.Cents, lang string) string {
	return strings.Trim(c.Format(lang), "€\u00a0")
}

var amountForm = regexp.MustCompile(`^([+-]?)([0-9]{1,6})(?:[.,]([0-9]{1,2}))?$`)

// amount reads euros from a field, as people of both languages type them: with a point or a comma before one or two
// digits. What could separate thousands is refused. An empty text is 0 where that is allowed.
func amount(form url.Values, name string, empty bool) (money.Cents, error) {
	s := strings.TrimSpace(form.Get(name))
	if s == "" && empty {
		return 0, nil
	}
	if s == "" {
		return 0, refuseInput(problem.RuleRequired, name)
	}
	m := amountForm.FindStringSubmatch(s)
	if m == nil {
		return 0, refuseInput(ruleAmount, name, problem.Shown(s))
	}
	cents, err := strconv.ParseInt(m[2]+(m[3] + "00")[:2], 10, 64)
	if err != nil {
		return 0, refuseInput(ruleAmount, name, problem.Shown(s))
	}
	total := money.Cents(cents)
	if m[1] == "-" {
		total = -total
	}
	return total, nil
}

func opsPath(parts ...string) string { return operatorDesk + "/" + strings.Join(parts, "/") }

// backTo names the page of a subject in a section.
func backToSubject(section string) func(string) string {
	return func(subject string) string { return opsPath(section, subject) }
}

func backToSection(section string) func(string) string {
	return func(string) string { return opsPath(section) }
}
