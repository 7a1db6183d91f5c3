package postgres

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres/pipeline"
)

// Premise is what a transaction rests on: rows that exist and that its statement locks, so that whoever ends it has
// done so before, and is seen, or waits until the transaction has ended.
type Premise struct {
	Statement Statement // returns a row while the premise holds, and locks it
	Args      []any
	Otherwise error // what the transaction ends with when it does not
	Last      bool  // looked at after everything else, for rows that others lock after those of the transaction
}

// Rests is who does something for as long as a premise holds; false: nothing has to hold.
type Rests interface {
	Premise(now time.Time) (Premise, bool)
}

type premiseKey struct{}

// Resting returns a context whose transactions that write ([DB.InTx]) rest on the premise of r, and then on those of
// ctx: what they say when the transaction begins. Their statements go to the database with its first, so they cost no
// round trip, unless they come last.
func Resting(ctx context.Context, r Rests) context.Context {
	outer, _ := ctx.Value(premiseKey{}).([]Rests)
	return context.WithValue(ctx, premiseKey{}, append([]Rests{r}, outer...))
}

// Regardless returns a context whose transactions rest on nothing: for what is written down of an effect that has been,
// and for work that is not the caller's.
func Regardless(ctx context.Context) context.Context {
	return context.WithValue(ctx, premiseKey{}, nil)
}

// premisesOf are the premises of what writes in ctx: first those that are looked at first, and those that come last.
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

// rest has the premises looked at with the next statement, or before the commit.
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
