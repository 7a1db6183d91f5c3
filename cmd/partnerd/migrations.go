package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
)

type migrateCmd struct{}

func (*migrateCmd) Run(ctx context.Context, cfg *config.Config) error {
	start := time.Now()
	a, err := app.Open(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer a.Close()
	fmt.Printf("The database has every migration of this version (%s).\n", time.Since(start).Round(time.Millisecond))
	return nil
}

type migrationsCmd struct {
	Status migrationsStatusCmd `cmd:"" help:"Show applied and pending migrations."`
	Up     migrateCmd          `cmd:"" help:"Apply pending migrations, as serve and work do at startup."`
	Down   migrationsDownCmd   `cmd:"" help:"Roll back the latest migration, including its data."`
}

type migrationsStatusCmd struct{ output }

func (c *migrationsStatusCmd) Run(ctx context.Context, cfg *config.Config) error {
	if err := cfg.CheckInstalled(ctx); err != nil {
		return err
	}
	s, err := app.Schema(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	var lines []string
	for _, m := range s.Migrations {
		state, name := "pending", m.Name
		if m.AppliedAt != nil {
			state = m.AppliedAt.UTC().Format(stamp)
		}
		if name == "" {
			name = "(from a newer version)"
		}
		lines = append(lines, fmt.Sprintf("%5d  %-23s  %s", m.Version, state, name))
	}
	verdict := "The schema is up to date."
	switch err := s.Check(); {
	case err != nil:
		verdict = "This version cannot start on it: " + err.Error() + "."
	case s.Newer():
		verdict = "A newer version migrated it; this version can still run."
	case s.Pending() > 0:
		verdict = fmt.Sprintf("%d are pending: run partnerd migrations up, or start a server.", s.Pending())
	}
	return c.print(s, append(lines, fmt.Sprintf("The database has schema %d; this version knows schema %d. %s",
		s.Version, s.Known, verdict))...)
}

type migrationsDownCmd struct {
	output
	act
	Yes  bool `help:"Skip the confirmation."`
	Live bool `help:"Allow the rollback in live mode, where it deletes people's data."`
}

func (c *migrationsDownCmd) Run(ctx context.Context, cfg *config.Config) error {
	if err := cfg.CheckInstalled(ctx); err != nil {
		return err
	}
	s, err := app.Schema(ctx, *cfg, logger(cfg))
	if err != nil {
		return err
	}
	if !cfg.Sandbox() && !c.Live {
		return errors.New("in live, rolling back deletes the data stored by the migration: take a " +
			"backup, then add --live")
	}
	if !c.Yes && !confirmed(s.Version) {
		return errors.New("nothing was changed: add --yes, or type the number of the migration when prompted")
	}
	left, err := app.UndoMigration(ctx, *cfg, logger(cfg), c.by(), s.Version)
	if err != nil {
		return err
	}
	return c.print(map[string]int64{"version": left},
		fmt.Sprintf("The database has schema %d. Start the previous version; this version would migrate it again.",
			left))
}

// confirmed asks a person at a terminal for the number of the migration.
func confirmed(version int64) bool {
	if !isTerminal(os.Stdin) {
		return false
	}
	fmt.Fprintf(os.Stderr, "This rolls back migration %d and deletes the data it stored. Type its "+
		"number to continue: ", version)
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	return strings.TrimSpace(line) == strconv.FormatInt(version, 10)
}
