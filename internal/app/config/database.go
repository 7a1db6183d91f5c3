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

// Database is where the settings lead: the deployment's database, and what had to be started for it.
type Database struct {
	Owner   string           // its address for the owner of its tables
	Program string           // its address for the program
	Cluster *cluster.Cluster // nil when the database is somebody else's
}

// OpenDatabase finds the database of the deployment, and starts the private cluster when none is configured. The caller
// closes it.
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

// Close stops the private cluster when nobody else uses it.
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

// BaseURL is the deployment's own, once the database is known to be that deployment's.
func (d Database) BaseURL(ctx context.Context, claim deployment.Claim) (string, error) {
	db, err := postgres.Open(ctx, d.Owner, postgres.Options{MaxConns: 2})
	if err != nil {
		return "", err
	}
	defer db.Close()
	return deployment.Check(ctx, db.Read(), claim)
}

// CheckSame refuses an address that leads elsewhere than the program's: what is somebody else's would be migrated, or
// read and written.
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

// WithDatabase hands f the addresses of the deployment's database, once it is known to be this deployment's, and
// neither migrates it nor grants anything.
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

// Claim is what the configuration says about the deployment.
func (c *Config) Claim(move bool) deployment.Claim {
	_, port, _ := net.SplitHostPort(c.Addr)
	return deployment.Claim{Environment: c.Env, BaseURL: strings.TrimSuffix(c.BaseURL, "/"),
		Local: "http://localhost:" + port, Serve: c.Serving, Move: move}
}
