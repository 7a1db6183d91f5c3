package postgres

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"
)

var errPlain = errors.New("connections over a network must be encrypted: add sslmode=require, or better " +
	"sslmode=verify-full")

// CheckPrivate returns an error if connections to url could cross a network unencrypted.
func CheckPrivate(url string) error {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read database URL: %w", err)
	}
	ways := []*pgconn.FallbackConfig{{Host: cfg.Host, TLSConfig: cfg.TLSConfig}}
	for _, w := range append(ways, cfg.Fallbacks...) {
		local := w.Host == "localhost" || filepath.IsAbs(w.Host) || net.ParseIP(w.Host).IsLoopback()
		if w.TLSConfig == nil && !local {
			return errPlain
		}
	}
	return nil
}
