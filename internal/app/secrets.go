package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const minOpsPassword = 16

// opsPassword is the one of the operators' page. A sandbox without one makes its own, kept in the data folder; live
// without one has no such page.
func (c *Config) opsPassword() (string, error) {
	if c.OpsPassword != "" || !c.Sandbox() {
		return c.OpsPassword, nil
	}
	path := c.path("ops-password")
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	// It appears whole: of several processes that start at once one wins, and all read the same.
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := publish(path, rand.Text()+"\n"); err != nil {
			return "", fmt.Errorf("make operators' password: %w", err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read operators' password: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// publish writes a private file unless there is one.
func publish(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
