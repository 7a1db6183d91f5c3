package developers

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
	"partnerd/openapi"
)

// Playground contains the services of a sandbox for applications; nil in a live deployment.
type Playground struct {
	Clients *sandbox.Clients
	Inbox   *sandbox.Inbox
	Crews   *sandbox.Crews
}

// devSandboxReads lists the pages about test clients and simulated lawyers.
func (p *Pages) devSandboxReads() []Read {
	if p.deps.Playground == nil {
		return nil
	}
	return []Read{
		{ofApp("clients"), ofApp("clients"), p.devClients},
		{ofApp("inbox"), ofApp("inbox"), p.devInbox},
		{ofApp("scenarios"), ofApp("scenarios"), p.devScenarios},
		{ofApp("lawyers"), ofApp("lawyers"), p.devLawyers},
	}
}

// devChoice links to an action on one item. It is empty if the member may not do it.
func (p *Pages) devChoice(m portal.Membership, subject, name string) forms.Cell {
	for _, l := range p.devLinks(m, subject, name) {
		return forms.Cell{Key: l.Key, URL: l.URL}
	}
	return forms.Cell{}
}

func (p *Pages) devClients(c echo.Context, s staff.Session, m portal.Membership) error {
	list, err := p.deps.Playground.Clients.List(c.Request().Context(), p.DB.Read(), m.Application.ID)
	if err != nil {
		return err
	}
	b := forms.Block{Title: "dev.clients", Hint: "dev.clients.hint",
		Head: []string{"ops.col.name", "ops.field.email", "dev.col.phone", "dev.col.scenario", "dev.col.created",
			"dev.col.inbox", "dev.col.delete"}, Table: true,
		Links: p.devLinks(m, "", "client-new")}
	for _, one := range list {
		scenario := forms.Code(one.Scenario)
		if links := p.devLinks(m, one.ID, "client-scenario"); len(links) > 0 {
			scenario = forms.Linked(links[0].URL, one.Scenario)
		}
		b.Rows = append(b.Rows, []forms.Cell{forms.Plain(one.Name), forms.Code(one.Email),
			forms.YesNo("ops.yes", "ops.no", one.PhoneVerified),
			scenario, forms.At(one.CreatedAt),
			{Key: "dev.section.inbox", URL: Path(m.Application.ID, "inbox") + "?client=" + one.ID},
			p.devChoice(m, one.ID, "client-delete")})
	}
	p.begin(&b, m, "dev.clients.none", "client-new")
	return p.dev(c, s, forms.Page{Heading: "dev.section.clients", Code: m.Application.Name, Blocks: []forms.Block{b}})
}

func (p *Pages) devInbox(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	clients, err := p.deps.Playground.Clients.List(ctx, tx, m.Application.ID)
	if err != nil {
		return err
	}
	after := forms.Param(c, "after")
	if after != "" && !shell.Identifier.MatchString(after) {
		return problem.ErrNotFound
	}
	f, names := sandbox.MessageFilter{}, map[string]string{}
	whose := forms.Field{Name: "client", Label: "dev.col.client", Type: "select",
		Options: []forms.Option{{Text: "dev.clients.all", Key: true}}}
	for _, one := range clients {
		chosen := forms.Param(c, "client") == one.ID
		if names[one.ID] = one.Name; chosen {
			f.ClientID = one.ID
		}
		whose.Options = append(whose.Options, forms.Option{Value: one.ID, Text: one.Name + ", " + one.Email,
			Chosen: chosen})
	}
	list, more, err := p.deps.Playground.Inbox.List(ctx, tx, m.Application.ID, f, after, devRows)
	if err != nil {
		return err
	}
	blocks := []forms.Block{{Title: "dev.newest", Hint: "dev.inbox.hint",
		Links: []forms.Action{{URL: Path(m.Application.ID, "clients"), Key: "dev.clients.show"}}}}
	if len(list) == 0 {
		blocks[0].Table, blocks[0].Empty, blocks[0].Begin = true, "dev.inbox.none", "dev.clients.show"
	}
	for _, one := range list {
		b := forms.Block{Title: "dev.message." + one.Kind, Pre: one.Text,
			Facts: []forms.Line{forms.LineOf("ops.col.when", forms.Exactly(one.SentAt)),
				forms.LineOf("dev.col.client", forms.Plain(names[one.ClientID])),
				forms.LineOf("dev.col.to", forms.Code(one.To))}}
		if one.Subject != "" {
			b.Facts = append(b.Facts, forms.LineOf("dev.col.subject", forms.Plain(one.Subject)))
		}
		blocks = append(blocks, b)
	}
	v := forms.Page{Heading: "dev.section.inbox", Code: m.Application.Name, Search: []forms.Field{whose},
		Blocks: blocks}
	if more {
		v.Older = forms.Older(c, list[len(list)-1].ID)
	}
	return p.dev(c, s, v)
}

// scenarioRow matches a row of the scenario table in the contract: name, events, end, seconds.
var scenarioRow = regexp.MustCompile("(?m)^ +\\| `([a-z_]+)` \\| [^|]+ \\| ([a-z_ ]+) \\| ([^|]+) \\| (\\d*) ?\\|$")

func (p *Pages) devScenarios(c echo.Context, s staff.Session, m portal.Membership) error {
	how := forms.Block{Title: "dev.scenarios", Hint: "dev.scenarios.hint",
		Links: []forms.Action{{URL: Path(m.Application.ID, "clients"), Key: "dev.clients.show"},
			{URL: "/docs/sandbox", Key: "dev.scenarios.docs"}}}
	how.Links = append(how.Links, p.devLinks(m, "", "clock")...)
	b := forms.Block{Title: "dev.scenarios.table",
		Head: []string{"dev.col.scenario", "dev.col.happens", "dev.col.events", "dev.col.pass"}, Table: true}
	for _, r := range scenarioRow.FindAllStringSubmatch(string(openapi.Sandbox), -1) {
		b.Rows = append(b.Rows, []forms.Cell{forms.Code(r[1]), forms.Worded("dev.scenario." + r[1]),
			forms.Plain(r[2] + " → " + strings.ReplaceAll(r[3], "`", "")), forms.Plain(r[4])})
	}
	return p.dev(c, s, forms.Page{Heading: "dev.section.scenarios", Code: m.Application.Name,
		Blocks: []forms.Block{how, b}})
}

func (p *Pages) devLawyers(c echo.Context, s staff.Session, m portal.Membership) error {
	list, err := p.deps.Playground.Crews.List(c.Request().Context(), p.DB.Read(), m.Application.ID)
	if err != nil {
		return err
	}
	b := forms.Block{Title: "dev.lawyers", Hint: "dev.lawyers.hint",
		Head: []string{"ops.col.name", "ops.field.competences", "ops.field.languages", "ops.col.status", "ops.col.what",
			"dev.col.delete"}, Table: true,
		Links: p.devLinks(m, "", "lawyer-new")}
	for _, one := range list {
		change := map[bool]string{true: "lawyer-away", false: "lawyer-back"}[one.Available]
		b.Rows = append(b.Rows, []forms.Cell{forms.Plain(one.Name), forms.Plain(strings.Join(one.Competences, " ")),
			forms.Plain(strings.Join(one.Languages, " ")), forms.YesNo("dev.lawyer.works", "dev.lawyer.away",
				one.Available),
			p.devChoice(m, one.ID, change), p.devChoice(m, one.ID, "lawyer-delete")})
	}
	p.begin(&b, m, "dev.lawyers.none", "lawyer-new")
	return p.dev(c, s, forms.Page{Heading: "dev.section.lawyers", Code: m.Application.Name, Blocks: []forms.Block{b}})
}

// devSandboxActs lists the actions on test clients and lawyers.
func (p *Pages) devSandboxActs() []Act {
	g := p.deps.Playground
	if g == nil {
		return nil
	}
	available := func(to bool) func(context.Context, Call) (Done, error) {
		return func(ctx context.Context, c Call) (Done, error) {
			return Done{}, g.Crews.SetAvailable(ctx, c.By.StaffID, c.Of.ID, c.Subject, to)
		}
	}
	return []Act{
		{Name: "client-new", Path: ofApp("clients", "new"), Need: portal.Developer, Back: ofApp("clients"),
			Fields: func(context.Context, postgres.Tx, Call) ([]forms.Field, error) {
				return []forms.Field{{Name: "name", Label: "ops.col.name", Type: "text"},
					{Name: "euros", Label: "dev.field.euros", Hint: "dev.field.euros.hint", Type: "text", Value: "100"},
					{Name: "zone", Label: "dev.field.zone", Hint: "dev.field.zone.hint", Type: "text", Of: "timeZone",
						Optional: true},
					{Name: "phone", Label: "dev.col.phone", Type: "checks", Options: []forms.Option{{Value: "yes",
						Text: "dev.field.phone.yes", Key: true, Chosen: true}}}}, nil
			},
			Check: func(form url.Values) error {
				_, err := testClientOf(form)
				return err
			},
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				n, err := testClientOf(c.Form)
				if err != nil {
					return Done{}, err
				}
				one, password, err := g.Clients.Create(ctx, tx, c.By.StaffID, c.Of.ID, n)
				return Done{Secrets: []forms.Fact{forms.FactOf("ops.field.email", one.Email),
					forms.FactOf("dev.password", password)}}, err
			}},
		{Name: "client-scenario", Path: ofApp("clients", ":id", "scenario"), Need: portal.Developer,
			Back: ofApp("clients"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				one, err := p.testClient(ctx, tx, c)
				f := forms.Field{Name: "scenario", Label: "dev.col.scenario", Type: "select"}
				for _, name := range sandbox.Scenarios() {
					f.Options = append(f.Options, forms.Option{Value: name, Text: name, Chosen: name == one.Scenario})
				}
				return []forms.Field{{Label: "ops.col.name", Type: "shown", Value: one.Name}, f}, err
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, p.DB.InTx(ctx, func(tx postgres.Tx) error {
					return g.Clients.ChooseNamed(ctx, tx, c.Of.ID, c.Subject, c.Form.Get("scenario"))
				})
			}},
		{Name: "client-delete", Ends: true, Path: ofApp("clients", ":id", "delete"), Need: portal.Developer,
			Danger: true, Back: ofApp("clients"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				one, err := p.testClient(ctx, tx, c)
				return []forms.Field{{Label: "ops.col.name", Type: "shown", Value: one.Name}}, err
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, g.Clients.Delete(ctx, c.By.StaffID, c.Of.ID, c.Subject)
			}},
		{Name: "lawyer-new", Path: ofApp("lawyers", "new"), Need: portal.Developer, Back: ofApp("lawyers"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				choices, err := forms.SkillChoices(ctx, tx, p.deps.Catalog, c.Lang, lawyer.Skills{})
				return append([]forms.Field{{Name: "name", Label: "ops.col.name", Type: "text"}}, choices...), err
			},
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				_, err := g.Crews.Create(ctx, tx, c.By.StaffID, c.Of.ID,
					sandbox.NewCrewLawyer{Name: strings.TrimSpace(c.Form.Get("name")),
						Competences: c.Form["competences"], Languages: c.Form["languages"]})
				return Done{}, err
			}},
		{Name: "lawyer-away", Ends: true, Path: ofApp("lawyers", ":id", "away"), Need: portal.Developer,
			Back: ofApp("lawyers"), Fields: p.crewFields, Do: available(false)},
		{Name: "lawyer-back", Path: ofApp("lawyers", ":id", "back"), Need: portal.Developer, Back: ofApp("lawyers"),
			Fields: p.crewFields, Do: available(true)},
		{Name: "lawyer-delete", Ends: true, Path: ofApp("lawyers", ":id", "delete"), Need: portal.Developer,
			Danger: true, Back: ofApp("lawyers"), Fields: p.crewFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, g.Crews.Delete(ctx, c.By.StaffID, c.Of.ID, c.Subject)
			}},
	}
}

// testClientOf returns the client that a form describes, or all errors of the form.
func testClientOf(form url.Values) (sandbox.NewTestClient, error) {
	n := sandbox.NewTestClient{Name: strings.TrimSpace(form.Get("name")), TimeZone: strings.TrimSpace(form.Get("zone")),
		PhoneVerified: form.Get("phone") == "yes"}
	var err error
	n.Balance, err = forms.Amount(form, "euros", false)
	if err == nil && (n.Balance < 0 || n.Balance > maxTestEuros*100) {
		err = forms.RefuseInput(forms.RuleEuros, "euros", problem.Shown(form.Get("euros")), maxTestEuros)
	}
	if issues := slices.Concat(problem.IssuesOf(err), problem.IssuesOf(n.Check())); issues != nil {
		return n, problem.Refuse(forms.ErrInput, issues...)
	}
	return n, nil
}

const maxTestEuros = 2000 // the maximum of the Sandbox API

// testClient returns the subject of an action. Problem: NOT_FOUND.
func (p *Pages) testClient(ctx context.Context, tx postgres.Tx, c Call) (sandbox.TestClient, error) {
	list, err := p.deps.Playground.Clients.List(ctx, tx, c.Of.ID)
	if err != nil {
		return sandbox.TestClient{}, err
	}
	for _, one := range list {
		if one.ID == c.Subject {
			return one, nil
		}
	}
	return sandbox.TestClient{}, problem.ErrNotFound
}

// crewFields name the lawyer of an action.
func (p *Pages) crewFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	list, err := p.deps.Playground.Crews.List(ctx, tx, c.Of.ID)
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if one.ID == c.Subject {
			return []forms.Field{{Label: "ops.col.name", Type: "shown", Value: one.Name}}, nil
		}
	}
	return nil, problem.ErrNotFound
}
