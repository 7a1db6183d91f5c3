package web

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// devActs are the acts of the portal, with who may do them: see developers.md.
func (p *Pages) devActs() []devAct {
	o := p.deps.Portal
	page := func(parts ...string) string { return devPath(":app", parts...) }
	ask := func(list ...opsField) func(context.Context, postgres.Tx, devCall) ([]opsField, error) {
		return func(ctx context.Context, tx postgres.Tx, _ devCall) ([]opsField, error) {
			return fields(list...)(ctx, tx, opsCall{})
		}
	}
	simply := func(do func(context.Context, portal.Caller) error) func(context.Context, devCall) (devDone, error) {
		return func(ctx context.Context, c devCall) (devDone, error) { return devDone{}, do(ctx, c.By) }
	}
	asNew := opsField{Name: "asnew", Label: "dev.field.asnew", Type: "checks",
		Options: []opsOption{{Value: "yes", Text: "dev.field.asnew.yes", Key: true}}}
	mayPost := func(ctx context.Context, by portal.Caller) error {
		return o.Take(ctx, by, ratelimit.Endpoints, ratelimit.PostsPerMinute)
	}
	return append(append(p.devLiveActs(page("live"), page()), p.devSandboxActs()...), []devAct{
		{Name: "create", Path: developersDesk + "/new", Back: developersDesk, Fields: newFields,
			Once: func(ctx context.Context, tx postgres.Tx, c devCall) (devDone, error) {
				made, err := o.Create(ctx, tx, c.By.StaffID, application.NewApplication{Name: c.Form.Get("name"),
					RedirectURIs: strings.Fields(c.Form.Get("redirects")),
					ContactEmail: strings.TrimSpace(c.Form.Get("contact"))})
				return devDone{To: devPath(made.Application.ID), Secrets: []fact{{"ops.secret.id", made.Application.ID},
					{"ops.secret.client", made.Secret}, {"ops.secret.webhook", made.SigningSecret}}}, err
			}},
		{Name: "edit", Path: page("edit"), Need: portal.Developer, Fresh: !p.deps.Sandbox, Back: page(),
			Fields: newFields,
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				name, contact, redirects := c.Form.Get("name"), strings.TrimSpace(c.Form.Get("contact")),
					strings.Fields(c.Form.Get("redirects"))
				if redirects == nil {
					redirects = []string{} // none is refused, and does not mean "as it is"
				}
				_, err := o.Update(ctx, c.By, portal.Change{Name: &name, RedirectURIs: redirects,
					ContactEmail: &contact})
				return devDone{}, err
			}},
		{Name: "secret", Path: page("secret"), Need: portal.Developer, Fresh: true, Danger: true, Back: page(),
			Fields: func(_ context.Context, tx postgres.Tx, c devCall) ([]opsField, error) {
				return append([]opsField{hoursField()}, endPrevious(tx.Now, c.Of.PreviousSecretUntil)...), nil
			},
			Once: func(ctx context.Context, tx postgres.Tx, c devCall) (devDone, error) {
				hours, err := wholeNumber(c.Form, "hours", 0, int(application.MaxSecretOverlap.Hours()))
				if err != nil {
					return devDone{}, err
				}
				secret, _, err := o.RotateSecret(ctx, tx, c.By, rotationOf(c.Form, hours))
				return devDone{Secrets: []fact{{"ops.secret.client", secret}}}, err
			}},
		{Name: "secret-end", Ends: true, Path: page("secret", "end"), Need: portal.Developer, Fresh: true, Danger: true,
			Back: page(), Do: simply(o.EndPreviousSecret)},
		{Name: "hook-url", Path: page("webhooks", "url"), Need: portal.Developer, Fresh: true, Back: page("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c devCall) ([]opsField, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				return []opsField{{Name: "url", Label: "ops.field.webhook", Hint: "dev.field.url.hint", Type: "url",
					Value: e.URL, Optional: true}}, err
			},
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				url := strings.TrimSpace(c.Form.Get("url"))
				if url != "" {
					if err := mayPost(ctx, c.By); err != nil {
						return devDone{}, err
					}
				}
				return devDone{}, o.SetWebhookURL(ctx, c.By, url)
			}},
		{Name: "hook-secret", Path: page("webhooks", "secret"), Need: portal.Developer, Fresh: true, Danger: true,
			Back: page("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c devCall) ([]opsField, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				return endPrevious(tx.Now, e.PreviousSecretUntil), err
			},
			Once: func(ctx context.Context, tx postgres.Tx, c devCall) (devDone, error) {
				secret, _, err := o.RotateWebhookSecret(ctx, tx, c.By,
					webhook.Rotation{EndPrevious: c.Form.Get("end") == "yes",
						KeepPrevious: c.Form.Get("end") == "newest"})
				return devDone{Secrets: []fact{{"ops.secret.webhook", secret}}}, err
			}},
		{Name: "hook-enable", Path: page("webhooks", "enable"), Need: portal.Developer, Back: page("webhooks"),
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				if err := mayPost(ctx, c.By); err != nil {
					return devDone{}, err
				}
				return devDone{}, o.EnableWebhooks(ctx, c.By)
			}},
		{Name: "hook-events", Path: page("webhooks", "events"), Need: portal.Developer, Back: page("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c devCall) ([]opsField, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				f := opsField{Name: "events", Label: "dev.field.events", Hint: "dev.field.events.hint", Type: "checks",
					Of: "enabledEvents", Optional: true}
				for _, kind := range webhook.ClientTypes {
					f.Options = append(f.Options, opsOption{Value: string(kind), Text: string(kind),
						Chosen: slices.Contains(e.EnabledEvents, kind)})
				}
				return []opsField{f}, err
			},
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				types := []webhook.Type{}
				for _, kind := range c.Form["events"] {
					types = append(types, webhook.Type(kind))
				}
				return devDone{}, o.SetEnabledEvents(ctx, c.By, types)
			}},
		{Name: "hook-test", Path: page("webhooks", "test"), Need: portal.Developer, Back: page("webhooks"),
			Fields: func(context.Context, postgres.Tx, devCall) ([]opsField, error) {
				f := opsField{Name: "type", Label: "ops.col.kind", Type: "select"}
				for _, kind := range slices.Concat(webhook.Types, webhook.ClientTypes) {
					f.Options = append(f.Options, opsOption{Value: string(kind), Text: string(kind)})
				}
				return []opsField{f}, nil
			},
			Limit: ratelimit.TestEvents, Once: func(ctx context.Context, tx postgres.Tx, c devCall) (devDone, error) {
				d, err := o.SendTest(ctx, tx, c.By, webhook.Type(c.Form.Get("type")))
				return devDone{To: devPath(c.Of.ID, "deliveries", d.ID) + "?done=hook-test"}, err
			}},
		{Name: "signature", Ends: true, Path: page("webhooks", "signature"), Need: portal.Viewer,
			Back: page("webhooks"),
			Fields: ask(opsField{Name: "header", Label: "dev.field.header",
				Hint: "dev.field.header.hint", Type: "lines"}, opsField{Name: "body", Label: "dev.field.body",
				Hint: "dev.field.body.hint", Type: "lines", Optional: true}),
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				// A browser sends line breaks as CR LF, whatever was pasted.
				got, err := p.deps.Webhooks.CheckSignature(ctx, p.deps.DB.Read(), c.Of.ID,
					signatureOf(c.Form.Get("header")), []byte(strings.ReplaceAll(c.Form.Get("body"), "\r\n", "\n")))
				return finding(got), err
			}},
		{Name: "redeliver", Path: page("deliveries", ":id", "redeliver"), Need: portal.Developer,
			Back: page("deliveries", ":id"), Fields: ask(asNew), Limit: ratelimit.Redeliveries,
			Once: func(ctx context.Context, tx postgres.Tx, c devCall) (devDone, error) {
				d, err := o.Redeliver(ctx, tx, c.By, c.Subject, c.Form.Get("asnew") == "yes")
				return devDone{To: devPath(c.Of.ID, "deliveries", d.ID) + "?done=redeliver"}, err
			}},
		{Name: "redeliver-range", Path: page("redeliver"), Need: portal.Developer, Back: page("deliveries"),
			Fields: ask(opsField{Name: "from", Label: "ops.field.from", Hint: "ops.field.utc", Type: "datetime-local"},
				opsField{Name: "to", Label: "ops.field.to", Hint: "ops.field.utc", Type: "datetime-local"},
				opsField{Name: "all", Label: "dev.field.which", Type: "checks",
					Options: []opsOption{{Value: "yes", Text: "dev.field.which.all", Key: true}}}, asNew),
			Limit: ratelimit.Redeliveries, Once: func(ctx context.Context, tx postgres.Tx, c devCall) (devDone, error) {
				from, to, err := rangeOf(c.Form)
				if err != nil {
					return devDone{}, err
				}
				f := webhook.RedeliveryFilter{From: from, To: to, All: c.Form.Get("all") == "yes",
					AsNew: c.Form.Get("asnew") == "yes"}
				n, next, err := o.RedeliverRange(ctx, tx, c.By, f)
				if next != nil {
					return devDone{Finding: "dev.redelivered.some", Args: []any{n}, At: &next.CreatedAt}, err
				}
				return devDone{Finding: "dev.redelivered.all", Args: []any{n}}, err
			}},
		{Name: "invite", Path: page("people", "invite"), Need: portal.Owner, Fresh: true, Back: page("people"),
			Fields: func(_ context.Context, _ postgres.Tx, c devCall) ([]opsField, error) {
				return []opsField{{Name: "email", Label: "ops.field.email", Type: "email"}, roleField(portal.Developer),
					languageField(c.Lang)}, nil
			},
			Once: func(ctx context.Context, tx postgres.Tx, c devCall) (devDone, error) {
				return devDone{}, o.Invite(ctx, tx, c.By, c.Form.Get("email"), portal.Role(c.Form.Get("role")),
					c.Form.Get("tongue"))
			}},
		{Name: "uninvite", Ends: true, Path: page("people", ":id", "cancel"), Need: portal.Owner, Fresh: true,
			Danger: true, Back: page("people"),
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				return devDone{}, o.CancelInvitation(ctx, c.By, c.Subject)
			}},
		{Name: "role", Ends: true, Path: page("people", ":id", "role"), Need: portal.Owner, Fresh: true,
			Back: page("people"), Fields: p.memberFields,
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				if c.Form.Get("role") == "" {
					return devDone{}, o.Remove(ctx, c.By, c.Subject)
				}
				return devDone{}, o.SetRole(ctx, c.By, c.Subject, portal.Role(c.Form.Get("role")))
			}},
		{Name: "remove", Ends: true, Path: page("people", ":id", "remove"), Need: portal.Viewer, Fresh: true,
			Danger: true, Back: developersDesk,
			Do: func(ctx context.Context, c devCall) (devDone, error) {
				return devDone{}, o.Remove(ctx, c.By, c.Subject)
			}},
	}...)
}

func newFields(_ context.Context, _ postgres.Tx, c devCall) ([]opsField, error) {
	return []opsField{{Name: "name", Label: "ops.field.appname", Hint: "dev.field.name.hint", Type: "text",
		Value: c.Of.Name},
		{Name: "redirects", Label: "ops.field.redirects", Hint: "ops.field.redirects.hint", Type: "lines",
			Of: "redirectUris", Value: strings.Join(c.Of.RedirectURIs, "\n")},
		{Name: "contact", Label: "ops.field.contact", Type: "email", Of: "contactEmail", Value: c.Of.ContactEmail,
			Optional: true}}, nil
}

func hoursField() opsField {
	return opsField{Name: "hours", Label: "ops.field.hours", Hint: "ops.field.hours.hint", Type: "number", Value: "24",
		Most: int(application.MaxSecretOverlap.Hours())}
}

// rotationOf is the rotation of a client secret that a form asks for. When the newest secret ends now, there is no
// overlap.
func rotationOf(form url.Values, hours int) application.Rotation {
	if form.Get("end") == "newest" {
		return application.Rotation{KeepPrevious: true}
	}
	return application.Rotation{Overlap: time.Duration(hours) * time.Hour, EndPrevious: form.Get("end") == "yes"}
}

// endPrevious asks, while a previous secret works, which of the two the rotation ends; otherwise it asks nothing.
func endPrevious(now time.Time, until *time.Time) []opsField {
	if until == nil || !now.Before(*until) {
		return nil
	}
	works := opsField{Label: "ops.field.previous", Type: "shown", At: until}
	return []opsField{works, {Name: "end", Label: "ops.field.end", Hint: "ops.field.end.hint", Type: "select",
		Of: "keepPrevious",
		Options: []opsOption{{Text: "ops.field.end.choose", Key: true},
			{Value: "yes", Text: "ops.field.end.yes", Key: true}, {Value: "newest", Text: "ops.field.end.newest",
				Key: true}}}}
}

func roleField(chosen portal.Role) opsField {
	f := opsField{Name: "role", Label: "dev.col.role", Hint: "dev.field.role.hint", Type: "select"}
	for _, r := range portal.Roles() {
		f.Options = append(f.Options, opsOption{Value: string(r), Text: "dev.role." + string(r), Key: true,
			Chosen: r == chosen})
	}
	return f
}

// memberFields are about one member, who can also be removed.
func (p *Pages) memberFields(ctx context.Context, tx postgres.Tx, c devCall) ([]opsField, error) {
	m, err := p.deps.Portal.Membership(ctx, tx, portal.Caller{StaffID: c.Subject, ApplicationID: c.Of.ID})
	if err != nil {
		return nil, err
	}
	who, err := p.deps.Staff.Get(ctx, tx, c.Subject)
	f := roleField(m.Role)
	f.Options = append(f.Options, opsOption{Text: "dev.role.none", Key: true})
	return []opsField{{Label: "ops.field.email", Type: "shown", Value: who.Email}, f}, err
}

// signatureOf finds the signature in what was pasted: its value, or all headers.
func signatureOf(pasted string) string {
	for line := range strings.Lines(pasted) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name),
			webhook.HeaderSignature) {
			return strings.TrimSpace(value)
		}
	}
	return strings.TrimSpace(pasted)
}

// finding puts what a check found into words.
func finding(c webhook.Check) devDone {
	d := devDone{Finding: "dev.finding." + string(c.Finding)}
	switch {
	case c.Finding == webhook.SignatureOld:
		d.Args = []any{int(c.Age / time.Second)}
	case c.Finding == webhook.BodyChanged && c.DiffersAt >= 0:
		d.Finding, d.Args = d.Finding+".at", []any{c.DiffersAt}
	}
	return d
}
