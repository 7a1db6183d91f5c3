package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"partnerd/internal/domain/books"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/report"
	"partnerd/internal/infra/postgres"
)

// monday is the first day, at midnight in the time zone of most clients.
var monday = time.Date(2026, 3, 9, 0, 0, 0, 0, time.FixedZone("CET", 3600)).UTC()

// callLimit is the maximum length of a call. It is slightly below the program's own limit, which has its own tests.
const callLimit = 20*time.Minute - time.Second

// Plan describes a day, with every assumption about people.
type Plan struct {
	Lawyers       int
	Pairs         int // practice area and language, in falling order of demand
	Consultations int
	Seed          uint64

	Decline     float64 // share of offers
	Miss        float64 // share of offers that the lawyer ignores
	Unreachable float64 // share of calls that the client does not answer
	Wait        float64 // share of lawyers who then wait for the next attempt
	Cancel      float64 // share of clients who give up while they wait
	Call        time.Duration
	Writing     time.Duration // of the note
}

// hours is the demand of each hour of the day from midnight: an office day with two peaks and a quiet evening.
var hours = [24]float64{.2, .1, .05, .05, .1, .3, 1, 3, 7, 10, 11, 9, 5, 6, 9, 10, 9, 7, 5, 4, 3, 2, 1, .5}

// One is the history of one consultation.
type One struct {
	Pair      int
	CreatedAt time.Time
	Estimate  *int // in seconds, as shown before the creation; nil: none
	Idle      bool // a lawyer of the pair was idle at creation
	Ahead     int  // consultations waiting for a lawyer of the pair at creation
	Accepted  *time.Time
	Ended     consultation.Status
	Offers    int
	Callback  *time.Time // due time, if the consultation had to wait for a callback
	Reason    consultation.Reason
}

// Wait returns the time from creation until a lawyer accepted, or false if none did.
func (o One) Wait() (time.Duration, bool) {
	if o.Accepted == nil {
		return 0, false
	}
	return o.Accepted.Sub(o.CreatedAt), true
}

// Served is the work of one lawyer.
type Served struct {
	Pairs       []int
	OnDuty      time.Duration
	Assignments int
}

// Day is the result of a simulated day.
type Day struct {
	Plan   Plan
	All    []One
	People []Served
	// Stranded counts, over all samples, consultations that waited while a lawyer of their pair was idle. Samples are
	// taken after the searches have ended.
	Stranded int
	Samples  int
	Findings []string // of the final ledger check and of the estimate report
}

// person is a lawyer of the simulation.
type person struct {
	id      string
	pairs   []int
	shifts  [2]span
	lease   lawyer.Lease
	leaving bool // the shift is over; they leave when their current work is done
	writing bool // from the end of a call until its note
	on      bool
	since   time.Time
	served  *Served
}

type span struct{ from, to time.Time }

type day struct {
	*world
	plan   Plan
	pairs  []matching.Pair
	people map[string]*person
	all    map[string]*One
	client map[string]string // of a consultation that is open
	out    *Day
	log    io.Writer
	done   int
}

func playDay(ctx context.Context, d *databases, p Plan, log io.Writer) (*Day, error) {
	url, drop, err := d.fresh(ctx)
	if err != nil {
		return nil, err
	}
	defer drop()
	w, err := newWorld(ctx, url, p.Seed, monday)
	if err != nil {
		return nil, err
	}
	defer w.db.Close()
	s := &day{world: w, plan: p, people: map[string]*person{}, all: map[string]*One{}, client: map[string]string{},
		log: log, out: &Day{Plan: p, People: make([]Served, p.Lawyers), All: make([]One, 0, p.Consultations)}}
	w.offered = s.offer
	if s.pairs, err = w.readPairs(p.Pairs); err != nil {
		return nil, err
	}
	if err := s.hire(); err != nil {
		return nil, err
	}
	s.arrivals()
	end := monday.AddDate(0, 0, 2)
	s.sample(end)
	if err := w.run(end.Add(time.Hour), func() bool { return len(s.client) > 0 }); err != nil {
		return nil, err
	}
	return s.out, s.finish()
}

var pairsSQL = postgres.SQL(postgres.Report,
	`SELECT c.code AS competence, l.code AS language FROM competences c, languages l
	WHERE c.retired_at IS NULL AND l.retired_at IS NULL ORDER BY l.position, c.position LIMIT $1`)

func (w *world) readPairs(n int) ([]matching.Pair, error) {
	pairs, err := postgres.Query[matching.Pair](w.ctx, w.db.Read(), pairsSQL, n)
	if err == nil && len(pairs) < n {
		err = fmt.Errorf("the catalog has %d pairs, %d are required", len(pairs), n)
	}
	return pairs, err
}

// wanted returns the relative demand for a pair. Demand follows Zipf's law, and the first pair has the most.
func wanted(pair int) float64 { return 1 / math.Pow(float64(pair+1), 0.8) }

// drawPair draws a pair, weighted by demand.
func (s *day) drawPair() int {
	total := 0.0
	for i := range s.pairs {
		total += wanted(i)
	}
	at := s.rng.Float64() * total
	for i := range s.pairs {
		if at -= wanted(i); at < 0 {
			return i
		}
	}
	return len(s.pairs) - 1
}

// drawTime draws a time of day, weighted by the demand of its hour.
func (s *day) drawTime(midnight time.Time) time.Time {
	total := 0.0
	for _, h := range hours {
		total += h
	}
	at := s.rng.Float64() * total
	for i, h := range hours {
		if at < h {
			return midnight.Add(time.Duration((float64(i) + at/h) * float64(time.Hour)))
		}
		at -= h
	}
	return midnight
}

// hire adds the lawyers. Each serves one to four pairs. On both days they work a shift of two to four and a half hours,
// around an hour of high demand.
func (s *day) hire() error {
	for i := range s.plan.Lawyers {
		p := &person{served: &s.out.People[i]}
		for range 1 + s.rng.IntN(4) {
			if pair := s.drawPair(); !slices.Contains(p.pairs, pair) {
				p.pairs = append(p.pairs, pair)
			}
		}
		p.served.Pairs = p.pairs
		var serves []matching.Pair
		for _, pair := range p.pairs {
			serves = append(serves, s.pairs[pair])
		}
		var err error
		if p.id, err = s.newLawyer(i, serves); err != nil {
			return err
		}
		s.people[p.id] = p
		for d := range p.shifts {
			midnight := monday.AddDate(0, 0, d)
			length := s.between(2*time.Hour, 4*time.Hour+30*time.Minute)
			from := s.drawTime(midnight).Add(-length / 2)
			shift := span{from, from.Add(length)}
			if shift.from.Before(midnight) {
				shift = span{midnight, midnight.Add(length)}
			}
			p.shifts[d] = shift
			s.at(shift.from, func() error { return s.begin(p, shift) })
		}
	}
	return nil
}

func (s *day) begin(p *person, shift span) (err error) {
	if p.on { // the previous shift has not ended yet and goes on
		return nil
	}
	p.on, p.leaving, p.since = true, false, s.clock.Now()
	s.at(shift.to, func() error { return s.leave(p) })
	p.lease, err = s.signOn(p.id, monday.AddDate(0, 0, 3))
	return err
}

// leave ends a shift, now or as soon as the current work is done.
func (s *day) leave(p *person) error {
	p.leaving = true
	err := lawyer.ErrState
	if !p.writing {
		err = s.signOff(p)
	}
	if errors.Is(err, lawyer.ErrState) {
		s.after(time.Minute, func() error {
			if p.on && p.leaving {
				return s.leave(p)
			}
			return nil
		})
		return nil
	}
	if err != nil {
		return fmt.Errorf("sign %s off: %w", p.id, err)
	}
	p.on = false
	p.served.OnDuty += s.clock.Now().Sub(p.since)
	return nil
}

func (s *day) signOff(p *person) error {
	return s.db.InTx(s.ctx, func(tx postgres.Tx) error { return s.lawyers.GoOffline(s.ctx, tx, p.lease) })
}

func (s *day) arrivals() {
	for range s.plan.Consultations {
		s.at(s.drawTime(monday), s.arrive)
	}
}

func (s *day) arrive() error {
	pair := s.drawPair()
	client, err := s.anyone()
	if err != nil {
		return err
	}
	told, err := s.consultations.TellCoverage(s.ctx, s.db.Read(), s.application, client, s.pairs[pair].Competence,
		s.pairs[pair].Language)
	if err != nil {
		return err
	}
	c, err := s.create(client, s.pairs[pair])
	if err != nil {
		return err
	}
	s.out.All = append(s.out.All, One{Pair: pair, CreatedAt: s.clock.Now(), Estimate: told.EstimatedWaitSeconds,
		Idle: told.LawyersIdle > 0, Ahead: told.Ahead})
	s.all[c.ID], s.client[c.ID] = &s.out.All[len(s.out.All)-1], c.ClientID
	if n := len(s.out.All); n%5000 == 0 {
		fmt.Fprintf(s.log, "%s  %d consultations, %d over\n", s.clock.Now().Format(time.DateTime), n, s.done)
	}
	if s.chance(s.plan.Cancel) {
		s.after(s.exponential(5*time.Minute), func() error { return s.giveUp(c.ID) })
	}
	return nil
}

// giveUp cancels a consultation that no lawyer has accepted yet.
func (s *day) giveUp(id string) error {
	if s.all[id].Accepted != nil || s.client[id] == "" {
		return nil
	}
	err := s.db.InTx(s.ctx, func(tx postgres.Tx) error {
		_, err := s.consultations.Cancel(s.ctx, tx, s.application, s.client[id], id)
		return err
	})
	if errors.Is(err, consultation.ErrNotCancellable) {
		return nil
	}
	s.over(id)
	return err
}

func (s *day) over(id string) {
	if client := s.client[id]; client != "" {
		s.done++
		s.ended(client)
		delete(s.client, id)
	}
}

// offer simulates a lawyer's reaction to an offer.
func (s *day) offer(o matching.Offer) error {
	p := s.people[o.LawyerID]
	s.all[o.ConsultationID].Offers++
	switch at := s.rng.Float64(); {
	case at < s.plan.Miss:
		s.at(o.ExpiresAt.Add(s.between(time.Minute, 5*time.Minute)), func() error { return s.back(p) })
	case at < s.plan.Miss+s.plan.Decline:
		s.after(s.between(4*time.Second, 20*time.Second), func() error {
			err := s.consultations.DeclineOffer(s.ctx, p.lease, o.ID, string(consultation.NotMyField))
			return gone(err)
		})
	default:
		s.after(s.between(3*time.Second, 15*time.Second), func() error {
			err := s.consultations.AcceptOffer(s.ctx, p.lease, o.ID)
			if err != nil {
				return gone(err)
			}
			if one := s.all[o.ConsultationID]; one.Accepted == nil {
				now := s.clock.Now()
				one.Accepted = &now
			}
			p.served.Assignments++
			s.after(s.between(5*time.Second, 20*time.Second), func() error { return s.call(p, o.ConsultationID) })
			return nil
		})
	}
	return nil
}

// gone ignores the error that an offer ended before its lawyer answered.
func gone(err error) error {
	if errors.Is(err, matching.ErrOfferGone) || errors.Is(err, lawyer.ErrLeaseLost) {
		return nil
	}
	return err
}

// back ends the pause after a missed offer.
func (s *day) back(p *person) (err error) {
	if !p.on || p.leaving {
		return nil
	}
	p.lease, err = s.signOn(p.id, monday.AddDate(0, 0, 3))
	return err
}

func (s *day) call(p *person, id string) error {
	err := s.consultations.StartCall(s.ctx, p.lease, id)
	if errors.Is(err, consultation.ErrTooEarly) || errors.Is(err, consultation.ErrNotYours) ||
		errors.Is(err, consultation.ErrForbidden) {
		return nil // it is night, or the consultation was returned
	}
	if err != nil {
		return err
	}
	s.after(15*time.Second, func() error { return s.answer(p, id) })
	return nil
}

// answer simulates the client when the phone rings. Attempts after the first start by themselves.
func (s *day) answer(p *person, id string) error {
	if s.chance(s.plan.Unreachable) {
		if _, err := s.phone(id, noAnswer); err != nil {
			return err
		}
		s.after(s.between(5*time.Second, 40*time.Second), func() error {
			err := s.consultations.ChooseRedial(s.ctx, p.lease, id, s.chance(s.plan.Wait))
			if errors.Is(err, consultation.ErrForbidden) || errors.Is(err, consultation.ErrNotYours) {
				err = nil // it was the last attempt
			}
			return errors.Join(err, s.rings(p, id, 0))
		})
		return nil
	}
	if there, err := s.phone(id, answers); err != nil || !there {
		return err
	}
	length := min(callLimit, max(30*time.Second, s.logNormal(s.plan.Call, 0.5)))
	s.after(length, func() error { return s.hangUp(p, id) })
	return nil
}

// rings waits for the next attempt to call the client, until the lawyer no longer has the consultation.
func (s *day) rings(p *person, id string, looked int) error {
	c, err := s.consultations.Peek(s.ctx, s.db.Read(), id)
	if err != nil {
		return err
	}
	if c.Status != consultation.Assigned || c.LawyerID != p.id || looked > 120 {
		if c.Status.Terminal() {
			s.over(id)
		}
		return nil
	}
	if c.Dialling() {
		return s.answer(p, id)
	}
	s.after(30*time.Second, func() error { return s.rings(p, id, looked+1) })
	return nil
}

func (s *day) hangUp(p *person, id string) error {
	if err := s.consultations.EndCall(s.ctx, p.lease, id); err != nil {
		return fmt.Errorf("end the call of %s: %w", id, err)
	}
	p.writing = true
	s.after(max(20*time.Second, s.logNormal(s.plan.Writing, 0.5)), func() error {
		p.writing = false
		s.over(id)
		return s.consultations.SubmitNote(s.ctx, p.lease, id, "Note", "Preview")
	})
	return nil
}

// logNormal draws a time with the given mean; spread is the standard deviation of its logarithm.
func (s *day) logNormal(mean time.Duration, spread float64) time.Duration {
	return time.Duration(float64(mean) * math.Exp(spread*s.rng.NormFloat64()-spread*spread/2))
}

// strandedSQL counts waiting consultations for which an idle lawyer of their pair is eligible.
var strandedSQL = postgres.SQL(postgres.Report, `SELECT count(*) FROM consultations c
	WHERE c.status = 'MATCHING' AND (c.next_dial_at IS NULL OR c.next_dial_at <= $1) AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.state = 'OPEN')
		AND EXISTS (SELECT FROM lawyer_pairs p WHERE p.competence = c.competence AND p.language = c.language AND p.idle_since IS NOT NULL
			AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.lawyer_id = p.lawyer_id))`)

// sample checks every ten minutes whether a lawyer is idle beside waiting work.
func (s *day) sample(until time.Time) {
	var look func() error
	look = func() error {
		if s.clock.Now().Before(until) {
			s.after(10*time.Minute, look)
		}
		var n int
		if err := s.db.Read().QueryRow(s.ctx, strandedSQL, s.clock.Now()).Scan(&n); err != nil {
			return err
		}
		s.out.Samples++
		s.out.Stranded += n
		return nil
	}
	s.after(5*time.Minute, look)
}

var endsSQL = postgres.SQL(postgres.Report,
	`SELECT id, status, callback_due_at, coalesce(end_reason, '') AS end_reason FROM consultations`)

// finish reads the final state of everything.
func (s *day) finish() error {
	type row struct {
		ID            string
		Status        consultation.Status
		CallbackDueAt *time.Time
		EndReason     consultation.Reason
	}
	ends, err := postgres.Query[row](s.ctx, s.db.Read(), endsSQL)
	if err != nil {
		return err
	}
	for _, e := range ends {
		one := s.all[e.ID]
		one.Ended, one.Callback, one.Reason = e.Status, e.CallbackDueAt, e.EndReason
	}
	if s.out.Findings, err = books.Verify(s.ctx, s.db.Read()); err != nil {
		return err
	}
	told, err := report.Calibrate(s.ctx, s.db.Read(), report.Period{From: monday, Until: s.clock.Now()})
	if n := s.out.served(); err == nil && told.All.Served != n {
		s.out.Findings = append(s.out.Findings,
			fmt.Sprintf("the report of estimates counts %d accepted consultations, the simulation %d", told.All.Served, n))
	}
	return err
}

// served counts consultations with an estimate that a lawyer accepted.
func (d *Day) served() (n int) {
	for _, o := range d.All {
		if o.Estimate != nil && o.Accepted != nil {
			n++
		}
	}
	return n
}
