package webhook

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// noticeRow is a row of webhook_notices: a notification to an application, one per kind and failure.
type noticeRow struct {
	ApplicationID string     `gorm:"column:application_id;primaryKey"`
	Since         time.Time  `gorm:"column:since;primaryKey"` // when the endpoint began to fail, or was disabled
	Kind          NoticeKind `gorm:"column:kind;primaryKey"`
	SentAt        time.Time  `gorm:"column:sent_at"`
}

// TableName implements [schema.Tabler].
func (noticeRow) TableName() string { return "webhook_notices" }

type noticeCandidate struct {
	ApplicationID string
	FailingSince  *time.Time
	DisabledAt    *time.Time
	Sent          string // kinds already sent about the same failure, separated by spaces
}

// selectNoticeCandidates lists the endpoints that are disabled or have failed since before.
func selectNoticeCandidates(ctx context.Context, tx postgres.Tx, before time.Time) ([]noticeCandidate, error) {
	var rows []noticeCandidate
	err := tx.Gorm(ctx).Table("webhook_endpoints e").Joins("JOIN applications a ON a.id = e.application_id").
		Joins("LEFT JOIN webhook_notices n ON n.application_id = e.application_id AND n.since = coalesce(e.disabled_at, e.failing_since)").
		Where("(e.disabled_at IS NOT NULL OR e.failing_since <= ?) AND a.suspended_at IS NULL", before).
		Group("e.application_id").
		Select("e.application_id, e.failing_since, e.disabled_at, coalesce(string_agg(n.kind, ' '), '') AS sent").
		Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("find failing webhook endpoints: %w", err)
	}
	return rows, nil
}

// insertNotice records a notification and reports whether it is the first of its kind for this failure.
func insertNotice(ctx context.Context, tx postgres.Tx, applicationID string, since time.Time,
	kind NoticeKind,
) (first bool, err error) {
	inserted := gorm.WithResult()
	err = gorm.G[noticeRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}, inserted).
		Create(ctx, &noticeRow{ApplicationID: applicationID, Since: since, Kind: kind, SentAt: tx.Now})
	return inserted.RowsAffected == 1, err
}
