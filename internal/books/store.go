package books

import (
	"context"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/money"
	"partnerd/internal/postgres"
	"partnerd/internal/wallet"
)

// checkRow is a row of ledger_checks.
type checkRow struct {
	ID               int64                  `gorm:"column:id;primaryKey"` // the database numbers
	StartedAt        time.Time              `gorm:"column:started_at"`
	DurationMs       int64                  `gorm:"column:duration_ms"`
	Transactions     int64                  `gorm:"column:transactions"`
	OutstandingCents money.Cents            `gorm:"column:outstanding_cents"`
	VolumeCents      money.Cents            `gorm:"column:volume_cents"`
	Heads            []byte                 `gorm:"column:heads"`
	Findings         postgres.Array[string] `gorm:"column:findings"`
}

// TableName implements [schema.Tabler].
func (checkRow) TableName() string { return "ledger_checks" }

var (
	lockSQL = postgres.SQL(postgres.Backend, `SELECT pg_try_advisory_xact_lock(hashtext('ledger_checks'))`)

	// compareSQL is one statement, so that all its parts see the same instant. Each part yields one line of text per fault.
	compareSQL = postgres.SQL(postgres.Report, `
SELECT format('consultation %s: is %s, its hold is %s', c.id, c.status, coalesce(h.state, 'missing'))
FROM consultations c LEFT JOIN holds h ON h.consultation_id = c.id AND h.client_id = c.client_id
WHERE h.state IS DISTINCT FROM CASE c.status WHEN 'COMPLETED' THEN 'CAPTURED' WHEN 'CANCELLED' THEN 'RELEASED' WHEN 'EXPIRED' THEN 'RELEASED' ELSE 'ACTIVE' END
UNION ALL
SELECT format('top-up %s: is %s over %s, the ledger has credited %s', s.id, s.status, s.amount_cents, coalesce(t.amount_cents, 0))
FROM topup_sessions s LEFT JOIN ledger_transactions t ON t.topup_id = s.id AND t.type = 'TOPUP' AND t.client_id = s.client_id
WHERE coalesce(t.amount_cents, 0) <> CASE s.status WHEN 'PAID' THEN s.amount_cents ELSE 0 END
UNION ALL
SELECT format('transaction %s: is a TOPUP without a session of client %s', t.id, t.client_id)
FROM ledger_transactions t
WHERE t.type = 'TOPUP' AND NOT EXISTS (SELECT FROM topup_sessions s WHERE s.id = t.topup_id AND s.client_id = t.client_id)
UNION ALL
SELECT format('top-up %s: %s cents have gone back or were taken back, the ledger has moved %s', s.id, coalesce(r.cents, 0) + s.reversed_cents, coalesce(t.cents, 0))
FROM topup_sessions s
	LEFT JOIN (SELECT topup_id, sum(amount_cents) AS cents FROM topup_refunds GROUP BY topup_id) r ON r.topup_id = s.id
	LEFT JOIN (SELECT topup_id, -sum(amount_cents) AS cents FROM ledger_transactions WHERE type = 'ADJUSTMENT' AND topup_id IS NOT NULL GROUP BY topup_id) t ON t.topup_id = s.id
WHERE coalesce(r.cents, 0) + s.reversed_cents <> coalesce(t.cents, 0) OR coalesce(r.cents, 0) > s.amount_cents
UNION ALL
SELECT format('refund %s of top-up %s: the provider refuses it: %s', id, topup_id, last_error) FROM topup_refunds WHERE state = 'FAILED'
LIMIT 1000`)
)

func tryCheckLock(ctx context.Context, tx postgres.Tx) (mine bool, err error) {
	err = tx.QueryRow(ctx, lockSQL).Scan(&mine)
	return mine, err
}

func compare(ctx context.Context, tx postgres.Tx) ([]string, error) {
	return postgres.Query[string](ctx, tx, compareSQL)
}

func insertCheck(ctx context.Context, tx postgres.Tx, c Check) error {
	return gorm.G[checkRow](tx.Gorm(ctx)).Create(ctx, &checkRow{
		StartedAt: c.StartedAt, DurationMs: c.Duration.Milliseconds(), Transactions: c.Transactions, OutstandingCents: c.Outstanding,
		VolumeCents: c.Volume, Heads: c.Heads, Findings: c.Findings,
	})
}

func readCheck(ctx context.Context, tx postgres.Tx) (c Check, found bool, err error) {
	r, err := gorm.G[checkRow](tx.Gorm(ctx)).Order("id DESC").Take(ctx)
	if postgres.IsNotFound(err) {
		return Check{}, false, nil
	}
	figures := wallet.Figures{Transactions: r.Transactions, Outstanding: r.OutstandingCents, Volume: r.VolumeCents, Heads: r.Heads}
	return Check{Figures: figures, StartedAt: r.StartedAt, Duration: time.Duration(r.DurationMs) * time.Millisecond, Findings: r.Findings}, err == nil, err
}
