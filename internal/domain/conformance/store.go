package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// runRow is a row of conformance_runs.
type runRow struct {
	ApplicationID string          `gorm:"column:application_id;primaryKey"`
	At            time.Time       `gorm:"column:at"`
	URL           string          `gorm:"column:url"` // that was checked
	Report        json.RawMessage `gorm:"column:report"`
}

// TableName implements [schema.Tabler].
func (runRow) TableName() string { return "conformance_runs" }

// save stores a report, unless the stored one is of a run that began later: that one is for the URL set now.
func save(ctx context.Context, tx postgres.Tx, applicationID, url string, r Report) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	row := runRow{ApplicationID: applicationID, At: r.At, URL: url, Report: raw}
	replace := clause.OnConflict{Columns: []clause.Column{{Name: "application_id"}},
		DoUpdates: clause.AssignmentColumns([]string{"at", "url", "report"}),
		Where:     clause.Where{Exprs: []clause.Expression{gorm.Expr("conformance_runs.at <= excluded.at")}}}
	if err := gorm.G[runRow](tx.Gorm(ctx), replace).Create(ctx, &row); err != nil {
		return fmt.Errorf("keep examination of %s: %w", applicationID, err)
	}
	return nil
}

func last(ctx context.Context, tx postgres.Tx, applicationID, url string) (*Report, error) {
	row, err := gorm.G[runRow](tx.Gorm(ctx)).Where("application_id = ? AND url = ?", applicationID, url).Take(ctx)
	if postgres.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read examination of %s: %w", applicationID, err)
	}
	var r Report
	if err := json.Unmarshal(row.Report, &r); err != nil {
		return nil, fmt.Errorf("read examination of %s: %w", applicationID, err)
	}
	return &r, nil
}
