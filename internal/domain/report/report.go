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

// Limits of a period, in days.
const (
	DefaultDays = 7
	maxDays     = 92
)

// ErrPeriod is wrapped by the error for an invalid period.
var ErrPeriod = errors.New("the period is not valid")

// Period is the time that a report covers: From is inclusive, Until exclusive.
type Period struct{ From, Until time.Time }

// Between returns a period. A zero until means now; a zero from means [DefaultDays] before until. The error wraps
// [ErrPeriod] if the period is empty, ends in the future or is longer than 92 days.
func Between(from, until, now time.Time) (Period, error) {
	if until.IsZero() {
		until = now
	}
	if from.IsZero() {
		from = until.AddDate(0, 0, -DefaultDays)
	}
	switch {
	case until.After(now):
		return Period{}, fmt.Errorf("%w: its end is in the future", ErrPeriod)
	case !from.Before(until):
		return Period{}, fmt.Errorf("%w: its end must be after its start", ErrPeriod)
	case until.Sub(from) > maxDays*24*time.Hour:
		return Period{}, fmt.Errorf("%w: it is longer than %d days", ErrPeriod, maxDays)
	}
	return Period{from, until}, nil
}

// days splits the period into days that start at p.From. The last may be shorter.
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

// Estimates summarises the accuracy of estimates. It counts only consultations for which the partner had asked for one.
type Estimates struct {
	Told     int // all of them
	Unknown  int // those answered with "unknown"
	Open     int // with an estimate, still waiting
	Unserved int // with an estimate, ended before a lawyer accepted
	Served   int // with an estimate, accepted by a lawyer; the fields below refer to these

	MedianRatio *float64 // median of estimate divided by actual wait; nil if Served is 0
	NotLonger   int      // those that waited no longer than estimated
	Long        int      // those that waited for more than a minute
	Within      int      // those of Long whose estimate was within a factor of two of the wait
}

// Calibration is the accuracy of estimates for consultations created in a period.
type Calibration struct {
	All    Estimates
	ByPair []PairEstimates
	ByHour []HourEstimates // by hour of the day in UTC; only hours with estimates
}

// PairEstimates holds the estimates for one pair.
type PairEstimates struct {
	matching.Pair
	Estimates
}

// HourEstimates holds the estimates for one hour of the day.
type HourEstimates struct {
	Hour int
	Estimates
}

// Calibrate compares estimates with the actual waits.
func Calibrate(ctx context.Context, tx postgres.Tx, p Period) (Calibration, error) {
	return calibrate(ctx, tx, p)
}

// Cover is the coverage of a pair.
type Cover struct {
	matching.Pair
	OnDuty, Idle time.Duration // time in which at least one lawyer was on duty, or idle
	Consultations
}

// Consultations counts the consultations of a pair that were created in a period.
type Consultations struct {
	Asked     int
	Within30m int // the call started within 30 minutes of creation
	Within24h int // the call started within 24 hours; includes Within30m
	Served    int // the call started, at any time
	Unserved  int // ended without a call
}

// Open returns how many consultations still wait for their call.
func (c Consultations) Open() int { return c.Asked - c.Served - c.Unserved }

// Coverage reports for each pair when lawyers were on duty and which consultations were served. It sorts by the codes
// of the pair.
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

// Fair is the distribution of a pair's work among its lawyers.
type Fair struct {
	matching.Pair
	Lawyers []Share // those on duty for at least an hour, sorted by ID
}

// Share is a lawyer's share of the work of a pair.
type Share struct {
	LawyerID     string
	Calls        int  // of this pair
	Alone        bool // the lawyer serves no other pair
	OnDuty, Idle time.Duration
}

// PerHour returns the lawyer's calls of the pair per hour on duty.
func (s Share) PerHour() float64 { return float64(s.Calls) / s.OnDuty.Hours() }

// Summary holds the totals of a pair.
type Summary struct {
	Lawyers     int
	Calls       int
	Least, Most float64  // calls per hour on duty
	IdleShare   float64  // fraction of the time on duty
	Gini        *float64 // of calls per hour on duty; nil without calls
	// Alone counts lawyers who serve only this pair. They are compared separately, because a lawyer with several pairs
	// may be the longest idle for a call of another pair.
	Alone     int
	GiniAlone *float64 // Gini of the lawyers in Alone
}

// Summary computes the totals of the pair.
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

// Gini returns the Gini coefficient: 0 if all shares are equal, near 1 if one of many has everything. It returns nil if
// the sum is zero.
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

// Fairness reports for each pair which lawyer took its calls, for lawyers on duty for at least an hour. It sorts by the
// codes of the pair.
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

// sorted returns the values of pairs, sorted by the codes of the pair.
func sorted[T any](pairs map[matching.Pair]*T) (list []T) {
	keys := slices.SortedFunc(maps.Keys(pairs), func(a, b matching.Pair) int {
		return cmp.Or(cmp.Compare(a.Competence, b.Competence), cmp.Compare(a.Language, b.Language))
	})
	for _, k := range keys {
		list = append(list, *pairs[k])
	}
	return list
}
