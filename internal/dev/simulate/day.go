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

// monday is the first day, in the zone of most clients, at midnight.
var monday = time.Date(2026, 3, 9, 0, 0, 0, 0, time.FixedZone("CET", 3600)).UTC()

// callLimit is how long a call lasts at most: a little less than the program's own limit, which has tests of its own.
const callLimit = 20*time.Minute - time.Second

// Plan is a day with all that is assumed of people.
type Plan struct {
	Lawyers       int
	Pairs         int // of competence and language, the most wanted first
	Consultations int
	Seed          uint64

	Decline     float64 // share of offers
	Miss        float64 // share of offers that nobody looks at
	Unreachable float64 // share of calls that the client does not answer
	Wait        float64 // share of lawyers who wait then for the next attempt
	Cancel      float64 // share of clients who give up while they wait
	Call        time.Duration
	Writing     time.Duration // of the note
}

// hours is how wanted each hour of the day is, midnight first: an office day with two peaks and a quiet evening.
var hours = [24]float64{.2, .1, .05, .05, .1, .3, 1, 3, 7, 10, 11, 9, 5, 6, 9, 10, 9, 7, 5, 4, 3, 2, 1, .5}

// One is what became of a consultation.
type One struct {
	Pair      int
	CreatedAt time.Time
	Estimate  *int // seconds, as it was told before the creation; nil: none
	Idle      bool // somebody of the pair was idle then
	Ahead     int  // consultations that waited for a lawyer of the pair then
	Accepted  *time.Time
	Ended     consultation.Status
	Offers    int
	Callback  *time.Time // when it was due, for one that had to wait for a callback
	Reason    consultation.Reason
}

// Wait is from the creation until a lawyer accepted it; false when none did.
func (o One) Wait() (time.Duration, bool) {
	if o.Accepted == nil {
		return 0, false
	}
	return o.Accepted.Sub(o.CreatedAt), true
}

// Served is what a lawyer did.
type Served struct {
	Pairs       []int
	OnDuty      time.Duration
	Assignments int
}

// Day is what happened.
type Day struct {
	Plan   Plan
	All    []One
	People []Served
	// consultations beside which an idle lawyer of their pair stood, in all samples, after the searches had ended
	Stranded int
	Samples  int
	Findings []string // of the examination of the books at the end, and of the report of estimates
}

// person is a lawyer of the simulation.
type person struct {
	id      string
	pairs   []int
	shifts  [2]span
	lease   lawyer.Lease
	leaving bool // the shift is over; he goes when what he has in hand is done
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

// wanted is how often a pair is asked for beside the others: as words are in a language (Zipf), the first the most.
func wanted(pair int) float64 { return 1 / math.Pow(float64(pair+1), 0.8) }

// drawPair draws one by how wanted it is.
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

// drawTime draws a time of a day by how wanted its hours are.
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

// hire adds the lawyers: one to four pairs each, a shift of two to four and a half hours on both days around an hour in
// which lawyers are wanted.
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
	if p.on { // the one before has not ended yet: it goes on
		return nil
	}
	p.on, p.leaving, p.since = true, false, s.clock.Now()
	s.at(shift.to, func() error { return s.leave(p) })
	p.lease, err = s.signOn(p.id, monday.AddDate(0, 0, 3))
	return err
}

// leave ends a shift, now or as soon as what he has in hand is done.
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

// giveUp cancels what nobody has accepted yet.
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

// offer is what a lawyer does with an offer.
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

// gone forgives that an offer was over before its lawyer answered.
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
		return nil // it is night, or the consultation went back
	}
	if err != nil {
		return err
	}
	s.after(15*time.Second, func() error { return s.answer(p, id) })
	return nil
}

// answer is what the client does when the phone rings. Attempts after the first begin by themselves.
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

// rings waits for the next attempt at the client, until the consultation is no longer in the lawyer's hands.
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

// logNormal draws a time with the given mean; spread is that of its logarithm.
func (s *day) logNormal(mean time.Duration, spread float64) time.Duration {
	return time.Duration(float64(mean) * math.Exp(spread*s.rng.NormFloat64()-spread*spread/2))
}

// strandedSQL counts waiting work that an idle lawyer of its pair, to whom it may be offered, stands beside.
var strandedSQL = postgres.SQL(postgres.Report, `SELECT count(*) FROM consultations c
	WHERE c.status = 'MATCHING' AND (c.next_dial_at IS NULL OR c.next_dial_at <= $1) AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.state = 'OPEN')
		AND EXISTS (SELECT FROM lawyer_pairs p WHERE p.competence = c.competence AND p.language = c.language AND p.idle_since IS NOT NULL
			AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.lawyer_id = p.lawyer_id))`)

// sample looks every ten minutes whether somebody idle stands beside waiting work.
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

// finish reads how everything ended.
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

// served counts those with an estimate whom a lawyer accepted.
func (d *Day) served() (n int) {
	for _, o := range d.All {
		if o.Estimate != nil && o.Accepted != nil {
			n++
		}
	}
	return n
}
