package consultation

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// evidenceRow is a row of consultation_evidence, which is append-only.
type evidenceRow struct {
	ConsultationID       string    `gorm:"column:consultation_id;primaryKey"`
	TextVersion          string    `gorm:"column:text_version"`
	TextSHA256           id.Digest `gorm:"column:text_sha256"` // of the text in both languages
	StatedVersion        string    `gorm:"column:stated_version;serializer:zeronull"`
	StatedLanguage       string    `gorm:"column:stated_language;serializer:zeronull"`
	AcknowledgedAt       time.Time `gorm:"column:acknowledged_at"`
	ApplicationID        string    `gorm:"column:application_id"`
	ClientID             string    `gorm:"column:client_id"`
	RequestID            string    `gorm:"column:request_id"`
	IdempotencyKeySHA256 id.Digest `gorm:"column:idempotency_key_sha256"`
	Address              string    `gorm:"column:address"`
	UserAgent            string    `gorm:"column:user_agent"`
}

// TableName implements [schema.Tabler].
func (evidenceRow) TableName() string { return "consultation_evidence" }

// linkRow is a row of evidence_chain, which is append-only.
type linkRow struct {
	Seq            int64     `gorm:"column:seq;primaryKey;autoIncrement:false"`
	ConsultationID string    `gorm:"column:consultation_id"`
	Hash           id.Digest `gorm:"column:hash"`
	ChainedAt      time.Time `gorm:"column:chained_at"`
}

// TableName implements [schema.Tabler].
func (linkRow) TableName() string { return "evidence_chain" }

// proofRow is a record with its link, if any.
type proofRow struct {
	Row       evidenceRow `gorm:"embedded"`
	Seq       *int64
	Hash      *id.Digest
	Previous  *id.Digest
	ChainedAt *time.Time
}

func proofOf(ctx context.Context, tx postgres.Tx, consultationID string) (Proof, error) {
	var r proofRow
	err := tx.Gorm(ctx).Table("consultation_evidence e").
		Joins("LEFT JOIN evidence_chain l ON l.consultation_id = e.consultation_id").
		Joins("LEFT JOIN evidence_chain before ON before.seq = l.seq - 1").
		Where("e.consultation_id = ?", consultationID).
		Select(postgres.Columns[evidenceRow]("e") + ", l.seq, l.hash, l.chained_at, before.hash AS previous").
		Take(&r).Error
	if postgres.IsNotFound(err) {
		return Proof{}, problem.ErrNotFound
	}
	if err != nil {
		return Proof{}, fmt.Errorf("read proof: %w", err)
	}
	e := r.Row
	p := Proof{ConsultationID: e.ConsultationID, TextVersion: e.TextVersion, TextSHA256: e.TextSHA256,
		StatedVersion: e.StatedVersion, StatedLanguage: e.StatedLanguage, AcknowledgedAt: e.AcknowledgedAt,
		ApplicationID: e.ApplicationID, ClientID: e.ClientID, RequestID: e.RequestID,
		IdempotencyKeySHA256: e.IdempotencyKeySHA256, Address: e.Address, UserAgent: e.UserAgent}
	if r.Seq != nil {
		p.Link = &Link{Seq: *r.Seq, Hash: *r.Hash, Previous: r.Previous, ChainedAt: *r.ChainedAt}
	}
	return p, nil
}

// chainSQL looks back one hour from the newest record of the chain, because a transaction that began earlier may commit
// later.
var chainSQL = postgres.SQL(postgres.Atomic, `WITH RECURSIVE last AS (
		SELECT l.seq, l.hash, e.acknowledged_at FROM evidence_chain l JOIN consultation_evidence e USING (consultation_id) ORDER BY l.seq DESC LIMIT 1
	), fresh AS (
		SELECT row_number() OVER (ORDER BY acknowledged_at, consultation_id) AS n, e.*
		FROM consultation_evidence e
		WHERE acknowledged_at >= coalesce((SELECT acknowledged_at - interval '1 hour' FROM last), '-infinity')
			AND (SELECT l.seq FROM evidence_chain l WHERE l.consultation_id = e.consultation_id) IS NULL -- a lookup for each, however long the chain is
		ORDER BY acknowledged_at, consultation_id LIMIT $2
	), chained AS (
		SELECT n, consultation_id, coalesce((SELECT seq FROM last), 0) + 1 AS seq, evidence_hash(coalesce((SELECT hash FROM last), ''), `+hashed+`) AS hash
		FROM fresh f WHERE n = 1
		UNION ALL
		SELECT f.n, f.consultation_id, c.seq + 1, evidence_hash(c.hash, `+hashed+
	`) FROM chained c JOIN fresh f ON f.n = c.n + 1
	)
	INSERT INTO evidence_chain (seq, consultation_id, hash, chained_at) SELECT seq, consultation_id, hash, $1 FROM chained`)

// hashed are the arguments of evidence_hash after the first, for a record f.
const hashed = `f.consultation_id, f.application_id, f.client_id, f.acknowledged_at, f.text_version, f.text_sha256, f.stated_version, f.stated_language,
	f.request_id, f.idempotency_key_sha256, f.address, f.user_agent`

func chainEvidence(ctx context.Context, tx postgres.Tx, limit int) (n int, err error) {
	if err := tx.Lock(ctx, "evidence chain"); err != nil {
		return 0, err
	}
	return tx.Exec(ctx, chainSQL, tx.Now, limit)
}
