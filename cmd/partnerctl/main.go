// Command partnerctl is for a partner's developers: it uses only the Platform API, with the credentials of their
// application.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"partnerd/internal/domain/conformance"
)

type cli struct {
	service `embed:""`

	Profile string           `help:"Profile of the settings file to use." env:"PARTNERCTL_PROFILE"`
	Version kong.VersionFlag `help:"Print the version, which identifies the commit."`

	Listen     listenCmd           `cmd:"" help:"Forward events to a program on this machine."`
	Trigger    triggerCmd          `cmd:"" help:"Send a test event to the endpoint."`
	Events     eventsCmd           `cmd:"" help:"List events, newest last."`
	Deliveries deliveriesCmd       `cmd:"" help:"List the latest deliveries, newest last, or show one with its attempts."`
	Resend     resendCmd           `cmd:"" help:"Redeliver an event by delivery ID."`
	Redeliver  redeliverCmd        `cmd:"" help:"Redeliver the events of a time range, after an outage."`
	Requests   requestsCmd         `cmd:"" help:"List the application's latest requests, newest last, or show one."`
	Logs       logsCmd             `cmd:"" help:"Follow the request log."`
	Endpoint   endpointCmd         `cmd:"" help:"Show or set the webhook endpoint."`
	Examine    examineCmd          `cmd:"" help:"Check the webhook endpoint from the service."`
	Checklist  checklistCmd        `cmd:"" help:"Show the go-live checklist."`
	Rotate     rotateCmd           `cmd:"" help:"Rotate the client secret or the webhook secret."`
	Clients    clientsCmd          `cmd:"" help:"Manage the application's test clients (sandbox only)."`
	Link       linkCmd             `cmd:"" help:"Link a test client and print its tokens (sandbox only)."`
	Clock      clockCmd            `cmd:"" help:"Advance the application's clock (sandbox only)."`
	Run        runCmd              `cmd:"" help:"Bring a consultation to a status (sandbox only)."`
	Scenario   scenarioCmd         `cmd:"" help:"Choose the scenario for a client's consultations (sandbox only)."`
	Inbox      inboxCmd            `cmd:"" help:"List the latest messages to test clients, newest last (sandbox only)."`
	Lawyers    lawyersCmd          `cmd:"" help:"Manage the application's own lawyers (sandbox only)."`
	Conform    conformance.Command `cmd:"" help:"Check a webhook endpoint from this machine."`
	Completion completionCmd       `cmd:"" help:"Print a completion script for bash, zsh or fish."`
}

// version returns the commit that Go's build has recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	k := kong.Parse(&c, kong.Name("partnerctl"),
		kong.Description("Manage an application's webhooks, logs and sandbox.\n\n"+
			"Set the client_secret with PARTNERCTL_CLIENT_SECRET or --secret-file, never as an argument."+
			"\n\nKeep the settings you always use in "+settingsFile+
			": {\"base-url\": \"https://…\", \"client-id\": \"…\", \"secret-file\": \"…\"}."+
			" Add \"profiles\": {\"NAME\": {…}} for several applications, and choose one with --profile."),
		kong.Configuration(profiles, settingsFile), kong.Vars{"version": version(), "address": address()},
		kong.ShortUsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&c.service))
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "partnerctl:", err)
		stop()
		os.Exit(1)
	}
}
