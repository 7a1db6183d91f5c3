package webhook

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

type noticeCandidate struct {
	ApplicationID string
	FailingSince  *time.Time
	DisabledAt    *time.Time
	Sent          string // kinds that were sent about the same failure, separated by blanks
}

// selectNoticeCandidates lists the endpoints that are disabled or have failed since before.
func selectNoticeCandidates(ctx context.Context, tx postgres.Tx, before time.Time) ([]noticeCandidate, error) {
	var rows []noticeCandidate
	err := tx.Gorm(ctx).Raw(`
		SELECT e.application_id, e.failing_since, e.disabled_at, coalesce((SELECT string_agg(n.kind, ' ') FROM webhook_notices n
			WHERE n.application_id = e.application_id AND n.since = coalesce(e.disabled_at, e.failing_since)), '') AS sent
		FROM webhook_endpoints e JOIN applications a ON a.id = e.application_id
		WHERE (e.disabled_at IS NOT NULL OR e.failing_since <= ?) AND a.suspended_at IS NULL`, before).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("find failing webhook endpoints: %w", err)
	}
	return rows, nil
}

// insertNotice records a notice and tells whether it is the first of its kind about this failure.
func insertNotice(ctx context.Context, tx postgres.Tx, applicationID string, since time.Time, kind NoticeKind) (first bool, err error) {
	res := tx.Gorm(ctx).Exec(`INSERT INTO webhook_notices (application_id, since, kind, sent_at) VALUES (?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, applicationID, since, string(kind), tx.Now)
	return res.RowsAffected == 1, res.Error
}
