package wallet

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// sealRow is a row of ledger_seals: how far a wallet was verified and its amounts at that point.
type sealRow struct {
	ClientID       string      `gorm:"column:client_id;primaryKey"`
	Seq            int64       `gorm:"column:seq"`
	Hash           []byte      `gorm:"column:hash"`
	AvailableCents money.Cents `gorm:"column:available_cents"`
	HeldCents      money.Cents `gorm:"column:held_cents"`
	LastEntryAt    time.Time   `gorm:"column:last_entry_at"`
}

// TableName implements [schema.Tabler].
func (sealRow) TableName() string { return "ledger_seals" }

// freshSQL verifies everything after the seals. It returns its findings or, if there are none, moves the seals forward.
//
// It is one statement, so it seals exactly what it verified, whatever is booked at the same time. The sums of each
// wallet start from those of its seal, and its hash chain from the sealed hash. OFFSET 0 and the correlated parts make
// every step an index lookup. Run time therefore depends on the new entries and the number of wallets.
var freshSQL = postgres.SQL(postgres.Report, `
WITH base AS MATERIALIZED (
	SELECT w.client_id, w.available_cents, w.held_cents, w.entry_seq, w.entry_hash, w.last_entry_at, coalesce(s.seq, 0) AS seal_seq, coalesce(s.hash, '') AS seal_hash,
		coalesce(s.available_cents, 0) AS seal_available, coalesce(s.held_cents, 0) AS seal_held, s.last_entry_at AS seal_at
	FROM wallets w LEFT JOIN ledger_seals s USING (client_id)
), sums AS MATERIALIZED (
	SELECT t.*, p.* FROM base b
	CROSS JOIN LATERAL (SELECT * FROM ledger_transactions t WHERE t.client_id = b.client_id AND t.seq > b.seal_seq OFFSET 0) t
	CROSS JOIN LATERAL (
		SELECT count(*) AS postings, coalesce(sum(p.amount_cents), 0) AS total,
			coalesce(sum(p.amount_cents) FILTER (WHERE p.account = 'client_available'), 0) AS available,
			coalesce(sum(p.amount_cents) FILTER (WHERE p.account = 'client_held'), 0) AS held,
			min(p.client_id) FILTER (WHERE p.client_id <> t.client_id) AS stranger,
			coalesce(string_agg(p.account || ':' || p.amount_cents, ',' ORDER BY p.account COLLATE "C"), '') AS posted
		FROM postings p WHERE p.transaction_id = t.id) p
), running AS MATERIALIZED (
	SELECT s.*, b.seal_seq + row_number() OVER history AS place, b.seal_available + sum(s.available) OVER history AS available_now,
		b.seal_available + b.seal_held + sum(s.available + s.held) OVER history AS balance_now,
		lag(s.created_at, 1, b.seal_at) OVER history AS before, lag(s.hash, 1, b.seal_hash) OVER history AS previous
	FROM sums s JOIN base b USING (client_id) WINDOW history AS (PARTITION BY s.client_id ORDER BY s.seq)
), news AS (
	SELECT client_id, count(*) AS entries, sum(available) AS available, sum(held) AS held, max(created_at) AS newest_at, max(seq) AS seq
	FROM running GROUP BY client_id
), figures AS MATERIALIZED (
	SELECT b.*, b.seal_seq + coalesce(n.entries, 0) AS entries, b.seal_available + coalesce(n.available, 0) AS available, b.seal_held + coalesce(n.held, 0) AS held,
		coalesce(n.newest_at, b.seal_at) AS newest_at, CASE WHEN n.client_id IS NULL THEN b.seal_hash ELSE r.hash END AS newest_hash
	FROM base b LEFT JOIN news n USING (client_id) LEFT JOIN running r ON r.client_id = n.client_id AND r.seq = n.seq
), chosen AS MATERIALIZED (
	SELECT h.* FROM holds h WHERE h.state = 'ACTIVE'
	UNION
	SELECT h.* FROM (SELECT DISTINCT consultation_id FROM sums WHERE consultation_id IS NOT NULL) s
		CROSS JOIN LATERAL (SELECT * FROM holds h WHERE h.consultation_id = s.consultation_id OFFSET 0) h
), faults AS MATERIALIZED (
	SELECT format('transaction %s: %s postings sum to %s', id, postings, total) AS text FROM sums WHERE postings < 2 OR total <> 0
	UNION ALL
	SELECT format('transaction %s: number %s of wallet %s does not match its hash: it, one of its postings or the previous one was changed', id, seq, client_id)
	FROM running WHERE hash <> ledger_hash(previous, id, client_id, seq, type, amount_cents, balance_after_cents, available_after_cents,
		application_id, consultation_id, topup_id, description, created_at, posted)
	UNION ALL
	SELECT format('wallet %s: its newest transaction does not match its stored hash', client_id) FROM figures WHERE entry_hash <> newest_hash
	UNION ALL
	SELECT format('transaction %s of client %s: a posting belongs to client %s', id, client_id, stranger) FROM sums WHERE stranger IS NOT NULL
	UNION ALL
	`+movementFaults+`
	UNION ALL
	SELECT format('wallet %s: counts %s transactions and has %s', client_id, entry_seq, entries) FROM figures WHERE entry_seq <> entries OR last_entry_at < newest_at
	UNION ALL
	SELECT format('wallet %s: has %s held, its active holds are %s', b.client_id, b.held_cents, coalesce(h.cents, 0))
	FROM base b LEFT JOIN (SELECT client_id, sum(amount_cents) AS cents FROM holds WHERE state = 'ACTIVE' GROUP BY client_id) h USING (client_id)
	WHERE b.held_cents <> coalesce(h.cents, 0)
	UNION ALL
	SELECT format('hold %s: is %s, the ledger has %s', h.id, h.state, coalesce(t.list, 'nothing'))
	FROM chosen h CROSS JOIN LATERAL (
		SELECT string_agg(t.type || ' ' || t.amount_cents, ', ' ORDER BY t.seq) AS list, coalesce(array_agg(t.type || t.amount_cents ORDER BY t.type || t.amount_cents), '{}') AS moved
		FROM ledger_transactions t WHERE t.consultation_id = h.consultation_id AND t.client_id = h.client_id) t
	WHERE t.moved <> (SELECT array_agg(x ORDER BY x) FROM unnest(ARRAY['HOLD' || -h.amount_cents,
		CASE h.state WHEN 'CAPTURED' THEN 'CAPTURE' || -h.amount_cents WHEN 'RELEASED' THEN 'RELEASE' || h.amount_cents END,
		'REFUND' || h.refunded_cents]) AS x WHERE x IS NOT NULL)
	UNION ALL
	SELECT format('transaction %s: concerns consultation %s, which has no hold of client %s', id, consultation_id, client_id) FROM sums s
	WHERE (consultation_id IS NOT NULL OR type IN ('HOLD', 'RELEASE', 'CAPTURE', 'REFUND'))
		AND (SELECT true FROM holds h WHERE h.consultation_id = s.consultation_id AND h.client_id = s.client_id) IS NULL
	LIMIT 1000
), sealed AS (
	INSERT INTO ledger_seals (client_id, seq, hash, available_cents, held_cents, last_entry_at)
	SELECT client_id, entry_seq, entry_hash, available_cents, held_cents, last_entry_at FROM figures WHERE entry_seq > seal_seq AND NOT EXISTS (SELECT FROM faults)
	ON CONFLICT (client_id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, available_cents = excluded.available_cents, held_cents = excluded.held_cents,
		last_entry_at = excluded.last_entry_at
)
SELECT 'finding' AS kind, text FROM faults
UNION ALL
SELECT DISTINCT 'consultation', consultation_id FROM sums WHERE consultation_id IS NOT NULL
UNION ALL
SELECT DISTINCT 'topup', topup_id FROM sums WHERE topup_id IS NOT NULL`)

// Fresh describes what was added to the ledger since the last seal.
type Fresh struct {
	Findings      []string
	Consultations []string // those with new entries
	TopUps        []string
}

// VerifyFresh verifies what was added to the ledger since the last seal, as [Verify] does. It also checks that every
// seal matches the ledger, and that the amounts of every wallet follow from its seal and the new entries.
//
// Without findings, it seals what it verified. The caller must roll back if another check fails. Calls must not run
// concurrently.
func VerifyFresh(ctx context.Context, tx postgres.Tx) (f Fresh, err error) {
	// The program may write seals and wallets, but not booked entries. Seals and wallets could therefore be changed
	// together.
	if f.Findings, err = brokenSeals(ctx, tx); err != nil {
		return Fresh{}, err
	}
	lines, err := postgres.Query[struct{ Kind, Text string }](ctx, tx, freshSQL)
	if err != nil {
		return Fresh{}, fmt.Errorf("verify what is new in the ledger: %w", err)
	}
	for _, l := range lines {
		switch l.Kind {
		case "consultation":
			f.Consultations = append(f.Consultations, l.Text)
		case "topup":
			f.TopUps = append(f.TopUps, l.Text)
		default:
			f.Findings = append(f.Findings, l.Text)
		}
	}
	return f, nil
}

var (
	brokenSealsSQL = postgres.SQL(postgres.Report, `SELECT format('wallet %s: was sealed at number %s with %s available and %s held, the ledger says otherwise', s.client_id, s.seq, s.available_cents, s.held_cents)
		FROM ledger_seals s LEFT JOIN LATERAL (SELECT * FROM ledger_transactions t WHERE t.client_id = s.client_id AND t.seq = s.seq OFFSET 0) t ON true
		WHERE t.hash IS DISTINCT FROM s.hash OR t.available_after_cents <> s.available_cents OR t.balance_after_cents <> s.available_cents + s.held_cents LIMIT 1000`)

	// [Verify] compares the amounts that a transaction records with the sum of all postings up to it.
	sealSQL = postgres.SQL(postgres.Atomic,
		`INSERT INTO ledger_seals (client_id, seq, hash, available_cents, held_cents, last_entry_at)
		SELECT t.client_id, t.seq, t.hash, t.available_after_cents, t.balance_after_cents - t.available_after_cents, t.created_at
		FROM wallets w JOIN ledger_transactions t ON t.client_id = w.client_id AND t.seq = w.entry_seq
		ON CONFLICT (client_id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, available_cents = excluded.available_cents, held_cents = excluded.held_cents,
			last_entry_at = excluded.last_entry_at WHERE ledger_seals.seq <> excluded.seq`)
)

// Seal seals every wallet at its newest transaction. It returns the seals that do not match the ledger.
//
// The caller must verify everything afterwards with [Verify], and roll back if there is a finding. Entries booked in
// the meantime are verified but not sealed.
func Seal(ctx context.Context, tx postgres.Tx) (findings []string, err error) {
	if findings, err = brokenSeals(ctx, tx); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, sealSQL); err != nil {
		return nil, fmt.Errorf("seal the ledger: %w", err)
	}
	return findings, nil
}

func brokenSeals(ctx context.Context, tx postgres.Tx) ([]string, error) {
	findings, err := postgres.Query[string](ctx, tx, brokenSealsSQL)
	if err != nil {
		return nil, fmt.Errorf("compare the seals: %w", err)
	}
	return findings, nil
}
