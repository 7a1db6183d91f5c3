package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"partnerd/internal/infra/postgres"
)

// NewInstallation means that no part of the configured installation exists yet, as before the first start.
type NewInstallation struct{ error }

// CheckInstalled returns an error for operators unless the configured installation exists: the private cluster or the
// schema, and the keys. It creates nothing, and rejects invalid settings before it uses them.
func (c *Config) CheckInstalled(ctx context.Context) error {
	if err := c.Check(); err != nil {
		return err
	}
	return c.Installed(ctx)
}

// Installed is [Config.CheckInstalled] for settings that are known to be valid.
func (c *Config) Installed(ctx context.Context) error {
	folder, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	var needed []string
	if c.MasterKey == "" || c.NotePublicKey == "" {
		needed = append(needed, "keys")
	}
	if c.DatabaseURL == "" {
		needed = append(needed, "postgres")
	}
	var missing []string
	for _, name := range needed {
		_, err := os.Stat(c.Path(name))
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
		} else if err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	ours := c.DatabaseURL == "" && len(missing) < len(needed)
	if c.DatabaseURL != "" {
		if ours, err = postgres.HasSchema(ctx, c.DatabaseURL); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		set := "PARTNERD_DATA_DIR and PARTNERD_DATABASE_URL"
		if c.DatabaseURL != "" {
			set = "PARTNERD_DATA_DIR, or PARTNERD_MASTER_KEY and PARTNERD_NOTE_PUBLIC_KEY,"
		}
		err = fmt.Errorf("there is no installation in %s (folder %q is missing): set %s as for the server, or start the server first",
			folder, missing[0], set)
	} else if !ours {
		err = errors.New("the database at PARTNERD_DATABASE_URL has no partnerd tables: set it as for the server, " +
			"or start the server first")
	}
	if err != nil && !ours {
		return NewInstallation{err}
	}
	return err
}
