package sandbox

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// messageRow is a row of sandbox_messages: a message to a test client.
type messageRow struct {
	ID            string    `gorm:"column:id;primaryKey"`
	ApplicationID string    `gorm:"column:application_id"`
	ClientID      string    `gorm:"column:client_id"`
	Kind          string    `gorm:"column:kind"`
	Sealed        []byte    `gorm:"column:sealed"`
	SentAt        time.Time `gorm:"column:sent_at"`
}

// TableName implements [schema.Tabler].
func (messageRow) TableName() string { return "sandbox_messages" }

// creatorOf returns the application that created a client, or "" if none did. It locks the row, so that the client is
// not deleted at the same time.
func creatorOf(ctx context.Context, tx postgres.Tx, clientID string) (string, error) {
	r, err := gorm.G[clientRow](tx.Gorm(ctx), postgres.ForUpdate).Where("client_id = ?", clientID).Take(ctx)
	if postgres.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look whose test client it is: %w", err)
	}
	return r.ApplicationID, nil
}

// isTestClient reports whether a partner created a client. It needs no lock, because that never changes.
func isTestClient(ctx context.Context, tx postgres.Tx, clientID string) (bool, error) {
	n, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Count(ctx, "*")
	if err != nil {
		return false, fmt.Errorf("look whether it is a test client: %w", err)
	}
	return n > 0, nil
}

func insertMessage(ctx context.Context, tx postgres.Tx, r messageRow) error {
	if err := gorm.G[messageRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert message: %w", err)
	}
	return nil
}

func listMessages(ctx context.Context, tx postgres.Tx, applicationID string, f MessageFilter, before string,
	limit int,
) ([]messageRow, error) {
	q := gorm.G[messageRow](tx.Gorm(ctx)).Where("application_id = ?", applicationID)
	if f.ClientID != "" {
		q = q.Where("client_id = ?", f.ClientID)
	}
	if f.Kind != "" {
		q = q.Where("kind = ?", f.Kind)
	}
	if before != "" {
		q = q.Where("id < ?", before)
	}
	rows, err := q.Order("id DESC").Limit(limit).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	return rows, nil
}

func purgeMessages(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (int, error) {
	n, err := postgres.Purge[messageRow](ctx, tx, limit, "sent_at", "sent_at <= ?", before)
	if err != nil {
		return 0, fmt.Errorf("purge messages: %w", err)
	}
	return n, nil
}
