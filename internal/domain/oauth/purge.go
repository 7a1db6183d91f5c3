package oauth

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// Retention is how long a grant is kept after its end, as history.
const Retention = 30 * 24 * time.Hour

// PurgeEvery is how often [Service.Purge] must run, and so the maximum delay for recording the end of an expired grant.
const PurgeEvery = time.Hour

// Limits per transaction of [Service.Purge].
const (
	purgedGrants = 500
	purgedTokens = 10_000
	purgedEvents = 10_000
)

// Purge ends expired grants and deletes those that ended [Retention] ago, with their codes and tokens. It returns how
// many it deleted.
//
// Used refresh tokens of an active grant stay, because reuse must be recognised at any time. It is safe to run in
// several processes: each grant ends once.
func (s *Service) Purge(ctx context.Context) (deleted int, err error) {
	for more := true; more && err == nil; {
		n := 0
		err = s.db.InTx(ctx, func(tx postgres.Tx) (err error) {
			n, more, err = purgeGrants(ctx, tx)
			return err
		})
		if err == nil {
			deleted += n
		}
	}
	if err == nil {
		err = s.db.InTx(ctx,
			func(tx postgres.Tx) error { return deleteRetiredSigningKeys(ctx, tx, tx.Now.Add(-Retention)) })
	}
	if err == nil {
		err = s.purgeEvents(ctx)
	}
	if err != nil {
		return deleted, fmt.Errorf("purge grants: %w", err)
	}
	return deleted, nil
}

// purgeEvents deletes events past their retention.
func (s *Service) purgeEvents(ctx context.Context) error {
	for event, kept := range kept {
		for more := true; more; {
			err := s.db.InTx(ctx, func(tx postgres.Tx) error {
				n, err := deleteEvents(ctx, tx, event, tx.Now.Add(-kept), purgedEvents)
				more = n == purgedEvents
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// purgeGrants processes a batch of due grants and reports whether there may be more.
func purgeGrants(ctx context.Context, tx postgres.Tx) (deleted int, more bool, err error) {
	due, err := lockDueGrants(ctx, tx, purgedGrants)
	if err != nil || len(due) == 0 {
		return 0, false, err
	}
	refreshable, err := refreshableUntil(ctx, tx, due)
	if err != nil {
		return 0, false, err
	}
	var old, over, later []grantRow
	for _, g := range due {
		switch g.PurgeAt = g.purgeFrom(refreshable[g.ID]); {
		case tx.Now.Before(g.PurgeAt):
			later = append(later, g)
		case g.RevokedAt != nil:
			old = append(old, g)
		default:
			over = append(over, g)
		}
	}
	if err := postponePurge(ctx, tx, later); err != nil {
		return 0, false, err
	}
	if err := endExpired(ctx, tx, over); err != nil {
		return 0, false, err
	}
	deleted, rows, err := deleteGrants(ctx, tx, old)
	return deleted, rows+len(later)+len(over) > 0, err
}
