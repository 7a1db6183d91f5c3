package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/domain/staff"
)

type serveCmd struct {
	NoWork bool `help:"Leave the background work to partnerd work."`
}

func (s *serveCmd) Run(ctx context.Context, cfg *config.Config) error {
	return run(ctx, cfg, true, !s.NoWork)
}

type workCmd struct{}

func (*workCmd) Run(ctx context.Context, cfg *config.Config) error { return run(ctx, cfg, false, true) }

func run(ctx context.Context, cfg *config.Config, serve, work bool) error {
	cfg.Serving = serve
	a, err := app.Open(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer a.Close()
	var demo *app.Demo
	var invited []app.Invitation
	if serve && a.Config.Sandbox() {
		if demo, err = a.Seed(ctx); err != nil {
			return err
		}
		if invited, err = a.SeedStaff(ctx); err != nil {
			return err
		}
	}
	return a.Run(ctx, serve, work, func() {
		if serve {
			welcome(a, demo, invited)
		}
		said := []any{"environment", a.Config.Env, "baseUrl", a.Config.BaseURL}
		if serve { // work has no address
			said = append(said, "address", a.Config.Addr, "requestsAreCounted", a.Quotas())
		}
		a.Logger.Info("started", said...)
		app.TuneGC()
	})
}

// welcome prints where to go next.
func welcome(a *app.App, d *app.Demo, invited []app.Invitation) {
	base := a.Config.BaseURL
	fmt.Fprintf(os.Stdout, `
partnerd (%s) is ready at %s

  Documentation    %s/docs
  Contract         %s/openapi.yaml
  Client account   %s/account
  Developers       %s/developers
  Operators        %s/ops
  Lawyers          %s/desk
  Health           %s/readyz
`, a.Config.Env, base, base, base, base, base, base, base, base)
	kept := filepath.Join(a.Config.DataDir, "demo.json")
	switch {
	case d == nil:
	case !isTerminal(os.Stdout): // a log lives longer and is read by more people than the file
		fmt.Fprintf(os.Stdout, "\n  Demo secrets: %s\n", kept)
	case d.ClientID == "": // at a public base URL
		fmt.Fprintf(os.Stdout,
			"\n  Demo client      %s   password %s\n  (kept in %s; partners register applications at %s/developers)\n",
			d.ClientEmail, d.ClientPassword, kept, base)
	default:
		fmt.Fprintf(os.Stdout, `
  Demo client      %s   password %s
  Demo application client_id      %s
                   client_secret  %s
                   webhook secret %s
                   redirect URI   %s
                   webhook URL    %s
  (kept in %s; make demo runs a CRM against this server)
`, d.ClientEmail, d.ClientPassword, d.ClientID, d.ClientSecret, d.WebhookSecret, d.RedirectURI,
			cmp.Or(d.WebhookURL, "none yet, so events are held"), kept)
	}
	invitations(a, invited)
	fmt.Fprintln(os.Stdout)
}

// invitations prints how a developer becomes operator and lawyer of a sandbox.
func invitations(a *app.App, invited []app.Invitation) {
	for _, i := range invited {
		where := i.Link
		if where == "" || !isTerminal(os.Stdout) {
			where = "the latest email to " + i.Person.Email
			switch {
			case a.Config.MailServer == "":
				where += " in " + filepath.Join(a.Config.DataDir, "mail")
			case a.Config.MailLeaves(): // but no email to the domain example does
				again := "operator reinvite " + i.Person.ID
				if i.Person.Kind == staff.Lawyer {
					again = "lawyer reinvite " + i.Person.LawyerID
				}
				where = "the link printed by: partnerd " + again + " --reason …"
			}
		}
		fmt.Fprintf(os.Stdout, "\n  %s: choose a password and a second factor with\n                   %s\n",
			i.Person.Name, where)
	}
}

// isTerminal reports whether f is a terminal, where a person is reading.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
