package webhook

import (
	"context"
	"fmt"

	"partnerd/internal/infra/postgres"
)

func deliveredTypes(ctx context.Context, tx postgres.Tx, applicationID string) (types []Type, err error) {
	recent := tx.Gorm(ctx).Model(&deliveryRow{}).Select("event_id").
		Where("application_id = ? AND state = ? AND consultation_id IS NOT NULL", applicationID, Delivered).
		Order("created_at DESC, id DESC").Limit(1000)
	if err := tx.Gorm(ctx).Table("webhook_events AS e").Joins("JOIN (?) AS d ON d.event_id = e.id", recent).
		Distinct("e.type").Pluck("e.type", &types).Error; err != nil {
		return nil, fmt.Errorf("read delivered types of %s: %w", applicationID, err)
	}
	return types, nil
}
