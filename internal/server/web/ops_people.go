package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// opsClients finds a client by identifier or by the exact address: there is no list of clients.
func (p *Pages) opsClients(c echo.Context, s staff.Session) error {
	ctx, tx, q := c.Request().Context(), p.deps.DB.Read(), query(c, "q")
	v := opsPage{Heading: "ops.section.clients", Search: []opsField{{Name: "q", Label: "ops.search.client",
		Type: "search", Value: q}}}
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
		{"ops.col.name", plain(account.MaskName(got.Name))}, {"ops.field.email", plain(account.MaskEmail(got.Email))},
		{"ops.field.phone", plain(phone)},
		{"ops.col.status", yes("ops.client.disabled", "ops.client.open", got.Disabled)},
		{"ops.col.since", at(got.CreatedAt)}, {"ops.col.balance", plain(got.Wallet.Balance.Format(lang))},
		{"ops.col.available",
			plain(got.Wallet.Available.Format(lang))},
		{"ops.col.opencases", plain(strconv.Itoa(got.OpenCases))}}}
	proposals, err := p.deps.Operator.ProposalsFor(ctx, tx, got.ID)
	if err != nil {
		return err
	}
	open, waits := operator.Waiting(proposals, tx.Now)
	if waits {
		by, err := p.nameOf(ctx, tx, map[string]string{}, open.By)
		if err != nil {
			return err
		}
		top.Alert, top.Args = "ops.client.proposed", []any{open.Amount.Format(lang), by}
		top.Links = p.decisions(s, open)
	} else {
		top.Links = p.links(s, got.ID, "adjust")
	}
	top.Links = append(top.Links, p.links(s, got.ID, "return-money", "signout-client",
		"unlink-client", map[bool]string{true: "enable-client", false: "disable-client"}[got.Disabled])...)
	apps := opsBlock{Title: "ops.connections", Head: []string{"ops.col.application", "ops.col.since", "ops.col.used"},
		Table: true}
	names := map[string]string{}
	for _, link := range got.Connections {
		apps.Rows = append(apps.Rows, []opsCell{plain(link.Application.Name), at(link.Since), maybeAt(link.LastUsed)})
	}
	items, more, err := p.deps.Consultations.Find(ctx, tx,
		consultation.Filter{ClientID: got.ID, After: query(c, "after")}, opsRows)
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
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.name", "ops.col.status", "ops.col.seen"}, Table: true,
		Links: p.links(s, "", "invite-lawyer")}
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

// signInOf says what a lawyer may sign in for: a suspended one to finish what is in hand and to take copies of notes.
func (p *Pages) signInOf(ctx context.Context, tx postgres.Tx, l lawyer.Lawyer, state staff.State) (opsCell, error) {
	if !l.Suspended || state != staff.Active {
		return coded(string(state)), nil
	}
	finishes, err := p.deps.Consultations.Finishes(ctx, tx, l.ID)
	if finishes {
		return worded("ops.lawyer.finishes"), err
	}
	return worded("ops.lawyer.copies"), err
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
	words, err := p.words(ctx, tx, p.language(c))
	if err != nil {
		return err
	}
	facts := []opsFact{{"ops.col.name", plain(l.Name)}, {"ops.field.email", plain(l.Email)},
		{"ops.col.status", coded(string(l.State))},
		{"ops.col.work", yes("ops.lawyer.barred", "ops.lawyer.free", l.Suspended)}, {"ops.col.since", at(l.CreatedAt)},
		{"ops.field.competences", inWords(words, skills.Competences...)}, {"ops.field.languages",
			inWords(words, skills.Languages...)}}
	signin := worded("ops.lawyer.uninvited")
	person, err := p.deps.Staff.OfLawyer(ctx, tx, l.ID)
	switch {
	case err == nil:
		if signin, err = p.signInOf(ctx, tx, l, person.State); err != nil {
			return err
		}
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
		checked = dayCell(entry.LastDay())
	}
	data := opsBlock{Title: "ops.lawyer.data"}
	if name, bar, found, err := p.deps.Lawyers.SameNumber(ctx, tx, l.ID, entry.Number); err != nil {
		return err
	} else if found {
		data.Alert, data.Args = "ops.lawyer.twin", []any{name, bar}
	}
	facts = append(facts, opsFact{"ops.field.bar", plain(entry.Bar)},
		opsFact{"ops.field.barnumber", plain(entry.Number)}, opsFact{"ops.field.checked", checked})
	duty, err := p.deps.Lawyers.Duty(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	hours := make([]string, len(duty.Hours))
	for i, h := range duty.Hours {
		hours[i] = h.String()
	}
	facts = append(facts, opsFact{"ops.field.zone", plain(duty.TimeZone)},
		opsFact{"ops.field.dutyhours", plain(strings.Join(hours, ", "))}, opsFact{"ops.field.oncall",
			yes("ops.yes", "ops.no", duty.OnCall)})
	acts := []string{"check", "skills", "phone", "duty", "send-home",
		map[bool]string{true: "resume-lawyer", false: "suspend-lawyer"}[l.Suspended]}
	if !l.Simulated {
		acts = append(acts, "reinvite-lawyer")
	}
	data.Facts, data.Links = facts, p.links(s, l.ID, acts...)
	work := opsBlock{Title: "ops.lawyer.hands",
		Head: []string{"ops.col.consultation", "ops.col.status", "ops.col.when"}, Table: true}
	for _, item := range hands {
		work.Rows = append(work.Rows, []opsCell{p.caseCell(item.ID), coded(string(item.Status)),
			maybeAt(item.AssignedAt)})
	}
	return p.ops(c, s, opsPage{Heading: "ops.lawyer", Name: l.Name, Code: l.ID,
		Blocks: []opsBlock{data, work, entries}})
}

func (p *Pages) opsPeople(c echo.Context, s staff.Session) error {
	people, err := p.deps.Operator.Operators(c.Request().Context())
	if err != nil {
		return err
	}
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.name", "ops.field.email", "ops.field.roles",
		"ops.col.signin"}, Table: true, Links: p.links(s, "", "invite")}
	for _, person := range people {
		b.Rows = append(b.Rows, []opsCell{{Text: person.Name, URL: opsPath("people", person.ID)}, plain(person.Email),
			code(roleNames(person)), coded(string(person.State))})
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
	person, err := p.deps.Operator.Person(ctx, tx, c.Param("id"))
	if err != nil {
		return err
	}
	entries, err := p.auditBlock(ctx, tx, person.ID, 0)
	if err != nil {
		return err
	}
	top := opsBlock{Title: "ops.person", Facts: []opsFact{{"ops.col.name", plain(person.Name)},
		{"ops.field.email", plain(person.Email)}, {"ops.field.roles", code(roleNames(person))},
		{"ops.col.signin", coded(string(person.State))},
		{"ops.col.factor", yes("ops.yes", "ops.no", person.SecondFactor)}, {"ops.col.since", at(person.CreatedAt)}}}
	top.Links = p.links(s, person.ID, "reinvite", "disable")
	if person.Kind == staff.Operator {
		top.Links = append(p.links(s, person.ID, "roles"), top.Links...)
	}
	return p.ops(c, s, opsPage{Heading: "ops.person", Name: person.Name, Code: person.ID,
		Blocks: []opsBlock{top, entries}})
}
