package audit

import (
	"context"
	"encoding/json"
	"time"

	"partnerd/internal/clock"
	"partnerd/internal/postgres"
)

// insert queues behind other transactions that add an entry, so that numbers have no gap. Two statements: the second
// must see what the first one waited for.
func insert(ctx context.Context, tx postgres.Tx, e Entry, details string) error {
	if _, err := tx.SQL().ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtext('audit_entries'))`); err != nil {
		return err
	}
	_, err := tx.SQL().ExecContext(ctx, `WITH last AS (SELECT seq, hash FROM audit_entries ORDER BY seq DESC LIMIT 1),
		entry AS (SELECT coalesce((SELECT seq FROM last), 0) + 1 AS seq, (SELECT hash FROM last) AS previous, $1::text AS id, $2::text AS actor,
			$3::text AS action, $4::text AS subject, $5::text AS reason, $6::text AS details, $7::timestamptz AS created_at)
		INSERT INTO audit_entries (seq, id, actor, action, subject, reason, details, created_at, hash)
		SELECT seq, id, actor, action, subject, reason, details, created_at, `+hash+` FROM entry`,
		e.ID, e.Actor, e.Action, e.Subject, e.Reason, details, tx.Now)
	return err
}

// hash is over an entry with a column previous.
const hash = `sha256(coalesce(previous, '') || convert_to(jsonb_build_array(seq, id, actor, action, subject, reason, details,
	to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text, 'UTF8'))`

func newest(ctx context.Context, tx postgres.Tx, limit int) ([]Entry, error) {
	var rows []struct {
		ID, Actor, Action, Subject, Reason, Details string
		CreatedAt                                   time.Time
	}
	err := tx.Gorm(ctx).Raw(`SELECT id, actor, action, subject, reason, details, created_at FROM audit_entries ORDER BY seq DESC LIMIT ?`, limit).Scan(&rows).Error
	entries := make([]Entry, len(rows))
	for i, r := range rows {
		entries[i] = Entry{ID: r.ID, Actor: r.Actor, Action: r.Action, Subject: r.Subject, Reason: r.Reason,
			Details: json.RawMessage(r.Details), CreatedAt: clock.Truncate(r.CreatedAt)}
	}
	return entries, err
}

func broken(ctx context.Context, tx postgres.Tx) ([]string, error) {
	var findings []string
	err := tx.Gorm(ctx).Raw(`WITH chain AS (
		SELECT *, lag(hash) OVER history AS previous, row_number() OVER history AS place FROM audit_entries WINDOW history AS (ORDER BY seq)
	)
	SELECT format('audit entry %s: number %s does not fit its hash: it or the one before it was changed', id, seq) FROM chain WHERE hash <> ` + hash + `
	UNION ALL
	SELECT format('audit entry %s: number %s stands at place %s', id, seq, place) FROM chain WHERE seq <> place
	LIMIT 100`).Scan(&findings).Error
	return findings, err
}
