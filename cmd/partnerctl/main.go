// Command partnerctl is for the people of a partner who build an integration: it uses the Platform API alone, with the credentials
// of their application.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"partnerd/internal/conformance"
)

type cli struct {
	service `embed:""`

	Listen     listenCmd           `cmd:"" help:"Post events to a program of this machine as they happen."`
	Trigger    triggerCmd          `cmd:"" help:"Have a test event sent to the endpoint."`
	Events     eventsCmd           `cmd:"" help:"List events."`
	Deliveries deliveriesCmd       `cmd:"" help:"List deliveries, or show one with its attempts."`
	Resend     resendCmd           `cmd:"" help:"Send a delivery again."`
	Requests   requestsCmd         `cmd:"" help:"List what the application asked, or show one request."`
	Endpoint   endpointCmd         `cmd:"" help:"Show where events go, or set it."`
	Examine    examineCmd          `cmd:"" help:"Have the endpoint examined."`
	Checklist  checklistCmd        `cmd:"" help:"Show what is missing before going live."`
	Clock      clockCmd            `cmd:"" help:"Let time pass for the application, in a sandbox."`
	Run        runCmd              `cmd:"" help:"Bring a consultation to a status, in a sandbox."`
	Scenario   scenarioCmd         `cmd:"" help:"Choose how the consultations of a client go, in a sandbox."`
	Inbox      inboxCmd            `cmd:"" help:"List what was sent to test clients, in a sandbox."`
	Lawyers    lawyersCmd          `cmd:"" help:"List, make, send away and delete lawyers of the application's own, in a sandbox."`
	Conform    conformance.Command `cmd:"" help:"Examine a receiver from here."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	k := kong.Parse(&c, kong.Name("partnerctl"), kong.Description("For partners: webhooks, logs and the sandbox of an application.\n\n"+
		"The client_secret comes from PARTNERCTL_CLIENT_SECRET, or from the file that --secret-file names; it is never an argument."),
		kong.ShortUsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&c.service))
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "partnerctl:", err)
		stop()
		os.Exit(1)
	}
}
