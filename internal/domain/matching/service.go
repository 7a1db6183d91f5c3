package matching

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// Service searches and keeps offers. Safe for concurrent use.
type Service struct {
	lawyers *lawyer.Service
	ended   *prometheus.CounterVec
	counted sync.Map // supply of pairs with many lawyers, by [served]
}

// New makes the service.
func New(lawyers *lawyer.Service) *Service {
	return &Service{lawyers: lawyers,
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_offers_total",
			Help: "Offers that ended, by how, since this process began."}, []string{"outcome"})}
}

// Ended counts the offers that ended, for metrics.
func (s *Service) Ended() prometheus.Collector { return s.ended }

// close ends an offer and counts it. When it leaves the first slot, another open one of its consultation takes it;
// after an acceptance there is none any more.
func (s *Service) close(ctx context.Context, tx postgres.Tx, c closing) (Offer, error) {
	r, err := closeOffer(ctx, tx, c)
	if err != nil {
		return Offer{}, err
	}
	tx.AfterCommit(func() { s.ended.WithLabelValues(strings.ToLower(string(c.to))).Inc() })
	s.lawyers.Changed(tx, r.LawyerID)
	if r.Why == ThreeAtOnce && r.Slot == 1 && c.to != Accepted {
		err = promote(ctx, tx, r.ConsultationID)
	}
	return fromRow(r), err
}

// maxQuarantine bounds how many lawyers with contradictory records one search steps over.
const maxQuarantine = 16

// Offer looks for a lawyer for w and offers it to the first, or to the first [AtOnce] when the search has gone badly.
// It returns no offer when there is nobody, or when the consultation or its client has an open offer already. The
// caller holds the consultation's row lock.
func (s *Service) Offer(ctx context.Context, tx postgres.Tx, w Work) ([]Offer, error) {
	return s.search(ctx, tx, w, chosen{})
}

// OfferTo offers w to one lawyer if he may and can take it. The caller holds the locks of the lawyer and of the
// consultation.
func (s *Service) OfferTo(ctx context.Context, tx postgres.Tx, w Work, lawyerID string) (found bool, err error) {
	offers, err := s.search(ctx, tx, w, chosen{lawyerID: lawyerID})
	return len(offers) > 0, err
}

// OfferByHand is [Service.OfferTo] for an operator: the lawyer has [ByHandTime], and it may be soon after he missed the
// same. One who has refused it does not get it again.
func (s *Service) OfferByHand(ctx context.Context, tx postgres.Tx, w Work, lawyerID string) (found bool, err error) {
	offers, err := s.search(ctx, tx, w, chosen{lawyerID: lawyerID, byHand: true})
	return len(offers) > 0, err
}

// chosen is the lawyer whom a search is for; zero: whoever comes first.
type chosen struct {
	lawyerID string
	byHand   bool
}

func (s *Service) search(ctx context.Context, tx postgres.Tx, w Work, to chosen) ([]Offer, error) {
	for range maxQuarantine {
		candidate, offers, err := offerNext(ctx, tx, w, to)
		for _, o := range offers {
			s.lawyers.Changed(tx, o.LawyerID)
		}
		if err != nil || candidate == "" || len(offers) > 0 {
			return offers, err
		}
		if open, err := openOf(ctx, tx, w); err != nil || open {
			return nil, err
		}
		if busy, err := contradicted(ctx, tx, candidate); err != nil {
			return nil, err
		} else if !busy { // what was in the way has gone meanwhile
			continue
		}
		if err := s.quarantine(ctx, tx, candidate); err != nil {
			return nil, err
		}
		if w.Quarantined != nil {
			w.Quarantined(candidate)
		}
	}
	return nil, nil
}

// quarantine puts a lawyer AWAY whose records disagree, and makes his open offer overdue, so that what was offered is
// offered to others at the next sweep. One who does not wait for work stays where he is. The caller holds his lock.
func (s *Service) quarantine(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	err := s.lawyers.SetState(ctx, tx, lawyerID, []lawyer.State{lawyer.Available, lawyer.Offered},
		lawyer.Off(lawyer.RecordsDisagree))
	if err != nil && !errors.Is(err, lawyer.ErrState) {
		return fmt.Errorf("quarantine lawyer: %w", err)
	}
	return cutShort(ctx, tx, lawyerID)
}

// Quarantine puts the lawyer of an open offer out of the way, because the records about him refuse that he accepts, and
// ends the offer. [ErrOfferGone] when it is not open any more. The caller holds the locks of the consultation and of
// the lawyer.
func (s *Service) Quarantine(ctx context.Context, tx postgres.Tx, lawyerID, offerID string) error {
	if _, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Expired}); err != nil {
		return err
	}
	return s.quarantine(ctx, tx, lawyerID)
}

// Fail ends an open offer that could not be accepted for no reason of the lawyer's, who is AVAILABLE again where he was
// in the queue and is not offered the same for [RepeatAfter]. [ErrOfferGone] when it is not open any more. The caller
// holds the locks of the consultation and of the lawyer.
func (s *Service) Fail(ctx context.Context, tx postgres.Tx, lawyerID, offerID string) error {
	if _, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Expired}); err != nil {
		return err
	}
	return s.lawyers.Release(ctx, tx, lawyerID, true)
}

// Get returns an offer, or [ErrOfferGone] when there is none: before [Service.Accept], to know which consultation to
// lock.
func (s *Service) Get(ctx context.Context, tx postgres.Tx, offerID string) (Offer, error) {
	return get(ctx, tx, offerID)
}

// OpenFor returns the open offer of a lawyer, if there is one.
func (s *Service) OpenFor(ctx context.Context, tx postgres.Tx, lawyerID string) (Offer, bool, error) {
	return openOfLawyer(ctx, tx, lawyerID)
}

// Accept takes an open offer whose time is not over; the lawyer becomes BUSY, and the other open offers of the
// consultation are taken back as by [Service.Revoke], which is what it returns. Anything else is [ErrOfferGone],
// together with [lawyer.ErrState] when the offer is open and the records say that he is not looking at it: quarantine
// him. The caller holds the consultation's row lock and moves it in the same transaction.
func (s *Service) Accept(ctx context.Context, tx postgres.Tx, lawyerID, offerID string) (beaten []Offer, err error) {
	if _, err := s.lawyers.Lock(ctx, tx, lawyerID); err != nil {
		return nil, gone(err)
	}
	o, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Accepted, alive: true})
	if err != nil {
		return nil, err
	}
	err = s.lawyers.SetState(ctx, tx, lawyerID, []lawyer.State{lawyer.Offered}, lawyer.On(lawyer.Busy))
	if errors.Is(err, lawyer.ErrState) {
		return nil, fmt.Errorf("%w: %w", ErrOfferGone, err)
	}
	if err == nil && o.Why == ThreeAtOnce {
		beaten, err = s.Revoke(ctx, tx, o.ConsultationID)
	}
	return beaten, err
}

// Decline refuses an open offer; the lawyer is AVAILABLE again, at the back of the queue unless reason is
// [ReasonConflict]. [ErrOfferGone] when it is not open any more. The caller holds the consultation's row lock.
func (s *Service) Decline(ctx context.Context, tx postgres.Tx, lawyerID, offerID, reason string) (Offer, error) {
	if _, err := s.lawyers.Lock(ctx, tx, lawyerID); err != nil {
		return Offer{}, gone(err)
	}
	o, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Declined, alive: true, reason: reason})
	if err != nil {
		return Offer{}, err
	}
	return o, gone(s.lawyers.Release(ctx, tx, lawyerID, reason == ReasonConflict))
}

// Withdrawn remembers that a lawyer gave an accepted consultation back, so that it is not offered to him again.
func (s *Service) Withdrawn(ctx context.Context, tx postgres.Tx, consultationID, lawyerID, reason string) error {
	if reason == "" {
		reason = "withdrawn"
	}
	return withdrawn(ctx, tx, consultationID, lawyerID, reason)
}

// Returned remembers when an accepted consultation left its lawyer without a call: [RepeatAfter] runs from there.
func (s *Service) Returned(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) error {
	return returned(ctx, tx, consultationID, lawyerID)
}

// Expired lists open offers whose time is over, those that ended first at first, without locking them: those that
// follow on after, which is the last of the page before, or zero.
func (s *Service) Expired(ctx context.Context, tx postgres.Tx, after Offer, limit int) ([]Offer, error) {
	return overdue(ctx, tx, after, limit)
}

// Expire ends an offer whose time is over; the lawyer goes AWAY, so that the next offer is not wasted on an empty
// chair. false when somebody else ended it first or its time is not over. The caller holds the consultation's row lock.
func (s *Service) Expire(ctx context.Context, tx postgres.Tx, offerID string) (Offer, bool, error) {
	o, err := get(ctx, tx, offerID)
	if errors.Is(err, ErrOfferGone) {
		return Offer{}, false, nil
	}
	if err != nil {
		return Offer{}, false, err
	}
	if _, err := s.lawyers.Lock(ctx, tx, o.LawyerID); err != nil {
		return Offer{}, false, err
	}
	o, err = s.close(ctx, tx, closing{offerID: offerID, to: Expired, overdue: true})
	if errors.Is(err, ErrOfferGone) {
		return Offer{}, false, nil
	}
	if err != nil {
		return Offer{}, false, err
	}
	err = s.lawyers.SetState(ctx, tx, o.LawyerID, []lawyer.State{lawyer.Offered}, lawyer.Off(lawyer.MissedOffer))
	if errors.Is(err, lawyer.ErrState) { // signed off or lost meanwhile: he is not waiting for work
		err = nil
	}
	return o, err == nil, err
}

// Revoke takes back the open offers of consultations that need no lawyer any more, and returns them; their lawyers are
// AVAILABLE again, where they were in the queue. The caller holds the consultations' row locks.
func (s *Service) Revoke(ctx context.Context, tx postgres.Tx, consultationIDs ...string) (revoked []Offer, err error) {
	open, err := openOfConsultations(ctx, tx, consultationIDs)
	for _, o := range open {
		if _, err := s.lawyers.Lock(ctx, tx, o.LawyerID); err != nil {
			return nil, err
		}
		if _, err := s.close(ctx, tx, closing{offerID: o.ID, to: Revoked}); err != nil {
			if errors.Is(err, ErrOfferGone) {
				continue
			}
			return nil, err
		}
		if err := s.lawyers.Release(ctx, tx, o.LawyerID, true); err != nil && !errors.Is(err, lawyer.ErrState) {
			return nil, err
		}
		revoked = append(revoked, o)
	}
	return revoked, err
}

// TakeBack takes the open offer of a lawyer back, if there is one; he keeps his state. The caller holds his lock, which
// whoever else ends the offer takes, too; the consultation's would come before it.
func (s *Service) TakeBack(ctx context.Context, tx postgres.Tx, lawyerID string) (o Offer, open bool, err error) {
	if o, open, err = openOfLawyer(ctx, tx, lawyerID); err != nil || !open {
		return Offer{}, false, err
	}
	o, err = s.close(ctx, tx, closing{offerID: o.ID, to: Revoked})
	return o, err == nil, err
}

// Story tells to whom a consultation was offered, why, and what came of it, in that order: for operators, who may know.
func (s *Service) Story(ctx context.Context, tx postgres.Tx, consultationID string) ([]Chapter, error) {
	return story(ctx, tx, consultationID)
}

// IdlePairs keeps of pairs those for which a lawyer of the crew is AVAILABLE with fresh presence.
func (s *Service) IdlePairs(ctx context.Context, tx postgres.Tx, c Crew, pairs ...Pair) ([]Pair, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	statement, crew := ofCrew(c, idlePairsSQL, idleOwnPairsSQL)
	return pairsOf(ctx, tx, statement, pairs, crew...)
}

// Coverage tells how well a pair is served now by a crew. It costs one statement at most.
func (s *Service) Coverage(ctx context.Context, tx postgres.Tx, p Pair, c Crew, w Waits) (Coverage, error) {
	there, err := s.supply(ctx, tx, served{p, c})
	if err != nil {
		return Coverage{}, err
	}
	return coverage(there.online, there.idle, w), nil
}

const (
	manyOnline = 100         // lawyers, whom to count takes longer than the rest of a request
	countHolds = time.Second // for so many: one more or less says nothing to a client then
)

// served is whom a crew serves.
type served struct {
	Pair
	Crew
}

// supply is who was there at an instant.
type supply struct {
	online, idle int
	at           time.Time
}

// supply counts who is there, and many of them once a second in a process. Few are always counted, so whoever has just
// come or gone is seen.
func (s *Service) supply(ctx context.Context, tx postgres.Tx, of served) (supply, error) {
	if last, ok := s.counted.Load(of); ok && tx.Now.Sub(last.(supply).at).Abs() < countHolds {
		return last.(supply), nil
	}
	online, idle, err := presence(ctx, tx, of.Pair, of.Crew)
	now := supply{online, idle, tx.Now}
	if err == nil && online >= manyOnline {
		s.counted.Store(of, now)
	}
	return now, err
}

// gone turns the lawyer's faults into the one that the holder of an offer can understand.
func gone(err error) error {
	if errors.Is(err, lawyer.ErrNotFound) || errors.Is(err, lawyer.ErrState) {
		return ErrOfferGone
	}
	return err
}
