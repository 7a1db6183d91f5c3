package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/app/doctor"
)

type doctorCmd struct {
	output
	Checklist bool `help:"Print the production checklist instead."`
}

func (c *doctorCmd) Run(ctx context.Context, cfg *config.Config) error {
	if c.Checklist {
		_, err := fmt.Print(doctor.Checklist)
		return err
	}
	cfg.LogLevel = max(cfg.LogLevel, slog.LevelWarn)
	found := doctor.Examine(ctx, *cfg, app.SealedColumns(), logger(cfg))
	var lines []string
	count := map[doctor.Level]int{}
	for _, f := range found {
		count[f.Level]++
		lines = append(lines, fmt.Sprintf("%-4s  %-12s  %s", f.Level, f.Check, f.Found))
		if f.Do != "" {
			lines = append(lines, "                    → "+f.Do)
		}
	}
	lines = append(lines, fmt.Sprintf("%d ok, %d warnings, %d failures.", count[doctor.OK], count[doctor.Warn],
		count[doctor.Fail]))
	if err := c.print(map[string]any{"ok": count[doctor.Fail] == 0, "findings": found}, lines...); err != nil {
		return err
	}
	if n := count[doctor.Fail]; n > 1 {
		return fmt.Errorf("%d checks failed", n)
	} else if n == 1 {
		return errors.New("one check failed")
	}
	return nil
}
