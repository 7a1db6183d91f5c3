package operators

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
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// opsClients finds a client by ID or by the exact email address. There is no list of clients.
func (p *Pages) opsClients(c echo.Context, s staff.Session) error {
	ctx, tx, q := c.Request().Context(), p.DB.Read(), forms.Param(c, "q")
	v := forms.Page{Heading: "ops.section.clients", Search: []forms.Field{{Name: "q", Label: "ops.search.client",
		Type: "search", Value: q}}}
	if q != "" {
		got, err := p.deps.Accounts.ByEmail(ctx, tx, q)
		if errors.Is(err, problem.ErrNotFound) && shell.Identifier.MatchString(q) {
			got, err = p.deps.Accounts.Get(ctx, tx, q)
		}
		if err == nil {
			return c.Redirect(http.StatusSeeOther, Path("clients", got.ID))
		}
		if !errors.Is(err, problem.ErrNotFound) {
			return err
		}
		v.Blocks = []forms.Block{{Title: "ops.found", Table: true}}
	}
	return p.ops(c, s, v)
}

func (p *Pages) opsClient(c echo.Context, s staff.Session) error {
	ctx, tx, lang := c.Request().Context(), p.DB.Read(), p.Language(c)
	got, err := p.deps.Operator.Client(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	phone, err := p.deps.SelfService.MaskedPhone(ctx, tx, got.ID)
	if err != nil {
		return err
	}
	top := forms.Block{Title: "ops.client", Hint: "ops.client.hint", Facts: []forms.Line{
		forms.LineOf("ops.col.name", forms.Plain(account.MaskName(got.Name))),
		forms.LineOf("ops.field.email", forms.Plain(account.MaskEmail(got.Email))),
		forms.LineOf("ops.field.phone", forms.Plain(phone)),
		forms.LineOf("ops.col.status", forms.YesNo("ops.client.disabled", "ops.client.open", got.Disabled)),
		forms.LineOf("ops.col.since", forms.At(got.CreatedAt)), forms.LineOf("ops.col.balance",
			forms.Plain(got.Wallet.Balance.Format(lang))),
		forms.LineOf("ops.col.available",
			forms.Plain(got.Wallet.Available.Format(lang))),
		forms.LineOf("ops.col.opencases", forms.Plain(strconv.Itoa(got.OpenCases)))}}
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
	apps := forms.Block{Title: "ops.connections", Head: []string{"ops.col.application", "ops.col.since",
		"ops.col.used"},
		Table: true}
	names := map[string]string{}
	for _, link := range got.Connections {
		apps.Rows = append(apps.Rows, []forms.Cell{forms.Plain(link.Application.Name), forms.At(link.Since),
			forms.MaybeAt(link.LastUsed)})
	}
	items, more, err := p.deps.Consultations.Find(ctx, tx,
		consultation.Filter{ClientID: got.ID, After: forms.Param(c, "after")}, opsRows)
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
	v := forms.Page{Heading: "ops.client", Code: got.ID, Blocks: []forms.Block{top, apps, cases, entries}}
	if more {
		v.Older = forms.Older(c, items[len(items)-1].ID)
	}
	return p.ops(c, s, v)
}

func (p *Pages) opsLawyers(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	list, err := p.deps.Lawyers.List(ctx, tx, forms.Param(c, "after"), opsRows+1)
	if err != nil {
		return err
	}
	b := forms.Block{Title: "ops.found", Head: []string{"ops.col.name", "ops.col.status", "ops.col.seen"}, Table: true,
		Links: p.links(s, "", "invite-lawyer")}
	v := forms.Page{Heading: "ops.section.lawyers"}
	if len(list) > opsRows {
		list = list[:opsRows]
		v.Older = forms.Older(c, list[opsRows-1].ID)
	}
	for _, l := range list {
		state := forms.Coded(string(l.State))
		if l.Suspended {
			state = forms.Worded("ops.lawyer.barred")
		}
		seen := forms.Cell{}
		if !l.HeartbeatAt.IsZero() {
			seen = forms.At(l.HeartbeatAt)
		}
		b.Rows = append(b.Rows, []forms.Cell{{Text: l.Name, URL: Path("lawyers", l.ID)}, state, seen})
	}
	v.Blocks = []forms.Block{b}
	return p.ops(c, s, v)
}

// SignInOf says what a lawyer can sign in for. A suspended lawyer can only finish open work and download copies of
// notes.
func (p *Pages) SignInOf(ctx context.Context, tx postgres.Tx, l lawyer.Lawyer, state staff.State) (forms.Cell, error) {
	if !l.Suspended || state != staff.Active {
		return forms.Coded(string(state)), nil
	}
	finishes, err := p.deps.Consultations.Finishes(ctx, tx, l.ID)
	if finishes {
		return forms.Worded("ops.lawyer.finishes"), err
	}
	return forms.Worded("ops.lawyer.copies"), err
}

func (p *Pages) opsLawyer(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
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
	words, err := p.words(ctx, tx, p.Language(c))
	if err != nil {
		return err
	}
	facts := []forms.Line{forms.LineOf("ops.col.name", forms.Plain(l.Name)),
		forms.LineOf("ops.field.email", forms.Plain(l.Email)),
		forms.LineOf("ops.col.status", forms.Coded(string(l.State))),
		forms.LineOf("ops.col.work", forms.YesNo("ops.lawyer.barred", "ops.lawyer.free", l.Suspended)),
		forms.LineOf("ops.col.since", forms.At(l.CreatedAt)),
		forms.LineOf("ops.field.competences", inWords(words, skills.Competences...)),
		forms.LineOf("ops.field.languages",
			inWords(words, skills.Languages...))}
	signin := forms.Worded("ops.lawyer.uninvited")
	person, err := p.deps.Staff.OfLawyer(ctx, tx, l.ID)
	switch {
	case err == nil:
		if signin, err = p.SignInOf(ctx, tx, l, person.State); err != nil {
			return err
		}
	case !errors.Is(err, staff.ErrNotFound):
		return err
	}
	facts = append(facts, forms.LineOf("ops.col.signin", signin))
	entry, err := p.deps.Lawyers.Registration(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	checked := forms.Worded("ops.lawyer.unchecked")
	if entry.Checked(tx.Now) {
		checked = dayCell(entry.LastDay())
	}
	data := forms.Block{Title: "ops.lawyer.data"}
	if name, bar, found, err := p.deps.Lawyers.SameNumber(ctx, tx, l.ID, entry.Number); err != nil {
		return err
	} else if found {
		data.Alert, data.Args = "ops.lawyer.twin", []any{name, bar}
	}
	facts = append(facts, forms.LineOf("ops.field.bar", forms.Plain(entry.Bar)),
		forms.LineOf("ops.field.barnumber", forms.Plain(entry.Number)), forms.LineOf("ops.field.checked", checked))
	duty, err := p.deps.Lawyers.Duty(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	hours := make([]string, len(duty.Hours))
	for i, h := range duty.Hours {
		hours[i] = h.String()
	}
	facts = append(facts, forms.LineOf("ops.field.zone", forms.Plain(duty.TimeZone)),
		forms.LineOf("ops.field.dutyhours", forms.Plain(strings.Join(hours, ", "))), forms.LineOf("ops.field.oncall",
			forms.YesNo("ops.yes", "ops.no", duty.OnCall)))
	acts := []string{"check", "skills", "phone", "duty", "send-home",
		map[bool]string{true: "resume-lawyer", false: "suspend-lawyer"}[l.Suspended]}
	if !l.Simulated {
		acts = append(acts, "reinvite-lawyer")
	}
	data.Facts, data.Links = facts, p.links(s, l.ID, acts...)
	work := forms.Block{Title: "ops.lawyer.hands",
		Head: []string{"ops.col.consultation", "ops.col.status", "ops.col.when"}, Table: true}
	for _, item := range hands {
		work.Rows = append(work.Rows, []forms.Cell{p.caseCell(item.ID), forms.Coded(string(item.Status)),
			forms.MaybeAt(item.AssignedAt)})
	}
	return p.ops(c, s, forms.Page{Heading: "ops.lawyer", Name: l.Name, Code: l.ID,
		Blocks: []forms.Block{data, work, entries}})
}

func (p *Pages) opsPeople(c echo.Context, s staff.Session) error {
	people, err := p.deps.Operator.Operators(c.Request().Context())
	if err != nil {
		return err
	}
	b := forms.Block{Title: "ops.found", Head: []string{"ops.col.name", "ops.field.email", "ops.field.roles",
		"ops.col.signin"}, Table: true, Links: p.links(s, "", "invite")}
	for _, person := range people {
		b.Rows = append(b.Rows, []forms.Cell{{Text: person.Name, URL: Path("people", person.ID)},
			forms.Plain(person.Email),
			forms.Code(roleNames(person)), forms.Coded(string(person.State))})
	}
	return p.ops(c, s, forms.Page{Heading: "ops.section.people", Blocks: []forms.Block{b}})
}

func roleNames(person staff.Person) string {
	names := make([]string, len(person.Roles))
	for i, r := range person.Roles {
		names[i] = string(r)
	}
	return strings.Join(names, " ")
}

func (p *Pages) opsPerson(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	person, err := p.deps.Operator.Person(ctx, tx, c.Param("id"))
	if err != nil {
		return err
	}
	entries, err := p.auditBlock(ctx, tx, person.ID, 0)
	if err != nil {
		return err
	}
	top := forms.Block{Title: "ops.person", Facts: []forms.Line{forms.LineOf("ops.col.name", forms.Plain(person.Name)),
		forms.LineOf("ops.field.email", forms.Plain(person.Email)), forms.LineOf("ops.field.roles",
			forms.Code(roleNames(person))),
		forms.LineOf("ops.col.signin", forms.Coded(string(person.State))),
		forms.LineOf("ops.col.factor", forms.YesNo("ops.yes", "ops.no", person.SecondFactor)),
		forms.LineOf("ops.col.since", forms.At(person.CreatedAt))}}
	top.Links = p.links(s, person.ID, "reinvite", "disable")
	if person.Kind == staff.Operator {
		top.Links = append(p.links(s, person.ID, "roles"), top.Links...)
	}
	return p.ops(c, s, forms.Page{Heading: "ops.person", Name: person.Name, Code: person.ID,
		Blocks: []forms.Block{top, entries}})
}
