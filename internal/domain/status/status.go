package status

import (
	"context"
	"time"

	"partnerd/internal/infra/postgres"
)

// Kept is how many days are reported, including today.
const Kept = 90

// Every is how often a worker counts the minute. SumEvery is how often it looks for days to sum up.
const (
	Every    = 30 * time.Second
	SumEvery = time.Hour
)

// silence is the time without a counted minute after which no worker is considered to be running.
const silence = 3 * time.Minute

// State is the state of the service or of one of its parts.
type State string

// The states of the service and of its parts.
const (
	Operational State = "operational"
	Limited     State = "limited" // some part is not operational
	Unavailable State = "unavailable"
)

// Part is a part of the service.
type Part string

// The parts, in the order in which they are shown.
const (
	API       Part = "api"
	Search    Part = "search"
	Webhooks  Part = "webhooks"
	Payments  Part = "payments"
	Telephony Part = "telephony"
)

// Parts lists all parts in that order.
func Parts() []Part { return []Part{API, Search, Webhooks, Payments, Telephony} }

// Day is one UTC day.
type Day struct {
	Date     time.Time
	Measured bool // counting had begun by the end of the day
	Minutes  int  // minutes in which the service worked
	Of       int  // minutes of the day that should have been counted; today: until now
	Counted  bool // Promises is filled in
	Promises
}

// Promises counts the promises that the service kept and broke on a day.
type Promises struct {
	Asked       int      // consultations created that day
	Within30m   int      // those whose call started within 30 minutes of creation
	Within24h   int      // those whose call started within 24 hours; includes Within30m
	Breaches    int      // those that were promised a callback that did not come in time
	Events      int      // events with at least one attempt to send them
	LagMedianMS *float64 // median time from the event to its first attempt; nil without events
	Lag95thMS   *float64 // 95th percentile of the same; nil without events
}

// Report is everything that is public about the state of the service.
type Report struct {
	State State
	Parts map[Part]State
	Days  []Day // oldest first, ending today; empty while the database is unavailable
	At    time.Time
}

// Service reports the state of the service.
type Service struct {
	DB      *postgres.DB
	CanCall func() bool // whether calls can be placed; without calls, consultations are not accepted
	CanPay  func() bool // whether top-ups can be paid
}

// Count counts the current minute. If several processes call it in the same minute, the minute is counted once.
func (s *Service) Count(ctx context.Context) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error { return count(ctx, tx, tx.Now.Truncate(time.Minute)) })
}

// Sum sums up the days that ended at least 24 hours ago, starting with the day of the first counted minute.
func (s *Service) Sum(ctx context.Context) error {
	var today time.Time
	var since *time.Time
	err := s.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		today = dayOf(tx.Now)
		since, _, err = measured(ctx, tx)
		return err
	})
	if err != nil || since == nil {
		return err
	}
	for back := 2; back < Kept; back++ {
		day := today.AddDate(0, 0, -back)
		if day.Before(dayOf(*since)) {
			break
		}
		if err := s.DB.InTx(ctx, func(tx postgres.Tx) error { return sum(ctx, tx, day) }); err != nil {
			return err
		}
	}
	return nil
}

// Report returns the current state. It never fails: if something cannot be read, it is reported as unavailable.
func (s *Service) Report(ctx context.Context) Report {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r := Report{State: Unavailable, Parts: map[Part]State{}, At: s.DB.Clock().Now()}
	for _, p := range Parts() {
		r.Parts[p] = Unavailable
	}
	if s.DB.Ping(ctx) != nil {
		return r
	}
	tx := s.DB.Read()
	rows, err := read(ctx, tx, dayOf(r.At).AddDate(0, 0, 1-Kept))
	if err != nil {
		return r
	}
	since, last, err := measured(ctx, tx)
	if err != nil {
		return r
	}
	r.Days = days(rows, since, r.At)
	works := last != nil && r.At.Sub(*last) < silence
	for part, there := range map[Part]bool{
		API: true, Search: works && s.CanCall(), Webhooks: works, Payments: s.CanPay(), Telephony: s.CanCall(),
	} {
		if there {
			r.Parts[part] = Operational
		}
	}
	r.State = Operational
	for _, state := range r.Parts {
		if state != Operational {
			r.State = Limited
		}
	}
	return r
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// days returns the last [Kept] days, oldest first. since is the first minute ever counted, or nil if there is none.
func days(rows map[time.Time]dayRow, since *time.Time, now time.Time) []Day {
	var list []Day
	for back := Kept - 1; back >= 0; back-- {
		from := dayOf(now).AddDate(0, 0, -back)
		until := from.AddDate(0, 0, 1)
		if until.After(now) {
			until = now.Truncate(time.Minute).Add(time.Minute)
		}
		d := Day{Date: from}
		row, there := rows[from]
		if since != nil && since.Before(until) {
			if since.After(from) {
				from = *since
			}
			d.Measured, d.Minutes, d.Of = true, row.Minutes, int(until.Sub(from)/time.Minute)
		}
		if there && row.CountedAt != nil {
			d.Counted, d.Promises = true, row.promises()
		}
		list = append(list, d)
	}
	return list
}

// Total adds up the promises of the summed-up days in list and returns how many days those are.
func Total(list []Day) (total Promises, counted int) {
	for _, d := range list {
		if !d.Counted {
			continue
		}
		counted++
		total.Asked += d.Asked
		total.Within30m += d.Within30m
		total.Within24h += d.Within24h
		total.Breaches += d.Breaches
		total.Events += d.Events
	}
	return total, counted
}
