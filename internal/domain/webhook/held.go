package webhook

import (
	"context"

	"partnerd/internal/base/poll"
	"partnerd/internal/infra/postgres"
)

const (
	heldBatch         = 500 // deliveries that one transaction marks or unmarks as held
	heldEndpointBatch = 100 // endpoints that one transaction locks
)

// markHeld marks deliveries that may not be sent, so that claims skip them, and unmarks them when they may, until
// ctx ends. Any number of processes may run it; one is enough.
func (s *Service) markHeld(ctx context.Context, queue *postgres.DB) {
	loop := poll.Loop{Name: "webhook deliveries cannot be held apart", Every: s.cfg.Poll, Log: s.log}
	_ = loop.Run(ctx, func(ctx context.Context) (bool, error) { return s.updateHeld(ctx, queue) }) // until ctx ends
}

// updateHeld runs one transaction in each direction. more reports that there may be more work.
func (s *Service) updateHeld(ctx context.Context, queue *postgres.DB) (more bool, err error) {
	held, err := holdClosed(ctx, queue.Read(), heldBatch)
	if err != nil {
		return false, err
	}
	reopened, err := anyReopened(ctx, queue.Read())
	if err != nil || !reopened {
		return held == heldBatch, err
	}
	var changed bool
	err = queue.InTx(ctx, func(tx postgres.Tx) error {
		reopened, err := lockReopened(ctx, tx)
		if err != nil || len(reopened) == 0 {
			return err
		}
		tx.AfterCommit(s.wakeUp)
		changed, err = releaseHeld(ctx, tx, reopened, heldBatch)
		return err
	})
	return changed || held == heldBatch, err
}
