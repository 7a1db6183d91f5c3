package audit

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// entryRow is a row of audit_entries.
type entryRow struct {
	Seq       int64     `gorm:"column:seq;primaryKey;autoIncrement:false"` // from 1, without gaps
	ID        string    `gorm:"column:id"`
	Actor     string    `gorm:"column:actor"`
	Action    string    `gorm:"column:action"`
	Subject   string    `gorm:"column:subject"`
	Reason    string    `gorm:"column:reason"`
	Details   string    `gorm:"column:details"` // JSON
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	Hash      []byte    `gorm:"column:hash"` // over this entry and the previous hash
}

// TableName implements [schema.Tabler].
func (entryRow) TableName() string { return "audit_entries" }

var (
	lockSQL = postgres.SQL(postgres.Backend, `SELECT pg_advisory_xact_lock(hashtext('audit_entries'))`)

	insertSQL = postgres.SQL(postgres.Atomic,
		`WITH last AS (SELECT seq, hash FROM audit_entries ORDER BY seq DESC LIMIT 1),
		entry AS (SELECT coalesce((SELECT seq FROM last), 0) + 1 AS seq, (SELECT hash FROM last) AS previous, $1::text AS id, $2::text AS actor,
			$3::text AS action, $4::text AS subject, $5::text AS reason, $6::text AS details, $7::timestamptz AS created_at)
		INSERT INTO audit_entries (seq, id, actor, action, subject, reason, details, created_at, hash)
		SELECT seq, id, actor, action, subject, reason, details, created_at, `+hash+` FROM entry`)

	brokenSQL = postgres.SQL(postgres.Report, `WITH chain AS (
		SELECT *, lag(hash) OVER history AS previous, row_number() OVER history AS place FROM audit_entries WINDOW history AS (ORDER BY seq)
	)
	SELECT format('audit entry %s: number %s does not match its hash: it or the previous one was changed', id, seq) FROM chain WHERE hash <> `+hash+`
	UNION ALL
	SELECT format('audit entry %s: number %s is at position %s', id, seq, place) FROM chain WHERE seq <> place
	UNION ALL
	SELECT format('audit entry %s: number %s is dated before the previous one', id, seq) FROM (
		SELECT id, seq, created_at, lag(created_at) OVER (ORDER BY seq) AS earlier FROM audit_entries) e
		WHERE created_at < earlier - interval '1 minute' -- transactions that end in another order than they began
	LIMIT 100`)

	linksSQL = postgres.SQL(postgres.Report,
		`SELECT seq, `+hashed+` AS hashed, hash FROM audit_entries WHERE seq > $1 ORDER BY seq LIMIT $2`)
)

// hash is computed from an entry and its column previous.
const hash = `sha256(coalesce(previous, '') || convert_to(` + hashed + `, 'UTF8'))`

const hashed = `jsonb_build_array(seq, id, actor, action, subject, reason, details,
	to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text`

// insert queues behind other transactions that add an entry, so that numbers have no gaps. It uses two statements,
// because the second must see what the first one waited for.
func insert(ctx context.Context, tx postgres.Tx, e Entry, details string) error {
	if _, err := tx.Exec(ctx, lockSQL); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, insertSQL, e.ID, e.Actor, e.Action, e.Subject, e.Reason, details, tx.Now)
	return err
}

func newest(ctx context.Context, tx postgres.Tx, subject string, before int64, limit int) ([]Entry, error) {
	q := gorm.G[entryRow](tx.Gorm(ctx)).Order("seq DESC").Limit(limit)
	if subject != "" {
		q = q.Where("subject = ?", subject)
	}
	if before > 0 {
		q = q.Where("seq < ?", before)
	}
	rows, err := q.Find(ctx)
	entries := make([]Entry, len(rows))
	for i, r := range rows {
		entries[i] = Entry{ID: r.ID, Seq: r.Seq, Actor: r.Actor, Action: r.Action, Subject: r.Subject, Reason: r.Reason,
			Details: json.RawMessage(r.Details), CreatedAt: r.CreatedAt}
	}
	return entries, err
}

func latest(ctx context.Context, tx postgres.Tx, action string) (time.Time, error) {
	r, err := gorm.G[entryRow](tx.Gorm(ctx)).Select("created_at").Where("action = ?", action).Order("seq DESC").
		Take(ctx)
	if postgres.IsNotFound(err) {
		return time.Time{}, nil
	}
	return r.CreatedAt, err
}

func has(ctx context.Context, tx postgres.Tx, entryID string) (bool, error) {
	_, err := gorm.G[entryRow](tx.Gorm(ctx)).Select("id").Where("id = ?", entryID).Take(ctx)
	if postgres.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func links(ctx context.Context, tx postgres.Tx, after int64, limit int) ([]Link, error) {
	return postgres.Query[Link](ctx, tx, linksSQL, after, limit)
}

func broken(ctx context.Context, tx postgres.Tx) ([]string, error) {
	return postgres.Query[string](ctx, tx, brokenSQL)
}
