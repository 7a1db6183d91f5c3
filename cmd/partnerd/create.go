package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/wallet"
)

// output prints a result for people, or as one JSON object.
type output struct {
	JSON bool `name:"json" help:"Print the result as one JSON object."`
}

func (o output) print(result any, lines ...string) error {
	if o.JSON {
		return json.NewEncoder(os.Stdout).Encode(result)
	}
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

// with opens the program beside a running server while f runs. It requires an existing installation: a command in the
// wrong folder must not create one and find it in order.
func with(ctx context.Context, cfg *config.Config, f func(a *app.App) error) error {
	if err := cfg.CheckInstalled(ctx); err != nil {
		return err
	}
	return withNew(ctx, cfg, f)
}

// withNew is for commands that may precede the first start: it creates an installation if there is none.
func withNew(ctx context.Context, cfg *config.Config, f func(a *app.App) error) error {
	cfg.LogLevel = max(cfg.LogLevel, slog.LevelWarn) // print only the result and problems
	a, err := app.Open(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer a.Close()
	return f(a)
}

type clientCmd struct {
	Create  clientCreateCmd  `cmd:"" help:"Create a client."`
	Show    clientShowCmd    `cmd:"" help:"Show a client."`
	Disable clientDisableCmd `cmd:"" help:"Disable a client and end all their connections."`
	Enable  clientEnableCmd  `cmd:"" help:"Enable a disabled client."`
	SignOut clientSignOutCmd `cmd:"" name:"sign-out" help:"End a client's browser sessions."`
	Unlink  clientUnlinkCmd  `cmd:"" help:"Disconnect a client from one application or all."`
}

type clientCreateCmd struct {
	output
	Email         string `required:""`
	Password      string `help:"Password: --password - or --password-file. Default: prompt for it."`
	Name          string `required:""`
	Phone         string `help:"Phone number; French unless it starts with +."`
	PhoneVerified bool   `help:"Mark the number as verified. In live mode, this requires --reason."`
	BalanceCents  int64  `help:"Opening wallet balance in cents (sandbox only)."`
	Reason        string `help:"Reason, kept in the audit log."`
	By            string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *clientCreateCmd) Run(ctx context.Context, cfg *config.Config) error {
	if c.BalanceCents < 0 || c.BalanceCents > int64(wallet.MaxAdjustment) {
		return fmt.Errorf("--balance-cents must be between 0 and %d", wallet.MaxAdjustment)
	}
	password, err := askPassword(c.Password)
	if err != nil {
		return err
	}
	return withNew(ctx, cfg, func(a *app.App) error {
		made, err := a.Operator.CreateClient(ctx, act{By: c.By, Reason: c.Reason}.by(), account.NewClient{
			Email: c.Email, Password: password, Name: c.Name, Phone: c.Phone, PhoneVerified: c.PhoneVerified},
			money.Cents(c.BalanceCents))
		if err != nil {
			return err
		}
		return c.print(map[string]string{"id": made.ID}, made.ID)
	})
}

type lawyerCmd struct {
	Invite   lawyerInviteCmd   `cmd:"" help:"Create a lawyer and email them an invitation."`
	Reinvite lawyerReinviteCmd `cmd:"" help:"Invite a lawyer again and revoke all their current sign-in methods."`
	Create   lawyerCreateCmd   `cmd:"" help:"Create a simulated lawyer (sandbox only)."`
	SetPhone lawyerSetPhoneCmd `cmd:"" help:"Replace a lawyer's phone number."`
	Check    lawyerCheckCmd    `cmd:"" help:"Record that a lawyer's bar registration was checked."`
	Duty     lawyerDutyCmd     `cmd:"" help:"Show or set when a lawyer may be called for callbacks."`
	Suspend  lawyerSuspendCmd  `cmd:"" help:"Suspend a lawyer and reassign their consultations."`
	Resume   lawyerResumeCmd   `cmd:"" help:"Resume a suspended lawyer."`
}

type lawyerSuspendCmd struct {
	output
	act
	ID string `arg:"" help:"ID of the lawyer."`
}

func (c *lawyerSuspendCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		l, err := a.Operator.SuspendLawyer(ctx, c.by(), c.ID)
		if err != nil {
			return err
		}
		said := "The lawyer is suspended."
		if l.State != lawyer.Offline {
			said += " Work in progress is completed first: the state is " + string(l.State) + "."
		}
		return c.print(map[string]any{"id": l.ID, "suspended": true, "state": l.State}, said)
	})
}

type lawyerResumeCmd struct {
	output
	act
	ID string `arg:"" help:"ID of the lawyer."`
}

func (c *lawyerResumeCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		if err := a.Operator.ResumeLawyer(ctx, c.by(), c.ID); err != nil {
			return err
		}
		return c.print(map[string]any{"id": c.ID, "suspended": false}, "The lawyer can go on duty again.")
	})
}

type lawyerSetPhoneCmd struct {
	act
	ID    string `arg:"" help:"ID of the lawyer."`
	Phone string `arg:"" help:"Phone number for consultations; French unless it starts with +."`
}

func (c *lawyerSetPhoneCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error { return a.Operator.SetLawyerPhone(ctx, c.by(), c.ID, c.Phone) })
}

type lawyerCreateCmd struct {
	output
	Email      string   `required:""`
	Name       string   `required:""`
	Phone      string   `required:"" help:"Phone number for consultations; French unless it starts with +."`
	Competence []string `required:"" help:"Practice area code. Repeatable."`
	Language   []string `required:"" help:"Language code. Repeatable; each practice area is served in each language."`
	Reason     string   `default:"New lawyer." help:"Reason, kept in the audit log."`
	By         string   `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *lawyerCreateCmd) Run(ctx context.Context, cfg *config.Config) error {
	if !cfg.Sandbox() {
		return errors.New("simulated lawyers exist only in a sandbox; use partnerd lawyer invite for people")
	}
	return withNew(ctx, cfg, func(a *app.App) error {
		made, err := a.Operator.CreateLawyer(ctx, act{By: c.By, Reason: c.Reason}.by(), lawyer.NewLawyer{
			Email: c.Email, Name: c.Name, Phone: c.Phone, Competences: c.Competence, Languages: c.Language,
			Simulated: true})
		if err != nil {
			return err
		}
		return c.print(map[string]string{"id": made.ID}, made.ID)
	})
}
