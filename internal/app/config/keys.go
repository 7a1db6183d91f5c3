package config

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"partnerd/internal/base/seal"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

// Keys are the secrets of a deployment.
type Keys struct {
	Box     *seal.Box
	Drop    *seal.Drop
	Cursor  []byte // signs page cursors
	Payment string // signs webhooks of the built-in payment provider
	Buckets []byte // names rate-limit buckets where several processes count
	Phone   []byte // keys the digests of phone numbers that codes are sent to

	master string
}

// Keys reads the keys. At the first start it creates those that are not configured, in the data folder.
func (c *Config) Keys() (k Keys, err error) {
	if err := c.CheckNoteKey(); err != nil {
		return k, err
	}
	if c.MasterKey == "" || c.NotePublicKey == "" {
		if err := c.makeKeys(); err != nil {
			return k, fmt.Errorf("generate keys: %w", err)
		}
	}
	if k.master, err = c.Master(); err != nil {
		return k, err
	}
	if k.Box, err = seal.OpenBox(k.master); err != nil {
		return k, c.MasterKeyFault(err)
	}
	if k.Drop, err = c.NoteKey(); err != nil {
		return k, err
	}
	return k, nil
}

// Keep loads the secrets that must survive a replacement of the master key. The database stores them from the first
// start on.
func (k *Keys) Keep(ctx context.Context, tx postgres.Tx) error {
	secret := func(purpose string) ([]byte, error) {
		first, err := seal.Derive(k.master, purpose)
		if err != nil {
			return nil, err
		}
		return deployment.Secret(ctx, tx, k.Box, purpose, first)
	}
	var err1, err2, err3, err4 error
	var payment []byte
	k.Cursor, err1 = secret("page cursors")
	k.Phone, err2 = secret("phone numbers")
	k.Buckets, err3 = secret("buckets of quotas")
	payment, err4 = secret("payment notices")
	k.Payment = base64.RawURLEncoding.EncodeToString(payment)
	return errors.Join(err1, err2, err3, err4)
}

// Master returns the master key: the configured one, or that in the data folder.
func (c *Config) Master() (string, error) {
	key, err := orFile(c.MasterKey, c.Path(MasterKeyFile))
	if err != nil {
		return "", c.MasterKeyFault(err)
	}
	return key, nil
}

// NoteKey opens the public key that encrypts notes: the configured one, or that in the data folder.
func (c *Config) NoteKey() (*seal.Drop, error) {
	public, err := orFile(c.NotePublicKey, c.Path(NotePublicKeyFile))
	if err != nil {
		return nil, c.noteKeyFault(err)
	}
	drop, err := seal.OpenDrop(public)
	if err != nil {
		return nil, c.noteKeyFault(err)
	}
	return drop, nil
}

// MasterKeyFault returns an error that says which master key cannot be used, and the remedy.
func (c *Config) MasterKeyFault(err error) error {
	return fmt.Errorf("master key: %s: %w; restore this key from the copy kept with the backups, because a "+
		"new key decrypts nothing in this database",
		c.keySource("PARTNERD_MASTER_KEY", c.MasterKey, MasterKeyFile), WithoutPath(err))
}

// noteKeyFault returns an error that says which public note key cannot be used, and the remedy.
func (c *Config) noteKeyFault(err error) error {
	return fmt.Errorf("note key: %s: %w; restore the public key printed by partnerd key generate, or set a new one: "+
		"existing notes still need the private key they were encrypted for",
		c.keySource("PARTNERD_NOTE_PUBLIC_KEY", c.NotePublicKey, NotePublicKeyFile), WithoutPath(err))
}

// WithoutPath returns a file error without its path, for a message that already names the path.
func WithoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// keySource names the source of a key: the file that a variable names, the variable, or the file in the data folder.
func (c *Config) keySource(setting, value, file string) string {
	if value == "" {
		return c.Path(file)
	}
	if named := os.Getenv(setting + "_FILE"); named != "" && os.Getenv(setting) == "" {
		return named + " (" + setting + "_FILE)"
	}
	return setting
}

// CheckNoteKey keeps the private note key away from a live server. Otherwise anyone who can read the data folder, or a
// backup of it, could read every note.
func (c *Config) CheckNoteKey() error {
	if c.Sandbox() {
		return nil
	}
	private, err := filepath.Abs(c.Path(NotePrivateKeyFile))
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if _, err := os.Lstat(private); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is the private key of the notes, and a live server must not hold it: move it to where "+
			"lawyers get copies of their notes, delete it from backups of this folder, and start again", private)
	}
	if _, err := os.Stat(c.Path(NotePublicKeyFile)); c.NotePublicKey == "" && err != nil {
		return errors.New("PARTNERD_NOTE_PUBLIC_KEY: required in live; generate a key pair with partnerd key generate, and " +
			"keep the private key off the server")
	}
	return nil
}

// Key files in the data folder, see [Config.Path].
const (
	MasterKeyFile      = "keys/master.key"
	NotePublicKeyFile  = "keys/note-public.key"
	NotePrivateKeyFile = "keys/note-private.key"
)

// makeKeys creates the key folder unless it exists. The folder appears complete, so if several processes start at the
// same time, one wins and all use its keys. A sandbox also gets a key pair for notes. Its private key is there for
// trying out how lawyers get their own notes; the program never reads it.
func (c *Config) makeKeys() error {
	dir := c.Path("keys")
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(c.DataDir, ".keys-*") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	master, err := seal.NewKey()
	if err != nil {
		return err
	}
	made := map[string]string{MasterKeyFile: master}
	if c.Sandbox() {
		if made[NotePublicKeyFile], made[NotePrivateKeyFile], err = seal.NewKeyPair(); err != nil {
			return err
		}
	}
	for name, key := range made {
		if err := os.WriteFile(filepath.Join(temp, filepath.Base(name)), []byte(key+"\n"), 0o600); err != nil {
			return err
		}
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func orFile(value, path string) (string, error) {
	if value != "" {
		return value, nil
	}
	b, err := os.ReadFile(path)
	return string(b), err
}
