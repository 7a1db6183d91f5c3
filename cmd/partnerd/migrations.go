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
	fmt.Printf("The database has all migrations of this program (%s).\n", time.Since(start).Round(time.Millisecond))
	return nil
}

type migrationsCmd struct {
	Status migrationsStatusCmd `cmd:"" help:"Show which migrations the database has. Changes nothing."`
	Up     migrateCmd          `cmd:"" help:"Bring the database to the newest schema, as serve and work do at their start."`
	Down   migrationsDownCmd   `cmd:"" help:"Undo the newest migration, one, with the data that it made room for. For a program that came with it: the one before is started next."`
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
			name = "(of a newer program)"
		}
		lines = append(lines, fmt.Sprintf("%5d  %-23s  %s", m.Version, state, name))
	}
	verdict := "It is up to date."
	switch err := s.Check(); {
	case err != nil:
		verdict = "This program cannot start on it: " + err.Error() + "."
	case s.Newer():
		verdict = "A newer program has migrated it; this one can serve beside that."
	case s.Pending() > 0:
		verdict = fmt.Sprintf("%d are pending: partnerd migrations up, or the next start, applies them.", s.Pending())
	}
	return c.print(s, append(lines, fmt.Sprintf("The database has schema %d, this program knows schema %d. %s",
		s.Version, s.Known, verdict))...)
}

type migrationsDownCmd struct {
	output
	act
	Yes  bool `help:"Do not ask."`
	Live bool `help:"Also in live, where data of people is lost with it."`
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
		return errors.New("in live the data that the migration made room for is lost with it: take a " +
			"backup, and say --live")
	}
	if !c.Yes && !confirmed(s.Version) {
		return errors.New("nothing was done; say --yes, or type the number of the migration when asked")
	}
	left, err := app.UndoMigration(ctx, *cfg, logger(cfg), c.by(), s.Version)
	if err != nil {
		return err
	}
	return c.print(map[string]int64{"version": left},
		fmt.Sprintf("The database has schema %d. Start a program of that version; this one would migrate it again.",
			left))
}

// confirmed asks a person at a terminal for the number of the migration.
func confirmed(version int64) bool {
	if !isTerminal(os.Stdin) {
		return false
	}
	fmt.Fprintf(os.Stderr, "This undoes migration %d, and deletes the data that it made room for. Type its "+
		"number to go on: ", version)
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	return strings.TrimSpace(line) == strconv.FormatInt(version, 10)
}
