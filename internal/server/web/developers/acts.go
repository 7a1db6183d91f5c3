package developers

import (
	"context"
	"slices"
	"strings"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// Acts are the acts of the portal, with who may do them: see developers.md.
func (p *Pages) Acts() []Act {
	o := p.deps.Portal
	page := func(parts ...string) string { return Path(":app", parts...) }
	ask := func(list ...forms.Field) func(context.Context, postgres.Tx, Call) ([]forms.Field, error) {
		return func(context.Context, postgres.Tx, Call) ([]forms.Field, error) { return forms.OwnFields(list), nil }
	}
	simply := func(do func(context.Context, portal.Caller) error) func(context.Context, Call) (Done, error) {
		return func(ctx context.Context, c Call) (Done, error) { return Done{}, do(ctx, c.By) }
	}
	asNew := forms.Field{Name: "asnew", Label: "dev.field.asnew", Type: "checks",
		Options: []forms.Option{{Value: "yes", Text: "dev.field.asnew.yes", Key: true}}}
	mayPost := func(ctx context.Context, by portal.Caller) error {
		return o.Take(ctx, by, ratelimit.Endpoints, ratelimit.PostsPerMinute)
	}
	return append(append(p.devLiveActs(page("live"), page()), p.devSandboxActs()...), []Act{
		{Name: "create", Path: shell.DevelopersDesk + "/new", Back: shell.DevelopersDesk, Fields: newFields,
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				made, err := o.Create(ctx, tx, c.By.StaffID, application.NewApplication{Name: c.Form.Get("name"),
					RedirectURIs: strings.Fields(c.Form.Get("redirects")),
					ContactEmail: strings.TrimSpace(c.Form.Get("contact"))})
				return Done{To: Path(made.Application.ID), Secrets: []forms.Fact{forms.FactOf("ops.secret.id",
					made.Application.ID),
					forms.FactOf("ops.secret.client", made.Secret), forms.FactOf("ops.secret.webhook",
						made.SigningSecret)}}, err
			}},
		{Name: "edit", Path: page("edit"), Need: portal.Developer, Fresh: !p.Sandbox, Back: page(),
			Fields: newFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				name, contact, redirects := c.Form.Get("name"), strings.TrimSpace(c.Form.Get("contact")),
					strings.Fields(c.Form.Get("redirects"))
				if redirects == nil {
					redirects = []string{} // none is refused, and does not mean "as it is"
				}
				_, err := o.Update(ctx, c.By, portal.Change{Name: &name, RedirectURIs: redirects,
					ContactEmail: &contact})
				return Done{}, err
			}},
		{Name: "secret", Path: page("secret"), Need: portal.Developer, Fresh: true, Danger: true, Back: page(),
			Fields: func(_ context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				return append([]forms.Field{forms.HoursField()}, forms.EndPrevious(tx.Now,
					c.Of.PreviousSecretUntil)...), nil
			},
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				hours, err := forms.WholeNumber(c.Form, "hours", 0, int(application.MaxSecretOverlap.Hours()))
				if err != nil {
					return Done{}, err
				}
				secret, _, err := o.RotateSecret(ctx, tx, c.By, forms.RotationOf(c.Form, hours))
				return Done{Secrets: []forms.Fact{forms.FactOf("ops.secret.client", secret)}}, err
			}},
		{Name: "secret-end", Ends: true, Path: page("secret", "end"), Need: portal.Developer, Fresh: true, Danger: true,
			Back: page(), Do: simply(o.EndPreviousSecret)},
		{Name: "hook-url", Path: page("webhooks", "url"), Need: portal.Developer, Fresh: true, Back: page("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				return []forms.Field{{Name: "url", Label: "ops.field.webhook", Hint: "dev.field.url.hint", Type: "url",
					Value: e.URL, Optional: true}}, err
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				url := strings.TrimSpace(c.Form.Get("url"))
				if url != "" {
					if err := mayPost(ctx, c.By); err != nil {
						return Done{}, err
					}
				}
				return Done{}, o.SetWebhookURL(ctx, c.By, url)
			}},
		{Name: "hook-secret", Path: page("webhooks", "secret"), Need: portal.Developer, Fresh: true, Danger: true,
			Back: page("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				return forms.EndPrevious(tx.Now, e.PreviousSecretUntil), err
			},
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				secret, _, err := o.RotateWebhookSecret(ctx, tx, c.By,
					webhook.Rotation{EndPrevious: c.Form.Get("end") == "yes",
						KeepPrevious: c.Form.Get("end") == "newest"})
				return Done{Secrets: []forms.Fact{forms.FactOf("ops.secret.webhook", secret)}}, err
			}},
		{Name: "hook-enable", Path: page("webhooks", "enable"), Need: portal.Developer, Back: page("webhooks"),
			Do: func(ctx context.Context, c Call) (Done, error) {
				if err := mayPost(ctx, c.By); err != nil {
					return Done{}, err
				}
				return Done{}, o.EnableWebhooks(ctx, c.By)
			}},
		{Name: "hook-events", Path: page("webhooks", "events"), Need: portal.Developer, Back: page("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				f := forms.Field{Name: "events", Label: "dev.field.events", Hint: "dev.field.events.hint",
					Type: "checks",
					Of:   "enabledEvents", Optional: true}
				for _, kind := range webhook.ClientTypes {
					f.Options = append(f.Options, forms.Option{Value: string(kind), Text: string(kind),
						Chosen: slices.Contains(e.EnabledEvents, kind)})
				}
				return []forms.Field{f}, err
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				types := []webhook.Type{}
				for _, kind := range c.Form["events"] {
					types = append(types, webhook.Type(kind))
				}
				return Done{}, o.SetEnabledEvents(ctx, c.By, types)
			}},
		{Name: "hook-test", Path: page("webhooks", "test"), Need: portal.Developer, Back: page("webhooks"),
			Fields: func(context.Context, postgres.Tx, Call) ([]forms.Field, error) {
				f := forms.Field{Name: "type", Label: "ops.col.kind", Type: "select"}
				for _, kind := range slices.Concat(webhook.Types, webhook.ClientTypes) {
					f.Options = append(f.Options, forms.Option{Value: string(kind), Text: string(kind)})
				}
				return []forms.Field{f}, nil
			},
			Limit: ratelimit.TestEvents, Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				d, err := o.SendTest(ctx, tx, c.By, webhook.Type(c.Form.Get("type")))
				return Done{To: Path(c.Of.ID, "deliveries", d.ID) + "?done=hook-test"}, err
			}},
		{Name: "signature", Ends: true, Path: page("webhooks", "signature"), Need: portal.Viewer,
			Back: page("webhooks"),
			Fields: ask(forms.Field{Name: "header", Label: "dev.field.header",
				Hint: "dev.field.header.hint", Type: "lines"}, forms.Field{Name: "body", Label: "dev.field.body",
				Hint: "dev.field.body.hint", Type: "lines", Optional: true}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				// A browser sends line breaks as CR LF, whatever was pasted.
				got, err := p.deps.Webhooks.CheckSignature(ctx, p.DB.Read(), c.Of.ID,
					signatureOf(c.Form.Get("header")), []byte(strings.ReplaceAll(c.Form.Get("body"), "\r\n", "\n")))
				return Finding(got), err
			}},
		{Name: "redeliver", Path: page("deliveries", ":id", "redeliver"), Need: portal.Developer,
			Back: page("deliveries", ":id"), Fields: ask(asNew), Limit: ratelimit.Redeliveries,
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				d, err := o.Redeliver(ctx, tx, c.By, c.Subject, c.Form.Get("asnew") == "yes")
				return Done{To: Path(c.Of.ID, "deliveries", d.ID) + "?done=redeliver"}, err
			}},
		{Name: "redeliver-range", Path: page("redeliver"), Need: portal.Developer, Back: page("deliveries"),
			Fields: ask(forms.Field{Name: "from", Label: "ops.field.from", Hint: "ops.field.utc",
				Type: "datetime-local"},
				forms.Field{Name: "to", Label: "ops.field.to", Hint: "ops.field.utc", Type: "datetime-local"},
				forms.Field{Name: "all", Label: "dev.field.which", Type: "checks",
					Options: []forms.Option{{Value: "yes", Text: "dev.field.which.all", Key: true}}}, asNew),
			Limit: ratelimit.Redeliveries, Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				from, to, err := forms.RangeOf(c.Form)
				if err != nil {
					return Done{}, err
				}
				f := webhook.RedeliveryFilter{From: from, To: to, All: c.Form.Get("all") == "yes",
					AsNew: c.Form.Get("asnew") == "yes"}
				n, next, err := o.RedeliverRange(ctx, tx, c.By, f)
				if next != nil {
					return Done{Finding: "dev.redelivered.some", Args: []any{n}, At: &next.CreatedAt}, err
				}
				return Done{Finding: "dev.redelivered.all", Args: []any{n}}, err
			}},
		{Name: "invite", Path: page("people", "invite"), Need: portal.Owner, Fresh: true, Back: page("people"),
			Fields: func(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
				return []forms.Field{{Name: "email", Label: "ops.field.email", Type: "email"},
					forms.RoleField(portal.Developer),
					shell.LanguageField(c.Lang)}, nil
			},
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				return Done{}, o.Invite(ctx, tx, c.By, c.Form.Get("email"), portal.Role(c.Form.Get("role")),
					c.Form.Get("tongue"))
			}},
		{Name: "uninvite", Ends: true, Path: page("people", ":id", "cancel"), Need: portal.Owner, Fresh: true,
			Danger: true, Back: page("people"),
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.CancelInvitation(ctx, c.By, c.Subject)
			}},
		{Name: "role", Ends: true, Path: page("people", ":id", "role"), Need: portal.Owner, Fresh: true,
			Back: page("people"), Fields: p.memberFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				if c.Form.Get("role") == "" {
					return Done{}, o.Remove(ctx, c.By, c.Subject)
				}
				return Done{}, o.SetRole(ctx, c.By, c.Subject, portal.Role(c.Form.Get("role")))
			}},
		{Name: "remove", Ends: true, Path: page("people", ":id", "remove"), Need: portal.Viewer, Fresh: true,
			Danger: true, Back: shell.DevelopersDesk,
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.Remove(ctx, c.By, c.Subject)
			}},
	}...)
}

func newFields(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
	return []forms.Field{{Name: "name", Label: "ops.field.appname", Hint: "dev.field.name.hint", Type: "text",
		Value: c.Of.Name},
		{Name: "redirects", Label: "ops.field.redirects", Hint: "ops.field.redirects.hint", Type: "lines",
			Of: "redirectUris", Value: strings.Join(c.Of.RedirectURIs, "\n")},
		{Name: "contact", Label: "ops.field.contact", Type: "email", Of: "contactEmail", Value: c.Of.ContactEmail,
			Optional: true}}, nil
}

// memberFields are about one member, who can also be removed.
func (p *Pages) memberFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	m, err := p.deps.Portal.Membership(ctx, tx, portal.Caller{StaffID: c.Subject, ApplicationID: c.Of.ID})
	if err != nil {
		return nil, err
	}
	who, err := p.deps.Staff.Get(ctx, tx, c.Subject)
	f := forms.RoleField(m.Role)
	f.Options = append(f.Options, forms.Option{Text: "dev.role.none", Key: true})
	return []forms.Field{{Label: "ops.field.email", Type: "shown", Value: who.Email}, f}, err
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

// Finding puts what a check found into words.
func Finding(c webhook.Check) Done {
	d := Done{Finding: "dev.finding." + string(c.Finding)}
	switch {
	case c.Finding == webhook.SignatureOld:
		d.Args = []any{int(c.Age / time.Second)}
	case c.Finding == webhook.BodyChanged && c.DiffersAt >= 0:
		d.Finding, d.Args = d.Finding+".at", []any{c.DiffersAt}
	}
	return d
}
