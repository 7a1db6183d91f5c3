package wallet

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"partnerd/internal/clock"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

func tryCheckLock(ctx context.Context, tx postgres.Tx) (bool, error) {
	var mine bool
	err := tx.SQL().QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock(hashtext('ledger_checks'))`).Scan(&mine)
	return mine, err
}

// readFigures shows a sum that no figure holds as the largest one: the findings say what is wrong.
func readFigures(ctx context.Context, tx postgres.Tx, c *Check) error {
	return tx.SQL().QueryRowContext(ctx, `SELECT (SELECT count(*) FROM ledger_transactions),
		least(coalesce(sum(available_cents::numeric + held_cents), 0), $2)::bigint,
		(SELECT least(coalesce(sum(amount_cents), 0), $2)::bigint FROM ledger_transactions WHERE type = 'TOPUP' AND created_at > $1),
		sha256(convert_to(coalesce(string_agg(client_id || ':' || entry_seq || ':' || encode(entry_hash, 'hex'), ',' ORDER BY client_id COLLATE "C"), ''), 'UTF8'))
		FROM wallets`, tx.Now.AddDate(-1, 0, 0), int64(math.MaxInt64)).Scan(&c.Transactions, &c.Outstanding, &c.Volume, &c.Heads)
}

func insertCheck(ctx context.Context, tx postgres.Tx, c Check) error {
	if c.Findings == nil {
		c.Findings = []string{}
	}
	_, err := tx.SQL().ExecContext(ctx, `INSERT INTO ledger_checks (started_at, duration_ms, transactions, outstanding_cents, volume_cents, heads, findings)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, c.StartedAt, c.Duration.Milliseconds(), c.Transactions, int64(c.Outstanding), int64(c.Volume), c.Heads, c.Findings)
	return err
}

func readCheck(ctx context.Context, tx postgres.Tx) (c Check, found bool, err error) {
	var ms int64
	var outstanding, volume int64
	var findings []byte
	err = tx.SQL().QueryRowContext(ctx, `SELECT started_at, duration_ms, transactions, outstanding_cents, volume_cents, heads, array_to_json(findings)::text
		FROM ledger_checks ORDER BY id DESC LIMIT 1`).Scan(&c.StartedAt, &ms, &c.Transactions, &outstanding, &volume, &c.Heads, &findings)
	if postgres.IsNotFound(err) {
		return Check{}, false, nil
	}
	c.StartedAt, c.Duration = clock.Truncate(c.StartedAt), time.Duration(ms)*time.Millisecond
	c.Outstanding, c.Volume = money.Cents(outstanding), money.Cents(volume)
	if err == nil {
		err = json.Unmarshal(findings, &c.Findings)
	}
	return c, err == nil, err
}
