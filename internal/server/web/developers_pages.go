package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/requestlog"
)

const devRows = 20

// devReads are the pages of an application, which all its members see: see developers.md.
func (p *Pages) devReads() []devRead {
	page := func(parts ...string) string { return devPath(":app", parts...) }
	return append([]devRead{
		{page(), page(), p.devOverview},
		{page("webhooks"), page("webhooks"), p.devWebhooks},
		{page("events"), page("events"), p.devEvents},
		{page("events", ":id"), page("events"), p.devEvent},
		{page("deliveries"), page("deliveries"), p.devDeliveries},
		{page("deliveries", ":id"), page("deliveries"), p.devDelivery},
		{page("requests"), page("requests"), p.devRequests},
		{page("requests", ":id"), page("requests"), p.devRequest},
		{page("live"), page("live"), p.devLive},
		{page("people"), page("people"), p.devPeople},
	}, p.devSandboxReads()...)
}

// developers lists a person's applications.
func (p *Pages) developers(c echo.Context, s staff.Session) error {
	list, err := p.deps.Portal.Applications(c.Request().Context(), p.deps.DB.Read(), s.Person.ID)
	if err != nil {
		return err
	}
	b := opsBlock{Title: "dev.apps", Head: []string{"ops.col.name", "ops.col.id", "dev.col.role", "ops.col.status"},
		Table: true, Hint: "dev.apps.live"}
	if p.deps.Sandbox {
		b.Hint, b.Links = "dev.apps.hint", []opsLink{{URL: developersDesk + "/new", Key: "dev.do.create"}}
	}
	for _, m := range list {
		b.Rows = append(b.Rows, []opsCell{{Text: m.Application.Name, URL: devPath(m.Application.ID)},
			code(m.Application.ID), roleCell(m.Role), yes("ops.app.suspended", "ops.app.works",
				m.Application.Suspended)})
	}
	return p.dev(c, s, opsPage{Heading: "dev.title", Blocks: []opsBlock{b}})
}

func roleCell(r portal.Role) opsCell { return worded("dev.role." + string(r)) }

func (p *Pages) devOverview(c echo.Context, s staff.Session, m portal.Membership) error {
	a, u := m.Application, p.deps.Portal.Usage(c.Request().Context(), m.Application)
	top := opsBlock{Title: "dev.settings", Facts: []opsFact{{"ops.col.name", plain(a.Name)},
		{"dev.clientid", code(a.ID)}, {"dev.col.role", roleCell(m.Role)},
		{"ops.col.status", yes("ops.app.suspended", "ops.app.works", a.Suspended)},
		{"ops.field.redirects", plain(strings.Join(a.RedirectURIs, " "))},
		{"ops.field.contact", plain(a.ContactEmail)}, {"ops.field.scopes", code(application.FormatScopes(a.Scopes))},
		{"ops.col.since", at(a.CreatedAt)}},
		Links: p.devLinks(m, "", "edit")}
	if a.Suspended {
		top.Alert, top.Ask = "dev.suspended", true
	}
	secrets := opsBlock{Title: "dev.secrets", Hint: "dev.secrets.hint", Links: p.devLinks(m, "", "secret")}
	if a.PreviousSecretUntil != nil && p.deps.DB.Clock().Now().Before(*a.PreviousSecretUntil) {
		secrets.Facts = []opsFact{{"ops.app.previous", at(*a.PreviousSecretUntil)}}
		secrets.Links = append(secrets.Links, p.devLinks(m, "", "secret-end")...)
	}
	if p.deps.Clock != nil {
		top.Links = append(top.Links, p.devLinks(m, "", "clock")...)
	}
	quotas := opsBlock{Title: "dev.quotas", Hint: "dev.quotas.hint",
		Facts: []opsFact{{"dev.quota.partner", worded("dev.quota.left", u.Partner.Remaining, u.Partner.Limit)},
			{"dev.quota.client", plain(strconv.Itoa(u.Client))}, {"dev.quota.platform",
				worded("dev.quota.left", u.Platform.Remaining, u.Platform.Limit)}}}
	return p.dev(c, s, opsPage{Heading: "dev.section.overview", Code: a.Name, Blocks: []opsBlock{top, secrets, quotas}})
}

func (p *Pages) devWebhooks(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	endpoint, err := p.deps.Webhooks.Endpoint(ctx, tx, m.Application.ID)
	if err != nil {
		return err
	}
	health, err := p.deps.Webhooks.HealthOf(ctx, tx, m.Application.ID, tx.Now.Add(-opsHealth))
	if err != nil {
		return err
	}
	address := worded("dev.hooks.none")
	if endpoint.URL != "" {
		address = code(endpoint.URL)
	}
	state := opsBlock{Title: "dev.endpoint", Facts: []opsFact{{"ops.field.webhook", address},
		{"ops.hooks.disabled", maybeAt(endpoint.DisabledAt)}, {"ops.hooks.why", code(endpoint.DisabledReason)},
		{"ops.hooks.failing", maybeAt(endpoint.FailingSince)}, {"ops.hooks.rate", rateCell(health)},
		{"ops.hooks.failed", plain(strconv.Itoa(health.Failed))},
		{"ops.hooks.pending", plain(strconv.Itoa(health.Pending))}, {"ops.hooks.oldest", maybeAt(health.Oldest)},
		{"dev.field.events", enabledCell(endpoint.EnabledEvents)}},
		Links: p.devLinks(m, "", "hook-url", "hook-test", "hook-events")}
	if endpoint.DisabledAt != nil {
		state.Links = append(state.Links, p.devLinks(m, "", "hook-enable")...)
	}
	secret := opsBlock{Title: "dev.signing", Hint: "dev.signing.hint",
		Links: p.devLinks(m, "", "hook-secret", "signature")}
	if endpoint.PreviousSecretUntil != nil && tx.Now.Before(*endpoint.PreviousSecretUntil) {
		secret.Facts = []opsFact{{"dev.signing.previous", at(*endpoint.PreviousSecretUntil)}}
	}
	return p.dev(c, s, opsPage{Heading: "dev.section.webhooks", Code: m.Application.Name,
		Blocks: []opsBlock{state, secret}})
}

func enabledCell(types []webhook.Type) opsCell {
	if len(types) == 0 {
		return worded("dev.hooks.noevents")
	}
	return code(strings.Trim(fmt.Sprint(types), "[]"))
}

func (p *Pages) devEvents(c echo.Context, s staff.Session, m portal.Membership) error {
	before, err := strconv.ParseInt(query(c, "after"), 10, 64)
	if query(c, "after") != "" && (err != nil || before < 1) {
		return problem.ErrNotFound
	}
	list, err := p.deps.Webhooks.EventsBefore(c.Request().Context(), m.Application.ID, before, devRows)
	if err != nil {
		return err
	}
	b := opsBlock{Title: "dev.newest", Head: []string{"ops.col.when", "ops.col.kind", "dev.col.about",
		"dev.col.sequence"}, Table: true}
	for _, e := range list {
		b.Rows = append(b.Rows, []opsCell{exactly(e.CreatedAt),
			linked(devPath(m.Application.ID, "events", e.ID), string(e.Type)), aboutCell(e.ConsultationID, e.ClientID),
			plain(strconv.FormatInt(e.Sequence, 10))})
	}
	v := opsPage{Heading: "dev.section.events", Code: m.Application.Name, Blocks: []opsBlock{b}}
	if len(list) == devRows {
		v.Older = older(c, strconv.FormatInt(list[devRows-1].Position, 10))
	}
	return p.dev(c, s, v)
}

// aboutCell names what an event is about: a consultation or a client; neither for a test event.
func aboutCell(consultationID, clientID string) opsCell {
	if about := cmp.Or(consultationID, clientID); about != "" {
		return code(about)
	}
	return worded("dev.test")
}

// pretty is a body as it is easiest to read; what is sent has no white space.
func pretty(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		return string(body)
	}
	return b.String()
}

func (p *Pages) devEvent(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	e, err := p.deps.Webhooks.Event(ctx, tx, m.Application.ID, c.Param("id"))
	if err != nil {
		return err
	}
	list, _, err := p.deps.Webhooks.Deliveries(ctx, tx, m.Application.ID, webhook.DeliveryFilter{EventID: e.ID})
	if err != nil {
		return err
	}
	top := opsBlock{Title: "dev.event", Facts: []opsFact{{"ops.col.kind", code(string(e.Type))},
		{"ops.col.when", exactly(e.CreatedAt)}, {"dev.col.about", aboutCell(e.ConsultationID, e.ClientID)}}}
	body := opsBlock{Title: "dev.body", Hint: "dev.body.hint", Pre: pretty(e.Body)}
	return p.dev(c, s, opsPage{Heading: "dev.event", Code: e.ID, Blocks: []opsBlock{top, body,
		p.deliveryBlock("ops.deliveries", m, list)}})
}

func (p *Pages) deliveryBlock(title string, m portal.Membership, list []webhook.Delivery) opsBlock {
	b := opsBlock{Title: title, Head: []string{"ops.col.when", "ops.col.kind", "dev.col.about", "ops.col.status",
		"ops.col.attempts", "ops.col.next"}, Table: true}
	for _, d := range list {
		b.Rows = append(b.Rows, []opsCell{exactly(d.CreatedAt), linked(devPath(m.Application.ID, "deliveries", d.ID),
			string(d.Type)), aboutCell(d.ConsultationID, d.ClientID), coded(string(d.State)),
			plain(strconv.Itoa(d.Attempts)), maybeAt(d.NextAt)})
	}
	return b
}

func (p *Pages) devDeliveries(c echo.Context, s staff.Session, m portal.Membership) error {
	f := webhook.DeliveryFilter{ConsultationID: query(c, "consultation"), Limit: devRows}
	states := opsField{Name: "state", Label: "ops.col.status", Type: "select",
		Options: []opsOption{{Text: "ops.field.all", Key: true}}}
	for _, state := range []webhook.State{webhook.Pending, webhook.Delivered, webhook.Failed} {
		chosen := query(c, "state") == string(state)
		states.Options = append(states.Options, opsOption{Value: string(state), Text: "ops.code." + string(state),
			Key: true, Chosen: chosen})
		if chosen {
			f.State = state
		}
	}
	if after := query(c, "after"); after != "" {
		last, err := p.deps.Webhooks.Delivery(c.Request().Context(), p.deps.DB.Read(), m.Application.ID, after)
		if err != nil {
			return err
		}
		f.Before = last.Position()
	}
	list, more, err := p.deps.Webhooks.Deliveries(c.Request().Context(), p.deps.DB.Read(), m.Application.ID, f)
	if err != nil {
		return err
	}
	b := p.deliveryBlock("dev.newest", m, list)
	b.Links = p.devLinks(m, "", "redeliver-range")
	v := opsPage{Heading: "dev.section.deliveries", Code: m.Application.Name,
		Search: []opsField{states, {Name: "consultation", Label: "ops.col.consultation", Type: "search",
			Value: f.ConsultationID}}, Blocks: []opsBlock{b}}
	if more {
		v.Older = older(c, list[len(list)-1].ID)
	}
	return p.dev(c, s, v)
}

// devDelivery shows what was sent, with the headers that a receiver verifies, and every attempt.
func (p *Pages) devDelivery(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	d, err := p.deps.Webhooks.Delivery(ctx, tx, m.Application.ID, c.Param("id"))
	if err != nil {
		return err
	}
	attempts, err := p.deps.Webhooks.Attempts(ctx, tx, m.Application.ID, d.ID)
	if err != nil {
		return err
	}
	e, err := p.deps.Webhooks.Event(ctx, tx, m.Application.ID, d.EventID)
	if err != nil {
		return err
	}
	top := opsBlock{Title: "ops.delivery", Facts: []opsFact{{"ops.col.kind", code(string(d.Type))},
		{"ops.col.status", coded(string(d.State))}, {"dev.event",
			linked(devPath(m.Application.ID, "events", e.ID), e.ID)},
		{"dev.col.about", aboutCell(d.ConsultationID, d.ClientID)}, {"ops.col.when", exactly(d.CreatedAt)},
		{"ops.col.next", maybeAt(d.NextAt)}}, Links: p.devLinks(m, d.ID, "redeliver")}
	blocks := []opsBlock{top, {Title: "dev.body", Hint: "dev.body.hint", Pre: pretty(e.Body)}}
	log := opsBlock{Title: "ops.attempts", Head: []string{"ops.col.number", "ops.col.when", "ops.col.duration",
		"ops.col.http", "ops.col.fault", "dev.col.answer"}, Table: true}
	for _, a := range attempts {
		log.Rows = append(log.Rows,
			[]opsCell{plain(strconv.Itoa(a.Number)), exactly(a.StartedAt),
				plain(strconv.FormatInt(a.Duration.Milliseconds(), 10) + " ms"), plain(strconv.Itoa(a.StatusCode)),
				code(a.Error), code(a.ResponseBody)})
	}
	if n := len(attempts); n > 0 {
		headers, err := p.deps.Webhooks.HeadersOf(ctx, tx, d, attempts[n-1], e, m.Application.ID)
		if err != nil {
			return err
		}
		var lines strings.Builder
		if err := headers.Write(&lines); err != nil {
			return err
		}
		blocks = append(blocks, opsBlock{Title: "dev.headers", Hint: "dev.headers.hint", Pre: lines.String()})
	}
	return p.dev(c, s, opsPage{Heading: "ops.delivery", Code: d.ID, Blocks: append(blocks, log)})
}

func (p *Pages) devRequests(c echo.Context, s staff.Session, m portal.Membership) error {
	f := requestlog.Filter{Before: query(c, "after"), Refused: query(c, "refused") == "yes", Limit: devRows}
	if f.Before != "" && !identifier.MatchString(f.Before) {
		return problem.ErrNotFound
	}
	list, more, err := p.deps.Requests.List(c.Request().Context(), p.deps.DB.Read(), m.Application.ID, f)
	if err != nil {
		return err
	}
	b := opsBlock{Title: "dev.newest", Hint: "dev.requests.hint",
		Head:  []string{"ops.col.when", "dev.col.request", "ops.col.http", "dev.col.code", "ops.col.duration"},
		Table: true}
	for _, e := range list {
		b.Rows = append(b.Rows, []opsCell{exactly(e.At), linked(devPath(m.Application.ID, "requests", e.ID),
			e.Method+" "+e.Path), plain(strconv.Itoa(e.Status)), code(e.Code),
			plain(strconv.FormatInt(e.Duration.Milliseconds(), 10) + " ms")})
	}
	v := opsPage{Heading: "dev.section.requests", Code: m.Application.Name, Blocks: []opsBlock{b},
		Search: []opsField{{Name: "refused", Label: "dev.requests.which", Type: "checks",
			Options: []opsOption{{Value: "yes", Text: "dev.requests.refused", Key: true, Chosen: f.Refused}}}}}
	if more {
		v.Older = older(c, list[len(list)-1].ID)
	}
	return p.dev(c, s, v)
}

func (p *Pages) devRequest(c echo.Context, s staff.Session, m portal.Membership) error {
	e, err := p.deps.Requests.Get(c.Request().Context(), p.deps.DB.Read(), m.Application.ID, c.Param("id"))
	if err != nil {
		return err
	}
	top := opsBlock{Title: "dev.request", Facts: []opsFact{{"dev.col.request", code(e.Method + " " + e.Path)},
		{"ops.col.when", exactly(e.At)}, {"ops.col.http", plain(strconv.Itoa(e.Status))},
		{"dev.col.code", code(e.Code)},
		{"ops.col.duration", plain(strconv.FormatInt(e.Duration.Milliseconds(), 10) + " ms")},
		{"dev.request.keyed", yes("ops.yes", "ops.no", e.Keyed)}, {"dev.request.replayed",
			yes("ops.yes", "ops.no", e.Replayed)}}}
	blocks := []opsBlock{top}
	if len(e.Issues) > 0 {
		b := opsBlock{Title: "dev.request.issues", Head: []string{"dev.col.field", "dev.col.code", "ops.col.detail"},
			Table: true}
		for _, i := range e.Issues {
			b.Rows = append(b.Rows, []opsCell{code(i.Path), code(i.Code), plain(i.Message)})
		}
		blocks = append(blocks, b)
	}
	if e.Body != nil {
		raw, err := json.MarshalIndent(e.Body, "", "  ")
		if err != nil {
			return fmt.Errorf("show the body of request %s: %w", e.ID, err)
		}
		blocks = append(blocks, opsBlock{Title: "dev.request.body", Hint: "dev.request.body.hint", Pre: string(raw)})
	}
	return p.dev(c, s, opsPage{Heading: "dev.request", Code: e.ID, Blocks: blocks})
}

func (p *Pages) devPeople(c echo.Context, s staff.Session, m portal.Membership) error {
	members, waiting, err := p.deps.Portal.People(c.Request().Context(), p.deps.DB.Read(),
		portal.Caller{StaffID: s.Person.ID, ApplicationID: m.Application.ID})
	if err != nil {
		return err
	}
	b := opsBlock{Title: "dev.people", Hint: "dev.people.hint",
		Head: []string{"ops.col.name", "ops.field.email", "dev.col.role", "ops.col.since", "ops.col.what"}, Table: true,
		Links: p.devLinks(m, "", "invite")}
	act := func(name, subject string) opsCell {
		for _, l := range p.devLinks(m, subject, name) {
			return opsCell{Key: l.Key, URL: l.URL}
		}
		return opsCell{}
	}
	for _, one := range members {
		what := act("role", one.StaffID)
		if one.StaffID == s.Person.ID { // everybody may go
			what = act("remove", one.StaffID)
		}
		b.Rows = append(b.Rows, []opsCell{plain(one.Name), plain(one.Email), roleCell(one.Role), at(one.Since), what})
	}
	blocks := []opsBlock{b}
	if len(waiting) > 0 {
		w := opsBlock{Title: "dev.waiting",
			Head: []string{"ops.field.email", "dev.col.role", "dev.col.until", "ops.col.what"}, Table: true}
		for _, i := range waiting {
			w.Rows = append(w.Rows, []opsCell{plain(i.Email), roleCell(i.Role), at(i.ExpiresAt), act("uninvite", i.ID)})
		}
		blocks = append(blocks, w)
	}
	return p.dev(c, s, opsPage{Heading: "dev.section.people", Code: m.Application.Name, Blocks: blocks})
}
