package app

import (
	"context"
	"log/slog"

	"partnerd/internal/app/config"
	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

// record stores the deployment in the database, and a move in the audit log.
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

// MoveDeployment sets the deployment's base URL to the configured one. Running programs keep the previous one until
// they restart.
func MoveDeployment(ctx context.Context, cfg config.Config, log *slog.Logger, by operator.Act) error {
	a, err := open(ctx, cfg, log, &by)
	if err == nil {
		a.Close()
	}
	return err
}
