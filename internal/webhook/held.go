package webhook

import (
	"context"

	"partnerd/internal/poll"
	"partnerd/internal/postgres"
)

const (
	maxMoved          = 500 // deliveries that one transaction marks as held, or lets go
	maxMovedEndpoints = 100 // endpoints that it locks
)

// keepHeldApart marks deliveries that may not be sent, so that claims do not pass them, and lets them go when they may,
// until ctx ends. Any number of processes may; one is enough.
func (d *dispatcher) keepHeldApart(ctx context.Context) {
	loop := poll.Loop{Name: "webhook deliveries cannot be held apart", Every: d.cfg.Poll, Log: d.log}
	_ = loop.Run(ctx, d.moveHeld) // ends with ctx alone
}

// moveHeld makes one transaction in each direction; more tells that there may be work for another.
func (d *dispatcher) moveHeld(ctx context.Context) (more bool, err error) {
	held, err := holdClosed(ctx, d.queue.Read(), maxMoved)
	if err != nil {
		return false, err
	}
	var changed bool
	err = d.queue.InTx(ctx, func(tx postgres.Tx) error {
		reopened, err := lockReopened(ctx, tx)
		if err != nil || len(reopened) == 0 {
			return err
		}
		tx.AfterCommit(d.wakeUp)
		changed, err = releaseHeld(ctx, tx, reopened, maxMoved)
		return err
	})
	return changed || held == maxMoved, err
}
