package app

import (
	"context"
	"log/slog"
	"net"
	"strings"

	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

// claim is what the configuration says about the deployment.
func (c *Config) claim(move bool) deployment.Claim {
	_, port, _ := net.SplitHostPort(c.Addr)
	return deployment.Claim{Environment: c.Env, BaseURL: strings.TrimSuffix(c.BaseURL, "/"),
		Local: "http://localhost:" + port, Serve: c.Serving, Move: move}
}

// record keeps the deployment in the database, and a move in the audit.
func (a *App) record(ctx context.Context, c deployment.Claim, move *operator.Act) error {
	return a.DB.InTx(ctx, func(tx postgres.Tx) error {
		before, err := deployment.Record(ctx, tx, c)
		if err != nil || move == nil {
			return err
		}
		return move.Record(ctx, tx, "deployment.move", c.Environment, map[string]string{"before": before.BaseURL,
			"after": c.BaseURL})
	})
}

// MoveDeployment gives the deployment the base URL of the configuration. Programs that run keep the one before until
// they are started again.
func MoveDeployment(ctx context.Context, cfg Config, log *slog.Logger, by operator.Act) error {
	a, err := open(ctx, cfg, log, &by)
	if err == nil {
		a.Close()
	}
	return err
}
