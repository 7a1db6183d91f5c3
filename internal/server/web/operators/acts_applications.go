package operators

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// applicationActs lists the actions on applications.
func (p *Pages) applicationActs() []Act {
	o := p.deps.Operator
	applications := backToSubject("applications")
	return []Act{
		{Name: "create-application", Path: Path("applications", "new"), Roles: only(staff.Security),
			Tells: "no one: the application has no team yet", Fresh: true, Back: backToSection("applications"),
			Secrets: []string{"ops.secret.id", "ops.secret.client", "ops.secret.webhook"},
			Made:    func(secrets []string) string { return Path("applications", secrets[0]) },
			Fields:  p.newApplicationFields, Do: p.createApplication},
		{Name: "update-application", Path: on("applications", "edit"), Roles: only(staff.Security), Tells: ToldPartner,
			Fresh: true, Back: applications, Fields: p.applicationFields, Do: p.updateApplication},
		{Name: "rotate-secret", Path: on("applications", "secret"), Roles: only(staff.Security), Tells: ToldPartner,
			Fresh: true, Danger: true, Back: applications,
			Secrets: []string{"ops.secret.client"},
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				a, err := p.deps.Applications.Get(ctx, tx, c.Subject)
				return append([]forms.Field{forms.HoursField()}, forms.EndPrevious(tx.Now, a.PreviousSecretUntil)...),
					err
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				hours, err := forms.WholeNumber(c.Form, "hours", 0, int(application.MaxSecretOverlap.Hours()))
				if err != nil {
					return Done{}, err
				}
				_, _, err = o.RotateApplicationSecret(ctx, c.By, c.Subject, forms.RotationOf(c.Form, hours))
				return Done{}, err
			}},
		{Name: "suspend-application", Path: on("applications", "suspend"), Roles: only(staff.Security),
			Tells: ToldPartner, Fresh: true, Danger: true, Back: applications,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendApplication(ctx, by, id, true)
				return err
			})},
		{Name: "resume-application", Path: on("applications", "resume"), Roles: only(staff.Security),
			Tells: ToldPartner, Fresh: true, Back: applications,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendApplication(ctx, by, id, false)
				return err
			})},
		{Name: "invite-member", Path: on("applications", "invite"), Roles: only(operator.InvitesOthers),
			Tells: ToldJoining, Fresh: true, Secrets: theLink, Back: applications,
			Fields: func(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
				return []forms.Field{{Name: "email", Label: "ops.field.email", Type: "email"},
					forms.RoleField(portal.Owner),
					shell.LanguageField(c.Lang)}, nil
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				_, _, err := o.InviteMember(ctx, c.By, c.Subject, c.Form.Get("email"), portal.Role(c.Form.Get("role")),
					c.Form.Get("tongue"))
				return Done{}, err
			}},
		{Name: "webhook-url", Path: on("applications", "webhook-url"), Roles: only(staff.Security), Tells: ToldPartner,
			Fresh: true, Back: applications, Fields: p.webhookFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.SetWebhookURL(ctx, c.By, c.Subject, strings.TrimSpace(c.Form.Get("url")), true)
			}},
		{Name: "enable-webhooks", Path: on("applications", "webhooks"), Roles: only(staff.Support, staff.Security),
			Tells: "no one: held deliveries resume", Back: applications, Do: one(o.EnableWebhooks)},
		{Name: "redeliver-one", Path: on("applications", "redeliver-one"), Roles: only(staff.Support, staff.Security),
			Tells: "no one: events are redelivered", Back: applications,
			Fields: forms.Fixed[Call](forms.Field{Name: "delivery", Label: "ops.field.delivery",
				Hint: "ops.field.delivery.hint", Type: "text"}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				delivery := strings.TrimSpace(c.Form.Get("delivery"))
				err := error(problem.ErrNotFound)
				if shell.Identifier.MatchString(delivery) {
					_, err = o.Redeliver(ctx, c.By, c.Subject, delivery, false)
				}
				if errors.Is(err, problem.ErrNotFound) {
					err = forms.RefuseInput(forms.RuleDelivery, "delivery", problem.Shown(delivery))
				}
				return Done{}, err
			}},
		{Name: "redeliver", Path: on("applications", "redeliver"), Roles: only(staff.Support, staff.Security),
			Tells: "no one: events are redelivered", Back: applications,
			Fields: forms.Fixed[Call](forms.RangeFields()...),
			Do: func(ctx context.Context, c Call) (Done, error) {
				from, to, err := forms.RangeOf(c.Form)
				if err != nil {
					return Done{}, err
				}
				_, _, err = o.RedeliverRange(ctx, c.By, c.Subject, webhook.RedeliveryFilter{From: from, To: to})
				return Done{}, err
			}},
	}
}

func (p *Pages) newApplicationFields(context.Context, postgres.Tx, Call) ([]forms.Field, error) {
	return append(settingsFields(application.Application{Scopes: application.AllScopes}),
		forms.Field{Name: "webhook", Label: "ops.field.webhook", Type: "url", Of: "url", Optional: true}), nil
}

// webhookFields shows the current webhook URL. The URL can contain a token, but whoever may set it may also read it.
func (p *Pages) webhookFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Subject)
	return []forms.Field{{Name: "url", Label: "ops.field.webhook", Hint: "ops.field.webhook.empty", Type: "url",
		Value: e.URL, Optional: true}}, err
}

func (p *Pages) applicationFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	a, err := p.deps.Applications.Get(ctx, tx, c.Subject)
	return settingsFields(a), err
}

func settingsFields(a application.Application) []forms.Field {
	scopes := forms.Field{Name: "scopes", Label: "ops.field.scopes", Type: "checks"}
	for _, s := range application.AllScopes {
		scopes.Options = append(scopes.Options, forms.Option{Value: string(s), Text: string(s),
			Chosen: application.Within([]application.Scope{s}, a.Scopes)})
	}
	return []forms.Field{
		{Name: "name", Label: "ops.field.appname", Type: "text", Value: a.Name},
		{Name: "redirects", Label: "ops.field.redirects", Hint: "ops.field.redirects.hint", Type: "lines",
			Of: "redirectUris", Value: strings.Join(a.RedirectURIs, "\n")},
		scopes,
		{Name: "contact", Label: "ops.field.contact", Type: "email", Of: "contactEmail", Value: a.ContactEmail,
			Optional: true},
		{Name: "rate", Label: "ops.field.rate", Hint: "ops.field.rate.hint", Type: "number",
			Value: strconv.Itoa(a.RatePerMinute), Most: application.MaxRate},
		{Name: "clientrate", Label: "ops.field.clientrate", Of: "clientRate", Hint: "ops.field.rate.hint",
			Type: "number", Value: strconv.Itoa(a.ClientRatePerMinute), Most: application.MaxRate},
	}
}

// settings reads the fields of an application.
func settings(c Call) (n application.NewApplication, err error) {
	n.Name, n.ContactEmail, n.RedirectURIs = c.Form.Get("name"), strings.TrimSpace(c.Form.Get("contact")),
		strings.Fields(c.Form.Get("redirects"))
	if n.RedirectURIs == nil {
		n.RedirectURIs = []string{} // an empty list is an error, whereas nil would keep the old one
	}
	var unscoped, rated, clients error
	for _, s := range c.Form["scopes"] {
		n.Scopes = append(n.Scopes, application.Scope(s))
	}
	if n.Scopes == nil { // the domain would take nil as all scopes
		unscoped = forms.RefuseInput(problem.RuleRequired, "scopes")
	}
	n.RatePerMinute, rated = forms.WholeNumber(c.Form, "rate", 0, application.MaxRate)
	n.ClientRatePerMinute, clients = forms.WholeNumber(c.Form, "clientrate", 0, application.MaxRate)
	return n, forms.BothRefused(unscoped, rated, clients)
}

func (p *Pages) createApplication(ctx context.Context, c Call) (Done, error) {
	n, err := settings(c)
	if err != nil {
		return Done{}, err
	}
	_, err = p.deps.Operator.RegisterApplication(ctx, c.By, n, strings.TrimSpace(c.Form.Get("webhook")))
	return Done{}, err
}

func (p *Pages) updateApplication(ctx context.Context, c Call) (Done, error) {
	n, err := settings(c)
	if err != nil {
		return Done{}, err
	}
	_, err = p.deps.Operator.UpdateApplication(ctx, c.By, c.Subject, application.Change{Name: &n.Name,
		RedirectURIs: n.RedirectURIs, Scopes: n.Scopes, ContactEmail: &n.ContactEmail, RatePerMinute: &n.RatePerMinute,
		ClientRatePerMinute: &n.ClientRatePerMinute})
	return Done{}, err
}
