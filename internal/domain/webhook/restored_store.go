package webhook

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// How far numbers that partners have seen are moved on when a database was brought back to an earlier instant: further
// than a consultation has events, or a list gets positions, between that instant and the loss.
const (
	SequencesAfterRestore = 1000
	positionsAfterRestore = 1_000_000_000
)

// MoveOn lets positions of event lists and numbers of events about clients go on behind all that were given before the
// database was brought back to an earlier instant. It tells how many applications' lists those are.
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
