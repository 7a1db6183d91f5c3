package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"partnerd/internal/app"
)

type serveCmd struct {
	NoWork bool `help:"Leave the work to partnerd work."`
}

func (s *serveCmd) Run(ctx context.Context, cfg *app.Config) error {
	return run(ctx, cfg, true, !s.NoWork)
}

type workCmd struct{}

func (*workCmd) Run(ctx context.Context, cfg *app.Config) error { return run(ctx, cfg, false, true) }

func run(ctx context.Context, cfg *app.Config, serve, work bool) error {
	cfg.Serving = serve
	a, err := app.Open(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer a.Close()
	var demo *app.Demo
	if serve && a.Config.Sandbox() {
		if demo, err = a.Seed(ctx); err != nil {
			return err
		}
	}
	return a.Run(ctx, serve, work, func() {
		if serve {
			welcome(a, demo)
		}
		a.Logger.Info("started", "environment", a.Config.Env, "address", a.Config.Addr, "baseUrl", a.Config.BaseURL)
	})
}

// ops says where the operators' page is and what opens it.
func ops(a *app.App) string {
	switch {
	case a.Config.OpsPassword != "":
		return a.Config.BaseURL + "/ops"
	case a.Config.Sandbox():
		return a.Config.BaseURL + "/ops   password in " + filepath.Join(a.Config.DataDir, "ops-password")
	}
	return "no page without PARTNERD_OPS_PASSWORD"
}

// welcome tells where to go next.
func welcome(a *app.App, d *app.Demo) {
	base := a.Config.BaseURL
	fmt.Fprintf(os.Stdout, `
partnerd (%s) is ready at %s

  Documentation    %s/docs
  Contract         %s/openapi.yaml
  Client account   %s/account
  Operators        %s
  Health           %s/readyz
`, a.Config.Env, base, base, base, base, ops(a), base)
	kept := filepath.Join(a.Config.DataDir, "demo.json")
	switch {
	case d == nil:
	case !isTerminal(os.Stdout): // a log, which lives longer and is read by more people than the file
		fmt.Fprintf(os.Stdout, "\n  The demo client and application, with their secrets: %s\n", kept)
	default:
		fmt.Fprintf(os.Stdout, `
  Demo client      %s   password %s
  Demo application client_id      %s
                   client_secret  %s
                   webhook secret %s
                   redirect URI   %s
                   webhook URL    %s
  (kept in %s; make demo plays a CRM of its own against this server)
`, d.ClientEmail, d.ClientPassword, d.ClientID, d.ClientSecret, d.WebhookSecret, d.RedirectURI, d.WebhookURL, kept)
	}
	fmt.Fprintln(os.Stdout)
}

// isTerminal tells whether a person reads along.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

type migrateCmd struct{}

func (*migrateCmd) Run(ctx context.Context, cfg *app.Config) error {
	start := time.Now()
	a, err := app.Open(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer a.Close()
	fmt.Printf("The database has the newest schema (%s).\n", time.Since(start).Round(time.Millisecond))
	return nil
}
