package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/postgres"
)

// expired is an event that may be looked at by the purge.
type expired struct {
	ID            string
	ApplicationID string
	Position      *int64
	Removable     bool
}

// selectExpired walks the events in the order of their identifiers, which is the order of time, and returns those of the
// next limit ones that may be removed. last is where the walk goes on; empty when it has reached events that are young.
// created_at decides; the walk ends at the first part that holds nothing old.
func selectExpired(ctx context.Context, tx postgres.Tx, after string, cutoff time.Time, limit int) (events []expired, last string, err error) {
	var rows []expired
	err = tx.Gorm(ctx).Raw(`
		WITH part AS MATERIALIZED (
			SELECT id, application_id, position, created_at FROM webhook_events WHERE id > @after ORDER BY id LIMIT @limit
		)
		SELECT id, application_id, position, NOT EXISTS (SELECT 1 FROM webhook_deliveries d
			WHERE d.event_id = part.id AND (d.state = 'PENDING' OR d.created_at >= @cutoff)) AS removable
		FROM part WHERE created_at < @cutoff ORDER BY id`,
		map[string]any{"after": after, "limit": limit, "cutoff": cutoff}).Scan(&rows).Error
	if err != nil {
		return nil, "", fmt.Errorf("find old events: %w", err)
	}
	for _, r := range rows {
		last = r.ID
		if r.Removable {
			events = append(events, r)
		}
	}
	return events, last, nil
}

// deleteEvents removes events with what hangs on them. Events that never got a position use one up, so that a reader of
// the list can see that something is missing. A redelivery that came in between makes the foreign key refuse, and the
// transaction is undone.
func deleteEvents(ctx context.Context, tx postgres.Tx, events []expired) (int, error) {
	if len(events) == 0 {
		return 0, nil
	}
	ids := make([]string, len(events))
	unread := map[string]int{}
	for i, e := range events {
		ids[i] = e.ID
		if e.Position == nil {
			unread[e.ApplicationID]++
		}
	}
	counts, err := json.Marshal(unread)
	if err != nil {
		return 0, err
	}
	const chosen = "ANY (CAST(@ids AS text[]))" // with its length known to the planner, unlike that of a function
	for _, statement := range []string{
		`UPDATE webhook_endpoints e SET last_position = last_position + CAST(u.value AS bigint)
			FROM json_each_text(CAST(@unread AS json)) u WHERE e.application_id = u.key`,
		`DELETE FROM webhook_attempts a USING webhook_deliveries d
			WHERE a.delivery_id = d.id AND d.event_id = ` + chosen,
		`DELETE FROM webhook_deliveries WHERE state <> 'PENDING' AND event_id = ` + chosen,
		`DELETE FROM webhook_events WHERE id = ` + chosen,
	} {
		if err := tx.Gorm(ctx).Exec(statement, map[string]any{"ids": "{" + strings.Join(ids, ",") + "}", "unread": string(counts)}).Error; err != nil {
			return 0, err
		}
	}
	return len(events), nil
}
