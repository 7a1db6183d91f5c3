package main

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/problem"
)

type ofClient struct {
	output
	Client string `arg:"" help:"ID of the client."`
}

func (c ofClient) unknown(err error) error {
	if errors.Is(err, problem.ErrNotFound) {
		return fmt.Errorf("there is no client %q, or it was erased", c.Client)
	}
	return err
}

type clientShowCmd struct{ ofClient }

func (c *clientShowCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		s, err := a.Operator.Client(ctx, c.Client)
		if err != nil {
			return c.unknown(err)
		}
		state, linked := "active", []string{}
		if s.Disabled {
			state = "disabled"
		}
		lines := []string{"id              " + s.ID, "email           " + s.Email, "name            " + s.Name,
			"state           " + state, "phone verified  " + fmt.Sprint(s.PhoneVerified), "wallet          " +
				s.Wallet.Balance.Format("en") + ", of which " + s.Wallet.Available.Format("en") + " available",
			fmt.Sprint("open cases      ", s.OpenCases), fmt.Sprint("payment pending ", s.Paying)}
		for _, l := range s.Connections {
			linked = append(linked, l.Application.ID)
			lines = append(lines, "linked to       "+l.Application.ID+"  "+l.Application.Name)
		}
		return c.print(map[string]any{"id": s.ID, "email": s.Email, "name": s.Name, "disabled": s.Disabled,
			"phoneVerified": s.PhoneVerified, "createdAt": s.CreatedAt, "balanceCents": s.Wallet.Balance,
			"availableCents": s.Wallet.Available, "openConsultations": s.OpenCases, "paymentUnderWay": s.Paying,
			"applications": linked}, lines...)
	})
}

type clientDisableCmd struct {
	ofClient
	act
}

func (c *clientDisableCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		if err := a.Operator.DisableClient(ctx, c.by(), c.Client); err != nil {
			return c.unknown(err)
		}
		return c.print(map[string]any{"id": c.Client, "disabled": true}, "The client is disabled.")
	})
}

type clientEnableCmd struct {
	ofClient
	act
}

func (c *clientEnableCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		if err := a.Operator.EnableClient(ctx, c.by(), c.Client); err != nil {
			return c.unknown(err)
		}
		return c.print(map[string]any{"id": c.Client, "disabled": false}, "The client can sign in again.")
	})
}

type clientSignOutCmd struct {
	ofClient
	act
}

func (c *clientSignOutCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		n, err := a.Operator.SignOutClient(ctx, c.by(), c.Client)
		if err != nil {
			return c.unknown(err)
		}
		return c.print(map[string]any{"id": c.Client, "sessionsEnded": n},
			fmt.Sprintf("Browser sessions ended: %d.", n))
	})
}

type clientUnlinkCmd struct {
	ofClient
	act
	App string `help:"client_id of the application. Default: all."`
}

func (c *clientUnlinkCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		n, err := a.Operator.UnlinkClient(ctx, c.by(), c.Client, c.App)
		if errors.Is(err, problem.ErrNotFound) && c.App != "" {
			return fmt.Errorf("there is no client %q or no application %q", c.Client, c.App)
		}
		if err != nil {
			return c.unknown(err)
		}
		return c.print(map[string]any{"id": c.Client, "linksEnded": n}, fmt.Sprintf("Connections ended: %d.", n))
	})
}
