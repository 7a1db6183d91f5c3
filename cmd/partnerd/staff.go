package main

import (
	"context"
	"fmt"
	"strings"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/staff"
)

type operatorCmd struct {
	Invite   operatorInviteCmd   `cmd:"" help:"Invite an operator by email."`
	Reinvite operatorReinviteCmd `cmd:"" help:"Invite an operator again and revoke all their current sign-in methods."`
	Disable  operatorDisableCmd  `cmd:"" help:"Disable an operator and end their sessions. Undo with reinvite."`
	List     operatorListCmd     `cmd:"" help:"List the operators."`
}

type operatorInviteCmd struct {
	output
	act
	Email    string   `required:""`
	Name     string   `required:""`
	Role     []string `required:"" enum:"support,finance,security,admin" help:"support, finance, security or admin (all permissions). Repeatable."`
	Language string   `default:"fr" enum:"fr,en" help:"Language of emails and pages: fr or en."`
}

func (c *operatorInviteCmd) Run(ctx context.Context, cfg *config.Config) error {
	n := staff.NewPerson{Email: c.Email, Name: c.Name, Language: c.Language}
	for _, r := range c.Role {
		n.Roles = append(n.Roles, staff.Role(r))
	}
	return withNew(ctx, cfg, func(a *app.App) error {
		p, link, err := a.Operator.InviteOperator(ctx, c.by(), n)
		if err != nil {
			return err
		}
		return c.invited(p.ID, link)
	})
}

// invited prints who was invited and, in a sandbox, the link that was emailed.
func (o output) invited(id, link string) error {
	result, lines := map[string]string{"id": id}, []string{id}
	if link != "" {
		result["link"], lines = link, append(lines, link)
	}
	return o.print(result, lines...)
}

type operatorReinviteCmd struct {
	output
	act
	ID string `arg:"" help:"ID of the operator."`
}

func (c *operatorReinviteCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		p, link, err := a.Operator.RecoverPerson(ctx, c.by(), c.ID)
		if err != nil {
			return err
		}
		return c.invited(p.ID, link)
	})
}

type operatorDisableCmd struct {
	act
	ID string `arg:"" help:"ID of the operator."`
}

func (c *operatorDisableCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error { return a.Operator.DisablePerson(ctx, c.by(), c.ID) })
}

type operatorListCmd struct{ output }

func (c *operatorListCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		people, err := a.Operator.Operators(ctx)
		if err != nil {
			return err
		}
		type listed struct {
			ID, Email, Name string
			Roles           []staff.Role
			State           staff.State
		}
		result, lines := make([]listed, len(people)), make([]string, len(people))
		for i, p := range people {
			result[i] = listed{p.ID, p.Email, p.Name, p.Roles, p.State}
			roles := make([]string, len(p.Roles))
			for j, r := range p.Roles {
				roles[j] = string(r)
			}
			lines[i] = fmt.Sprintf("%s  %-8s  %s <%s>  %s", p.ID, p.State, p.Name, p.Email, strings.Join(roles, ", "))
		}
		return c.print(result, lines...)
	})
}

type lawyerInviteCmd struct {
	output
	Email      string   `required:""`
	Name       string   `required:""`
	Phone      string   `required:"" help:"Phone number for consultations; French unless it starts with +."`
	Competence []string `required:"" help:"Practice area code. Repeatable."`
	Language   []string `required:"" help:"Language code. Repeatable; each practice area is served in each language."`
	Correspond string   `default:"fr" enum:"fr,en" help:"Language of emails and pages: fr or en."`
	Reason     string   `default:"New lawyer." help:"Reason, kept in the audit log."`
	By         string   `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *lawyerInviteCmd) Run(ctx context.Context, cfg *config.Config) error {
	return withNew(ctx, cfg, func(a *app.App) error {
		l, link, err := a.Operator.InviteLawyer(ctx, act{By: c.By, Reason: c.Reason}.by(), lawyer.NewLawyer{
			Email: c.Email, Name: c.Name, Phone: c.Phone, Competences: c.Competence, Languages: c.Language},
			c.Correspond)
		if err != nil {
			return err
		}
		return c.invited(l.ID, link)
	})
}

type lawyerReinviteCmd struct {
	output
	act
	ID         string `arg:"" help:"ID of the lawyer."`
	Correspond string `default:"fr" enum:"fr,en" help:"Language of emails and pages for a lawyer never invited before: fr or en."`
}

func (c *lawyerReinviteCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		p, link, err := a.Operator.ReinviteLawyer(ctx, c.by(), c.ID, c.Correspond)
		if err != nil {
			return err
		}
		return c.invited(p.ID, link)
	})
}
