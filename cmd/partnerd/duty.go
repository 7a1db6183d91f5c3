package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/lawyer"
)

type lawyerDutyCmd struct {
	Show lawyerDutyShowCmd `cmd:"" help:"Show when a lawyer may be woken for callbacks."`
	Set  lawyerDutySetCmd  `cmd:"" help:"Replace when a lawyer may be woken for callbacks. Who signs on is on duty at any time."`
}

type lawyerDutyShowCmd struct {
	output
	ID string `arg:"" help:"Identifier of the lawyer."`
}

func (c *lawyerDutyShowCmd) Run(ctx context.Context, cfg *app.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		d, err := a.Operator.LawyerDuty(ctx, c.ID)
		if err != nil {
			return err
		}
		hours := make([]string, len(d.Hours))
		for i, h := range d.Hours {
			hours[i] = fmt.Sprintf("%s %02d:%02d-%02d:%02d", weekdays[h.Weekday], h.From/60, h.From%60, h.Until/60, h.Until%60)
		}
		lines := append([]string{"Time zone " + d.TimeZone + "; on call: " + map[bool]string{true: "yes", false: "no"}[d.OnCall] + "."}, hours...)
		return c.print(map[string]any{"id": c.ID, "timeZone": d.TimeZone, "hours": hours, "onCall": d.OnCall}, lines...)
	})
}

type lawyerDutySetCmd struct {
	act
	ID     string   `arg:"" help:"Identifier of the lawyer."`
	Zone   string   `default:"Europe/Paris" help:"Time zone of the hours, by its name in the IANA database."`
	Hours  []string `help:"Weekly hours, like 'mon-fri 09:00-12:30' or 'sat 10:00-24:00'; may be repeated. Without any he is woken only if he is on call."`
	OnCall bool     `help:"He may also be woken outside his hours, for a callback that is due in four hours or less."`
}

func (c *lawyerDutySetCmd) Run(ctx context.Context, cfg *app.Config) error {
	d := lawyer.Duty{TimeZone: c.Zone, OnCall: c.OnCall}
	for _, text := range c.Hours {
		hours, err := parseHours(text)
		if err != nil {
			return err
		}
		d.Hours = append(d.Hours, hours...)
	}
	return with(ctx, cfg, func(a *app.App) error { return a.Operator.SetLawyerDuty(ctx, c.by(), c.ID, d) })
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // by [time.Weekday]

var errHours = errors.New("hours are written like 'mon-fri 09:00-12:30'")

// parseHours reads a stretch of a day, or of each day from one to another, which may be past Sunday.
func parseHours(s string) (hours []lawyer.Hours, err error) {
	days, times, ok := strings.Cut(strings.TrimSpace(s), " ")
	from, until, ok2 := strings.Cut(strings.TrimSpace(times), "-")
	if !ok || !ok2 {
		return nil, errHours
	}
	var h lawyer.Hours
	if h.From, err = minuteOfDay(from); err != nil {
		return nil, err
	}
	if h.Until, err = minuteOfDay(until); err != nil {
		return nil, err
	}
	first, last, ranged := strings.Cut(days, "-")
	if !ranged {
		last = first
	}
	day, end := slices.Index(weekdays, strings.ToLower(first)), slices.Index(weekdays, strings.ToLower(last))
	if day < 0 || end < 0 {
		return nil, errHours
	}
	for {
		h.Weekday = time.Weekday(day)
		hours = append(hours, h)
		if day == end {
			return hours, nil
		}
		day = (day + 1) % 7
	}
}

// minuteOfDay reads a time from 00:00 to 24:00.
func minuteOfDay(s string) (int, error) {
	h, m, _ := strings.Cut(s, ":")
	hour, err := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	if err != nil || err2 != nil || len(m) != 2 || minute > 59 || hour*60+minute > 24*60 {
		return 0, errHours
	}
	return int(hour*60 + minute), nil
}
