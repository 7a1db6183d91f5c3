package web

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

func (p *Pages) opsApplications(c echo.Context, s staff.Session) error {
	list, err := p.deps.Applications.List(c.Request().Context(), p.deps.DB.Read())
	if err != nil {
		return err
	}
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.name", "ops.col.id", "ops.col.status", "ops.col.since"},
		Table: true, Links: p.links(s, "", "create-application")}
	for _, a := range list {
		b.Rows = append(b.Rows, []opsCell{{Text: a.Name, URL: opsPath("applications", a.ID)}, code(a.ID),
			yes("ops.app.suspended", "ops.app.works", a.Suspended), at(a.CreatedAt)})
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
	top := opsBlock{Title: "ops.app", Facts: []opsFact{{"ops.col.name", plain(a.Name)},
		{"ops.col.status", yes("ops.app.suspended", "ops.app.works", a.Suspended)},
		{"ops.field.contact", plain(a.ContactEmail)},
		{"ops.field.redirects", plain(strings.Join(a.RedirectURIs, " "))},
		{"ops.field.scopes", code(application.FormatScopes(a.Scopes))},
		{"ops.field.rate", rate(a.RatePerMinute)}, {"ops.field.clientrate", rate(a.ClientRatePerMinute)},
		{"ops.app.previous", maybeAt(a.PreviousSecretUntil)}, {"ops.col.since", at(a.CreatedAt)}}}
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
	people := opsBlock{Title: "dev.people", Head: []string{"ops.col.name", "dev.col.role", "ops.col.since"},
		Table: true, Links: p.links(s, a.ID, "invite-member")}
	for _, m := range members {
		people.Rows = append(people.Rows, []opsCell{{Text: m.Name, URL: opsPath("people", m.StaffID)},
			roleCell(m.Role), at(m.Since)})
	}
	return p.ops(c, s, opsPage{Heading: "ops.app", Name: a.Name, Code: a.ID,
		Blocks: append(append([]opsBlock{top, people}, hooks...), entries)})
}

func (p *Pages) hookBlocks(ctx context.Context, tx postgres.Tx, s staff.Session,
	applicationID string,
) ([]opsBlock, error) {
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
	state := opsBlock{Title: "ops.hooks", Facts: []opsFact{{"ops.hooks.host", code(host)},
		{"ops.hooks.disabled", maybeAt(endpoint.DisabledAt)}, {"ops.hooks.why", code(endpoint.DisabledReason)},
		{"ops.hooks.failing", maybeAt(endpoint.FailingSince)}, {"ops.hooks.rate", rateCell(health)},
		{"ops.hooks.failed", plain(strconv.Itoa(health.Failed))},
		{"ops.hooks.pending", plain(strconv.Itoa(health.Pending))}, {"ops.hooks.oldest", maybeAt(health.Oldest)}}}
	state.Links = p.links(s, applicationID, "webhook-url", "enable-webhooks", "redeliver-one", "redeliver")
	list, _, err := p.deps.Webhooks.Deliveries(ctx, tx, applicationID, webhook.DeliveryFilter{Limit: 20})
	log := opsBlock{Title: "ops.deliveries", Head: []string{"ops.col.when", "ops.col.kind", "ops.col.status",
		"ops.col.attempts", "ops.col.next"}, Table: true}
	for _, d := range list {
		log.Rows = append(log.Rows, []opsCell{at(d.CreatedAt),
			linked(opsPath("deliveries", d.ID)+"?application="+applicationID, string(d.Type)), coded(string(d.State)),
			plain(strconv.Itoa(d.Attempts)), maybeAt(d.NextAt)})
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
	top := opsBlock{Title: "ops.delivery", Facts: []opsFact{{"ops.col.kind", code(string(d.Type))}, {"ops.col.status",
		coded(string(d.State))}, {"ops.col.application", linked(opsPath("applications", app), app)},
		{"ops.col.when", at(d.CreatedAt)}, {"ops.col.next", maybeAt(d.NextAt)}}}
	if d.ConsultationID != "" {
		top.Facts = append(top.Facts, opsFact{"ops.col.consultation", p.caseCell(d.ConsultationID)})
	}
	b := opsBlock{Title: "ops.attempts", Head: []string{"ops.col.number", "ops.col.when", "ops.col.duration",
		"ops.col.http", "ops.col.fault"}, Table: true}
	for _, a := range attempts {
		class, _, _ := strings.Cut(a.Error, ":")
		b.Rows = append(b.Rows, []opsCell{plain(strconv.Itoa(a.Number)), at(a.StartedAt),
			plain(strconv.FormatInt(a.Duration.Milliseconds(), 10) + " ms"), plain(strconv.Itoa(a.StatusCode)),
			code(class)})
	}
	return p.ops(c, s, opsPage{Heading: "ops.delivery", Code: d.ID, Blocks: []opsBlock{top, b}})
}
