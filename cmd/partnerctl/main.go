// Command partnerctl is for the people of a partner who build an integration: it uses the Platform API alone, with the
// credentials of their application.
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

	Version kong.VersionFlag `help:"Print the version, which is that of the commit."`

	Listen     listenCmd           `cmd:"" help:"Post events to a program of this machine as they happen."`
	Trigger    triggerCmd          `cmd:"" help:"Have a test event sent to the endpoint."`
	Events     eventsCmd           `cmd:"" help:"List events, the newest last, beginning with the oldest."`
	Deliveries deliveriesCmd       `cmd:"" help:"List deliveries, the newest last, or show one with its attempts."`
	Resend     resendCmd           `cmd:"" help:"Send a delivery again."`
	Requests   requestsCmd         `cmd:"" help:"List requests of the application, the newest last, or show one."`
	Endpoint   endpointCmd         `cmd:"" help:"Show where events go, or set it."`
	Examine    examineCmd          `cmd:"" help:"Have the endpoint examined."`
	Checklist  checklistCmd        `cmd:"" help:"Show what is missing before going live."`
	Clock      clockCmd            `cmd:"" help:"Advance the application's clock (sandbox only)."`
	Run        runCmd              `cmd:"" help:"Bring a consultation to a status, in a sandbox."`
	Scenario   scenarioCmd         `cmd:"" help:"Choose how the consultations of a client go, in a sandbox."`
	Inbox      inboxCmd            `cmd:"" help:"List messages to test clients, the newest last (sandbox only)."`
	Lawyers    lawyersCmd          `cmd:"" help:"List, make, send away and delete lawyers of the application's own, in a sandbox."`
	Conform    conformance.Command `cmd:"" help:"Examine a receiver from here."`
}

// profile holds what the command line and the environment do not say.
const profile = "~/.config/partnerctl.json"

// version is what Go's build has stamped of the commit.
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
		kong.Description("For partners: webhooks, logs and the sandbox of an application.\n\n"+
			"The client_secret comes from PARTNERCTL_CLIENT_SECRET, or from the file that --secret-file names; it is "+
			"never an argument.\n\nSettings that you use every time can stand in "+profile+
			": {\"base-url\": \"https://…\", \"client-id\": \"…\", \"secret-file\": \"…\"}."),
		kong.Configuration(kong.JSON, profile), kong.Vars{"version": version(), "address": address()},
		kong.ShortUsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&c.service))
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "partnerctl:", err)
		stop()
		os.Exit(1)
	}
}
