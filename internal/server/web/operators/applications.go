package operators

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

func (p *Pages) opsApplications(c echo.Context, s staff.Session) error {
	list, err := p.deps.Applications.List(c.Request().Context(), p.DB.Read())
	if err != nil {
		return err
	}
	b := forms.Block{Title: "ops.found", Head: []string{"ops.col.name", "ops.col.id", "ops.col.status",
		"ops.col.since"},
		Table: true, Links: p.links(s, "", "create-application")}
	for _, a := range list {
		b.Rows = append(b.Rows, []forms.Cell{{Text: a.Name, URL: Path("applications", a.ID)}, forms.Code(a.ID),
			forms.YesNo("ops.app.suspended", "ops.app.works", a.Suspended), forms.At(a.CreatedAt)})
	}
	return p.ops(c, s, forms.Page{Heading: "ops.section.applications", Blocks: []forms.Block{b}})
}

func (p *Pages) opsApplication(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	a, err := p.deps.Applications.Get(ctx, tx, c.Param("id"))
	if err != nil {
		return err
	}
	rate := func(n int) forms.Cell {
		if n == 0 {
			return forms.Worded("ops.rate.default")
		}
		return forms.Plain(strconv.Itoa(n))
	}
	top := forms.Block{Title: "ops.app", Facts: []forms.Line{forms.LineOf("ops.col.name", forms.Plain(a.Name)),
		forms.LineOf("ops.col.status", forms.YesNo("ops.app.suspended", "ops.app.works", a.Suspended)),
		forms.LineOf("ops.field.contact", forms.Plain(a.ContactEmail)),
		forms.LineOf("ops.field.redirects", forms.Plain(strings.Join(a.RedirectURIs, " "))),
		forms.LineOf("ops.field.scopes", forms.Code(application.FormatScopes(a.Scopes))),
		forms.LineOf("ops.field.rate", rate(a.RatePerMinute)), forms.LineOf("ops.field.clientrate",
			rate(a.ClientRatePerMinute)),
		forms.LineOf("ops.app.previous", forms.MaybeAt(a.PreviousSecretUntil)),
		forms.LineOf("ops.col.since", forms.At(a.CreatedAt))}}
	top.Links = p.links(s, a.ID, "update-application", "rotate-secret",
		map[bool]string{true: "resume-application", false: "suspend-application"}[a.Suspended])
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
	people := forms.Block{Title: "dev.people", Head: []string{"ops.col.name", "dev.col.role", "ops.col.since"},
		Table: true, Links: p.links(s, a.ID, "invite-member")}
	for _, m := range members {
		people.Rows = append(people.Rows, []forms.Cell{{Text: m.Name, URL: Path("people", m.StaffID)},
			forms.RoleCell(m.Role), forms.At(m.Since)})
	}
	return p.ops(c, s, forms.Page{Heading: "ops.app", Name: a.Name, Code: a.ID,
		Blocks: append(append([]forms.Block{top, people}, hooks...), entries)})
}

func (p *Pages) hookBlocks(ctx context.Context, tx postgres.Tx, s staff.Session,
	applicationID string,
) ([]forms.Block, error) {
	endpoint, err := p.deps.Webhooks.Endpoint(ctx, tx, applicationID)
	if errors.Is(err, problem.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	health, err := p.deps.Webhooks.HealthOf(ctx, tx, applicationID, tx.Now.Add(-forms.HealthSpan))
	if err != nil {
		return nil, err
	}
	host := ""
	if u, err := url.Parse(endpoint.URL); err == nil && u.Host != "" {
		host = u.Scheme + "://" + u.Host // the rest may hold a token
	}
	state := forms.Block{Title: "ops.hooks", Facts: []forms.Line{forms.LineOf("ops.hooks.host", forms.Code(host)),
		forms.LineOf("ops.hooks.disabled", forms.MaybeAt(endpoint.DisabledAt)),
		forms.LineOf("ops.hooks.why", forms.Code(endpoint.DisabledReason)),
		forms.LineOf("ops.hooks.failing", forms.MaybeAt(endpoint.FailingSince)),
		forms.LineOf("ops.hooks.rate", forms.RateCell(health)),
		forms.LineOf("ops.hooks.failed", forms.Plain(strconv.Itoa(health.Failed))),
		forms.LineOf("ops.hooks.pending", forms.Plain(strconv.Itoa(health.Pending))),
		forms.LineOf("ops.hooks.oldest", forms.MaybeAt(health.Oldest))}}
	state.Links = p.links(s, applicationID, "webhook-url", "enable-webhooks", "redeliver-one", "redeliver")
	list, _, err := p.deps.Webhooks.Deliveries(ctx, tx, applicationID, webhook.DeliveryFilter{Limit: 20})
	log := forms.Block{Title: "ops.deliveries", Head: []string{"ops.col.when", "ops.col.kind", "ops.col.status",
		"ops.col.attempts", "ops.col.next"}, Table: true}
	for _, d := range list {
		log.Rows = append(log.Rows, []forms.Cell{forms.At(d.CreatedAt),
			forms.Linked(Path("deliveries", d.ID)+"?application="+applicationID, string(d.Type)),
			forms.Coded(string(d.State)),
			forms.Plain(strconv.Itoa(d.Attempts)), forms.MaybeAt(d.NextAt)})
	}
	return []forms.Block{state, log}, err
}

// opsDelivery shows the attempts of a delivery, without the content of requests and responses.
func (p *Pages) opsDelivery(c echo.Context, s staff.Session) error {
	ctx, tx, app := c.Request().Context(), p.DB.Read(), forms.Param(c, "application")
	if !shell.Identifier.MatchString(app) {
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
	top := forms.Block{Title: "ops.delivery", Facts: []forms.Line{forms.LineOf("ops.col.kind",
		forms.Code(string(d.Type))), forms.LineOf("ops.col.status",
		forms.Coded(string(d.State))), forms.LineOf("ops.col.application",
		forms.Linked(Path("applications", app), app)),
		forms.LineOf("ops.col.when", forms.At(d.CreatedAt)), forms.LineOf("ops.col.next", forms.MaybeAt(d.NextAt))}}
	if d.ConsultationID != "" {
		top.Facts = append(top.Facts, forms.LineOf("ops.col.consultation", p.caseCell(d.ConsultationID)))
	}
	b := forms.Block{Title: "ops.attempts", Head: []string{"ops.col.number", "ops.col.when", "ops.col.duration",
		"ops.col.http", "ops.col.fault"}, Table: true}
	for _, a := range attempts {
		class, _, _ := strings.Cut(a.Error, ":")
		b.Rows = append(b.Rows, []forms.Cell{forms.Plain(strconv.Itoa(a.Number)), forms.At(a.StartedAt),
			forms.Plain(strconv.FormatInt(a.Duration.Milliseconds(), 10) + " ms"),
			forms.Plain(strconv.Itoa(a.StatusCode)),
			forms.Code(class)})
	}
	return p.ops(c, s, forms.Page{Heading: "ops.delivery", Code: d.ID, Blocks: []forms.Block{top, b}})
}
