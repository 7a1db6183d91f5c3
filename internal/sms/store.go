package sms

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

// begin notes that sending begins; false when it began before.
func begin(ctx context.Context, tx postgres.Tx, messageID string) (bool, error) {
	r := tx.Gorm(ctx).Exec(`INSERT INTO sms_messages (id, begun_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, messageID, tx.Now)
	if r.Error != nil {
		return false, fmt.Errorf("note text message: %w", r.Error)
	}
	return r.RowsAffected == 1, nil
}

func forget(ctx context.Context, tx postgres.Tx, messageID string) error {
	if err := tx.Gorm(ctx).Exec(`DELETE FROM sms_messages WHERE id = ?`, messageID).Error; err != nil {
		return fmt.Errorf("forget text message: %w", err)
	}
	return nil
}

func purge(ctx context.Context, tx postgres.Tx, before time.Time) (int, error) {
	r := tx.Gorm(ctx).Exec(`DELETE FROM sms_messages WHERE begun_at < ?`, before)
	if r.Error != nil {
		return 0, fmt.Errorf("purge text messages: %w", r.Error)
	}
	return int(r.RowsAffected), nil
}
