package oauth

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

// recordEvent is the end of every statement that changes a grant, so that the change and its event are one. A SELECT of
// the values follows.
const recordEvent = `INSERT INTO oauth_grant_events (grant_id, application_id, client_id, event, reason, created_at)`

func events(ctx context.Context, tx postgres.Tx, clientID, applicationID string, limit int) ([]Event, error) {
	rows, err := tx.SQL().QueryContext(ctx, `SELECT grant_id, application_id, client_id, event, reason, created_at FROM oauth_grant_events
		WHERE client_id = $1 AND application_id = $2 ORDER BY seq DESC LIMIT $3`, clientID, applicationID, limit)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer rows.Close()
	var out []Event
	for rows.Next() {
		var e Event
		if err := rows.Scan(&e.GrantID, &e.ApplicationID, &e.ClientID, &e.Event, &e.Reason, &e.CreatedAt); err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		e.CreatedAt = e.CreatedAt.UTC()
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return out, nil
}

// deleteEvents is the one way past the guard of the table.
func deleteEvents(ctx context.Context, tx postgres.Tx, before, refreshedBefore time.Time) error {
	if _, err := tx.SQL().ExecContext(ctx, `SELECT set_config('partnerd.purge', 'on', true)`); err != nil {
		return fmt.Errorf("delete history: %w", err)
	}
	_, err := tx.SQL().ExecContext(ctx, `DELETE FROM oauth_grant_events WHERE created_at < $1 OR (created_at < $2 AND event = $3)`,
		before, refreshedBefore, EventRefreshed)
	if err != nil {
		return fmt.Errorf("delete history: %w", err)
	}
	return nil
}
