package sandbox

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// playRow is a row of sandbox_plays: the scenario of a consultation that differs from [Completed].
type playRow struct {
	ConsultationID string    `gorm:"column:consultation_id;primaryKey"`
	Scenario       string    `gorm:"column:scenario"`
	Act            choreKind `gorm:"column:act;serializer:zeronull"` // pending action apart from the lawyer's work
}

// TableName implements [schema.Tabler].
func (playRow) TableName() string { return "sandbox_plays" }

// choiceRow is a row of sandbox_choices: the scenario of the next consultations that an application starts for a
// client.
type choiceRow struct {
	ApplicationID string `gorm:"column:application_id;primaryKey"`
	ClientID      string `gorm:"column:client_id;primaryKey"`
	Scenario      string `gorm:"column:scenario"`
}

// TableName implements [schema.Tabler].
func (choiceRow) TableName() string { return "sandbox_choices" }

var castSQL = postgres.SQL(postgres.Report, `SELECT coalesce((SELECT application_id FROM sandbox_lawyers WHERE application_id = $1 ORDER BY lawyer_id LIMIT 1 FOR KEY SHARE), ''),
	coalesce((SELECT scenario FROM sandbox_choices WHERE application_id = $1 AND client_id = $2), '')`)

// castOf returns the crew of an application, with the lawyer [forKeyShare], and the scenario chosen for a client.
// Either may be empty. It is one statement, because every consultation starts with it.
func castOf(ctx context.Context, tx postgres.Tx,
	applicationID, clientID string,
) (crew matching.Crew, scenario string, err error) {
	if err := tx.QueryRow(ctx, castSQL, applicationID, clientID).Scan(&crew, &scenario); err != nil {
		return "", "", fmt.Errorf("read how a consultation is to go: %w", err)
	}
	return crew, scenario, nil
}

func setChoice(ctx context.Context, tx postgres.Tx, r choiceRow) error {
	if err := gorm.G[choiceRow](tx.Gorm(ctx), clause.OnConflict{UpdateAll: true}).Create(ctx, &r); err != nil {
		return fmt.Errorf("keep a scenario for a client: %w", err)
	}
	return nil
}

func insertPlay(ctx context.Context, tx postgres.Tx, r playRow) error {
	if err := gorm.G[playRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("keep the scenario of a consultation: %w", err)
	}
	return nil
}

// replacePlay changes the scenario of a consultation and drops its other pending action.
func replacePlay(ctx context.Context, tx postgres.Tx, consultationID, scenario string) error {
	r := playRow{ConsultationID: consultationID, Scenario: scenario}
	if err := gorm.G[playRow](tx.Gorm(ctx), clause.OnConflict{Columns: []clause.Column{{Name: "consultation_id"}},
		UpdateAll: true}).Create(ctx, &r); err != nil {
		return fmt.Errorf("change the scenario of a consultation: %w", err)
	}
	return nil
}

func readPlay(ctx context.Context, tx postgres.Tx, consultationID string) (playRow, error) {
	r, err := gorm.G[playRow](tx.Gorm(ctx)).Where("consultation_id = ?", consultationID).Take(ctx)
	if err != nil {
		return r, fmt.Errorf("read the scenario of a consultation: %w", err)
	}
	return r, nil
}

func endAct(ctx context.Context, tx postgres.Tx, consultationID string) error {
	if _, err := gorm.G[playRow](tx.Gorm(ctx)).Where("consultation_id = ?", consultationID).Select("act").
		Updates(ctx, playRow{}); err != nil {
		return fmt.Errorf("end a scenario: %w", err)
	}
	return nil
}
