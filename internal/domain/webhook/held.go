package webhook

import (
	"context"

	"partnerd/internal/base/poll"
	"partnerd/internal/infra/postgres"
)

const (
	maxMoved          = 500 // deliveries that one transaction marks or unmarks as held
	maxMovedEndpoints = 100 // endpoints that one transaction locks
)

// keepHeldApart marks deliveries that may not be sent, so that claims skip them, and unmarks them when they may, until
// ctx ends. Any number of processes may run it; one is enough.
func (s *Service) keepHeldApart(ctx context.Context, queue *postgres.DB) {
	loop := poll.Loop{Name: "webhook deliveries cannot be held apart", Every: s.cfg.Poll, Log: s.log}
	_ = loop.Run(ctx, func(ctx context.Context) (bool, error) { return s.moveHeld(ctx, queue) }) // until ctx ends
}

// moveHeld runs one transaction in each direction. more reports that there may be more work.
func (s *Service) moveHeld(ctx context.Context, queue *postgres.DB) (more bool, err error) {
	held, err := holdClosed(ctx, queue.Read(), maxMoved)
	if err != nil {
		return false, err
	}
	reopened, err := anyReopened(ctx, queue.Read())
	if err != nil || !reopened {
		return held == maxMoved, err
	}
	var changed bool
	err = queue.InTx(ctx, func(tx postgres.Tx) error {
		reopened, err := lockReopened(ctx, tx)
		if err != nil || len(reopened) == 0 {
			return err
		}
		tx.AfterCommit(s.wakeUp)
		changed, err = releaseHeld(ctx, tx, reopened, maxMoved)
		return err
	})
	return changed || held == maxMoved, err
}
