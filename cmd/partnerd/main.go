// Command partnerd serves the Partner API and gives operators their tools.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"partnerd/internal/app"
)

type cli struct {
	app.Config `embed:""`

	Serve   serveCmd   `cmd:"" help:"Serve the API and the pages, and do the work behind them."`
	Work    workCmd    `cmd:"" help:"Do the work behind the API only: webhooks, searches, timers."`
	Migrate migrateCmd `cmd:"" help:"Bring the database to the newest schema."`
	App     appCmd     `cmd:"" name:"app" help:"Partners' applications."`
	Client  clientCmd  `cmd:"" help:"End clients."`
	Lawyer  lawyerCmd  `cmd:"" help:"Lawyers."`
	Webhook webhookCmd `cmd:"" help:"Endpoints, events and deliveries of an application."`
	Wallet  walletCmd  `cmd:"" help:"Clients' wallets."`
	Ledger  ledgerCmd  `cmd:"" help:"The books."`
	Key     keyCmd     `cmd:"" help:"Keys of a deployment."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	k := kong.Parse(&c, kong.Name("partnerd"), kong.Description("The Partner API for delegated legal consultations."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&c.Config))
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "partnerd:", err)
		stop()
		os.Exit(1)
	}
}

// logger makes the logger, and gives it to libraries that log by themselves.
func logger(cfg *app.Config) *slog.Logger {
	log := cfg.Logger()
	slog.SetDefault(log)
	return log
}
