// Command partnerd serves the Partner API and provides tools for operators.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"partnerd/internal/app/config"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/conformance"
)

type cli struct {
	config.Config `embed:"" group:"Settings, also from the environment"`

	Version kong.VersionFlag `help:"Print the version, which identifies the commit."`

	Serve        serveCmd            `cmd:"" help:"Serve the API and the pages, and run the background work."`
	Work         workCmd             `cmd:"" help:"Run only the background work: webhooks, searches, timers."`
	Migrate      migrateCmd          `cmd:"" help:"Migrate the database to the latest schema (same as migrations up)."`
	Migrations   migrationsCmd       `cmd:"" help:"Manage the database schema."`
	Doctor       doctorCmd           `cmd:"" help:"Check settings, database, keys, email and public address."`
	Healthcheck  healthcheckCmd      `cmd:"" help:"Check whether the process on this machine is ready."`
	App          appCmd              `cmd:"" name:"app" help:"Manage partners' applications."`
	Client       clientCmd           `cmd:"" help:"Manage clients."`
	Lawyer       lawyerCmd           `cmd:"" help:"Manage lawyers."`
	Operator     operatorCmd         `cmd:"" help:"Manage operators."`
	Consultation consultationCmd     `cmd:"" help:"Show and change consultations."`
	Webhook      webhookCmd          `cmd:"" help:"Manage an application's webhook endpoint, events and deliveries."`
	Wallet       walletCmd           `cmd:"" help:"Show and change clients' wallets."`
	Ledger       ledgerCmd           `cmd:"" help:"Check the ledger."`
	Report       reportCmd           `cmd:"" help:"Report how well clients were served."`
	Key          keyCmd              `cmd:"" help:"Manage the keys of the deployment."`
	Conform      conformance.Command `cmd:"" help:"Check a partner's webhook endpoint."`

	Restored   restoredCmd   `cmd:"" help:"Prepare a restored database before any process uses it."`
	Deployment deploymentCmd `cmd:"" help:"Show or change the deployment's public URL."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, argument := range os.Args[1:] {
		if !utf8.ValidString(argument) {
			fmt.Fprintf(os.Stderr, "partnerd: the argument %q is not valid UTF-8\n", argument)
			stop()
			os.Exit(1)
		}
	}
	var c cli
	parser := kong.Must(&c, kong.Name("partnerd"),
		kong.Description("The Partner API for delegated legal consultations.\n\n"+
			"Never pass secrets as arguments. Use --NAME-file FILE, --NAME - (one line of standard input), "+
			"PARTNERD_NAME or PARTNERD_NAME_FILE."),
		kong.ShortUsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"version": version()}, kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&c.Config))
	names := variables(parser.Model)
	dropEmpty(names)
	args, err := withSecrets(os.Args[1:], os.Getenv, os.Stdin)
	if err == nil {
		err = checkFiles(names, os.Environ())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "partnerd:", err)
		stop()
		os.Exit(1)
	}
	k, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	c.Unread = unread(names, os.Environ())
	if _, doctor := k.Selected().Target.Interface().(doctorCmd); !doctor { // the doctor reports them itself
		for _, u := range c.Unread {
			c.Logger().Warn("unknown environment variable: it is not a setting of this version and is ignored",
				"name", u.Name, "meant", u.Meant)
		}
	}
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "partnerd:", explain(err))
		stop()
		os.Exit(1)
	}
}

// version returns the commit that Go's build has recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

// explain describes an error for an operator, who knows neither the API's codes nor its request bodies.
func explain(err error) string {
	p, ok := problem.As(err)
	if !ok {
		return err.Error()
	}
	words := p.Message
	if len(p.Issues) > 0 {
		lines := make([]string, len(p.Issues))
		for i, issue := range p.Issues {
			lines[i] = strings.TrimPrefix(issue.Path+": "+issue.Message, ": ")
		}
		words = strings.Join(lines, " ")
	}
	return strings.Replace(err.Error(), p.Error(), words, 1)
}

// logger returns the logger, and sets it as default for libraries that log by themselves.
func logger(cfg *config.Config) *slog.Logger {
	log := cfg.Logger()
	slog.SetDefault(log)
	return log
}
