package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
)

type doctorCmd struct {
	output
	Checklist bool `help:"Print the checklist for production instead."`
}

func (c *doctorCmd) Run(ctx context.Context, cfg *config.Config) error {
	if c.Checklist {
		_, err := fmt.Print(app.Checklist)
		return err
	}
	cfg.LogLevel = max(cfg.LogLevel, slog.LevelWarn)
	found := app.Examine(ctx, *cfg, logger(cfg))
	var lines []string
	count := map[app.Level]int{}
	for _, f := range found {
		count[f.Level]++
		lines = append(lines, fmt.Sprintf("%-4s  %-12s  %s", f.Level, f.Check, f.Found))
		if f.Do != "" {
			lines = append(lines, "                    → "+f.Do)
		}
	}
	lines = append(lines, fmt.Sprintf("%d in order, %d to look at, %d wrong.", count[app.OK], count[app.Warn],
		count[app.Fail]))
	if err := c.print(map[string]any{"ok": count[app.Fail] == 0, "findings": found}, lines...); err != nil {
		return err
	}
	if n := count[app.Fail]; n > 1 {
		return fmt.Errorf("%d things are wrong", n)
	} else if n == 1 {
		return errors.New("one thing is wrong")
	}
	return nil
}
