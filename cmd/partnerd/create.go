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
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (o output) print(result any, lines ...string) error {
	if o.JSON {
		return json.NewEncoder(os.Stdout).Encode(result)
	}
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

// with opens the program beside a running server for the length of f, where there is an installation: a command in the
// wrong folder must not make one and find it in order.
func with(ctx context.Context, cfg *config.Config, f func(a *app.App) error) error {
	if err := cfg.CheckInstalled(ctx); err != nil {
		return err
	}
	return withNew(ctx, cfg, f)
}

// withNew is for what may come before the first start: it makes an installation where there is none.
func withNew(ctx context.Context, cfg *config.Config, f func(a *app.App) error) error {
	cfg.LogLevel = max(cfg.LogLevel, slog.LevelWarn) // the result is what matters here
	a, err := app.Open(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer a.Close()
	return f(a)
}

type clientCmd struct {
	Create  clientCreateCmd  `cmd:"" help:"Register an end client."`
	Show    clientShowCmd    `cmd:"" help:"Show a client."`
	Disable clientDisableCmd `cmd:"" help:"Shut a client out; browser sessions and links to applications end for good. Consultations that run are finished."`
	Enable  clientEnableCmd  `cmd:"" help:"Let a client in again, who signs in and links applications afresh."`
	SignOut clientSignOutCmd `cmd:"" name:"sign-out" help:"End a client's browser sessions."`
	Unlink  clientUnlinkCmd  `cmd:"" help:"End a client's links to applications, or to one of them."`
}

type clientCreateCmd struct {
	output
	Email         string `required:""`
	Password      string `help:"Only as --password - or --password-file; asked for when left out."`
	Name          string `required:""`
	Phone         string `help:"Phone number; French unless it starts with +."`
	PhoneVerified bool   `help:"The number was proven to be the client's. Live asks for a --reason."`
	BalanceCents  int64  `help:"Opening balance of the wallet, in cents. Sandbox only."`
	Reason        string `help:"Why; kept in the audit."`
	By            string `env:"PARTNERD_OPERATOR" help:"Who does it. Default: the account at this machine."`
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
	Invite   lawyerInviteCmd   `cmd:"" help:"Register a lawyer and invite him by mail."`
	Reinvite lawyerReinviteCmd `cmd:"" help:"Invite a lawyer again, who chooses password and second factor afresh: everything before ends."`
	Create   lawyerCreateCmd   `cmd:"" help:"Register a lawyer that the sandbox plays."`
	SetPhone lawyerSetPhoneCmd `cmd:"" help:"Replace the phone number of a lawyer."`
	Check    lawyerCheckCmd    `cmd:"" help:"Record that somebody has looked a lawyer up at his bar: in live nobody goes on duty without."`
	Duty     lawyerDutyCmd     `cmd:"" help:"When a lawyer may be woken for callbacks."`
	Suspend  lawyerSuspendCmd  `cmd:"" help:"Keep a lawyer from work and from signing on. An open offer and an assigned consultation go to others; a call goes on."`
	Resume   lawyerResumeCmd   `cmd:"" help:"Let a suspended lawyer sign on again."`
}

type lawyerSuspendCmd struct {
	output
	act
	ID string `arg:"" help:"Identifier of the lawyer."`
}

func (c *lawyerSuspendCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		l, err := a.Operator.SuspendLawyer(ctx, c.by(), c.ID)
		if err != nil {
			return err
		}
		said := "The lawyer is suspended."
		if l.State != lawyer.Offline {
			said += " What is in hand comes to its end: the state is " + string(l.State) + "."
		}
		return c.print(map[string]any{"id": l.ID, "suspended": true, "state": l.State}, said)
	})
}

type lawyerResumeCmd struct {
	output
	act
	ID string `arg:"" help:"Identifier of the lawyer."`
}

func (c *lawyerResumeCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		if err := a.Operator.ResumeLawyer(ctx, c.by(), c.ID); err != nil {
			return err
		}
		return c.print(map[string]any{"id": c.ID, "suspended": false}, "The lawyer can sign on again.")
	})
}

type lawyerSetPhoneCmd struct {
	act
	ID    string `arg:"" help:"Identifier of the lawyer."`
	Phone string `arg:"" help:"Phone number that consultations are made from; French unless it starts with +."`
}

func (c *lawyerSetPhoneCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error { return a.Operator.SetLawyerPhone(ctx, c.by(), c.ID, c.Phone) })
}

type lawyerCreateCmd struct {
	output
	Email      string   `required:""`
	Name       string   `required:""`
	Phone      string   `required:"" help:"Phone number that consultations are made from; French unless it starts with +."`
	Competence []string `required:"" help:"Competence code; may be repeated."`
	Language   []string `required:"" help:"Language code; may be repeated. Every competence is served in every language."`
	Reason     string   `default:"New lawyer." help:"Why; kept in the audit."`
	By         string   `env:"PARTNERD_OPERATOR" help:"Who does it. Default: the account at this machine."`
}

func (c *lawyerCreateCmd) Run(ctx context.Context, cfg *config.Config) error {
	if !cfg.Sandbox() {
		return errors.New("simulated lawyers exist in a sandbox only; partnerd lawyer invite is for people")
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
