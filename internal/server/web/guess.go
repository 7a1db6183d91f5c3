package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// guessQuota bounds the wrong passwords or codes for one account, or from one browser that it knows: 34 within the
// first day, 24 on each day after it, and nobody waits longer than an hour.
var guessQuota = ratelimit.Quota{Burst: 10, Interval: time.Hour}

// guess is a try at a password or a code. This process counts it by the minute, and under key all processes together
// and for hours. A hopeless one cannot be guessed: it is counted, so that it can be told, and never refused for what
// was counted under key; the minute alone bounds what it costs us.
type guess struct {
	tries    []try
	key      string
	hopeless bool
}

// guess counts a try, which must come before it is judged so that parallel ones count too. [Pages.forgive] takes back a
// right one: only guessing is slowed down.
func (p *Pages) guess(ctx context.Context, g guess) (d ratelimit.Decision, err error) {
	if wait := p.attempt(ctx, g.tries...); wait > 0 {
		return ratelimit.Decision{RetryAfter: wait}, nil
	}
	err = p.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		d, err = ratelimit.Take(ctx, tx, g.key, guessQuota)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("count a guess: %w", err)
	}
	if g.hopeless {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, nil
}

func (p *Pages) forgive(ctx context.Context, g guess) error {
	p.takeBack(ctx, g.tries)
	return ratelimit.PutBack(ctx, p.deps.DB.Read(), g.key, guessQuota)
}

// judge has do judge a guess in a transaction, unless the decision says how long to wait. do reports a wrong guess by
// an error of wrong; any other outcome is not counted, because the guess was right or was not looked at.
func (p *Pages) judge(ctx context.Context, g guess, wrong []error,
	do func(tx postgres.Tx) error,
) (ratelimit.Decision, error) {
	d, err := p.guess(ctx, g)
	if err != nil || d.RetryAfter > 0 {
		return d, err
	}
	err = p.deps.DB.InTx(ctx, do)
	if slices.ContainsFunc(wrong, func(target error) bool { return errors.Is(err, target) }) {
		return d, err
	}
	if forgiven := p.forgive(ctx, g); forgiven != nil {
		return d, forgiven
	}
	return d, err
}
