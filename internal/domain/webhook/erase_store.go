package webhook

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// eraseDelay keeps a claim that began before the erasure, and could read the old bodies, from taking a delivery.
const eraseDelay = 10 * time.Second

// Erase removes what the application and its endpoint wrote about consultations: externalRef in the bodies, and stored
// responses. Later attempts send the body without externalRef.
//
// An attempt in progress ends with the whole old body. Its result is not recorded, and its delivery is sent again. The
// consultations of an erased client have ended, so only a refund event may follow, without externalRef.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, consultationIDs []string) error {
	if len(consultationIDs) == 0 {
		return nil
	}
	events := tx.Gorm(ctx).Model(&eventRow{}).Select("id").Where("consultation_id IN ?", consultationIDs)
	deliveries := tx.Gorm(ctx).Model(&deliveryRow{}).Select("id").Where("event_id IN (?)", events)
	for _, r := range []*gorm.DB{
		tx.Gorm(ctx).Model(&deliveryRow{}).Where("state = ? AND event_id IN (?)", Pending, events).
			Updates(map[string]any{"lease_token": nil, "lease_until": nil,
				"next_at": gorm.Expr("greatest(next_at, ?)", tx.Now.Add(eraseDelay))}),
		tx.Gorm(ctx).Model(&eventRow{}).Where("consultation_id IN ?", consultationIDs).
			Update("body",
				gorm.Expr(`convert_to(regexp_replace(convert_from(body, 'UTF8'), ',"externalRef":"([^"\\]|\\.)*"', ''), 'UTF8')`)),
		tx.Gorm(ctx).Model(&attemptRow{}).Where("response_body <> '' AND delivery_id IN (?)", deliveries).
			Update("response_body", ""),
	} {
		if r.Error != nil {
			return fmt.Errorf("erase from webhook log: %w", r.Error)
		}
	}
	return nil
}
