package bench

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

func (r *largeRig) exec(ctx context.Context, sql string) error {
	_, err := r.app.DB.Pool().Exec(ctx, sql)
	return err
}

// size returns the size of the database on disk, in bytes.
func (r *largeRig) size(ctx context.Context) (n int64, err error) {
	err = r.app.DB.Pool().QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&n)
	return n, err
}

// forget marks the latest events that [newsApplication] has in a part as unread.
func (r *largeRig) forget(ctx context.Context, p past, n int) error {
	_, err := r.app.DB.Pool().Exec(ctx,
		`UPDATE webhook_events SET position = NULL WHERE id IN (SELECT id FROM webhook_events
		WHERE application_id = $1 AND id LIKE $2 ORDER BY created_at DESC LIMIT $3)`,
		newsApplication, fmt.Sprintf(`evt\_con\_large\_%d\_%%`, p.part), n)
	return err
}

// day leaves the ledger check some movements of a hundred clients to verify. All of them must be correct.
func (r *largeRig) day(ctx context.Context, p past) error {
	for i := range 100 {
		err := r.app.DB.InTx(ctx, func(tx postgres.Tx) error {
			client := fmt.Sprintf("cli_large_%d_%d", p.part, 2+i%40)
			return errors.Join(r.app.Wallet.Adjust(ctx, tx, client, 500, "More"),
				r.app.Wallet.Adjust(ctx, tx, client, -500, "Less"))
		})
		if err != nil {
			return err
		}
	}
	r.watch.begin()
	check, err := r.app.Books.Examine(ctx)
	if err == nil && (len(check.Findings) > 0 || check.Complete) {
		err = fmt.Errorf("the ledger: %+v", check)
	}
	return err
}

var openEvidenceSQL = postgres.SQL(postgres.Batch, `INSERT INTO consultation_evidence (consultation_id, application_id, client_id, acknowledged_at, text_version, text_sha256,
		request_id, idempotency_key_sha256, address, user_agent)
	SELECT id, application_id, client_id, created_at, '2026-01', sha256(''), '', '', '', '' FROM consultations WHERE client_id = 'cli_large_open' RETURNING consultation_id`)

// holdOpen adds the evidence and the hold that each waiting consultation needs.
func (r *largeRig) holdOpen(ctx context.Context) error {
	return r.app.DB.InTx(ctx, func(tx postgres.Tx) error {
		ids, err := postgres.Query[string](ctx, tx, openEvidenceSQL)
		if err != nil {
			return err
		}
		if err := r.app.Wallet.Adjust(ctx, tx, "cli_large_open", wallet.Price*money.Cents(len(ids)),
			"Opening balance"); err != nil {
			return err
		}
		for _, id := range ids {
			if err := r.app.Wallet.Hold(ctx, tx, wallet.HoldCommand{ClientID: "cli_large_open",
				ApplicationID: readApplication, ConsultationID: id, Amount: wallet.Price}); err != nil {
				return err
			}
		}
		return nil
	})
}
