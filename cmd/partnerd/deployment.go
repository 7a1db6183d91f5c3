package main

import (
	"cmp"
	"context"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/infra/deployment"
)

type deploymentCmd struct {
	Show deploymentShowCmd `cmd:"" help:"Show the environment and the public URL stored in the database."`
	Move deploymentMoveCmd `cmd:"" help:"Change the public URL to --base-url."`
}

type deploymentShowCmd struct{ output }

func (c *deploymentShowCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		known, err := deployment.Get(ctx, a.DB.Read())
		if err != nil {
			return err
		}
		return c.print(map[string]string{"environment": known.Environment, "baseUrl": known.BaseURL},
			"environment     "+known.Environment, "public URL      "+cmp.Or(known.BaseURL, "none yet"))
	})
}

type deploymentMoveCmd struct {
	output
	act
}

func (c *deploymentMoveCmd) Run(ctx context.Context, cfg *config.Config) error {
	if err := cfg.CheckInstalled(ctx); err != nil {
		return err
	}
	if err := app.MoveDeployment(ctx, *cfg, logger(cfg), c.by()); err != nil {
		return err
	}
	return c.print(map[string]string{"baseUrl": cfg.BaseURL},
		"The public URL is now "+cfg.BaseURL+". Restart every server and worker.")
}
