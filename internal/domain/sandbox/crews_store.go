package sandbox

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// crewRow is a row of sandbox_lawyers: a lawyer of an application.
type crewRow struct {
	LawyerID      string    `gorm:"column:lawyer_id;primaryKey"`
	ApplicationID string    `gorm:"column:application_id"`
	Away          bool      `gorm:"column:away"` // does not return to work
	CreatedAt     time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (crewRow) TableName() string { return "sandbox_lawyers" }

// forKeyShare locks a lawyer's row against deletion until the transaction ends. Starting a consultation for a crew and
// deleting the crew therefore see each other.
var forKeyShare = clause.Locking{Strength: "KEY SHARE"}

// ofApplication returns the crew of an application, or the shared crew if it has no lawyers of its own.
func ofApplication(ctx context.Context, tx postgres.Tx, applicationID string,
	lock ...clause.Expression,
) (matching.Crew, error) {
	rows, err := gorm.G[crewRow](tx.Gorm(ctx), lock...).Where("application_id = ?", applicationID).Order("lawyer_id").
		Limit(1).Find(ctx)
	if err != nil {
		return "", fmt.Errorf("look for lawyers of an application: %w", err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	return matching.Crew(applicationID), nil
}

func countCrew(ctx context.Context, tx postgres.Tx, applicationID string) (int, error) {
	n, err := gorm.G[crewRow](tx.Gorm(ctx)).Where("application_id = ?", applicationID).Count(ctx, "*")
	if err != nil {
		return 0, fmt.Errorf("count the lawyers of an application: %w", err)
	}
	return int(n), nil
}

func insertCrew(ctx context.Context, tx postgres.Tx, r crewRow) error {
	if err := gorm.G[crewRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert lawyer of an application: %w", err)
	}
	return nil
}

// listCrew reads names from the lawyers table. Package lawyer knows what they serve.
func listCrew(ctx context.Context, tx postgres.Tx, applicationID string) (list []CrewLawyer, err error) {
	err = tx.Gorm(ctx).Table("sandbox_lawyers s").Joins("JOIN lawyers l ON l.id = s.lawyer_id").
		Select("l.id, l.name, NOT s.away AS available, s.created_at").
		Where("s.application_id = ?", applicationID).Order("s.lawyer_id").Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list the lawyers of an application: %w", err)
	}
	return list, nil
}

// setAway returns [problem.ErrNotFound] for a lawyer of another application.
func setAway(ctx context.Context, tx postgres.Tx, applicationID, lawyerID string, away bool) error {
	n, err := gorm.G[crewRow](tx.Gorm(ctx)).Where("lawyer_id = ? AND application_id = ?", lawyerID, applicationID).
		Select("away").Updates(ctx, crewRow{Away: away})
	if err != nil {
		return fmt.Errorf("change a lawyer of an application: %w", err)
	}
	if n == 0 {
		return problem.ErrNotFound
	}
	return nil
}

// deleteCrew returns [problem.ErrNotFound] for a lawyer of another application. It waits for locks on the lawyer
// ([forKeyShare]).
func deleteCrew(ctx context.Context, tx postgres.Tx, applicationID, lawyerID string) error {
	n, err := gorm.G[crewRow](tx.Gorm(ctx)).Where("lawyer_id = ? AND application_id = ?", lawyerID, applicationID).
		Delete(ctx)
	if err != nil {
		return fmt.Errorf("delete a lawyer of an application: %w", err)
	}
	if n == 0 {
		return problem.ErrNotFound
	}
	return nil
}
