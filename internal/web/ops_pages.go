package web

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/account"
	"partnerd/internal/application"
	"partnerd/internal/audit"
	"partnerd/internal/books"
	"partnerd/internal/consultation"
	"partnerd/internal/matching"
	"partnerd/internal/money"
	"partnerd/internal/operator"
	"partnerd/internal/payment"
	"partnerd/internal/postgres"
	"partnerd/internal/privacy"
	"partnerd/internal/problem"
	"partnerd/internal/staff"
	"partnerd/internal/webhook"
)

const (
	opsRows  = 50
	opsStale = 26 * time.Hour // a nightly examination that is older was missed

	// promiseAlarm is how long before a promised call is due operators should look after it themselves.
	promiseAlarm = 2 * time.Hour
)

func (p *Pages) ops(c echo.Context, s staff.Session, v opsPage) error {
	for i := range v.Blocks {
		v.Blocks[i].Facts = slices.DeleteFunc(v.Blocks[i].Facts, func(f opsFact) bool { return f.Cell.Text == "" && f.Cell.Key == "" && f.Cell.At == nil })
	}
	return p.showOps(c, http.StatusOK, s, "ops", v.Heading, v)
}

// nameOf writes an actor for people to read; who is nobody that signs in here stays as the audit calls him.
func (p *Pages) nameOf(ctx context.Context, tx postgres.Tx, known map[string]string, actor string) (string, error) {
	if name, ok := known[actor]; ok {
		return name, nil
	}
	if !strings.HasPrefix(actor, "stf_") {
		return actor, nil
	}
	person, err := p.deps.Staff.Get(ctx, tx, actor)
	if errors.Is(err, staff.ErrNotFound) {
		return actor, nil
	}
	known[actor] = person.Name
	return person.Name, err
}

// opsBoard is the start: what was promised and when, what waits for a second person, and what is late.
func (p *Pages) opsBoard(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	promised, err := p.deps.Consultations.Promised(ctx, tx, opsRows)
	if err != nil {
		return err
	}
	board := opsBlock{Title: "ops.board.promised", Head: []string{"ops.col.due", "ops.col.left", "ops.col.consultation", "ops.col.status", "ops.col.lawyer"}, Table: true}
	late := 0
	for _, item := range promised {
		left := item.CallbackDueAt.Sub(tx.Now)
		cell := worded("ops.minutes", int(left/time.Minute))
		if left < promiseAlarm {
			late++
			cell = worded("ops.minutes.alarm", int(left/time.Minute))
		}
		board.Rows = append(board.Rows, []opsCell{at(*item.CallbackDueAt), cell, p.caseCell(item.ID), coded(string(item.Status)), code(item.LawyerID)})
	}
	if late > 0 {
		board.Alert, board.Args = "ops.board.alarm", []any{late}
	}
	missing, err := p.deps.Consultations.MissingNotes(ctx, tx, opsRows)
	if err != nil {
		return err
	}
	notes := opsBlock{Title: "ops.notes", Head: []string{"ops.col.consultation", "ops.col.lawyer", "ops.notes.since", "ops.notes.until"}, Table: true}
	for _, item := range missing {
		notes.Rows = append(notes.Rows, []opsCell{p.caseCell(item.ID), code(item.LawyerID), maybeAt(item.CallEndedAt), at(item.NoteDueAt())})
	}
	proposals, err := p.proposalBlock(ctx, tx, c, s)
	if err != nil {
		return err
	}
	check, examined, err := p.deps.Books.LastCheck(ctx, tx)
	if err != nil {
		return err
	}
	v := opsPage{Heading: "ops.title", Blocks: []opsBlock{board, notes, proposals}}
	if !examined || len(check.Findings) > 0 || tx.Now.Sub(check.StartedAt) > opsStale {
		v.Blocks = append([]opsBlock{{Title: "ops.books", Alert: "ops.books.look"}}, v.Blocks...)
	}
	return p.ops(c, s, v)
}

func (p *Pages) proposalBlock(ctx context.Context, tx postgres.Tx, c echo.Context, s staff.Session) (opsBlock, error) {
	b := opsBlock{Title: "ops.proposals", Hint: "ops.proposals.hint", Head: []string{"ops.col.when", "ops.col.kind", "ops.col.subject", "ops.col.amount", "ops.col.by", "ops.col.reason", "ops.col.decide"}, Table: true}
	open, err := p.deps.Operator.Proposals(ctx, tx)
	if err != nil {
		return b, err
	}
	known := map[string]string{}
	for _, o := range open {
		by, err := p.nameOf(ctx, tx, known, o.By)
		if err != nil {
			return b, err
		}
		decide := opsCell{}
		if s.Person.May(staff.Finance) {
			decide = opsCell{URL: opsPath("proposals", o.ID, "refuse"), Key: "ops.do.refuse"}
			if o.By != s.Person.ID {
				decide = opsCell{URL: opsPath("proposals", o.ID, "confirm"), Key: "ops.do.confirm"}
			}
		}
		b.Rows = append(b.Rows, []opsCell{at(o.CreatedAt), worded("ops.kind." + string(o.Kind)), subjectCell(o.Subject), plain(o.Amount.Format(p.language(c))), plain(by), plain(o.Reason), decide})
	}
	return b, nil
}

func (p *Pages) caseCell(id string) opsCell { return linked(opsPath("consultations", id), id) }

// subjectCell links what an identifier names.
func subjectCell(subject string) opsCell {
	for prefix, section := range map[string]string{"con_": "consultations", "cli_": "clients", "law_": "lawyers", "app_": "applications", "stf_": "people", "dlv_": "deliveries"} {
		if strings.HasPrefix(subject, prefix) {
			return linked(opsPath(section, subject), subject)
		}
	}
	return code(subject)
}

func query(c echo.Context, name string) string { return strings.TrimSpace(c.QueryParam(name)) }

// older is the address of the same list after an item.
func older(c echo.Context, after string) string {
	q := c.Request().URL.Query()
	q.Set("after", after)
	q.Del("lang")
	q.Del("done")
	return c.Request().URL.Path + "?" + q.Encode()
}

func (p *Pages) opsConsultations(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	q, status, app, age := query(c, "q"), query(c, "status"), query(c, "application"), query(c, "age")
	if strings.HasPrefix(q, "con_") && identifier.MatchString(q) {
		_, err := p.deps.Consultations.Peek(ctx, tx, q)
		if err == nil {
			return c.Redirect(http.StatusSeeOther, opsPath("consultations", q))
		}
		if !errors.Is(err, problem.ErrNotFound) {
			return err
		}
	}
	hours, _ := strconv.Atoi(age)
	f := consultation.Filter{Status: consultation.Status(status), ApplicationID: app, ExternalRef: q, Age: time.Duration(min(max(hours, 0), 100_000)) * time.Hour, After: query(c, "after")}
	items, more, err := p.deps.Consultations.Find(ctx, tx, f, opsRows)
	if err != nil {
		return err
	}
	apps, err := p.deps.Applications.List(ctx, tx)
	if err != nil {
		return err
	}
	v := opsPage{Heading: "ops.section.consultations", Search: []opsField{
		{Name: "q", Label: "ops.search.consultation", Type: "search", Value: q},
		{Name: "status", Label: "ops.col.status", Type: "select", Options: []opsOption{{Text: "ops.field.all", Key: true}}},
		{Name: "application", Label: "ops.col.application", Type: "select", Options: []opsOption{{Text: "ops.field.all", Key: true}}},
		{Name: "age", Label: "ops.search.age", Type: "number", Value: age, Optional: true}}}
	for _, st := range consultation.Statuses()[1:] {
		v.Search[1].Options = append(v.Search[1].Options, opsOption{Value: string(st), Text: coded(string(st)).Key, Key: true, Chosen: string(st) == status})
	}
	names := map[string]string{}
	for _, a := range apps {
		names[a.ID] = a.Name
		v.Search[2].Options = append(v.Search[2].Options, opsOption{Value: a.ID, Text: a.Name, Chosen: a.ID == app})
	}
	v.Blocks = []opsBlock{caseTable(items, names)}
	if more {
		v.Older = older(c, items[len(items)-1].ID)
	}
	return p.ops(c, s, v)
}

func caseTable(items []consultation.Consultation, applications map[string]string) opsBlock {
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.consultation", "ops.col.status", "ops.col.when", "ops.col.application", "ops.col.reference"}, Table: true}
	for _, item := range items {
		b.Rows = append(b.Rows, []opsCell{linked(opsPath("consultations", item.ID), item.ID), coded(string(item.Status)), at(item.CreatedAt), plain(applications[item.ApplicationID]), plain(item.ExternalRef)})
	}
	return b
}

func (p *Pages) opsConsultation(c echo.Context, s staff.Session) error {
	ctx, lang := c.Request().Context(), p.language(c)
	got, err := p.deps.Operator.Case(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	facts := []opsFact{
		{"ops.col.status", coded(string(got.Status))}, {"ops.col.application", linked(opsPath("applications", got.ApplicationID), got.Application.Name)},
		{"ops.col.client", subjectCell(got.ClientID)}, {"ops.col.reference", plain(got.ExternalRef)}, {"ops.col.pair", code(got.Competence + " " + got.Language)},
		{"ops.col.price", plain(got.Price.Format(lang))}, {"ops.col.lawyer", p.lawyerCell(got, got.LawyerID)}, {"ops.col.due", maybeAt(got.CallbackDueAt)},
		{"ops.col.call", maybeAt(got.CallStartedAt)}, {"ops.col.ended", code(string(got.EndReason))},
	}
	if got.DurationSec != nil {
		facts = append(facts, opsFact{"ops.col.duration", worded("ops.seconds", *got.DurationSec)})
	}
	if got.RefundedAt != nil {
		facts = append(facts, opsFact{"ops.col.refunded", plain(got.Refunded.Format(lang))})
	}
	if got.Withdrawal != nil {
		facts = append(facts, opsFact{"ops.col.withdrawal", at(got.Withdrawal.DeclaredAt)}, opsFact{"ops.col.owed", plain(got.Proposed.Format(lang))})
	}
	top := opsBlock{Title: "ops.case", Hint: "ops.case.hint", Facts: facts, Links: p.links(s, got.ID, actsFor(got.Consultation)...)}
	if s.Person.May(staff.Support, staff.Security) {
		top.Links = append(top.Links, opsLink{URL: opsPath("consultations", got.ID, "proof.json"), Key: "ops.proof"})
	}
	timeline, err := p.timeline(ctx, got, lang)
	if err != nil {
		return err
	}
	return p.ops(c, s, opsPage{Heading: "ops.consultation", Code: got.ID, Blocks: []opsBlock{top, why(p, got), timeline}})
}

// actsFor are the acts that the state table allows.
func actsFor(c consultation.Consultation) (names []string) {
	switch {
	case c.Status == consultation.Matching || c.Status == consultation.PendingCallback:
		names = append(names, "assign", "cancel")
	case c.Status.Cancellable():
		names = append(names, "cancel")
	case c.Status == consultation.CallEnded:
		names = append(names, "close")
	case c.Status == consultation.Completed:
		if c.RefundedAt == nil {
			names = append(names, "refund")
		}
		if c.ErasedAt == nil {
			names = append(names, "correct")
		}
	}
	return names
}

func (p *Pages) lawyerCell(got operator.Case, lawyerID string) opsCell {
	if l, ok := got.Lawyers[lawyerID]; ok {
		return opsCell{Text: l.Name, URL: opsPath("lawyers", lawyerID)}
	}
	return code(lawyerID)
}

// because says why a lawyer was asked; of the oldest offers it is not known.
func because(why matching.Why) opsCell {
	if why == "" {
		return opsCell{}
	}
	return worded("ops.because." + string(why))
}

// why tells why each lawyer was asked, and what he answered.
func why(p *Pages, got operator.Case) opsBlock {
	b := opsBlock{Title: "ops.why", Head: []string{"ops.col.when", "ops.col.lawyer", "ops.col.why", "ops.col.place", "ops.col.answer"}, Table: true}
	for _, o := range got.Offers {
		place := opsCell{}
		if o.QueuePlace > 0 {
			place = worded("ops.place", o.QueuePlace, o.QueueSeen, int(o.Idle/time.Second))
		}
		b.Rows = append(b.Rows, []opsCell{at(o.CreatedAt), p.lawyerCell(got, o.LawyerID), because(o.Why), place, coded(string(o.State), o.Reason)})
	}
	return b
}

type moment struct {
	at    time.Time
	cells []opsCell
}

// timeline puts everything that happened in the order of time.
func (p *Pages) timeline(ctx context.Context, got operator.Case, lang string) (opsBlock, error) {
	var all []moment
	add := func(t time.Time, kind string, cells ...opsCell) {
		what := opsCell{}
		if len(cells) > 0 {
			what = cells[0]
		}
		detail := opsCell{}
		if len(cells) > 1 {
			detail = cells[1]
		}
		all = append(all, moment{t, []opsCell{exactly(t), worded("ops.line." + kind), what, detail}})
	}
	slices.SortFunc(got.Deliveries, func(a, b webhook.Delivery) int { return cmp.Compare(a.Sequence, b.Sequence) }) // of one instant, too
	for _, d := range got.Deliveries {
		add(d.CreatedAt, "event", code(string(d.Type)), opsCell{Key: coded(string(d.State)).Key, URL: opsPath("deliveries", d.ID) + "?application=" + got.ApplicationID})
	}
	for _, o := range got.Offers {
		add(o.CreatedAt, "offer", p.lawyerCell(got, o.LawyerID), because(o.Why))
		if o.EndedAt != nil {
			add(*o.EndedAt, "answer", p.lawyerCell(got, o.LawyerID), coded(string(o.State), o.Reason))
		}
		if o.ReturnedAt != nil {
			add(*o.ReturnedAt, "returned", p.lawyerCell(got, o.LawyerID), code(o.Reason))
		}
	}
	for _, call := range got.Calls {
		add(call.StartedAt, "call", code(call.ID), worded("ops.attempt", call.Attempt))
		for _, e := range call.Events {
			add(e.At, "report", coded(string(e.Kind)), worded("ops.attempt", call.Attempt))
		}
		if call.EndedAt != nil {
			add(*call.EndedAt, "callend", coded(string(call.Outcome), call.Reason), worded("ops.attempt", call.Attempt))
		}
	}
	for _, m := range got.Money {
		add(m.CreatedAt, "money", coded(string(m.Type)), plain(m.Amount.Format(lang)))
	}
	known := map[string]string{}
	for _, e := range got.Audit {
		name, err := p.nameOf(ctx, p.deps.DB.Read(), known, e.Actor)
		if err != nil {
			return opsBlock{}, err
		}
		add(e.CreatedAt, "act", code(e.Action), plain(name+": "+e.Reason))
	}
	for _, o := range got.Proposals {
		add(o.CreatedAt, "proposal", coded(string(o.State)), plain(o.Amount.Format(lang)))
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	b := opsBlock{Title: "ops.timeline", Head: []string{"ops.col.when", "ops.col.kind", "ops.col.what", "ops.col.detail"}, Table: true}
	for _, m := range all {
		b.Rows = append(b.Rows, m.cells)
	}
	return b, nil
}

func (p *Pages) opsProof(c echo.Context, _ staff.Session) error {
	proof, err := p.deps.Consultations.ProofFor(c.Request().Context(), p.deps.DB.Read(), c.Param("id"))
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="proof-`+proof.ConsultationID+`.json"`)
	return c.JSONPretty(http.StatusOK, privacy.PackOf(proof), "  ")
}

// opsClients finds a client by identifier or by the exact address: there is no list of clients.
func (p *Pages) opsClients(c echo.Context, s staff.Session) error {
	ctx, tx, q := c.Request().Context(), p.deps.DB.Read(), query(c, "q")
	v := opsPage{Heading: "ops.section.clients", Search: []opsField{{Name: "q", Label: "ops.search.client", Type: "search", Value: q}}}
	if q != "" {
		got, err := p.deps.Accounts.ByEmail(ctx, tx, q)
		if errors.Is(err, problem.ErrNotFound) && identifier.MatchString(q) {
			got, err = p.deps.Accounts.Get(ctx, tx, q)
		}
		if err == nil {
			return c.Redirect(http.StatusSeeOther, opsPath("clients", got.ID))
		}
		if !errors.Is(err, problem.ErrNotFound) {
			return err
		}
		v.Blocks = []opsBlock{{Title: "ops.found", Table: true}}
	}
	return p.ops(c, s, v)
}

func (p *Pages) opsClient(c echo.Context, s staff.Session) error {
	ctx, tx, lang := c.Request().Context(), p.deps.DB.Read(), p.language(c)
	got, err := p.deps.Operator.Client(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	phone, err := p.deps.SelfService.MaskedPhone(ctx, tx, got.ID)
	if err != nil {
		return err
	}
	top := opsBlock{Title: "ops.client", Hint: "ops.client.hint", Facts: []opsFact{
		{"ops.col.name", plain(account.MaskName(got.Name))}, {"ops.field.email", plain(account.MaskEmail(got.Email))}, {"ops.field.phone", plain(phone)},
		{"ops.col.status", yes("ops.client.disabled", "ops.client.open", got.Disabled)}, {"ops.col.since", at(got.CreatedAt)},
		{"ops.col.balance", plain(got.Wallet.Balance.Format(lang))}, {"ops.col.available", plain(got.Wallet.Available.Format(lang))},
		{"ops.col.opencases", plain(strconv.Itoa(got.OpenCases))}}}
	top.Links = p.links(s, got.ID, "adjust", "signout-client", "unlink-client", map[bool]string{true: "enable-client", false: "disable-client"}[got.Disabled])
	apps := opsBlock{Title: "ops.connections", Head: []string{"ops.col.application", "ops.col.since", "ops.col.used"}, Table: true}
	names := map[string]string{}
	for _, link := range got.Connections {
		apps.Rows = append(apps.Rows, []opsCell{plain(link.Application.Name), at(link.Since), maybeAt(link.LastUsed)})
	}
	items, more, err := p.deps.Consultations.Find(ctx, tx, consultation.Filter{ClientID: got.ID, After: query(c, "after")}, opsRows)
	if err != nil {
		return err
	}
	all, err := p.deps.Applications.List(ctx, tx)
	if err != nil {
		return err
	}
	for _, a := range all {
		names[a.ID] = a.Name
	}
	entries, err := p.auditBlock(ctx, tx, got.ID, 0)
	if err != nil {
		return err
	}
	cases := caseTable(items, names)
	cases.Title = "ops.section.consultations"
	v := opsPage{Heading: "ops.client", Code: got.ID, Blocks: []opsBlock{top, apps, cases, entries}}
	if more {
		v.Older = older(c, items[len(items)-1].ID)
	}
	return p.ops(c, s, v)
}

func yes(key, otherwise string, condition bool) opsCell {
	if condition {
		return worded(key)
	}
	return worded(otherwise)
}

func (p *Pages) opsLawyers(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	list, err := p.deps.Lawyers.List(ctx, tx, query(c, "after"), opsRows+1)
	if err != nil {
		return err
	}
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.name", "ops.col.status", "ops.col.seen"}, Table: true, Links: p.links(s, "", "invite-lawyer")}
	v := opsPage{Heading: "ops.section.lawyers"}
	if len(list) > opsRows {
		list = list[:opsRows]
		v.Older = older(c, list[opsRows-1].ID)
	}
	for _, l := range list {
		state := coded(string(l.State))
		if l.Suspended {
			state = worded("ops.lawyer.barred")
		}
		seen := opsCell{}
		if !l.HeartbeatAt.IsZero() {
			seen = at(l.HeartbeatAt)
		}
		b.Rows = append(b.Rows, []opsCell{{Text: l.Name, URL: opsPath("lawyers", l.ID)}, state, seen})
	}
	v.Blocks = []opsBlock{b}
	return p.ops(c, s, v)
}

func (p *Pages) opsLawyer(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	l, err := p.deps.Lawyers.Get(ctx, tx, c.Param("id"))
	if err != nil {
		return err
	}
	skills, err := p.deps.Lawyers.Skills(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	hands, err := p.deps.Consultations.InHands(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	entries, err := p.auditBlock(ctx, tx, l.ID, 0)
	if err != nil {
		return err
	}
	facts := []opsFact{{"ops.col.name", plain(l.Name)}, {"ops.field.email", plain(l.Email)}, {"ops.col.status", coded(string(l.State))},
		{"ops.col.work", yes("ops.lawyer.barred", "ops.lawyer.free", l.Suspended)}, {"ops.col.since", at(l.CreatedAt)},
		{"ops.field.competences", code(strings.Join(skills.Competences, " "))}, {"ops.field.languages", code(strings.Join(skills.Languages, " "))}}
	signin := worded("ops.lawyer.uninvited")
	person, err := p.deps.Staff.OfLawyer(ctx, tx, l.ID)
	switch {
	case err == nil:
		signin = coded(string(person.State))
	case !errors.Is(err, staff.ErrNotFound):
		return err
	}
	facts = append(facts, opsFact{"ops.col.signin", signin})
	entry, err := p.deps.Lawyers.Registration(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	checked := worded("ops.lawyer.unchecked")
	if entry.Checked(tx.Now) {
		checked = at(entry.CheckedUntil)
	}
	facts = append(facts, opsFact{"ops.field.bar", plain(entry.Bar)}, opsFact{"ops.field.barnumber", plain(entry.Number)}, opsFact{"ops.field.checked", checked})
	duty, err := p.deps.Lawyers.Duty(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	hours := make([]string, len(duty.Hours))
	for i, h := range duty.Hours {
		hours[i] = h.String()
	}
	facts = append(facts, opsFact{"ops.field.zone", plain(duty.TimeZone)}, opsFact{"ops.field.dutyhours", plain(strings.Join(hours, ", "))}, opsFact{"ops.field.oncall", yes("ops.yes", "ops.no", duty.OnCall)})
	acts := []string{"check", "skills", "phone", "duty", "send-home", map[bool]string{true: "resume-lawyer", false: "suspend-lawyer"}[l.Suspended]}
	if !l.Simulated {
		acts = append(acts, "reinvite-lawyer")
	}
	work := opsBlock{Title: "ops.lawyer.hands", Head: []string{"ops.col.consultation", "ops.col.status", "ops.col.when"}, Table: true}
	for _, item := range hands {
		work.Rows = append(work.Rows, []opsCell{p.caseCell(item.ID), coded(string(item.Status)), maybeAt(item.AssignedAt)})
	}
	return p.ops(c, s, opsPage{Heading: "ops.lawyer", Code: l.ID, Blocks: []opsBlock{{Title: "ops.lawyer.data", Facts: facts, Links: p.links(s, l.ID, acts...)}, work, entries}})
}

func (p *Pages) opsPeople(c echo.Context, s staff.Session) error {
	people, err := p.deps.Operator.Operators(c.Request().Context())
	if err != nil {
		return err
	}
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.name", "ops.field.email", "ops.field.roles", "ops.col.signin"}, Table: true, Links: p.links(s, "", "invite")}
	for _, person := range people {
		b.Rows = append(b.Rows, []opsCell{{Text: person.Name, URL: opsPath("people", person.ID)}, plain(person.Email), code(roleNames(person)), coded(string(person.State))})
	}
	return p.ops(c, s, opsPage{Heading: "ops.section.people", Blocks: []opsBlock{b}})
}

func roleNames(person staff.Person) string {
	names := make([]string, len(person.Roles))
	for i, r := range person.Roles {
		names[i] = string(r)
	}
	return strings.Join(names, " ")
}

func (p *Pages) opsPerson(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	person, err := p.deps.Staff.Get(ctx, tx, c.Param("id"))
	if err == nil && person.Kind == staff.Lawyer {
		err = staff.ErrNotFound
	}
	if err != nil {
		return err
	}
	entries, err := p.auditBlock(ctx, tx, person.ID, 0)
	if err != nil {
		return err
	}
	top := opsBlock{Title: "ops.person", Facts: []opsFact{{"ops.col.name", plain(person.Name)}, {"ops.field.email", plain(person.Email)}, {"ops.field.roles", code(roleNames(person))},
		{"ops.col.signin", coded(string(person.State))}, {"ops.col.factor", yes("ops.yes", "ops.no", person.SecondFactor)}, {"ops.col.since", at(person.CreatedAt)}}}
	top.Links = p.links(s, person.ID, "reinvite", "disable")
	if person.Kind == staff.Operator {
		top.Links = append(p.links(s, person.ID, "roles"), top.Links...)
	}
	return p.ops(c, s, opsPage{Heading: "ops.person", Code: person.ID, Blocks: []opsBlock{top, entries}})
}

func (p *Pages) opsApplications(c echo.Context, s staff.Session) error {
	list, err := p.deps.Applications.List(c.Request().Context(), p.deps.DB.Read())
	if err != nil {
		return err
	}
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.name", "ops.col.id", "ops.col.status", "ops.col.since"}, Table: true, Links: p.links(s, "", "create-application")}
	for _, a := range list {
		b.Rows = append(b.Rows, []opsCell{{Text: a.Name, URL: opsPath("applications", a.ID)}, code(a.ID), yes("ops.app.suspended", "ops.app.works", a.Suspended), at(a.CreatedAt)})
	}
	return p.ops(c, s, opsPage{Heading: "ops.section.applications", Blocks: []opsBlock{b}})
}

// opsHealth is the span over which the success of webhooks is counted.
const opsHealth = 24 * time.Hour

func (p *Pages) opsApplication(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	a, err := p.deps.Applications.Get(ctx, tx, c.Param("id"))
	if err != nil {
		return err
	}
	rate := func(n int) opsCell {
		if n == 0 {
			return worded("ops.rate.default")
		}
		return plain(strconv.Itoa(n))
	}
	top := opsBlock{Title: "ops.app", Facts: []opsFact{{"ops.col.name", plain(a.Name)}, {"ops.col.status", yes("ops.app.suspended", "ops.app.works", a.Suspended)}, {"ops.field.contact", plain(a.ContactEmail)},
		{"ops.field.redirects", plain(strings.Join(a.RedirectURIs, " "))}, {"ops.field.scopes", code(application.FormatScopes(a.Scopes))},
		{"ops.field.rate", rate(a.RatePerMinute)}, {"ops.field.clientrate", rate(a.ClientRatePerMinute)}, {"ops.app.previous", maybeAt(a.PreviousSecretUntil)}, {"ops.col.since", at(a.CreatedAt)}}}
	top.Links = p.links(s, a.ID, "update-application", "rotate-secret", map[bool]string{true: "resume-application", false: "suspend-application"}[a.Suspended])
	hooks, err := p.hookBlocks(ctx, tx, s, a.ID)
	if err != nil {
		return err
	}
	entries, err := p.auditBlock(ctx, tx, a.ID, 0)
	if err != nil {
		return err
	}
	members, _, err := p.deps.Portal.PeopleOf(ctx, tx, a.ID)
	if err != nil {
		return err
	}
	people := opsBlock{Title: "dev.people", Head: []string{"ops.col.name", "dev.col.role", "ops.col.since"}, Table: true, Links: p.links(s, a.ID, "invite-member")}
	for _, m := range members {
		people.Rows = append(people.Rows, []opsCell{{Text: m.Name, URL: opsPath("people", m.StaffID)}, roleCell(m.Role), at(m.Since)})
	}
	return p.ops(c, s, opsPage{Heading: "ops.app", Code: a.ID, Blocks: append(append([]opsBlock{top, people}, hooks...), entries)})
}

func (p *Pages) hookBlocks(ctx context.Context, tx postgres.Tx, s staff.Session, applicationID string) ([]opsBlock, error) {
	endpoint, err := p.deps.Webhooks.Endpoint(ctx, tx, applicationID)
	if errors.Is(err, problem.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	health, err := p.deps.Webhooks.HealthOf(ctx, tx, applicationID, tx.Now.Add(-opsHealth))
	if err != nil {
		return nil, err
	}
	host := ""
	if u, err := url.Parse(endpoint.URL); err == nil && u.Host != "" {
		host = u.Scheme + "://" + u.Host // the rest may hold a token
	}
	state := opsBlock{Title: "ops.hooks", Facts: []opsFact{{"ops.hooks.host", code(host)}, {"ops.hooks.disabled", maybeAt(endpoint.DisabledAt)}, {"ops.hooks.why", code(endpoint.DisabledReason)},
		{"ops.hooks.failing", maybeAt(endpoint.FailingSince)}, {"ops.hooks.rate", worded("ops.percent", health.Rate())}, {"ops.hooks.failed", plain(strconv.Itoa(health.Failed))},
		{"ops.hooks.pending", plain(strconv.Itoa(health.Pending))}, {"ops.hooks.oldest", maybeAt(health.Oldest)}}}
	state.Links = p.links(s, applicationID, "enable-webhooks", "redeliver-one", "redeliver")
	list, _, err := p.deps.Webhooks.Deliveries(ctx, tx, applicationID, webhook.DeliveryFilter{Limit: 20})
	log := opsBlock{Title: "ops.deliveries", Head: []string{"ops.col.when", "ops.col.kind", "ops.col.status", "ops.col.attempts", "ops.col.next"}, Table: true}
	for _, d := range list {
		log.Rows = append(log.Rows, []opsCell{at(d.CreatedAt), linked(opsPath("deliveries", d.ID)+"?application="+applicationID, string(d.Type)), coded(string(d.State)), plain(strconv.Itoa(d.Attempts)), maybeAt(d.NextAt)})
	}
	return []opsBlock{state, log}, err
}

// opsDelivery shows the attempts of a delivery: neither what was sent nor what came back.
func (p *Pages) opsDelivery(c echo.Context, s staff.Session) error {
	ctx, tx, app := c.Request().Context(), p.deps.DB.Read(), query(c, "application")
	if !identifier.MatchString(app) {
		return problem.ErrNotFound
	}
	d, err := p.deps.Webhooks.Delivery(ctx, tx, app, c.Param("id"))
	if err != nil {
		return err
	}
	attempts, err := p.deps.Webhooks.Attempts(ctx, tx, app, d.ID)
	if err != nil {
		return err
	}
	top := opsBlock{Title: "ops.delivery", Facts: []opsFact{{"ops.col.kind", code(string(d.Type))}, {"ops.col.status", coded(string(d.State))}, {"ops.col.application", linked(opsPath("applications", app), app)}, {"ops.col.when", at(d.CreatedAt)}, {"ops.col.next", maybeAt(d.NextAt)}}}
	if d.ConsultationID != "" {
		top.Facts = append(top.Facts, opsFact{"ops.col.consultation", p.caseCell(d.ConsultationID)})
	}
	b := opsBlock{Title: "ops.attempts", Head: []string{"ops.col.number", "ops.col.when", "ops.col.duration", "ops.col.http", "ops.col.fault"}, Table: true}
	for _, a := range attempts {
		class, _, _ := strings.Cut(a.Error, ":")
		b.Rows = append(b.Rows, []opsCell{plain(strconv.Itoa(a.Number)), at(a.StartedAt), plain(strconv.FormatInt(a.Duration.Milliseconds(), 10) + " ms"), plain(strconv.Itoa(a.StatusCode)), code(class)})
	}
	return p.ops(c, s, opsPage{Heading: "ops.delivery", Code: d.ID, Blocks: []opsBlock{top, b}})
}

type moneyView struct {
	Check     books.Check
	Examined  bool
	Stale     bool
	Sound     bool
	Threshold money.Cents
	Near      struct{ Outstanding, Volume bool }
	Incidents []payment.Incident
	Refunds   []payment.RefundState
	FourEyes  money.Cents
}

// opsMoney shows the state of the money.
func (p *Pages) opsMoney(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	v := moneyView{Threshold: books.EMoneyThreshold, FourEyes: operator.FourEyes}
	var err error
	if v.Check, v.Examined, err = p.deps.Books.LastCheck(ctx, tx); err != nil {
		return err
	}
	v.Stale = v.Examined && tx.Now.Sub(v.Check.StartedAt) > opsStale
	v.Sound = v.Examined && len(v.Check.Findings) == 0
	v.Near.Outstanding, v.Near.Volume = books.NearThreshold(v.Check.Outstanding), books.NearThreshold(v.Check.Volume)
	if v.Incidents, err = p.deps.Payments.Incidents(ctx, tx, opsRows); err != nil {
		return err
	}
	if v.Refunds, err = p.deps.Payments.OpenRefunds(ctx, tx, opsRows); err != nil {
		return err
	}
	return p.showOps(c, http.StatusOK, s, "opsmoney", "ops.section.money", v)
}

func (p *Pages) auditBlock(ctx context.Context, tx postgres.Tx, subject string, before int64) (opsBlock, error) {
	b := opsBlock{Title: "ops.audit", Head: []string{"ops.col.number", "ops.col.when", "ops.col.by", "ops.col.what", "ops.col.subject", "ops.col.reason"}, Table: true}
	entries, err := audit.List(ctx, tx, subject, before, opsRows)
	if err != nil {
		return b, err
	}
	known := map[string]string{}
	for _, e := range entries {
		name, err := p.nameOf(ctx, tx, known, e.Actor)
		if err != nil {
			return b, err
		}
		b.Rows = append(b.Rows, []opsCell{plain(strconv.FormatInt(e.Seq, 10)), at(e.CreatedAt), plain(name), code(e.Action), subjectCell(e.Subject), plain(e.Reason)})
	}
	return b, nil
}

func (p *Pages) opsAudit(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	before, _ := strconv.ParseInt(query(c, "after"), 10, 64)
	b, err := p.auditBlock(ctx, tx, query(c, "subject"), max(before, 0))
	if err != nil {
		return err
	}
	chain, err := p.chainBlock(ctx, tx, query(c, "follow") != "")
	if err != nil {
		return err
	}
	v := opsPage{Heading: "ops.section.audit", Search: []opsField{{Name: "subject", Label: "ops.search.audit", Type: "search", Value: query(c, "subject")}}, Blocks: []opsBlock{chain, b}}
	if len(b.Rows) == opsRows {
		v.Older = older(c, b.Rows[opsRows-1][0].Text)
	}
	return p.ops(c, s, v)
}

// chainBlock says when the chain was followed last, which every examination of the books does; now follows it, over all entries.
func (p *Pages) chainBlock(ctx context.Context, tx postgres.Tx, now bool) (opsBlock, error) {
	b := opsBlock{Title: "ops.chain", Links: []opsLink{{URL: opsPath("audit", "export.jsonl"), Key: "ops.audit.export"}}}
	if !now {
		check, examined, err := p.deps.Books.LastCheck(ctx, tx)
		if examined {
			b.Facts = []opsFact{{"ops.chain.last", at(check.StartedAt)}}
		}
		b.Hint, b.Links = "ops.chain.nightly", append(b.Links, opsLink{URL: opsPath("audit") + "?follow=yes", Key: "ops.chain.follow"})
		return b, err
	}
	findings, err := audit.Verify(ctx, tx)
	if len(findings) == 0 {
		b.Hint = "ops.chain.whole"
		return b, err
	}
	b.Alert, b.Args, b.Head, b.Table = "ops.chain.broken", []any{len(findings)}, []string{"ops.col.fault"}, true
	for _, f := range findings {
		b.Rows = append(b.Rows, []opsCell{plain(f)})
	}
	return b, err
}

const exported = 1000 // entries that one read of the export takes

// opsAuditExport writes every entry as a line of JSON with its place in the chain, so that it can be verified without the
// program: sha256 is the SHA-256 of the bytes of the previous line's sha256 (none for the first) and of hashed.
func (p *Pages) opsAuditExport(c echo.Context, _ staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	h := c.Response().Header()
	h.Set("Content-Type", "application/jsonl; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	out := json.NewEncoder(c.Response())
	out.SetEscapeHTML(false)
	for after := int64(0); ; {
		list, err := audit.Links(ctx, tx, after, exported)
		if err != nil {
			return err
		}
		for _, l := range list {
			if err := out.Encode(struct {
				Number int64  `json:"number"`
				Hashed string `json:"hashed"`
				SHA256 string `json:"sha256"`
			}{l.Seq, l.Hashed, hex.EncodeToString(l.Hash)}); err != nil {
				return err
			}
			after = l.Seq
		}
		if len(list) < exported {
			return nil
		}
	}
}
