package signin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// ErrBadLink rejects an emailed link that is unknown, used or expired.
var ErrBadLink = errors.New("the link is unknown, used or out of date")

// Links are the emailed links of one kind of people. The table of R has the columns token_hash, created_at and
// expires_at, and also kind if links are looked up by it.
type Links[R any] struct{}

const works = "token_hash = ? AND kind = ? AND expires_at > ?"

// ended is the expiry that a link gets when it ends. It lies before the start of any transaction that could use the
// link, even of one that waits for its row.
var ended = gorm.Expr("created_at")

// Find returns a valid link and leaves it unchanged. It returns [ErrBadLink].
func (Links[R]) Find(ctx context.Context, tx postgres.Tx, kind, token string) (R, error) {
	r, err := gorm.G[R](tx.Gorm(ctx)).Where(works, id.DigestOf(token), kind, tx.Now).Take(ctx)
	if postgres.IsNotFound(err) {
		return r, ErrBadLink
	}
	if err != nil {
		return r, fmt.Errorf("read link: %w", err)
	}
	return r, nil
}

// Use ends a link and returns it. Of several concurrent calls, one gets the link and the others get [ErrBadLink].
func (Links[R]) Use(ctx context.Context, tx postgres.Tx, kind, token string) (r R, err error) {
	var rows []R
	err = tx.Gorm(ctx).Model(&rows).Clauses(postgres.Returning[R]()).
		Where(works, id.DigestOf(token), kind, tx.Now).Update("expires_at", ended).Error
	if err != nil {
		return r, fmt.Errorf("use link: %w", err)
	}
	if len(rows) == 0 {
		return r, ErrBadLink
	}
	return rows[0], nil
}

// End ends the links that match where, and returns how many.
func (Links[R]) End(ctx context.Context, tx postgres.Tx, where string, args ...any) (int, error) {
	n, err := gorm.G[R](tx.Gorm(ctx)).Where(where, args...).Where("expires_at > ?", tx.Now).
		Update(ctx, "expires_at", ended)
	if err != nil {
		return 0, fmt.Errorf("end links: %w", err)
	}
	return n, nil
}

// Count returns how many links of the last hour match where, including ended ones.
func (Links[R]) Count(ctx context.Context, tx postgres.Tx, where string, args ...any) (int64, error) {
	n, err := gorm.G[R](tx.Gorm(ctx)).Where(where, args...).Where("created_at > ?", tx.Now.Add(-time.Hour)).
		Count(ctx, "*")
	if err != nil {
		return 0, fmt.Errorf("count links: %w", err)
	}
	return n, nil
}
