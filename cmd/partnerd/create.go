package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"partnerd/internal/account"
	"partnerd/internal/app"
	"partnerd/internal/application"
	"partnerd/internal/lawyer"
	"partnerd/internal/money"
	"partnerd/internal/seal"
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

// with opens the program beside a running server for the length of f.
func with(ctx context.Context, cfg *app.Config, f func(a *app.App) error) error {
	cfg.LogLevel = max(cfg.LogLevel, slog.LevelWarn) // the result is what matters here
	a, err := app.Open(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer a.Close()
	return f(a)
}

type appCmd struct {
	Create appCreateCmd `cmd:"" help:"Register an application; prints its secrets, once."`
}

type appCreateCmd struct {
	output
	Name        string   `required:"" help:"Name that clients see."`
	RedirectURI []string `required:"" name:"redirect-uri" sep:"none" help:"Exact redirect URI; may be repeated."`
	WebhookURL  string   `name:"webhook-url" help:"Where webhooks go. Without one, events wait."`
	Scope       []string `help:"Scope that the application may ask for; may be repeated. Default: all."`
}

func (c *appCreateCmd) Run(ctx context.Context, cfg *app.Config) error {
	scopes := application.AllScopes
	if len(c.Scope) > 0 {
		var err error
		if scopes, err = application.ParseScopes(strings.Join(c.Scope, " ")); err != nil {
			return err
		}
	}
	return with(ctx, cfg, func(a *app.App) error {
		made, err := a.CreateApplication(ctx, application.NewApplication{Name: c.Name, RedirectURIs: c.RedirectURI, Scopes: scopes}, c.WebhookURL)
		if err != nil {
			return err
		}
		return c.print(made, "client_id      "+made.ClientID, "client_secret  "+made.ClientSecret, "webhook secret "+made.WebhookSecret)
	})
}

type clientCmd struct {
	Create clientCreateCmd `cmd:"" help:"Register an end client."`
}

type clientCreateCmd struct {
	output
	Email         string `required:""`
	Password      string `required:""`
	Name          string `required:""`
	Phone         string `help:"Phone number; French unless it starts with +."`
	PhoneVerified bool   `help:"The number was proven to be the client's."`
	BalanceCents  int64  `help:"Opening balance of the wallet, in cents."`
}

func (c *clientCreateCmd) Run(ctx context.Context, cfg *app.Config) error {
	if c.BalanceCents < 0 || c.BalanceCents > 100_000_000 {
		return errors.New("--balance-cents must be between 0 and 100000000")
	}
	return with(ctx, cfg, func(a *app.App) error {
		made, err := a.CreateClient(ctx, account.NewClient{
			Email: c.Email, Password: c.Password, Name: c.Name, Phone: c.Phone, PhoneVerified: c.PhoneVerified}, money.Cents(c.BalanceCents))
		if err != nil {
			return err
		}
		return c.print(map[string]string{"id": made.ID}, made.ID)
	})
}

type lawyerCmd struct {
	Create lawyerCreateCmd `cmd:"" help:"Register a lawyer."`
}

type lawyerCreateCmd struct {
	output
	Email      string   `required:""`
	Password   string   `required:""`
	Name       string   `required:""`
	Phone      string   `help:"Phone number that consultations are made from."`
	Competence []string `required:"" help:"Competence code; may be repeated."`
	Language   []string `required:"" help:"Language code; may be repeated. Every competence is served in every language."`
	Simulated  bool     `help:"Played by the sandbox."`
}

func (c *lawyerCreateCmd) Run(ctx context.Context, cfg *app.Config) error {
	if c.Simulated && !cfg.Sandbox() {
		return errors.New("--simulated exists in a sandbox only")
	}
	return with(ctx, cfg, func(a *app.App) error {
		made, err := a.CreateLawyer(ctx, lawyer.NewLawyer{
			Email: c.Email, Password: c.Password, Name: c.Name, Phone: c.Phone, Competences: c.Competence, Languages: c.Language, Simulated: c.Simulated})
		if err != nil {
			return err
		}
		return c.print(map[string]string{"id": made.ID}, made.ID)
	})
}

type ledgerCmd struct {
	Verify ledgerVerifyCmd `cmd:"" help:"Check that the books agree with themselves and with the consultations."`
}

type ledgerVerifyCmd struct{ output }

func (c *ledgerVerifyCmd) Run(ctx context.Context, cfg *app.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		findings, err := a.Wallet.Verify(ctx, a.DB.Read())
		if err != nil {
			return err
		}
		if len(findings) > 0 {
			_ = c.print(map[string]any{"ok": false, "findings": findings}, findings...)
			return fmt.Errorf("the books have %d faults", len(findings))
		}
		return c.print(map[string]any{"ok": true, "findings": []string{}}, "The books agree.")
	})
}

type keyCmd struct {
	Generate keyGenerateCmd `cmd:"" help:"Print fresh keys for PARTNERD_MASTER_KEY and PARTNERD_NOTE_PUBLIC_KEY."`
}

type keyGenerateCmd struct{ output }

func (c *keyGenerateCmd) Run() error {
	master, err := seal.NewKey()
	if err != nil {
		return err
	}
	public, private, err := seal.NewKeyPair()
	if err != nil {
		return err
	}
	return c.print(map[string]string{"masterKey": master, "notePublicKey": public, "notePrivateKey": private},
		"PARTNERD_MASTER_KEY="+master, "PARTNERD_NOTE_PUBLIC_KEY="+public, "# Keep this one away from the server:", "# note private key "+private)
}
