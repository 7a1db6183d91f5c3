package sms

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// messageRow is a row of sms_messages: a message whose sending has begun.
type messageRow struct {
	ID      string    `gorm:"column:id;primaryKey"`
	BegunAt time.Time `gorm:"column:begun_at"`
}

// TableName implements [schema.Tabler].
func (messageRow) TableName() string { return "sms_messages" }

// begin records that sending begins; it returns false if sending had already begun.
func begin(ctx context.Context, tx postgres.Tx, messageID string) (bool, error) {
	inserted := gorm.WithResult()
	err := gorm.G[messageRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}, inserted).Create(ctx,
		&messageRow{ID: messageID, BegunAt: tx.Now})
	if err != nil {
		return false, fmt.Errorf("note text message: %w", err)
	}
	return inserted.RowsAffected == 1, nil
}

func forget(ctx context.Context, tx postgres.Tx, messageID string) error {
	if _, err := gorm.G[messageRow](tx.Gorm(ctx)).Where("id = ?", messageID).Delete(ctx); err != nil {
		return fmt.Errorf("forget text message: %w", err)
	}
	return nil
}

func purge(ctx context.Context, tx postgres.Tx, before time.Time) (int, error) {
	n, err := gorm.G[messageRow](tx.Gorm(ctx)).Where("begun_at < ?", before).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge text messages: %w", err)
	}
	return n, nil
}
