package app

import (
	"context"
	"slices"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/reseal"
	"partnerd/internal/infra/vault"
)

// SealedColumns returns all columns that the master key seals.
func SealedColumns() []reseal.Column {
	return slices.Concat(vault.Sealed(), oauth.Sealed(), webhook.Sealed(), staff.Sealed(), lawyer.Sealed(),
		deployment.Sealed(), sandbox.Sealed(), idempotency.Sealed(), account.Sealed(), consultation.Sealed(),
		note.Sealed())
}

// KeyUses counts the values sealed by each part of the master key.
func (a *App) KeyUses(ctx context.Context) (sealing seal.Part, uses []reseal.Use, err error) {
	uses, err = reseal.Uses(ctx, a.DB.Read(), SealedColumns())
	return a.box.Sealing(), uses, err
}

// Reseal reseals what older parts of the master key sealed, and records that. After an interruption the next run
// continues.
func (a *App) Reseal(ctx context.Context, by operator.Act, report func(reseal.Progress)) ([]reseal.Progress, error) {
	begin := func(tx postgres.Tx) error {
		return by.Record(ctx, tx, "key.reseal", a.box.Sealing().String(), nil)
	}
	if err := a.DB.InTx(ctx, begin); err != nil {
		return nil, err
	}
	return reseal.Run(ctx, a.DB, a.box, SealedColumns(), report)
}
