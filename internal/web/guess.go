package web

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
	"partnerd/internal/ratelimit"
)

// guessQuota bounds the wrong passwords for one account, or from one browser that it knows: 34 within the first day, 24 on
// each day after it, and nobody waits longer than an hour.
var guessQuota = ratelimit.Quota{Burst: 10, Interval: time.Hour}

// guess is a try at a password. This process counts it by the minute, and under key all processes together and for hours.
type guess struct {
	tries []try
	key   string
	quota ratelimit.Quota
}

// guess counts a try, which must come before it is judged so that parallel ones count too, and returns how long to wait, 0
// when it may go on. [Pages.forgive] takes back one with the right password: only guessing is slowed down.
func (p *Pages) guess(ctx context.Context, g guess) (wait time.Duration, err error) {
	if wait := p.attempt(ctx, g.tries...); wait > 0 {
		return wait, nil
	}
	err = p.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		d, err := ratelimit.Take(ctx, tx, g.key, g.quota)
		wait = d.RetryAfter
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count a password: %w", err)
	}
	return wait, nil
}

func (p *Pages) forgive(ctx context.Context, g guess) error {
	p.takeBack(ctx, g.tries)
	return ratelimit.PutBack(ctx, p.deps.DB.Read(), g.key, g.quota)
}
