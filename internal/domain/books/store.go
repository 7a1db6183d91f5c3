package books

import (
	"context"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
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
	Complete         bool                   `gorm:"column:complete"`
	// with the next two; NULL when something was wrong
	SealedAt     *time.Time `gorm:"column:sealed_at"`
	EvidenceSeq  *int64     `gorm:"column:evidence_seq"`
	EvidenceHash []byte     `gorm:"column:evidence_hash"`
}

// TableName implements [schema.Tabler].
func (checkRow) TableName() string { return "ledger_checks" }

var (
	awaitSQL = postgres.SQL(postgres.Backend, `SELECT pg_advisory_xact_lock(hashtext('ledger_checks'))`)

	lockSQL = postgres.SQL(postgres.Backend, `SELECT pg_try_advisory_xact_lock(hashtext('ledger_checks'))`)

	// compareSQL is one statement, so that all its parts see the same instant. Each part yields one line of text per
	// fault.
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

	// evidenceSQL is the same for the evidence of the clients' waivers and its chain. What is older than the newest of
	// the chain by more than an hour will not come into it.
	evidenceSQL = postgres.SQL(postgres.Report, `
WITH chain AS (
	SELECT l.seq, l.consultation_id, l.hash, lag(l.hash, 1, ''::bytea) OVER (ORDER BY l.seq) AS previous, row_number() OVER (ORDER BY l.seq) AS place FROM evidence_chain l
)
SELECT format('evidence of consultation %s: number %s does not fit its hash: it or the one before it was changed', e.consultation_id, c.seq)
FROM chain c JOIN consultation_evidence e USING (consultation_id)
WHERE c.hash <> evidence_hash(c.previous, e.consultation_id, e.application_id, e.client_id, e.acknowledged_at, e.text_version, e.text_sha256, e.stated_version,
	e.stated_language, e.request_id, e.idempotency_key_sha256, e.address, e.user_agent)
UNION ALL
SELECT format('evidence of consultation %s: number %s stands at place %s', consultation_id, seq, place) FROM chain WHERE seq <> place
UNION ALL
SELECT format('evidence of consultation %s: not in the chain', e.consultation_id)
FROM consultation_evidence e
WHERE e.acknowledged_at < (SELECT max(n.acknowledged_at) FROM evidence_chain l JOIN consultation_evidence n USING (consultation_id)) - interval '1 hour'
	AND NOT EXISTS (SELECT FROM evidence_chain l WHERE l.consultation_id = e.consultation_id)
UNION ALL
SELECT format('consultation %s: has no evidence of the waiver', c.id)
FROM consultations c WHERE NOT EXISTS (SELECT FROM consultation_evidence e WHERE e.consultation_id = c.id AND e.client_id = c.client_id)
LIMIT 1000`)
)

// freshSQL is compareSQL for what is open, what was made or ended since $3, and the consultations $1 and top-ups $2.
var freshSQL = postgres.SQL(postgres.Report, `
WITH chosen AS MATERIALIZED (
	SELECT unnest($1::text[]) AS id
	UNION SELECT id FROM consultations WHERE status IN ('MATCHING', 'PENDING_CALLBACK', 'ASSIGNED', 'IN_CALL', 'CALL_ENDED')
	UNION SELECT consultation_id FROM holds WHERE state = 'ACTIVE'
	UNION SELECT id FROM consultations WHERE created_at >= $3
), topups AS MATERIALIZED (
	SELECT unnest($2::text[]) AS id
	UNION SELECT id FROM topup_sessions WHERE ended_at >= $3
	UNION SELECT topup_id FROM topup_refunds WHERE created_at >= $3
), sessions AS MATERIALIZED (
	SELECT s.* FROM topups CROSS JOIN LATERAL (SELECT * FROM topup_sessions s WHERE s.id = topups.id OFFSET 0) s
)
SELECT format('consultation %s: is %s, its hold is %s', c.id, c.status, coalesce(h.state, 'missing'))
FROM chosen CROSS JOIN LATERAL (SELECT * FROM consultations c WHERE c.id = chosen.id OFFSET 0) c
	LEFT JOIN LATERAL (SELECT state FROM holds h WHERE h.consultation_id = c.id AND h.client_id = c.client_id OFFSET 0) h ON true
WHERE h.state IS DISTINCT FROM CASE c.status WHEN 'COMPLETED' THEN 'CAPTURED' WHEN 'CANCELLED' THEN 'RELEASED' WHEN 'EXPIRED' THEN 'RELEASED' ELSE 'ACTIVE' END
UNION ALL
SELECT format('consultation %s: has no evidence of the waiver', c.id)
FROM chosen CROSS JOIN LATERAL (SELECT * FROM consultations c WHERE c.id = chosen.id OFFSET 0) c
WHERE (SELECT true FROM consultation_evidence e WHERE e.consultation_id = c.id AND e.client_id = c.client_id) IS NULL
UNION ALL
SELECT format('top-up %s: is %s over %s, the ledger has credited %s', s.id, s.status, s.amount_cents, coalesce(t.amount_cents, 0))
FROM sessions s LEFT JOIN LATERAL (
	SELECT amount_cents FROM ledger_transactions t WHERE t.topup_id = s.id AND t.type = 'TOPUP' AND t.client_id = s.client_id OFFSET 0) t ON true
WHERE coalesce(t.amount_cents, 0) <> CASE s.status WHEN 'PAID' THEN s.amount_cents ELSE 0 END
UNION ALL
SELECT format('transaction %s: is a TOPUP without a session of client %s', t.id, t.client_id)
FROM topups CROSS JOIN LATERAL (SELECT * FROM ledger_transactions t WHERE t.topup_id = topups.id AND t.type = 'TOPUP' OFFSET 0) t
WHERE (SELECT true FROM topup_sessions s WHERE s.id = t.topup_id AND s.client_id = t.client_id) IS NULL
UNION ALL
SELECT format('top-up %s: %s cents have gone back or were taken back, the ledger has moved %s', s.id, r.cents + s.reversed_cents, t.cents)
FROM sessions s
	CROSS JOIN LATERAL (SELECT coalesce(sum(amount_cents), 0) AS cents FROM topup_refunds r WHERE r.topup_id = s.id) r
	CROSS JOIN LATERAL (SELECT coalesce(-sum(amount_cents), 0) AS cents FROM ledger_transactions t WHERE t.topup_id = s.id AND t.type = 'ADJUSTMENT') t
WHERE r.cents + s.reversed_cents <> t.cents OR r.cents > s.amount_cents
UNION ALL
SELECT format('refund %s of top-up %s: the provider refuses it: %s', id, topup_id, last_error) FROM topup_refunds WHERE state = 'FAILED'
LIMIT 1000`)

// freshEvidenceSQL is evidenceSQL for what came into the chain after number $1, whose hash was $2, and for what was
// stated since $3.
var freshEvidenceSQL = postgres.SQL(postgres.Report, `
WITH chain AS MATERIALIZED (
	SELECT l.seq, l.consultation_id, l.hash, lag(l.hash, 1, $2::bytea) OVER (ORDER BY l.seq) AS previous, $1::bigint + row_number() OVER (ORDER BY l.seq) AS place
	FROM evidence_chain l WHERE l.seq > $1
)
SELECT format('evidence of consultation %s: number %s does not fit its hash: it or the one before it was changed', e.consultation_id, c.seq)
FROM chain c CROSS JOIN LATERAL (SELECT * FROM consultation_evidence e WHERE e.consultation_id = c.consultation_id OFFSET 0) e
WHERE c.hash <> evidence_hash(c.previous, e.consultation_id, e.application_id, e.client_id, e.acknowledged_at, e.text_version, e.text_sha256, e.stated_version,
	e.stated_language, e.request_id, e.idempotency_key_sha256, e.address, e.user_agent)
UNION ALL
SELECT format('evidence of consultation %s: number %s stands at place %s', consultation_id, seq, place) FROM chain WHERE seq <> place
UNION ALL
SELECT format('evidence number %s: its hash is not the one that was sealed', $1::bigint) WHERE $1::bigint > 0 AND (SELECT hash FROM evidence_chain WHERE seq = $1) IS DISTINCT FROM $2::bytea
UNION ALL
SELECT format('evidence of consultation %s: not in the chain', e.consultation_id)
FROM consultation_evidence e
WHERE e.acknowledged_at >= $3::timestamptz - interval '1 hour'
	AND e.acknowledged_at < (SELECT n.acknowledged_at FROM evidence_chain l JOIN consultation_evidence n USING (consultation_id) ORDER BY l.seq DESC LIMIT 1) - interval '1 hour'
	AND (SELECT l.seq FROM evidence_chain l WHERE l.consultation_id = e.consultation_id) IS NULL
LIMIT 1000`)

var evidenceHeadSQL = postgres.SQL(postgres.Hot, `SELECT seq, hash FROM evidence_chain ORDER BY seq DESC LIMIT 1`)

// mark is up to where everything was found right.
type mark struct {
	at           time.Time // what was made an hour before that, or earlier, was seen
	evidenceSeq  int64     // 0: the chain was empty
	evidenceHash []byte
}

// overlap is how much earlier than the last examination the next begins: a transaction that was open then commits
// later.
const overlap = time.Hour

func compareFresh(ctx context.Context, tx postgres.Tx, f wallet.Fresh, since mark) ([]string, error) {
	return postgres.Query[string](ctx, tx, freshSQL, postgres.Array[string](f.Consultations),
		postgres.Array[string](f.TopUps), since.at.Add(-overlap))
}

func compareFreshEvidence(ctx context.Context, tx postgres.Tx, since mark) ([]string, error) {
	return postgres.Query[string](ctx, tx, freshEvidenceSQL, since.evidenceSeq, since.evidenceHash,
		since.at.Add(-overlap))
}

// markNow returns what there is to be examined, if nothing else comes.
func markNow(ctx context.Context, tx postgres.Tx) (mark, error) {
	m := mark{at: tx.Now, evidenceHash: []byte{}}
	err := tx.QueryRow(ctx, evidenceHeadSQL).Scan(&m.evidenceSeq, &m.evidenceHash)
	if postgres.IsNotFound(err) {
		err = nil
	}
	return m, err
}

// lastMark returns where the last examination without findings ended; false when there was none.
func lastMark(ctx context.Context, tx postgres.Tx) (mark, bool, error) {
	r, err := gorm.G[checkRow](tx.Gorm(ctx)).Where("sealed_at IS NOT NULL").Order("id DESC").Take(ctx)
	if postgres.IsNotFound(err) {
		return mark{}, false, nil
	}
	if err != nil {
		return mark{}, false, err
	}
	return mark{*r.SealedAt, *r.EvidenceSeq, r.EvidenceHash}, true, nil
}

const sealing = "sealing"

func beginSealing(ctx context.Context, tx postgres.Tx) error {
	return tx.Gorm(ctx).SavePoint(sealing).Error
}

// undoSealing leaves the seals as they were before [beginSealing].
func undoSealing(ctx context.Context, tx postgres.Tx) error {
	return tx.Gorm(ctx).RollbackTo(sealing).Error
}

func awaitCheckLock(ctx context.Context, tx postgres.Tx) error {
	_, err := tx.Exec(ctx, awaitSQL)
	return err
}

func tryCheckLock(ctx context.Context, tx postgres.Tx) (mine bool, err error) {
	err = tx.QueryRow(ctx, lockSQL).Scan(&mine)
	return mine, err
}

func compare(ctx context.Context, tx postgres.Tx) ([]string, error) {
	return postgres.Query[string](ctx, tx, compareSQL)
}

func compareEvidence(ctx context.Context, tx postgres.Tx) ([]string, error) {
	return postgres.Query[string](ctx, tx, evidenceSQL)
}

// insertCheck keeps the result, and the mark unless it is nil.
func insertCheck(ctx context.Context, tx postgres.Tx, c Check, m *mark) error {
	r := checkRow{
		StartedAt: c.StartedAt, DurationMs: c.Duration.Milliseconds(), Transactions: c.Transactions,
		OutstandingCents: c.Outstanding, VolumeCents: c.Volume, Heads: c.Heads, Findings: c.Findings,
		Complete: c.Complete,
	}
	if m != nil {
		r.SealedAt, r.EvidenceSeq, r.EvidenceHash = &m.at, &m.evidenceSeq, m.evidenceHash
	}
	return gorm.G[checkRow](tx.Gorm(ctx)).Create(ctx, &r)
}

func readCheck(ctx context.Context, tx postgres.Tx) (c Check, found bool, err error) {
	r, err := gorm.G[checkRow](tx.Gorm(ctx)).Order("id DESC").Take(ctx)
	if postgres.IsNotFound(err) {
		return Check{}, false, nil
	}
	figures := wallet.Figures{Transactions: r.Transactions, Outstanding: r.OutstandingCents, Volume: r.VolumeCents,
		Heads: r.Heads}
	return Check{Figures: figures, StartedAt: r.StartedAt, Duration: time.Duration(r.DurationMs) * time.Millisecond,
		Findings: r.Findings, Complete: r.Complete}, err == nil, err
}
