package consultation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// Later is what consultations of a lost database were beyond what a restored one knows of them.
type Later struct {
	Gone     []Gone   // made after the instant of the restore
	Repeated []string // open again, though they had come to an end: they will be searched and called once more
	refunded []string // after their end, by an event that may come again
}

// Gone is a consultation that partners know and the restored database does not.
type Gone struct {
	ID            string `json:"id"`
	ApplicationID string `json:"applicationId"`
	ClientID      string `json:"clientId"`
	Status        Status `json:"status"`
}

// ReadLater compares the restored database (tx) with the lost one, of which what changed at or after since counts.
func ReadLater(ctx context.Context, tx, lost postgres.Tx, since time.Time) (l Later, err error) {
	if err := lost.Gorm(ctx).Model(&row{}).Where("created_at >= ?", since).Order("id").
		Select("id, application_id, client_id, status").Find(&l.Gone).Error; err != nil {
		return l, fmt.Errorf("list the newest consultations of the lost database: %w", err)
	}
	ids := make([]string, len(l.Gone))
	for i, g := range l.Gone {
		ids[i] = g.ID
	}
	var kept, open []string
	err = tx.Gorm(ctx).Model(&row{}).Where("id = ANY(?)", postgres.Array[string](ids)).Pluck("id", &kept).Error
	if err == nil {
		err = tx.Gorm(ctx).Model(&row{}).Where(isOpen).Pluck("id", &open).Error
	}
	if err != nil {
		return l, fmt.Errorf("list consultations: %w", err)
	}
	l.Gone = slices.DeleteFunc(l.Gone, func(g Gone) bool { return slices.Contains(kept, g.ID) })
	err = lost.Gorm(ctx).Model(&row{}).Where("id = ANY(?) AND NOT ("+isOpen+")", postgres.Array[string](open)).
		Order("id").Pluck("id", &l.Repeated).Error
	if err == nil {
		err = lost.Gorm(ctx).Model(&row{}).Where("refunded_at >= ?", since).Pluck("id", &l.refunded).Error
	}
	if err != nil {
		return l, fmt.Errorf("list consultations of the lost database: %w", err)
	}
	return l, nil
}

// MoveOn lets the numbers of events of consultations that may have more of them go on behind all that were given before
// the database was brought back to an earlier instant: partners ignore a number that is not higher than the last one
// they saw. It tells how many those are.
func MoveOn(ctx context.Context, tx postgres.Tx, l Later) (int, error) {
	n, err := gorm.G[row](tx.Gorm(ctx)).Where(isOpen+" OR id = ANY(?)", postgres.Array[string](l.refunded)).
		Update(ctx, "event_seq", gorm.Expr("event_seq + ?", webhook.SequencesAfterRestore))
	if err != nil {
		return 0, fmt.Errorf("move on numbers of events: %w", err)
	}
	return n, nil
}
