package postgres

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres/pipeline"
)

// Premise is a condition on which a transaction depends: existing rows that its statement locks. Whoever ends the
// premise either did so before, which is seen, or waits until the transaction has ended.
type Premise struct {
	Statement Statement // returns and locks a row while the premise holds
	Args      []any
	Otherwise error // error that ends the transaction if the premise does not hold
	Last      bool  // check it last, for rows that others lock after those of the transaction
}

// Rests is implemented by an actor whose work depends on a premise. Premise returns false if nothing has to hold.
type Rests interface {
	Premise(now time.Time) (Premise, bool)
}

type premiseKey struct{}

// Resting returns a context whose writing transactions ([DB.InTx]) depend on the premise of r, then on those of ctx.
// The premises are determined when the transaction begins. Their statements are sent with its first one, so they cost
// no round trip unless Last is set.
func Resting(ctx context.Context, r Rests) context.Context {
	outer, _ := ctx.Value(premiseKey{}).([]Rests)
	return context.WithValue(ctx, premiseKey{}, append([]Rests{r}, outer...))
}

// Regardless returns a context whose transactions depend on no premise. Use it to record an effect that has already
// happened, or for work that is not the caller's.
func Regardless(ctx context.Context) context.Context {
	return context.WithValue(ctx, premiseKey{}, nil)
}

// premisesOf returns the premises of ctx: those checked first, and those checked last.
func premisesOf(ctx context.Context, now time.Time) (first, last []Premise) {
	all, _ := ctx.Value(premiseKey{}).([]Rests)
	for _, r := range all {
		switch p, ok := r.Premise(now); {
		case ok && p.Last:
			last = append(last, p)
		case ok:
			first = append(first, p)
		}
	}
	return first, last
}

// rest schedules the checks of the premises for the next statement, or before the commit.
func rest(q *pipeline.Queue, all []Premise) {
	for _, p := range all {
		check := Counted(func(rows int, err error) error {
			switch {
			case err != nil:
				return fmt.Errorf("look at what the act rests on: %w", err)
			case rows == 0:
				return p.Otherwise
			}
			return nil
		})
		q.Add(p.Statement.text, p.Args, check)
	}
}
