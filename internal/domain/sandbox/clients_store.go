package sandbox

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// clientRow is a row of sandbox_clients: a test client of an application.
type clientRow struct {
	ClientID      string    `gorm:"column:client_id;primaryKey"`
	ApplicationID string    `gorm:"column:application_id"`
	CreatedAt     time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (clientRow) TableName() string { return "sandbox_clients" }

func insertClient(ctx context.Context, tx postgres.Tx, r clientRow) error {
	if err := gorm.G[clientRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert test client: %w", err)
	}
	return nil
}

func countClients(ctx context.Context, tx postgres.Tx, applicationID string) (int, error) {
	n, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("application_id = ?", applicationID).Count(ctx, "*")
	if err != nil {
		return 0, fmt.Errorf("count test clients: %w", err)
	}
	return int(n), nil
}

func isOwn(ctx context.Context, tx postgres.Tx, applicationID, clientID string) (bool, error) {
	n, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("client_id = ? AND application_id = ?", clientID, applicationID).
		Count(ctx, "*")
	if err != nil {
		return false, fmt.Errorf("look for a test client: %w", err)
	}
	return n > 0, nil
}

func listClients(ctx context.Context, tx postgres.Tx, applicationID string) (list []TestClient, err error) {
	err = tx.Gorm(ctx).Table("sandbox_clients s").Joins("JOIN clients c ON c.id = s.client_id").
		Joins("LEFT JOIN sandbox_choices h ON h.application_id = s.application_id AND h.client_id = s.client_id").
		Select("c.id, c.email, c.name, c.phone_verified_at IS NOT NULL AS phone_verified, c.disabled_at IS NOT NULL AS disabled, coalesce(h.scenario, ?) AS scenario, s.created_at", Completed).
		Where("s.application_id = ?", applicationID).Order("s.client_id").Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list test clients: %w", err)
	}
	return list, nil
}

// deleteClient deletes the row of a test client and the messages sent to it. It returns false if there was no row.
func deleteClient(ctx context.Context, tx postgres.Tx, clientID string) (bool, error) {
	n, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Delete(ctx)
	if err != nil {
		return false, fmt.Errorf("delete test client: %w", err)
	}
	if _, err := gorm.G[messageRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Delete(ctx); err != nil {
		return false, fmt.Errorf("delete messages: %w", err)
	}
	return n > 0, nil
}
