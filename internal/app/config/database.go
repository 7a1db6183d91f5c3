package config

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"partnerd/internal/infra/cluster"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

const (
	database = "partnerd" // in the private cluster
	stopTime = 20 * time.Second
)

// Database is the deployment's database as configured, with the cluster that was started for it.
type Database struct {
	Owner   string           // URL for the owner of the tables
	Program string           // URL for the program
	Cluster *cluster.Cluster // nil if the database is not a private cluster
}

// OpenDatabase returns the deployment's database, and starts the private cluster if none is configured. The caller must
// close it.
func (c *Config) OpenDatabase(ctx context.Context, log *slog.Logger) (d Database, err error) {
	if c.DatabaseURL != "" {
		return Database{Owner: cmp.Or(c.DatabaseOwnerURL, c.DatabaseURL), Program: c.DatabaseURL},
			c.CheckSame(ctx, "PARTNERD_DATABASE_OWNER_URL", c.DatabaseOwnerURL)
	}
	if d.Cluster, err = cluster.Start(ctx, cluster.Options{Dir: c.Path("postgres"), Logger: log}); err != nil {
		return Database{}, err
	}
	if d.Owner, d.Program, err = d.Cluster.EnsureDatabase(ctx, database); err != nil {
		d.Close(log)
	}
	return d, err
}

// Close stops the private cluster unless another process uses it.
func (d Database) Close(log *slog.Logger) {
	if d.Cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := d.Cluster.Stop(ctx); err != nil {
		log.Warn("could not stop the private cluster", "error", err)
	}
}

// BaseURL returns the deployment's base URL, once the database is known to belong to that deployment.
func (d Database) BaseURL(ctx context.Context, claim deployment.Claim) (string, error) {
	db, err := postgres.Open(ctx, d.Owner, postgres.Options{MaxConns: 2})
	if err != nil {
		return "", err
	}
	defer db.Close()
	return deployment.Check(ctx, db.Read(), claim)
}

// CheckSame rejects a URL that leads to a database other than the program's. Otherwise someone else's database would be
// migrated, or read and written.
func (c *Config) CheckSame(ctx context.Context, setting, address string) error {
	if address == "" {
		return nil
	}
	same, err := postgres.SameDatabase(ctx, c.DatabaseURL, address)
	if err == nil && !same {
		err = fmt.Errorf("%s points to a different database than PARTNERD_DATABASE_URL; nothing was changed", setting)
	}
	return err
}

// WithDatabase calls f with the URLs of the database, once it is known to belong to this deployment. It neither
// migrates the database nor grants anything.
func (c *Config) WithDatabase(ctx context.Context, log *slog.Logger, f func(owner, program string) error) error {
	c.Env = cmp.Or(c.Env, deployment.Sandbox)
	d, err := c.OpenDatabase(ctx, log)
	if err != nil {
		return err
	}
	defer d.Close(log)
	if _, err := d.BaseURL(ctx, c.Claim(false)); err != nil {
		return err
	}
	return f(d.Owner, d.Program)
}

// Claim returns what the configuration says about the deployment.
func (c *Config) Claim(move bool) deployment.Claim {
	_, port, _ := net.SplitHostPort(c.Addr)
	return deployment.Claim{Environment: c.Env, BaseURL: strings.TrimSuffix(c.BaseURL, "/"),
		Local: "http://localhost:" + port, Serve: c.Serving, Move: move}
}
