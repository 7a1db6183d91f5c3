package developers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

const devRows = 20

// Reads lists the pages of an application, which all its members see: see developers.md.
func (p *Pages) Reads() []Read {
	return append([]Read{
		{ofApp(), ofApp(), p.devOverview},
		{ofApp("webhooks"), ofApp("webhooks"), p.devWebhooks},
		{ofApp("events"), ofApp("events"), p.devEvents},
		{ofApp("events", ":id"), ofApp("events"), p.devEvent},
		{ofApp("deliveries"), ofApp("deliveries"), p.devDeliveries},
		{ofApp("deliveries", ":id"), ofApp("deliveries"), p.devDelivery},
		{ofApp("requests"), ofApp("requests"), p.devRequests},
		{ofApp("requests", ":id"), ofApp("requests"), p.devRequest},
		{ofApp("live"), ofApp("live"), p.devLive},
		{ofApp("people"), ofApp("people"), p.devPeople},
	}, p.devSandboxReads()...)
}

// developers lists a person's applications.
func (p *Pages) developers(c echo.Context, s staff.Session) error {
	list, err := p.deps.Portal.Applications(c.Request().Context(), p.DB.Read(), s.Person.ID)
	if err != nil {
		return err
	}
	b := forms.Block{Title: "dev.apps", Head: []string{"ops.col.name", "ops.col.id", "dev.col.role", "ops.col.status"},
		Table: true, Hint: "dev.apps.live", Empty: "dev.apps.none"}
	if p.Sandbox {
		b.Begin = "dev.do.create"
		b.Hint, b.Links = "dev.apps.hint", []forms.Action{{URL: shell.DevelopersDesk + "/new", Key: "dev.do.create"}}
	}
	for _, m := range list {
		b.Rows = append(b.Rows, []forms.Cell{{Text: m.Application.Name, URL: Path(m.Application.ID)},
			forms.Code(m.Application.ID), forms.RoleCell(m.Role), forms.YesNo("ops.app.suspended", "ops.app.works",
				m.Application.Suspended)})
	}
	return p.dev(c, s, forms.Page{Heading: "dev.title", Blocks: []forms.Block{b}})
}

func (p *Pages) devOverview(c echo.Context, s staff.Session, m portal.Membership) error {
	a, u := m.Application, p.deps.Portal.Usage(c.Request().Context(), m.Application)
	top := forms.Block{Title: "dev.settings", Facts: []forms.Line{forms.LineOf("ops.col.name", forms.Plain(a.Name)),
		forms.LineOf("dev.clientid", forms.Code(a.ID)), forms.LineOf("dev.col.role", forms.RoleCell(m.Role)),
		forms.LineOf("ops.col.status", forms.YesNo("ops.app.suspended", "ops.app.works", a.Suspended)),
		forms.LineOf("ops.field.redirects", forms.Plain(strings.Join(a.RedirectURIs, " "))),
		forms.LineOf("ops.field.contact", forms.Plain(a.ContactEmail)),
		forms.LineOf("ops.field.scopes", forms.Code(application.FormatScopes(a.Scopes))),
		forms.LineOf("dev.col.created", forms.At(a.CreatedAt))},
		Links: p.devLinks(m, "", "edit")}
	if a.Suspended {
		top.Alert, top.Ask = "dev.suspended", true
	}
	secrets := forms.Block{Title: "dev.secrets", Hint: "dev.secrets.hint", Links: p.devLinks(m, "", "secret")}
	if a.PreviousSecretUntil != nil && p.DB.Clock().Now().Before(*a.PreviousSecretUntil) {
		secrets.Facts = []forms.Line{forms.LineOf("ops.app.previous", forms.At(*a.PreviousSecretUntil))}
		secrets.Links = append(secrets.Links, p.devLinks(m, "", "secret-end")...)
	}
	if p.deps.Clock != nil {
		top.Links = append(top.Links, p.devLinks(m, "", "clock")...)
	}
	quotas := forms.Block{Title: "dev.quotas", Hint: "dev.quotas.hint",
		Facts: []forms.Line{forms.LineOf("dev.quota.partner", forms.Worded("dev.quota.left", u.Partner.Remaining,
			u.Partner.Limit)),
			forms.LineOf("dev.quota.client", forms.Plain(strconv.Itoa(u.Client))), forms.LineOf("dev.quota.platform",
				forms.Worded("dev.quota.left", u.Platform.Remaining, u.Platform.Limit))}}
	return p.dev(c, s, forms.Page{Heading: "dev.section.overview", Code: a.Name,
		Blocks: []forms.Block{top, secrets, quotas}})
}

func (p *Pages) devWebhooks(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	endpoint, err := p.deps.Webhooks.Endpoint(ctx, tx, m.Application.ID)
	if err != nil {
		return err
	}
	health, err := p.deps.Webhooks.HealthOf(ctx, tx, m.Application.ID, tx.Now.Add(-forms.HealthSpan))
	if err != nil {
		return err
	}
	address := forms.Worded("dev.hooks.none")
	if endpoint.URL != "" {
		address = forms.Code(endpoint.URL)
	}
	state := forms.Block{Title: "dev.endpoint", Facts: []forms.Line{forms.LineOf("ops.field.webhook", address),
		forms.LineOf("ops.hooks.disabled", forms.MaybeAt(endpoint.DisabledAt)),
		forms.LineOf("ops.hooks.why", forms.Code(endpoint.DisabledReason)),
		forms.LineOf("ops.hooks.failing", forms.MaybeAt(endpoint.FailingSince)),
		forms.LineOf("ops.hooks.rate", forms.RateCell(health)),
		forms.LineOf("ops.hooks.failed", forms.Plain(strconv.Itoa(health.Failed))),
		forms.LineOf("ops.hooks.pending", forms.Plain(strconv.Itoa(health.Pending))),
		forms.LineOf("ops.hooks.oldest", forms.MaybeAt(health.Oldest)),
		forms.LineOf("dev.field.events", enabledCell(endpoint.EnabledEvents))},
		Links: p.devLinks(m, "", "hook-url", "hook-test", "hook-events")}
	if endpoint.DisabledAt != nil {
		state.Links = append(state.Links, p.devLinks(m, "", "hook-enable")...)
	}
	secret := forms.Block{Title: "dev.signing", Hint: "dev.signing.hint",
		Links: p.devLinks(m, "", "hook-secret", "signature")}
	if endpoint.PreviousSecretUntil != nil && tx.Now.Before(*endpoint.PreviousSecretUntil) {
		secret.Facts = []forms.Line{forms.LineOf("dev.signing.previous", forms.At(*endpoint.PreviousSecretUntil))}
	}
	return p.dev(c, s, forms.Page{Heading: "dev.section.webhooks", Code: m.Application.Name,
		Blocks: []forms.Block{state, secret}})
}

// begin says in an empty table that there is nothing yet, and names the link that adds the first row, if the role may
// use it.
func (p *Pages) begin(b *forms.Block, m portal.Membership, text, act string) {
	b.Empty = text
	if len(b.Rows) > 0 {
		return
	}
	for _, l := range p.devLinks(m, "", act) {
		b.Begin = l.Key
		if !slices.Contains(b.Links, l) {
			b.Links = append([]forms.Action{l}, b.Links...)
		}
	}
}

func enabledCell(types []webhook.Type) forms.Cell {
	if len(types) == 0 {
		return forms.Worded("dev.hooks.noevents")
	}
	return forms.Code(strings.Trim(fmt.Sprint(types), "[]"))
}

func (p *Pages) devEvents(c echo.Context, s staff.Session, m portal.Membership) error {
	before, err := strconv.ParseInt(forms.Param(c, "after"), 10, 64)
	if forms.Param(c, "after") != "" && (err != nil || before < 1) {
		return problem.ErrNotFound
	}
	list, err := p.deps.Webhooks.EventsBefore(c.Request().Context(), m.Application.ID, before, devRows)
	if err != nil {
		return err
	}
	b := forms.Block{Title: "dev.newest", Head: []string{"ops.col.when", "ops.col.kind", "dev.col.about",
		"dev.col.sequence"}, Table: true}
	for _, e := range list {
		b.Rows = append(b.Rows, []forms.Cell{forms.Exactly(e.CreatedAt),
			forms.Linked(Path(m.Application.ID, "events", e.ID), string(e.Type)),
			aboutCell(e.ConsultationID, e.ClientID),
			forms.Plain(strconv.FormatInt(e.Sequence, 10))})
	}
	p.begin(&b, m, "dev.events.none", "hook-test")
	v := forms.Page{Heading: "dev.section.events", Code: m.Application.Name, Blocks: []forms.Block{b}}
	if len(list) == devRows {
		v.Older = forms.Older(c, strconv.FormatInt(list[devRows-1].Position, 10))
	}
	return p.dev(c, s, v)
}

// aboutCell names the subject of an event: a consultation, a client, or nothing for a test event.
func aboutCell(consultationID, clientID string) forms.Cell {
	if about := cmp.Or(consultationID, clientID); about != "" {
		return forms.Code(about)
	}
	return forms.Worded("dev.test")
}

// pretty formats a body for reading. The body that is sent contains no whitespace.
func pretty(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		return string(body)
	}
	return b.String()
}

func (p *Pages) devEvent(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	e, err := p.deps.Webhooks.Event(ctx, tx, m.Application.ID, c.Param("id"))
	if err != nil {
		return err
	}
	list, _, err := p.deps.Webhooks.Deliveries(ctx, tx, m.Application.ID, webhook.DeliveryFilter{EventID: e.ID})
	if err != nil {
		return err
	}
	top := forms.Block{Title: "dev.event", Facts: []forms.Line{forms.LineOf("ops.col.kind", forms.Code(string(e.Type))),
		forms.LineOf("ops.col.when", forms.Exactly(e.CreatedAt)), forms.LineOf("dev.col.about",
			aboutCell(e.ConsultationID, e.ClientID))}}
	body := forms.Block{Title: "dev.body", Hint: "dev.body.hint", Pre: pretty(e.Body)}
	return p.dev(c, s, forms.Page{Heading: "dev.event", Code: e.ID, Blocks: []forms.Block{top, body,
		p.deliveryBlock("dev.section.deliveries", m, list)}})
}

func (p *Pages) deliveryBlock(title string, m portal.Membership, list []webhook.Delivery) forms.Block {
	b := forms.Block{Title: title, Head: []string{"ops.col.when", "ops.col.kind", "dev.col.about", "ops.col.status",
		"ops.col.attempts", "ops.col.next"}, Table: true, Empty: "dev.deliveries.none"}
	for _, d := range list {
		b.Rows = append(b.Rows, []forms.Cell{forms.Exactly(d.CreatedAt),
			forms.Linked(Path(m.Application.ID, "deliveries", d.ID),
				string(d.Type)), aboutCell(d.ConsultationID, d.ClientID), forms.Coded(string(d.State)),
			forms.Plain(strconv.Itoa(d.Attempts)), forms.MaybeAt(d.NextAt)})
	}
	return b
}

func (p *Pages) devDeliveries(c echo.Context, s staff.Session, m portal.Membership) error {
	f := webhook.DeliveryFilter{ConsultationID: forms.Param(c, "consultation"), Limit: devRows}
	states := forms.Field{Name: "state", Label: "ops.col.status", Type: "select",
		Options: []forms.Option{{Text: "ops.field.all", Key: true}}}
	for _, state := range []webhook.State{webhook.Pending, webhook.Delivered, webhook.Failed} {
		chosen := forms.Param(c, "state") == string(state)
		states.Options = append(states.Options, forms.Option{Value: string(state), Text: "ops.code." + string(state),
			Key: true, Chosen: chosen})
		if chosen {
			f.State = state
		}
	}
	if after := forms.Param(c, "after"); after != "" {
		last, err := p.deps.Webhooks.Delivery(c.Request().Context(), p.DB.Read(), m.Application.ID, after)
		if err != nil {
			return err
		}
		f.Before = last.Position()
	}
	list, more, err := p.deps.Webhooks.Deliveries(c.Request().Context(), p.DB.Read(), m.Application.ID, f)
	if err != nil {
		return err
	}
	b := p.deliveryBlock("dev.newest", m, list)
	b.Links = p.devLinks(m, "", "redeliver-range")
	if f.ConsultationID != "" || f.State != "" {
		b.Empty = "dev.none.match"
	} else {
		p.begin(&b, m, "dev.deliveries.none", "hook-test")
	}
	v := forms.Page{Heading: "dev.section.deliveries", Code: m.Application.Name,
		Search: []forms.Field{states, {Name: "consultation", Label: "ops.col.consultation", Type: "search",
			Value: f.ConsultationID}}, Blocks: []forms.Block{b}}
	if more {
		v.Older = forms.Older(c, list[len(list)-1].ID)
	}
	return p.dev(c, s, v)
}

// devDelivery shows the sent body, the headers that a handler verifies, and every attempt.
func (p *Pages) devDelivery(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
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
	top := forms.Block{Title: "ops.delivery", Facts: []forms.Line{forms.LineOf("ops.col.kind",
		forms.Code(string(d.Type))),
		forms.LineOf("ops.col.status", forms.Coded(string(d.State))), forms.LineOf("dev.event",
			forms.Linked(Path(m.Application.ID, "events", e.ID), e.ID)),
		forms.LineOf("dev.col.about", aboutCell(d.ConsultationID, d.ClientID)),
		forms.LineOf("ops.col.when", forms.Exactly(d.CreatedAt)),
		forms.LineOf("ops.col.next", forms.MaybeAt(d.NextAt))}, Links: p.devLinks(m, d.ID, "redeliver")}
	blocks := []forms.Block{top, {Title: "dev.body", Hint: "dev.body.hint", Pre: pretty(e.Body)}}
	log := forms.Block{Title: "ops.attempts", Head: []string{"dev.col.attempt", "ops.col.when", "ops.col.duration",
		"ops.col.http", "ops.col.fault", "dev.col.answer"}, Table: true, Empty: "dev.attempts.none"}
	for _, a := range attempts {
		log.Rows = append(log.Rows,
			[]forms.Cell{forms.Plain(strconv.Itoa(a.Number)), forms.Exactly(a.StartedAt),
				forms.Plain(strconv.FormatInt(a.Duration.Milliseconds(), 10) + " ms"),
				forms.Plain(strconv.Itoa(a.StatusCode)),
				forms.Code(a.Error), forms.Code(a.ResponseBody)})
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
		blocks = append(blocks, forms.Block{Title: "dev.headers", Hint: "dev.headers.hint", Pre: lines.String()})
	}
	return p.dev(c, s, forms.Page{Heading: "ops.delivery", Code: d.ID, Blocks: append(blocks, log)})
}

func (p *Pages) devRequests(c echo.Context, s staff.Session, m portal.Membership) error {
	f := requestlog.Filter{Before: forms.Param(c, "after"), Refused: forms.Param(c, "refused") == "yes", Limit: devRows}
	if f.Before != "" && !shell.Identifier.MatchString(f.Before) {
		return problem.ErrNotFound
	}
	list, more, err := p.deps.Requests.List(c.Request().Context(), p.DB.Read(), m.Application.ID, f)
	if err != nil {
		return err
	}
	b := forms.Block{Title: "dev.newest", Hint: "dev.requests.hint",
		Head:  []string{"ops.col.when", "dev.col.request", "ops.col.http", "dev.col.code", "ops.col.duration"},
		Table: true, Empty: "dev.none.match"}
	if len(list) == 0 && !f.Refused {
		b.Empty, b.Begin = "dev.requests.none", "dev.requests.start"
		b.Links = []forms.Action{{URL: "/docs/quickstart", Key: "dev.requests.start"}}
	}
	for _, e := range list {
		b.Rows = append(b.Rows, []forms.Cell{forms.Exactly(e.At), forms.Linked(Path(m.Application.ID, "requests", e.ID),
			e.Method+" "+e.Path), forms.Plain(strconv.Itoa(e.Status)), forms.Code(e.Code),
			forms.Plain(strconv.FormatInt(e.Duration.Milliseconds(), 10) + " ms")})
	}
	v := forms.Page{Heading: "dev.section.requests", Code: m.Application.Name, Blocks: []forms.Block{b},
		Search: []forms.Field{{Name: "refused", Label: "dev.requests.which", Type: "checks",
			Options: []forms.Option{{Value: "yes", Text: "dev.requests.refused", Key: true, Chosen: f.Refused}}}}}
	if more {
		v.Older = forms.Older(c, list[len(list)-1].ID)
	}
	return p.dev(c, s, v)
}

func (p *Pages) devRequest(c echo.Context, s staff.Session, m portal.Membership) error {
	e, err := p.deps.Requests.Get(c.Request().Context(), p.DB.Read(), m.Application.ID, c.Param("id"))
	if err != nil {
		return err
	}
	top := forms.Block{Title: "dev.request", Facts: []forms.Line{forms.LineOf("dev.col.request",
		forms.Code(e.Method+" "+e.Path)),
		forms.LineOf("ops.col.when", forms.Exactly(e.At)), forms.LineOf("ops.col.http",
			forms.Plain(strconv.Itoa(e.Status))),
		forms.LineOf("dev.col.code", forms.Code(e.Code)),
		forms.LineOf("ops.col.duration", forms.Plain(strconv.FormatInt(e.Duration.Milliseconds(), 10)+" ms")),
		forms.LineOf("dev.request.keyed", forms.YesNo("ops.yes", "ops.no", e.Keyed)),
		forms.LineOf("dev.request.replayed",
			forms.YesNo("ops.yes", "ops.no", e.Replayed))}}
	blocks := []forms.Block{top}
	if len(e.Issues) > 0 {
		b := forms.Block{Title: "dev.request.issues", Head: []string{"dev.col.field", "dev.col.code", "ops.col.detail"},
			Table: true}
		for _, i := range e.Issues {
			b.Rows = append(b.Rows, []forms.Cell{forms.Code(i.Path), forms.Code(i.Code), forms.Plain(i.Message)})
		}
		blocks = append(blocks, b)
	}
	if e.Body != nil {
		raw, err := json.MarshalIndent(e.Body, "", "  ")
		if err != nil {
			return fmt.Errorf("show the body of request %s: %w", e.ID, err)
		}
		blocks = append(blocks, forms.Block{Title: "dev.request.body", Hint: "dev.request.body.hint", Pre: string(raw)})
	}
	return p.dev(c, s, forms.Page{Heading: "dev.request", Code: e.ID, Blocks: blocks})
}

func (p *Pages) devPeople(c echo.Context, s staff.Session, m portal.Membership) error {
	members, waiting, err := p.deps.Portal.People(c.Request().Context(), p.DB.Read(),
		portal.Caller{StaffID: s.Person.ID, ApplicationID: m.Application.ID})
	if err != nil {
		return err
	}
	b := forms.Block{Title: "dev.people", Hint: "dev.people.hint",
		Head: []string{"ops.col.name", "ops.field.email", "dev.col.role", "ops.col.since", "ops.col.what"}, Table: true,
		Links: p.devLinks(m, "", "invite")}
	act := func(name, subject string) forms.Cell {
		for _, l := range p.devLinks(m, subject, name) {
			return forms.Cell{Key: l.Key, URL: l.URL}
		}
		return forms.Cell{}
	}
	for _, one := range members {
		what := act("role", one.StaffID)
		if one.StaffID == s.Person.ID { // anyone may leave
			what = act("remove", one.StaffID)
		}
		b.Rows = append(b.Rows, []forms.Cell{forms.Plain(one.Name), forms.Plain(one.Email), forms.RoleCell(one.Role),
			forms.At(one.Since), what})
	}
	blocks := []forms.Block{b}
	if len(waiting) > 0 {
		w := forms.Block{Title: "dev.waiting",
			Head: []string{"ops.field.email", "dev.col.role", "dev.col.until", "ops.col.what"}, Table: true}
		for _, i := range waiting {
			w.Rows = append(w.Rows, []forms.Cell{forms.Plain(i.Email), forms.RoleCell(i.Role), forms.At(i.ExpiresAt),
				act("uninvite", i.ID)})
		}
		blocks = append(blocks, w)
	}
	return p.dev(c, s, forms.Page{Heading: "dev.section.people", Code: m.Application.Name, Blocks: blocks})
}
