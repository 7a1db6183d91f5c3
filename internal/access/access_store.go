package access

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

type row struct {
	key
	tally
}

// add locks the clients first, in the order of rows: an erasure is either seen here, or deletes what is added.
func add(ctx context.Context, tx postgres.Tx, rows []row) error {
	n := len(rows)
	clients, applications, categories := make([]string, n), make([]string, n), make([]string, n)
	days, uses, lasts := make([]string, n), make([]int64, n), make([]time.Time, n)
	for i, r := range rows {
		clients[i], applications[i], categories[i] = r.clientID, r.applicationID, string(r.category)
		days[i], uses[i], lasts[i] = time.Unix(r.day*86400, 0).UTC().Format(time.DateOnly), r.uses, r.lastAt
	}
	_, err := tx.SQL().ExecContext(ctx, `WITH living AS (
			SELECT id FROM clients WHERE id = ANY ($1::text[]) AND erased_at IS NULL ORDER BY id FOR KEY SHARE
		)
		INSERT INTO access_counts AS a (client_id, application_id, category, day, uses, last_at)
		SELECT n.client_id, n.application_id, n.category, n.day, n.uses, n.last_at
			FROM unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::bigint[], $6::timestamptz[]) AS n (client_id, application_id, category, day, uses, last_at)
			JOIN living ON living.id = n.client_id
			ORDER BY n.client_id, n.application_id, n.category, n.day
		ON CONFLICT (client_id, application_id, category, day) DO UPDATE
			SET uses = a.uses + excluded.uses, last_at = greatest(a.last_at, excluded.last_at)`,
		clients, applications, categories, days, uses, lasts)
	if err != nil {
		return fmt.Errorf("add to the log of uses: %w", err)
	}
	return nil
}

func counts(ctx context.Context, tx postgres.Tx, clientID string, since time.Time) ([]Count, error) {
	rows, err := tx.SQL().QueryContext(ctx, `SELECT application_id, category, day, uses, last_at FROM access_counts
		WHERE client_id = $1 AND day >= $2::date ORDER BY day DESC, application_id, category`, clientID, since.UTC().Format(time.DateOnly))
	if err != nil {
		return nil, fmt.Errorf("read the log of uses: %w", err)
	}
	defer rows.Close()
	var out []Count
	for rows.Next() {
		var c Count
		if err := rows.Scan(&c.ApplicationID, &c.Category, &c.Day, &c.Uses, &c.LastAt); err != nil {
			return nil, fmt.Errorf("read the log of uses: %w", err)
		}
		c.Day, c.LastAt = c.Day.UTC(), c.LastAt.UTC()
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the log of uses: %w", err)
	}
	return out, nil
}

func deleteOf(ctx context.Context, tx postgres.Tx, clientID string) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM access_counts WHERE client_id = ?`, clientID).Error; err != nil {
		return fmt.Errorf("delete the log of uses: %w", err)
	}
	return nil
}

func deleteBefore(ctx context.Context, tx postgres.Tx, day time.Time) (int, error) {
	r := tx.Gorm(ctx).Exec(`DELETE FROM access_counts WHERE day < ?::date`, day.Format(time.DateOnly))
	if r.Error != nil {
		return 0, fmt.Errorf("purge the log of uses: %w", r.Error)
	}
	return int(r.RowsAffected), nil
}
