package status

import (
	"context"
	"time"

	"partnerd/internal/infra/postgres"
)

// Kept is how many days are told, today included.
const Kept = 90

// Every is how often a worker counts the minute, and SumEvery how often it looks for days to sum up.
const (
	Every    = 30 * time.Second
	SumEvery = time.Hour
)

// silence is after how long without a counted minute no worker runs.
const silence = 3 * time.Minute

// State of the service or of a part of it.
type State string

// The states.
const (
	Operational State = "operational"
	Limited     State = "limited" // a part is not there
	Unavailable State = "unavailable"
)

// Part is a part of the service.
type Part string

// The parts, in the order in which they are told.
const (
	API       Part = "api"
	Search    Part = "search"
	Webhooks  Part = "webhooks"
	Payments  Part = "payments"
	Telephony Part = "telephony"
)

// Parts lists them.
func Parts() []Part { return []Part{API, Search, Webhooks, Payments, Telephony} }

// Day is one day in UTC.
type Day struct {
	Date     time.Time
	Measured bool // minutes were counted, or would have been
	Minutes  int  // in which the service worked
	Of       int  // that there were, until now on the present day
	Counted  bool // the following are known
	Promises
}

// Promises is how what was promised on a day was kept.
type Promises struct {
	Asked       int      // consultations that began
	Within30m   int      // whose call began 30 minutes after that at the latest
	Within24h   int      // 24 hours, those before included
	Breaches    int      // that had been promised a callback, which did not come in time
	Events      int      // that were sent to a partner at least once
	LagMedianMS *float64 // from the event to the first attempt to send it; nil for no event
	Lag95thMS   *float64 // the same, of 95 of 100 events at most
}

// Report is everything that the public may know.
type Report struct {
	State State
	Parts map[Part]State
	Days  []Day // oldest first, ending today; none while the database is away
	At    time.Time
}

// Service tells how the service is.
type Service struct {
	DB      *postgres.DB
	CanCall func() bool // calls can be made, so consultations are taken
	CanPay  func() bool // top-ups can be paid
}

// Count counts this minute. Of several processes in the same minute one does.
func (s *Service) Count(ctx context.Context) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error { return count(ctx, tx, tx.Now.Truncate(time.Minute)) })
}

// Sum sums up the days that have been over for 24 hours, from the one of the first counted minute on.
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

// Report looks. It never fails: what cannot be read is unavailable.
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

// days makes the last days of the rows that there are. since is the first minute that was ever counted, nil for none.
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

// Total sums the promises of days, and tells of how many days they are.
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
