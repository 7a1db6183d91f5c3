package sandbox

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// playRow is a row of sandbox_plays: how a consultation goes that does not go well of itself.
type playRow struct {
	ConsultationID string    `gorm:"column:consultation_id;primaryKey"`
	Scenario       string    `gorm:"column:scenario"`
	Act            choreKind `gorm:"column:act;serializer:zeronull"` // what is left to happen besides the lawyer's work
}

// TableName implements [schema.Tabler].
func (playRow) TableName() string { return "sandbox_plays" }

// choiceRow is a row of sandbox_choices: how the next consultations of a client go that an application begins.
type choiceRow struct {
	ApplicationID string `gorm:"column:application_id;primaryKey"`
	ClientID      string `gorm:"column:client_id;primaryKey"`
	Scenario      string `gorm:"column:scenario"`
}

// TableName implements [schema.Tabler].
func (choiceRow) TableName() string { return "sandbox_choices" }

var castSQL = postgres.SQL(postgres.Report, `SELECT coalesce((SELECT application_id FROM sandbox_lawyers WHERE application_id = $1 ORDER BY lawyer_id LIMIT 1 FOR KEY SHARE), ''),
	coalesce((SELECT scenario FROM sandbox_choices WHERE application_id = $1 AND client_id = $2), '')`)

// castOf returns the crew of an application, with the lawyer [held], and the scenario that it chose for a client, which
// are empty for none: one statement, because every consultation begins with it.
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

// replacePlay has a consultation go another way from now on, without what was to happen besides.
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
