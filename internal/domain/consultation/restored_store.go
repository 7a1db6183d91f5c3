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

// Later is what the lost database knew about consultations and the restored one does not.
type Later struct {
	Gone     []Gone   // created after the time of the restore
	Repeated []string // open again although they had ended: they will be searched for and called once more
	refunded []string // refunded after their end, by an event that may be sent again
}

// Gone is a consultation that partners know and the restored database does not have.
type Gone struct {
	ID            string `json:"id"`
	ApplicationID string `json:"applicationId"`
	ClientID      string `json:"clientId"`
	Status        Status `json:"status"`
}

// ReadLater compares the restored database (tx) with the lost one, for changes at or after since.
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

// MoveOn raises the event sequence of consultations that may have more events above every number used before the
// restore. Partners ignore a sequence number that is not higher than the last one they saw. It returns the number of
// consultations.
func MoveOn(ctx context.Context, tx postgres.Tx, l Later) (int, error) {
	n, err := gorm.G[row](tx.Gorm(ctx)).Where(isOpen+" OR id = ANY(?)", postgres.Array[string](l.refunded)).
		Update(ctx, "event_seq", gorm.Expr("event_seq + ?", webhook.SequencesAfterRestore))
	if err != nil {
		return 0, fmt.Errorf("move on numbers of events: %w", err)
	}
	return n, nil
}
