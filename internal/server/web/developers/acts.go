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

// Acts lists the actions of the portal and who may do them: see developers.md.
func (p *Pages) Acts() []Act {
	return slices.Concat(p.devLiveActs(ofApp("live"), ofApp()), p.devSandboxActs(), p.applicationActs(),
		p.webhookActs(), p.memberActs())
}

// ofApp returns the route of a page of an application.
func ofApp(parts ...string) string { return Path(":app", parts...) }

// asNew asks whether a redelivery is a new delivery.
func asNew() forms.Field {
	return forms.Field{Name: "asnew", Label: "dev.field.asnew", Type: "checks",
		Options: []forms.Option{{Value: "yes", Text: "dev.field.asnew.yes", Key: true}}}
}

// mayPost counts operations that make the service send requests to an endpoint.
func (p *Pages) mayPost(ctx context.Context, by portal.Caller) error {
	return p.deps.Portal.Take(ctx, by, ratelimit.Endpoints, ratelimit.PostsPerMinute)
}

// applicationActs lists the actions on an application and its client secret.
func (p *Pages) applicationActs() []Act {
	o := p.deps.Portal
	return []Act{
		{Name: "create", Path: shell.DevelopersDesk + "/new", Back: shell.DevelopersDesk, Fields: newFields,
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				made, err := o.Create(ctx, tx, c.By.StaffID, application.NewApplication{Name: c.Form.Get("name"),
					RedirectURIs: strings.Fields(c.Form.Get("redirects")),
					ContactEmail: strings.TrimSpace(c.Form.Get("contact"))})
				return Done{To: Path(made.Application.ID), Secrets: []forms.Fact{forms.FactOf("dev.clientid",
					made.Application.ID), forms.FactOf("dev.secrets", made.Secret),
					forms.FactOf("dev.signing", made.SigningSecret)}}, err
			}},
		{Name: "edit", Path: ofApp("edit"), Need: portal.Developer, Fresh: !p.Sandbox, Back: ofApp(),
			Fields: newFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				name, contact, redirects := c.Form.Get("name"), strings.TrimSpace(c.Form.Get("contact")),
					strings.Fields(c.Form.Get("redirects"))
				if redirects == nil {
					redirects = []string{} // an empty list is an error, whereas nil would keep the old one
				}
				_, err := o.Update(ctx, c.By, portal.Change{Name: &name, RedirectURIs: redirects,
					ContactEmail: &contact})
				return Done{}, err
			}},
		{Name: "secret", Path: ofApp("secret"), Need: portal.Developer, Fresh: true, Danger: true, Back: ofApp(),
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
				return Done{Secrets: []forms.Fact{forms.FactOf("dev.secrets", secret)}}, err
			}},
		{Name: "secret-end", Ends: true, Path: ofApp("secret", "end"), Need: portal.Developer, Fresh: true,
			Danger: true, Back: ofApp(), Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.EndPreviousSecret(ctx, c.By)
			}},
	}
}

// webhookActs lists the actions on the endpoint, its signing secret and its deliveries.
func (p *Pages) webhookActs() []Act {
	o := p.deps.Portal
	return []Act{
		{Name: "hook-url", Path: ofApp("webhooks", "url"), Need: portal.Developer, Fresh: true, Back: ofApp("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				return []forms.Field{{Name: "url", Label: "ops.field.webhook", Hint: "dev.field.url.hint", Type: "url",
					Value: e.URL, Optional: true}}, err
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				url := strings.TrimSpace(c.Form.Get("url"))
				if url != "" {
					if err := p.mayPost(ctx, c.By); err != nil {
						return Done{}, err
					}
				}
				return Done{}, o.SetWebhookURL(ctx, c.By, url)
			}},
		{Name: "hook-secret", Path: ofApp("webhooks", "secret"), Need: portal.Developer, Fresh: true, Danger: true,
			Back: ofApp("webhooks"),
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Of.ID)
				return forms.EndPrevious(tx.Now, e.PreviousSecretUntil), err
			},
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				secret, _, err := o.RotateWebhookSecret(ctx, tx, c.By,
					webhook.Rotation{EndPrevious: c.Form.Get("end") == "yes",
						KeepPrevious: c.Form.Get("end") == "newest"})
				return Done{Secrets: []forms.Fact{forms.FactOf("dev.signing", secret)}}, err
			}},
		{Name: "hook-enable", Path: ofApp("webhooks", "enable"), Need: portal.Developer, Back: ofApp("webhooks"),
			Do: func(ctx context.Context, c Call) (Done, error) {
				if err := p.mayPost(ctx, c.By); err != nil {
					return Done{}, err
				}
				return Done{}, o.EnableWebhooks(ctx, c.By)
			}},
		{Name: "hook-events", Path: ofApp("webhooks", "events"), Need: portal.Developer, Back: ofApp("webhooks"),
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
		{Name: "hook-test", Path: ofApp("webhooks", "test"), Need: portal.Developer, Back: ofApp("webhooks"),
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
		{Name: "signature", Ends: true, Path: ofApp("webhooks", "signature"), Need: portal.Viewer,
			Back: ofApp("webhooks"),
			Fields: forms.Fixed[Call](forms.Field{Name: "header", Label: "dev.field.header",
				Hint: "dev.field.header.hint", Type: "lines"}, forms.Field{Name: "body", Label: "dev.field.body",
				Hint: "dev.field.body.hint", Type: "lines", Optional: true}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				// Browsers send line breaks as CR LF, whatever was pasted.
				got, err := p.deps.Webhooks.CheckSignature(ctx, p.DB.Read(), c.Of.ID,
					signatureOf(c.Form.Get("header")), []byte(strings.ReplaceAll(c.Form.Get("body"), "\r\n", "\n")))
				return Finding(got), err
			}},
		{Name: "redeliver", Path: ofApp("deliveries", ":id", "redeliver"), Need: portal.Developer,
			Back: ofApp("deliveries", ":id"), Fields: forms.Fixed[Call](asNew()), Limit: ratelimit.Redeliveries,
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				d, err := o.Redeliver(ctx, tx, c.By, c.Subject, c.Form.Get("asnew") == "yes")
				return Done{To: Path(c.Of.ID, "deliveries", d.ID) + "?done=redeliver"}, err
			}},
		{Name: "redeliver-range", Path: ofApp("redeliver"), Need: portal.Developer, Back: ofApp("deliveries"),
			Fields: forms.Fixed[Call](append(forms.RangeFields(), forms.Field{Name: "all", Label: "dev.field.which",
				Type: "checks", Options: []forms.Option{{Value: "yes", Text: "dev.field.which.all", Key: true}}},
				asNew())...),
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
	}
}

// memberActs lists the actions on the team of an application.
func (p *Pages) memberActs() []Act {
	o := p.deps.Portal
	return []Act{
		{Name: "invite", Path: ofApp("people", "invite"), Need: portal.Owner, Fresh: true, Back: ofApp("people"),
			Fields: func(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
				return []forms.Field{{Name: "email", Label: "ops.field.email", Type: "email"},
					forms.RoleField(portal.Developer),
					shell.LanguageField(c.Lang)}, nil
			},
			Once: func(ctx context.Context, tx postgres.Tx, c Call) (Done, error) {
				return Done{}, o.Invite(ctx, tx, c.By, c.Form.Get("email"), portal.Role(c.Form.Get("role")),
					c.Form.Get("tongue"))
			}},
		{Name: "uninvite", Ends: true, Path: ofApp("people", ":id", "cancel"), Need: portal.Owner, Fresh: true,
			Danger: true, Back: ofApp("people"),
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.CancelInvitation(ctx, c.By, c.Subject)
			}},
		{Name: "role", Ends: true, Path: ofApp("people", ":id", "role"), Need: portal.Owner, Fresh: true,
			Back: ofApp("people"), Fields: p.memberFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				if c.Form.Get("role") == "" {
					return Done{}, o.Remove(ctx, c.By, c.Subject)
				}
				return Done{}, o.SetRole(ctx, c.By, c.Subject, portal.Role(c.Form.Get("role")))
			}},
		{Name: "remove", Ends: true, Path: ofApp("people", ":id", "remove"), Need: portal.Viewer, Fresh: true,
			Danger: true, Back: shell.DevelopersDesk,
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.Remove(ctx, c.By, c.Subject)
			}},
	}
}

func newFields(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
	return []forms.Field{{Name: "name", Label: "ops.field.appname", Hint: "dev.field.name.hint", Type: "text",
		Value: c.Of.Name},
		{Name: "redirects", Label: "ops.field.redirects", Hint: "ops.field.redirects.hint", Type: "lines",
			Of: "redirectUris", Value: strings.Join(c.Of.RedirectURIs, "\n")},
		{Name: "contact", Label: "ops.field.contact", Type: "email", Of: "contactEmail", Value: c.Of.ContactEmail,
			Optional: true}}, nil
}

// memberFields are the fields for one member, who can also be removed.
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

// signatureOf extracts the signature from the pasted text, which can be its value or all headers.
func signatureOf(pasted string) string {
	for line := range strings.Lines(pasted) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name),
			webhook.HeaderSignature) {
			return strings.TrimSpace(value)
		}
	}
	return strings.TrimSpace(pasted)
}

// Finding returns the result of a signature check in words.
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
