// Command partnerd serves the Partner API and gives operators their tools.
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

	Version kong.VersionFlag `help:"Print the version, which is that of the commit."`

	Serve        serveCmd            `cmd:"" help:"Serve the API and the pages, and do the work behind them."`
	Work         workCmd             `cmd:"" help:"Do the work behind the API only: webhooks, searches, timers."`
	Migrate      migrateCmd          `cmd:"" help:"Bring the database to the newest schema; the same as migrations up."`
	Migrations   migrationsCmd       `cmd:"" help:"The schema of the database."`
	Doctor       doctorCmd           `cmd:"" help:"Look at settings, database, keys, mail and address, and say what to do. Changes nothing; fails when something is wrong."`
	Healthcheck  healthcheckCmd      `cmd:"" help:"Ask the process that runs on this machine whether it is ready. For the health check of a container."`
	App          appCmd              `cmd:"" name:"app" help:"Partners' applications."`
	Client       clientCmd           `cmd:"" help:"End clients."`
	Lawyer       lawyerCmd           `cmd:"" help:"Lawyers."`
	Operator     operatorCmd         `cmd:"" help:"People who operate the service."`
	Consultation consultationCmd     `cmd:"" help:"Consultations."`
	Webhook      webhookCmd          `cmd:"" help:"Endpoints, events and deliveries of an application."`
	Wallet       walletCmd           `cmd:"" help:"Clients' wallets."`
	Ledger       ledgerCmd           `cmd:"" help:"The books."`
	Report       reportCmd           `cmd:"" help:"How well clients were served."`
	Key          keyCmd              `cmd:"" help:"Keys of a deployment."`
	Conform      conformance.Command `cmd:"" help:"Examine a partner's receiver of webhooks."`

	Restored   restoredCmd   `cmd:"" help:"Prepare a database that was restored to an earlier instant, before anything serves on it."`
	Deployment deploymentCmd `cmd:"" help:"Which environment the database belongs to, and its public address."`
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
			"Secrets are not taken from the command line: give --NAME-file FILE, --NAME - (a line of standard input), "+
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
	if _, doctor := k.Selected().Target.Interface().(doctorCmd); !doctor { // which finds it
		for _, u := range c.Unread {
			c.Logger().Warn("a variable of the environment is no setting of this program: nobody reads it",
				"name", u.Name, "meant", u.Meant)
		}
	}
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "partnerd:", explain(err))
		stop()
		os.Exit(1)
	}
}

// version is what Go's build has stamped of the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

// explain is an error in words for an operator, who knows neither the codes of the API nor its request bodies.
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

// logger makes the logger, and gives it to libraries that log by themselves.
func logger(cfg *config.Config) *slog.Logger {
	log := cfg.Logger()
	slog.SetDefault(log)
	return log
}
