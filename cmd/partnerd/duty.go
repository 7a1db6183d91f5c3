package main

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/domain/lawyer"
)

type lawyerDutyCmd struct {
	Show lawyerDutyShowCmd `cmd:"" help:"Show when a lawyer may be called for callbacks."`
	Set  lawyerDutySetCmd  `cmd:"" help:"Set when a lawyer may be called for callbacks."`
}

type lawyerDutyShowCmd struct {
	output
	ID string `arg:"" help:"ID of the lawyer."`
}

func (c *lawyerDutyShowCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		d, err := a.Operator.LawyerDuty(ctx, c.ID)
		if err != nil {
			return err
		}
		hours := make([]string, len(d.Hours))
		for i, h := range d.Hours {
			hours[i] = h.String()
		}
		lines := append([]string{"Time zone " + d.TimeZone + "; on call: " + map[bool]string{true: "yes",
			false: "no"}[d.OnCall] + "."}, hours...)
		return c.print(map[string]any{"id": c.ID, "timeZone": d.TimeZone, "hours": hours, "onCall": d.OnCall}, lines...)
	})
}

type lawyerDutySetCmd struct {
	act
	ID     string   `arg:"" help:"ID of the lawyer."`
	Zone   string   `default:"Europe/Paris" help:"Time zone of the hours (IANA name)."`
	Hours  []string `help:"Weekly hours, like 'mon-fri 09:00-12:30' or 'sat 10:00-24:00'. Repeatable. Default: none, so only with --on-call."`
	OnCall bool     `help:"Also allow calls outside these hours, for callbacks due within four hours."`
}

func (c *lawyerDutySetCmd) Run(ctx context.Context, cfg *config.Config) error {
	d := lawyer.Duty{TimeZone: c.Zone, OnCall: c.OnCall}
	for _, text := range c.Hours {
		hours, err := lawyer.ParseHours(text)
		if err != nil {
			return err
		}
		d.Hours = append(d.Hours, hours...)
	}
	return with(ctx, cfg, func(a *app.App) error { return a.Operator.SetLawyerDuty(ctx, c.by(), c.ID, d) })
}

type lawyerCheckCmd struct {
	output
	act
	ID     string `arg:"" help:"ID of the lawyer."`
	Bar    string `required:"" help:"Bar of the lawyer, for example Paris."`
	Number string `required:"" help:"Registration number at that bar."`
	Other  bool   `name:"other-bar" help:"Accept a bar that is not on the list of French bars."`
	Until  string `required:"" help:"Last day the check is valid (YYYY-MM-DD), at most 399 days from now."`
}

func (c *lawyerCheckCmd) Run(ctx context.Context, cfg *config.Config) error {
	day, err := time.Parse(time.DateOnly, c.Until)
	if err != nil {
		return fmt.Errorf("--until: %q is not a date like 2027-06-30", c.Until)
	}
	return with(ctx, cfg, func(a *app.App) error {
		if err := a.Operator.CheckLawyer(ctx, c.by(), c.ID, lawyer.Registration{Bar: c.Bar, Number: c.Number,
			CheckedUntil: day.AddDate(0, 0, 1), OtherBar: c.Other}); err != nil {
			return err
		}
		return c.print(map[string]any{"id": c.ID, "checkedUntil": c.Until}, "The check is valid until "+c.Until+".")
	})
}
