package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// Limits of a period.
const (
	DefaultDays = 7
	maxDays     = 92
)

// ErrPeriod is wrapped when a period is none.
var ErrPeriod = errors.New("the period is not one")

// Period is what a report is about, from the first instant to the one that is not in it any more.
type Period struct{ From, Until time.Time }

// Between makes a period. A zero until is now, a zero from is [DefaultDays] before its end. It has at most 92 days and
// ends now at the latest.
func Between(from, until, now time.Time) (Period, error) {
	if until.IsZero() {
		until = now
	}
	if from.IsZero() {
		from = until.AddDate(0, 0, -DefaultDays)
	}
	switch {
	case until.After(now):
		return Period{}, fmt.Errorf("%w: it ends in the future", ErrPeriod)
	case !from.Before(until):
		return Period{}, fmt.Errorf("%w: it ends before it begins", ErrPeriod)
	case until.Sub(from) > maxDays*24*time.Hour:
		return Period{}, fmt.Errorf("%w: it is longer than %d days", ErrPeriod, maxDays)
	}
	return Period{from, until}, nil
}

// days cuts a period into days from its beginning; the last may be shorter.
func (p Period) days() (list []Period) {
	for from := p.From; from.Before(p.Until); from = from.AddDate(0, 0, 1) {
		until := from.AddDate(0, 0, 1)
		if until.After(p.Until) {
			until = p.Until
		}
		list = append(list, Period{from, until})
	}
	return list
}

// Estimates is how true estimates were. All numbers are of consultations before which the partner had asked.
type Estimates struct {
	Told     int // in all
	Unknown  int // told that nothing is known
	Open     int // with an estimate, and still waiting
	Unserved int // with an estimate, and ended before a lawyer accepted
	Served   int // with an estimate, and accepted by a lawyer; the following are of these

	MedianRatio *float64 // of estimate to wait; nil for none served
	NotLonger   int      // waited no longer than they were told
	Long        int      // waited for more than a minute
	Within      int      // of Long, those whose estimate was right within a factor of two
}

// Calibration is how true estimates were, of consultations that began in a period.
type Calibration struct {
	All    Estimates
	ByPair []PairEstimates
	ByHour []HourEstimates // of the day, UTC; those in which there was one
}

// PairEstimates are those of a pair.
type PairEstimates struct {
	matching.Pair
	Estimates
}

// HourEstimates are those of an hour of the day.
type HourEstimates struct {
	Hour int
	Estimates
}

// Calibrate compares what was told with what came.
func Calibrate(ctx context.Context, tx postgres.Tx, p Period) (Calibration, error) {
	return calibrate(ctx, tx, p)
}

// Cover is how a pair was served.
type Cover struct {
	matching.Pair
	OnDuty, Idle time.Duration // in which somebody was
	Consultations
}

// Consultations of a pair that began in a period.
type Consultations struct {
	Asked     int
	Within30m int // the call began 30 minutes after the creation at the latest
	Within24h int // 24 hours, those before included
	Served    int // a call began, whenever
	Unserved  int // ended without a call
}

// Open is how many still wait for their call.
func (c Consultations) Open() int { return c.Asked - c.Served - c.Unserved }

// Coverage tells for each pair when lawyers were there, and who was served; in the order of their codes.
func Coverage(ctx context.Context, tx postgres.Tx, p Period) ([]Cover, error) {
	pairs := map[matching.Pair]*Cover{}
	of := func(pair matching.Pair) *Cover {
		if pairs[pair] == nil {
			pairs[pair] = &Cover{Pair: pair}
		}
		return pairs[pair]
	}
	for _, day := range p.days() {
		there, err := presence(ctx, tx, day)
		if err != nil {
			return nil, err
		}
		for _, t := range there {
			c := of(t.Pair)
			c.OnDuty += seconds(t.OnDuty)
			c.Idle += seconds(t.Idle)
		}
		served, err := consultations(ctx, tx, day)
		if err != nil {
			return nil, err
		}
		for _, s := range served {
			of(s.Pair).add(s.Consultations)
		}
	}
	return sorted(pairs), nil
}

func (c *Consultations) add(o Consultations) {
	c.Asked += o.Asked
	c.Within30m += o.Within30m
	c.Within24h += o.Within24h
	c.Served += o.Served
	c.Unserved += o.Unserved
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Fair is how evenly the work of a pair went to its lawyers.
type Fair struct {
	matching.Pair
	Lawyers []Share // on duty for an hour or more, by their identifiers
}

// Share is what a lawyer had of a pair.
type Share struct {
	LawyerID     string
	Calls        int  // of the pair
	Alone        bool // he serves no other pair
	OnDuty, Idle time.Duration
}

// PerHour is how many calls of the pair he had for each hour on duty.
func (s Share) PerHour() float64 { return float64(s.Calls) / s.OnDuty.Hours() }

// Summary are the figures of a pair.
type Summary struct {
	Lawyers     int
	Calls       int
	Least, Most float64  // calls by hour on duty
	IdleShare   float64  // of the time on duty
	Gini        *float64 // of calls by hour on duty; nil without a call
	// lawyers who serve this pair and no other: of lawyers with different pairs the longest idle has what both serve
	Alone     int
	GiniAlone *float64 // of them
}

// Summary sums a pair up.
func (f Fair) Summary() (s Summary) {
	var rates, alone []float64
	var onDuty, idle time.Duration
	for _, l := range f.Lawyers {
		rates = append(rates, l.PerHour())
		if l.Alone {
			alone = append(alone, l.PerHour())
		}
		s.Calls += l.Calls
		onDuty += l.OnDuty
		idle += l.Idle
	}
	if s.Lawyers, s.Alone = len(rates), len(alone); s.Lawyers == 0 {
		return s
	}
	s.Least, s.Most, s.IdleShare = slices.Min(rates), slices.Max(rates), idle.Hours()/onDuty.Hours()
	s.Gini, s.GiniAlone = Gini(rates), Gini(alone)
	return s
}

// Gini is 0 when all have the same, and near 1 when one of many has everything; nil when nobody has anything.
func Gini(x []float64) *float64 {
	x = slices.Sorted(slices.Values(x))
	var sum, weighted float64
	for i, v := range x {
		sum += v
		weighted += float64(i+1) * v
	}
	if sum == 0 {
		return nil
	}
	n := float64(len(x))
	g := 2*weighted/(n*sum) - (n+1)/n
	return &g
}

// Fairness tells for each pair who had its calls, of lawyers who were on duty for an hour or more; in the order of
// their codes.
func Fairness(ctx context.Context, tx postgres.Tx, p Period) ([]Fair, error) {
	type of struct {
		matching.Pair
		lawyerID string
	}
	shares := map[of]Share{}
	for _, day := range p.days() {
		list, err := sharesOf(ctx, tx, day)
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			k := of{l.Pair, l.LawyerID}
			s := shares[k]
			shares[k] = Share{l.LawyerID, s.Calls + l.Calls, l.Alone, s.OnDuty + seconds(l.OnDuty),
				s.Idle + seconds(l.Idle)}
		}
	}
	pairs := map[matching.Pair]*Fair{}
	for k, s := range shares {
		if s.OnDuty < time.Hour {
			continue
		}
		if pairs[k.Pair] == nil {
			pairs[k.Pair] = &Fair{Pair: k.Pair}
		}
		pairs[k.Pair].Lawyers = append(pairs[k.Pair].Lawyers, s)
	}
	list := sorted(pairs)
	for _, f := range list {
		slices.SortFunc(f.Lawyers, func(a, b Share) int { return cmp.Compare(a.LawyerID, b.LawyerID) })
	}
	return list, nil
}

// sorted lists what is kept by pair, in the order of their codes.
func sorted[T any](pairs map[matching.Pair]*T) (list []T) {
	keys := slices.SortedFunc(maps.Keys(pairs), func(a, b matching.Pair) int {
		return cmp.Or(cmp.Compare(a.Competence, b.Competence), cmp.Compare(a.Language, b.Language))
	})
	for _, k := range keys {
		list = append(list, *pairs[k])
	}
	return list
}
