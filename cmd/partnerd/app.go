package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
)

type appCmd struct {
	Create       appCreateCmd  `cmd:"" help:"Create an application and print its secrets once."`
	List         appListCmd    `cmd:"" help:"List the applications."`
	Show         appShowCmd    `cmd:"" help:"Show an application."`
	Update       appUpdateCmd  `cmd:"" help:"Change an application; omitted flags change nothing."`
	Suspend      appSuspendCmd `cmd:"" help:"Suspend an application: reject all its requests immediately."`
	Resume       appResumeCmd  `cmd:"" help:"Resume a suspended application."`
	History      appHistoryCmd `cmd:"" help:"List the history of a client's connections to an application, newest first."`
	Invite       appInviteCmd  `cmd:"" help:"Invite someone to manage an application in the developer portal."`
	RotateSecret appRotateCmd  `cmd:"" name:"rotate-secret" help:"Replace the client_secret and print the new one once."`
}

// stamp is the format in which commands print times.
const stamp = "2006-01-02 15:04:05 UTC"

func (o act) by() operator.Act { return operator.Act{Actor: o.actor(), Reason: o.Reason} }

type appCreateCmd struct {
	output
	Name        string   `required:"" help:"Name shown to clients."`
	RedirectURI []string `required:"" name:"redirect-uri" sep:"none" help:"Exact redirect URI. Repeatable."`
	WebhookURL  string   `name:"webhook-url" help:"Webhook endpoint. Without one, events are held."`
	Scope       []string `help:"Scope the application may request. Repeatable. Default: all."`
	Contact     string   `help:"Email address for messages about the integration."`
	Rate        int      `help:"Requests per minute for all clients together. Default: the deployment default."`
	ClientRate  int      `help:"Requests per minute for each client. Default: the deployment default."`
	Recording   bool     `help:"Allow calls to be recorded, with the client's consent."`
	Reason      string   `default:"New application." help:"Reason, kept in the audit log."`
	By          string   `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *appCreateCmd) Run(ctx context.Context, cfg *config.Config) error {
	scopes, err := scopesOf(c.Scope)
	if err != nil {
		return err
	}
	return withNew(ctx, cfg, func(a *app.App) error {
		made, err := a.Operator.RegisterApplication(ctx, act{By: c.By, Reason: c.Reason}.by(),
			application.NewApplication{Name: c.Name, RedirectURIs: c.RedirectURI, Scopes: scopes,
				ContactEmail: c.Contact, RatePerMinute: c.Rate, ClientRatePerMinute: c.ClientRate,
				RecordingEnabled: c.Recording}, c.WebhookURL)
		if err != nil {
			return err
		}
		return c.print(made, "client_id      "+made.ClientID, "client_secret  "+made.ClientSecret,
			"webhook secret "+made.WebhookSecret)
	})
}

// scopesOf parses repeated options, each with one or more scopes. It returns nil for none.
func scopesOf(options []string) ([]application.Scope, error) {
	if len(options) == 0 {
		return nil, nil
	}
	return application.ParseScopes(strings.Join(options, " "))
}

// applicationView is an application as commands print it.
type applicationView struct {
	ID                  string              `json:"id"`
	Name                string              `json:"name"`
	RedirectURIs        []string            `json:"redirectUris"`
	Scopes              []application.Scope `json:"scopes"`
	Contact             string              `json:"contact,omitempty"`
	Suspended           bool                `json:"suspended"`
	Recording           bool                `json:"recording"`
	RatePerMinute       int                 `json:"ratePerMinute,omitempty"`
	ClientRatePerMinute int                 `json:"clientRatePerMinute,omitempty"`
	PreviousSecretUntil *clock.Stamp        `json:"previousSecretUntil,omitempty"`
	CreatedAt           clock.Stamp         `json:"createdAt"`
	UpdatedAt           clock.Stamp         `json:"updatedAt"`
}

func viewOf(a application.Application, now time.Time) applicationView {
	v := applicationView{a.ID, a.Name, a.RedirectURIs, a.Scopes, a.ContactEmail, a.Suspended, a.RecordingEnabled,
		a.RatePerMinute, a.ClientRatePerMinute, (*clock.Stamp)(a.PreviousSecretUntil), clock.Stamp(a.CreatedAt),
		clock.Stamp(a.UpdatedAt)}
	if a.PreviousSecretUntil != nil && !now.Before(*a.PreviousSecretUntil) {
		v.PreviousSecretUntil = nil
	}
	return v
}

func (v applicationView) lines() []string {
	state, recording, previous := "active", "off", "none"
	if v.Suspended {
		state = "suspended"
	}
	if v.Recording {
		recording = "on"
	}
	if v.PreviousSecretUntil != nil {
		previous = "valid until " + time.Time(*v.PreviousSecretUntil).Format(stamp)
	}
	return []string{
		"client_id        " + v.ID, "name             " + v.Name, "state            " + state,
		"redirect URIs    " + strings.Join(v.RedirectURIs, "\n                 "),
		"scopes           " + application.FormatScopes(v.Scopes), "contact          " + none(v.Contact),
		"recording        " + recording, "requests/minute  " + rate(v.RatePerMinute),
		"… per client     " + rate(v.ClientRatePerMinute), "previous secret  " + previous,
		"created          " + time.Time(v.CreatedAt).Format(stamp), "changed          " + time.Time(v.UpdatedAt).
			Format(stamp),
	}
}

func none(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func rate(n int) string {
	if n == 0 {
		return "the deployment default"
	}
	return fmt.Sprint(n)
}

type appListCmd struct{ output }

func (c *appListCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		tx := a.DB.Read()
		all, err := a.Applications.List(ctx, tx)
		if err != nil {
			return err
		}
		views, lines := []applicationView{}, []string{}
		for _, one := range all {
			v := viewOf(one, tx.Now)
			views = append(views, v)
			lines = append(lines, fmt.Sprintf("%s  %-9s  %s",
				v.ID, strings.TrimPrefix(v.lines()[2], "state            "), v.Name))
		}
		return c.print(map[string]any{"applications": views}, lines...)
	})
}

type appShowCmd struct {
	output
	App string `arg:"" help:"client_id of the application."`
}

func (c *appShowCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		tx := a.DB.Read()
		one, err := a.Applications.Get(ctx, tx, c.App)
		return c.show(one, tx.Now, unknown(err, c.App))
	})
}

func (o output) show(a application.Application, now time.Time, err error) error {
	if err != nil {
		return err
	}
	v := viewOf(a, now)
	return o.print(v, v.lines()...)
}

func unknown(err error, applicationID string) error {
	if errors.Is(err, problem.ErrNotFound) {
		return fmt.Errorf("there is no application %q", applicationID)
	}
	return err
}

type appUpdateCmd struct {
	output
	act
	App         string   `arg:"" help:"client_id of the application."`
	Name        *string  `help:"Name shown to clients."`
	RedirectURI []string `name:"redirect-uri" sep:"none" help:"Exact redirect URI. Repeatable; replaces all."`
	Scope       []string `help:"Scope the application may request. Repeatable; replaces all. Omitted scopes stop working for every client."`
	Contact     *string  `help:"Email address for messages about the integration; empty for none."`
	Rate        *int     `help:"Requests per minute for all clients together; 0 for the deployment default."`
	ClientRate  *int     `help:"Requests per minute for each client; 0 for the deployment default."`
	Recording   *bool    `negatable:"" help:"Allow calls to be recorded, with the client's consent."`
}

func (c *appUpdateCmd) Run(ctx context.Context, cfg *config.Config) error {
	scopes, err := scopesOf(c.Scope)
	if err != nil {
		return err
	}
	return with(ctx, cfg, func(a *app.App) error {
		after, err := a.Operator.UpdateApplication(ctx, c.by(), c.App, application.Change{Name: c.Name,
			RedirectURIs: c.RedirectURI, Scopes: scopes, ContactEmail: c.Contact, RecordingEnabled: c.Recording,
			RatePerMinute: c.Rate, ClientRatePerMinute: c.ClientRate})
		return c.show(after, a.DB.Clock().Now(), unknown(err, c.App))
	})
}

type appSuspendCmd struct {
	output
	act
	App string `arg:"" help:"client_id of the application."`
}

func (c *appSuspendCmd) Run(ctx context.Context, cfg *config.Config) error {
	return c.suspend(ctx, cfg, c.by(), c.App, true)
}

type appResumeCmd struct {
	output
	act
	App string `arg:"" help:"client_id of the application."`
}

func (c *appResumeCmd) Run(ctx context.Context, cfg *config.Config) error {
	return c.suspend(ctx, cfg, c.by(), c.App, false)
}

func (o output) suspend(ctx context.Context, cfg *config.Config, by operator.Act, applicationID string,
	suspended bool,
) error {
	return with(ctx, cfg, func(a *app.App) error {
		after, err := a.Operator.SuspendApplication(ctx, by, applicationID, suspended)
		return o.show(after, a.DB.Clock().Now(), unknown(err, applicationID))
	})
}

type appHistoryCmd struct {
	output
	App    string `arg:"" help:"client_id of the application."`
	Client string `required:"" help:"ID of the client."`
	Limit  int    `default:"100" help:"Maximum number of entries."`
}

func (c *appHistoryCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		events, err := a.Operator.LinkHistory(ctx, c.App, c.Client, min(max(c.Limit, 1), 10_000))
		if err != nil {
			return unknown(err, c.App)
		}
		if len(events) == 0 && !c.JSON {
			return c.print(nil, "The client was never linked to the application.")
		}
		views, lines := []map[string]any{}, []string{}
		for _, e := range events {
			views = append(views, map[string]any{"grantId": e.GrantID, "applicationId": e.ApplicationID,
				"clientId": e.ClientID, "event": e.Event, "reason": e.Reason, "createdAt": clock.Stamp(e.CreatedAt)})
			lines = append(lines, fmt.Sprintf("%s  %s  %-9s  %s", e.CreatedAt.Format(stamp), e.GrantID,
				e.Event, e.Reason))
		}
		return c.print(map[string]any{"events": views}, lines...)
	})
}

type appInviteCmd struct {
	output
	act
	App      string `arg:"" help:"client_id of the application."`
	Email    string `required:""`
	Role     string `default:"owner" enum:"owner,developer,viewer" help:"owner (everything), developer (cannot manage people) or viewer (read only)."`
	Language string `default:"fr" enum:"fr,en" help:"Language of emails and pages: fr or en."`
}

func (c *appInviteCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		i, link, err := a.Operator.InviteMember(ctx, c.by(), c.App, c.Email, portal.Role(c.Role), c.Language)
		if err != nil {
			return unknown(err, c.App)
		}
		return c.invited(i.ID, link)
	})
}

type appRotateCmd struct {
	output
	act
	App     string        `arg:"" help:"client_id of the application."`
	Overlap time.Duration `default:"24h" help:"How long the current secret stays valid; 0s revokes it immediately."`
	endPrevious
}

// endPrevious holds the flags that the commands for rotating client secrets and webhook secrets share.
type endPrevious struct {
	EndPrevious  bool `xor:"previous" help:"Revoke the previous secret if it is still valid."`
	KeepPrevious bool `xor:"previous" help:"Revoke the current secret immediately and keep the previous one until it expires."`
}

// told adds the flags that resolve the error.
func (endPrevious) told(err error) error {
	if errors.Is(err, problem.ErrPreviousSecret) {
		return fmt.Errorf("%w (here: --end-previous, --keep-previous)", err)
	}
	return err
}

func (c *appRotateCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		r := application.Rotation{Overlap: c.Overlap, EndPrevious: c.EndPrevious, KeepPrevious: c.KeepPrevious}
		if r.KeepPrevious { // the flag's default does not apply
			r.Overlap = 0
		}
		secret, until, err := a.Operator.RotateApplicationSecret(ctx, c.by(), c.App, r)
		if err != nil {
			return c.told(unknown(err, c.App))
		}
		return c.print(map[string]any{"clientId": c.App, "clientSecret": secret,
			"previousSecretUntil": clock.Stamp(until)},
			"client_secret  "+secret, "The previous secret is valid until "+until.Format(stamp)+".")
	})
}
