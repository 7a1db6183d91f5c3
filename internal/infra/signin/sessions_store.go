package signin

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// Sessions are the sessions of one kind of people. The table of R has the columns token_hash and last_used_at.
type Sessions[R any] struct {
	Person string // column of the session's owner
}

// Touch records the use of a session, at most once a minute.
func (Sessions[R]) Touch(ctx context.Context, tx postgres.Tx, token id.Digest) error {
	_, err := gorm.G[R](tx.Gorm(ctx)).
		Where("token_hash = ? AND (last_used_at IS NULL OR last_used_at < ?)", token, tx.Now.Add(-time.Minute)).
		Update(ctx, "last_used_at", tx.Now)
	if err != nil {
		return fmt.Errorf("touch session: %w", err)
	}
	return nil
}

// End ends the session of a token and reports whether it existed. Of several concurrent calls, one returns true.
func (s Sessions[R]) End(ctx context.Context, tx postgres.Tx, token id.Digest) (bool, error) {
	n, err := s.delete(ctx, tx, "token_hash = ?", token)
	return n == 1, err
}

// EndOne ends a session of a person, identified by the text of its digest. A session that has ended or belongs to
// another person is not an error.
func (s Sessions[R]) EndOne(ctx context.Context, tx postgres.Tx, personID, sessionID string) error {
	token, ok := id.ParseDigest(sessionID)
	if !ok {
		return nil
	}
	_, err := s.delete(ctx, tx, "token_hash = ? AND "+s.Person+" = ?", token, personID)
	return err
}

// EndOthers ends all sessions of a person except one (zero: without exception), and returns how many.
func (s Sessions[R]) EndOthers(ctx context.Context, tx postgres.Tx, personID string, except id.Digest) (int, error) {
	return s.delete(ctx, tx, s.Person+" = ? AND token_hash <> ?", personID, except)
}

// EndAll ends everyone's sessions, and returns how many.
func (s Sessions[R]) EndAll(ctx context.Context, tx postgres.Tx) (int, error) {
	return s.delete(ctx, tx, "true")
}

func (Sessions[R]) delete(ctx context.Context, tx postgres.Tx, where string, args ...any) (int, error) {
	n, err := gorm.G[R](tx.Gorm(ctx)).Where(where, args...).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete sessions: %w", err)
	}
	return n, nil
}
