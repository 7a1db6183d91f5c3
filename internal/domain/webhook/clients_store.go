package webhook

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// clientRow is a row of webhook_clients: how many events about a client an application was sent.
type clientRow struct {
	ApplicationID string `gorm:"column:application_id;primaryKey"`
	ClientID      string `gorm:"column:client_id;primaryKey"`
	LastSequence  int64  `gorm:"column:last_sequence"`
}

// TableName implements [schema.Tabler].
func (clientRow) TableName() string { return "webhook_clients" }

func updateEnabledEvents(ctx context.Context, tx postgres.Tx, applicationID string, types []Type) error {
	n, err := gorm.G[endpointRow](tx.Gorm(ctx)).Where("application_id = ?", applicationID).
		Select("enabled_events").Updates(ctx, endpointRow{EnabledEvents: types})
	return changed(n, applicationID, err)
}

// nextOfClient returns the next event number of the client for each application that has enabled the type. The rows
// stay locked, in a fixed order, so the numbers have no gaps.
func nextOfClient(ctx context.Context, tx postgres.Tx, clientID string, t Type,
	applicationIDs []string,
) ([]clientRow, error) {
	var rows []clientRow
	err := tx.Gorm(ctx).Model(&endpointRow{}).Select("application_id, ? AS client_id, 1 AS last_sequence", clientID).
		Where("application_id = ANY(?) AND ? = ANY(enabled_events)", postgres.Array[string](applicationIDs), t).
		Order("application_id").Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	next := clause.OnConflict{Columns: []clause.Column{{Name: "application_id"}, {Name: "client_id"}},
		DoUpdates: clause.Assignments(map[string]any{"last_sequence": gorm.Expr("webhook_clients.last_sequence + 1")})}
	err = tx.Gorm(ctx).Clauses(next, postgres.Returning[clientRow]()).Create(&rows).Error
	return rows, err
}
