package webhook

import (
	"context"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/postgres"
)

// eraseDelay keeps a claim that began before the erasure, and would read the bodies of before, from taking a delivery.
const eraseDelay = 10 * time.Second

// Erase takes out of the log what the application and its endpoint wrote about consultations: externalRef in the bodies,
// which is left out from the next attempt on, and the answers. An attempt under way ends as it began, with the whole
// body of before; its result is not recorded, and its delivery is sent again. Consultations of an erased client have
// ended, so that no event follows but a refund, which has no reference any more.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, consultationIDs []string) error {
	if len(consultationIDs) == 0 {
		return nil
	}
	for _, statement := range []string{
		`UPDATE webhook_deliveries d SET lease_token = NULL, lease_until = NULL, next_at = greatest(d.next_at, @after)
			FROM webhook_events e WHERE e.consultation_id = ANY (CAST(@ids AS text[])) AND d.event_id = e.id AND d.state = 'PENDING'`,
		`UPDATE webhook_events SET body = convert_to(regexp_replace(convert_from(body, 'UTF8'), ',"externalRef":"([^"\\]|\\.)*"', ''), 'UTF8')
			WHERE consultation_id = ANY (CAST(@ids AS text[]))`,
		`UPDATE webhook_attempts a SET response_body = '' FROM webhook_events e, webhook_deliveries d
			WHERE e.consultation_id = ANY (CAST(@ids AS text[])) AND d.event_id = e.id AND a.delivery_id = d.id AND a.response_body <> ''`,
	} {
		err := tx.Gorm(ctx).Exec(statement, map[string]any{"ids": "{" + strings.Join(consultationIDs, ",") + "}", "after": tx.Now.Add(eraseDelay)}).Error
		if err != nil {
			return fmt.Errorf("erase from webhook log: %w", err)
		}
	}
	return nil
}
