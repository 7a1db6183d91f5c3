package wallet

import (
	"context"
	"fmt"
	"math"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// Figures are the totals of the ledger.
type Figures struct {
	Transactions int64
	Outstanding  money.Cents // money in clients' wallets
	Volume       money.Cents // topped up within the last twelve months
	Heads        []byte      // digest over the newest hash of every wallet; a copy kept elsewhere seals the ledger
}

// movementFaults checks the movements and amounts of wallets. The statement that uses it defines the relations sums,
// running and figures.
const movementFaults = `SELECT format('transaction %s: %s of %s moved %s available and %s held', id, type, amount_cents, available, held) FROM sums
WHERE CASE type
	WHEN 'HOLD' THEN amount_cents >= 0 OR available <> amount_cents OR held <> -amount_cents
	WHEN 'RELEASE' THEN amount_cents <= 0 OR available <> amount_cents OR held <> -amount_cents
	WHEN 'CAPTURE' THEN amount_cents >= 0 OR available <> 0 OR held <> amount_cents
	WHEN 'ADJUSTMENT' THEN available <> amount_cents OR held <> 0
	ELSE amount_cents <= 0 OR available <> amount_cents OR held <> 0 END
UNION ALL
SELECT format('transaction %s: number %s of wallet %s is at position %s', id, seq, client_id, place) FROM running WHERE seq <> place
UNION ALL
SELECT format('transaction %s: states a balance of %s with %s available, the postings give %s and %s', id, balance_after_cents, available_after_cents, balance_now, available_now)
FROM running WHERE balance_after_cents <> balance_now OR available_after_cents <> available_now
UNION ALL
SELECT format('transaction %s: is older than the previous one', id) FROM running WHERE created_at < before
UNION ALL
SELECT format('wallet %s: has %s available and %s held, the postings give %s and %s', client_id, available_cents, held_cents, available, held)
FROM figures WHERE available_cents <> available OR held_cents <> held`

// ledgerSQL is one statement, so all parts see the same snapshot. Each part returns one line of text per error.
var ledgerSQL = postgres.SQL(postgres.Report, `
WITH sums AS (
	SELECT t.id, t.client_id, t.seq, t.type, t.amount_cents, t.balance_after_cents, t.available_after_cents, t.created_at,
		count(p.transaction_id) AS postings, coalesce(sum(p.amount_cents), 0) AS total,
		coalesce(sum(p.amount_cents) FILTER (WHERE p.account = 'client_available'), 0) AS available,
		coalesce(sum(p.amount_cents) FILTER (WHERE p.account = 'client_held'), 0) AS held
	FROM ledger_transactions t LEFT JOIN postings p ON p.transaction_id = t.id
	GROUP BY t.id
), running AS (
	SELECT s.*, row_number() OVER history AS place, sum(s.available) OVER history AS available_now,
		sum(s.available + s.held) OVER history AS balance_now, lag(s.created_at) OVER history AS before
	FROM sums s WINDOW history AS (PARTITION BY s.client_id ORDER BY s.seq)
), chain AS (
	SELECT t.*, lag(t.hash, 1, ''::bytea) OVER (PARTITION BY t.client_id ORDER BY t.seq) AS previous,
		(SELECT coalesce(string_agg(p.account || ':' || p.amount_cents, ',' ORDER BY p.account COLLATE "C"), '') FROM postings p WHERE p.transaction_id = t.id) AS posted
	FROM ledger_transactions t
), figures AS (
	SELECT w.client_id, w.available_cents, w.held_cents, w.entry_seq, w.last_entry_at,
		coalesce(sum(p.amount_cents) FILTER (WHERE p.account = 'client_available'), 0) AS available,
		coalesce(sum(p.amount_cents) FILTER (WHERE p.account = 'client_held'), 0) AS held
	FROM wallets w LEFT JOIN postings p ON p.client_id = w.client_id
	GROUP BY w.client_id
)
SELECT format('transaction %s: %s postings sum to %s', id, postings, total) FROM sums WHERE postings < 2 OR total <> 0
UNION ALL
SELECT format('transaction %s: number %s of wallet %s does not match its hash: it, one of its postings or the previous one was changed', id, seq, client_id)
FROM chain WHERE hash <> ledger_hash(previous, id, client_id, seq, type, amount_cents, balance_after_cents, available_after_cents,
	application_id, consultation_id, topup_id, description, created_at, posted)
UNION ALL
SELECT format('wallet %s: its newest transaction does not match its stored hash', w.client_id)
FROM wallets w LEFT JOIN ledger_transactions t ON t.client_id = w.client_id AND t.seq = w.entry_seq
WHERE w.entry_hash <> coalesce(t.hash, '')
UNION ALL
SELECT format('all postings sum to %s', sum(amount_cents)) FROM postings HAVING sum(amount_cents) <> 0
UNION ALL
SELECT format('transaction %s of client %s: a posting belongs to client %s', t.id, t.client_id, p.client_id)
FROM postings p JOIN ledger_transactions t ON t.id = p.transaction_id WHERE p.client_id <> t.client_id
UNION ALL
`+movementFaults+`
UNION ALL
SELECT format('wallet %s: counts %s transactions and has %s', f.client_id, f.entry_seq, count(t.id))
FROM figures f LEFT JOIN ledger_transactions t ON t.client_id = f.client_id
GROUP BY f.client_id, f.entry_seq, f.last_entry_at HAVING f.entry_seq <> count(t.id) OR f.last_entry_at < max(t.created_at)
UNION ALL
SELECT format('wallet %s: has %s held, its active holds are %s', w.client_id, w.held_cents, coalesce(sum(h.amount_cents), 0))
FROM wallets w LEFT JOIN holds h ON h.client_id = w.client_id AND h.state = 'ACTIVE'
GROUP BY w.client_id HAVING w.held_cents <> coalesce(sum(h.amount_cents), 0)
UNION ALL
SELECT format('hold %s: is %s, the ledger has %s', h.id, h.state, coalesce(string_agg(t.type || ' ' || t.amount_cents, ', ' ORDER BY t.seq), 'nothing'))
FROM holds h LEFT JOIN ledger_transactions t ON t.consultation_id = h.consultation_id AND t.client_id = h.client_id
GROUP BY h.id
HAVING coalesce(array_agg(t.type || t.amount_cents ORDER BY t.type || t.amount_cents) FILTER (WHERE t.id IS NOT NULL), '{}') <>
	(SELECT array_agg(x ORDER BY x) FROM unnest(ARRAY['HOLD' || -h.amount_cents,
		CASE h.state WHEN 'CAPTURED' THEN 'CAPTURE' || -h.amount_cents WHEN 'RELEASED' THEN 'RELEASE' || h.amount_cents END,
		'REFUND' || h.refunded_cents]) AS x WHERE x IS NOT NULL)
UNION ALL
SELECT format('transaction %s: concerns consultation %s, which has no hold of client %s', t.id, t.consultation_id, t.client_id)
FROM ledger_transactions t
WHERE (t.consultation_id IS NOT NULL OR t.type IN ('HOLD', 'RELEASE', 'CAPTURE', 'REFUND'))
	AND NOT EXISTS (SELECT FROM holds h WHERE h.consultation_id = t.consultation_id AND h.client_id = t.client_id)
LIMIT 1000`)

// figuresSQL caps a sum that does not fit in an int64 at the largest one; [Verify] reports what is wrong. The number of
// transactions is the sum of the wallets' counters.
var figuresSQL = postgres.SQL(postgres.Report, `SELECT coalesce(sum(entry_seq), 0)::bigint,
	least(coalesce(sum(available_cents::numeric + held_cents), 0), $2)::bigint,
	(SELECT least(coalesce(sum(amount_cents), 0), $2)::bigint FROM ledger_transactions WHERE type = 'TOPUP' AND created_at > $1),
	sha256(convert_to(coalesce(string_agg(client_id || ':' || entry_seq || ':' || encode(entry_hash, 'hex'), ',' ORDER BY client_id COLLATE "C"), ''), 'UTF8'))
	FROM wallets`)

// Verify checks the current ledger and returns a description of each violated invariant, at most 1000.
func Verify(ctx context.Context, tx postgres.Tx) ([]string, error) {
	findings, err := postgres.Query[string](ctx, tx, ledgerSQL)
	if err != nil {
		return nil, fmt.Errorf("verify the ledger: %w", err)
	}
	return findings, nil
}

// ReadFigures returns the totals of the ledger.
func ReadFigures(ctx context.Context, tx postgres.Tx) (f Figures, err error) {
	err = tx.QueryRow(ctx, figuresSQL, tx.Now.AddDate(-1, 0, 0), int64(math.MaxInt64)).Scan(&f.Transactions,
		&f.Outstanding, &f.Volume, &f.Heads)
	if err != nil {
		return Figures{}, fmt.Errorf("sum the ledger up: %w", err)
	}
	return f, nil
}
