package webhook

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// How far numbers that partners have seen are advanced after a restore to an earlier point in time. The steps exceed
// what can be assigned between the restore point and the loss: events of a consultation, and positions of a list.
const (
	SequencesAfterRestore = 1000
	positionsAfterRestore = 1_000_000_000
)

// MoveOn advances the positions of event lists and the numbers of events about clients past all those assigned before a
// restore. It returns the number of applications.
func MoveOn(ctx context.Context, tx postgres.Tx) (int, error) {
	n, err := gorm.G[endpointRow](tx.Gorm(ctx)).Where("true").Update(ctx, "last_position",
		gorm.Expr("last_position + ?", positionsAfterRestore))
	if err == nil {
		_, err = gorm.G[clientRow](tx.Gorm(ctx)).Where("true").Update(ctx, "last_sequence",
			gorm.Expr("last_sequence + ?", SequencesAfterRestore))
	}
	if err != nil {
		return 0, fmt.Errorf("move on numbers of events: %w", err)
	}
	return n, nil
}
