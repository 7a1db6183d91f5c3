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

// Service searches for lawyers and manages offers. Safe for concurrent use.
type Service struct {
	lawyers *lawyer.Service
	ended   *prometheus.CounterVec
	counted sync.Map // cached supply of pairs with many lawyers, by [served]
}

// New creates the service.
func New(lawyers *lawyer.Service) *Service {
	return &Service{lawyers: lawyers,
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_offers_total",
			Help: "Offers that ended, by how, since this process began."}, []string{"outcome"})}
}

// Ended returns the metric that counts ended offers.
func (s *Service) Ended() prometheus.Collector { return s.ended }

// close ends an offer and counts it. If it leaves the first slot, another open offer of its consultation moves up.
// After an acceptance, no other open offer is left.
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

// maxQuarantine limits how many lawyers with contradictory records one search skips.
const maxQuarantine = 16

// Offer searches for a lawyer for w and makes an offer to the first, or to the first [AtOnce] if the search is widened.
// It returns no offer if no lawyer is eligible, or if the consultation or its client already has an open offer. The
// caller must hold the consultation's row lock.
func (s *Service) Offer(ctx context.Context, tx postgres.Tx, w Work) ([]Offer, error) {
	return s.search(ctx, tx, w, chosen{})
}

// OfferTo offers w to one lawyer if they are eligible and can take it. The caller must hold the locks of the
// consultation and the lawyer.
func (s *Service) OfferTo(ctx context.Context, tx postgres.Tx, w Work, lawyerID string) (found bool, err error) {
	offers, err := s.search(ctx, tx, w, chosen{lawyerID: lawyerID})
	return len(offers) > 0, err
}

// OfferByHand is [Service.OfferTo] for an operator. The offer is open for [ByHandTime] and may follow soon after the
// lawyer missed the same consultation. A lawyer who refused it does not get it again.
func (s *Service) OfferByHand(ctx context.Context, tx postgres.Tx, w Work, lawyerID string) (found bool, err error) {
	offers, err := s.search(ctx, tx, w, chosen{lawyerID: lawyerID, byHand: true})
	return len(offers) > 0, err
}

// chosen is the lawyer that a search is for; zero for the first eligible one.
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
		} else if !busy { // the obstacle is gone by now
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

// quarantine makes a lawyer whose records disagree AWAY, and their open offer overdue, so that the next sweep offers
// its consultation to others. A lawyer who does not wait for work keeps their state. The caller must hold the lawyer's
// lock.
func (s *Service) quarantine(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	err := s.lawyers.SetState(ctx, tx, lawyerID, []lawyer.State{lawyer.Available, lawyer.Offered},
		lawyer.Off(lawyer.RecordsDisagree))
	if err != nil && !errors.Is(err, lawyer.ErrState) {
		return fmt.Errorf("quarantine lawyer: %w", err)
	}
	return makeOverdue(ctx, tx, lawyerID)
}

// Quarantine ends an open offer and quarantines its lawyer, because the records about them reject the acceptance. It
// returns [ErrOfferGone] if the offer is no longer open. The caller must hold the locks of the consultation and the
// lawyer.
func (s *Service) Quarantine(ctx context.Context, tx postgres.Tx, lawyerID, offerID string) error {
	if _, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Expired}); err != nil {
		return err
	}
	return s.quarantine(ctx, tx, lawyerID)
}

// Fail ends an open offer that could not be accepted for a reason outside the lawyer. The lawyer becomes AVAILABLE at
// their old place in the queue, and is not offered the same consultation for [RepeatAfter]. It returns [ErrOfferGone]
// if the offer is no longer open. The caller must hold the locks of the consultation and the lawyer.
func (s *Service) Fail(ctx context.Context, tx postgres.Tx, lawyerID, offerID string) error {
	if _, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Expired}); err != nil {
		return err
	}
	return s.lawyers.Release(ctx, tx, lawyerID, true)
}

// Get returns an offer, or [ErrOfferGone] if there is none. Use it before [Service.Accept] to find the consultation to
// lock.
func (s *Service) Get(ctx context.Context, tx postgres.Tx, offerID string) (Offer, error) {
	return get(ctx, tx, offerID)
}

// OpenFor returns the open offer of a lawyer, if any.
func (s *Service) OpenFor(ctx context.Context, tx postgres.Tx, lawyerID string) (Offer, bool, error) {
	return openOfLawyer(ctx, tx, lawyerID)
}

// Accept accepts an open offer whose time is not over. The lawyer becomes BUSY, and the consultation's other open
// offers are revoked as by [Service.Revoke] and returned. The caller must hold the consultation's row lock and move the
// consultation in the same transaction.
//
// It returns [ErrOfferGone] in every other case. If the offer is open but the lawyer is not in OFFERED, the error also
// wraps [lawyer.ErrState]; the caller must then quarantine the lawyer.
func (s *Service) Accept(ctx context.Context, tx postgres.Tx, lawyerID, offerID string) (revoked []Offer, err error) {
	if _, err := s.lawyers.Lock(ctx, tx, lawyerID); err != nil {
		return nil, asOfferGone(err)
	}
	o, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Accepted, unexpired: true})
	if err != nil {
		return nil, err
	}
	err = s.lawyers.SetState(ctx, tx, lawyerID, []lawyer.State{lawyer.Offered}, lawyer.On(lawyer.Busy))
	if errors.Is(err, lawyer.ErrState) {
		return nil, fmt.Errorf("%w: %w", ErrOfferGone, err)
	}
	if err == nil && o.Why == ThreeAtOnce {
		revoked, err = s.Revoke(ctx, tx, o.ConsultationID)
	}
	return revoked, err
}

// Decline declines an open offer. The lawyer becomes AVAILABLE, at the back of the queue unless reason is
// [ReasonConflict]. It returns [ErrOfferGone] if the offer is no longer open. The caller must hold the consultation's
// row lock.
func (s *Service) Decline(ctx context.Context, tx postgres.Tx, lawyerID, offerID, reason string) (Offer, error) {
	if _, err := s.lawyers.Lock(ctx, tx, lawyerID); err != nil {
		return Offer{}, asOfferGone(err)
	}
	o, err := s.close(ctx, tx, closing{offerID: offerID, lawyerID: lawyerID, to: Declined, unexpired: true,
		reason: reason})
	if err != nil {
		return Offer{}, err
	}
	return o, asOfferGone(s.lawyers.Release(ctx, tx, lawyerID, reason == ReasonConflict))
}

// Withdrawn records that a lawyer withdrew from an accepted consultation, so that they are not offered it again.
func (s *Service) Withdrawn(ctx context.Context, tx postgres.Tx, consultationID, lawyerID, reason string) error {
	if reason == "" {
		reason = "withdrawn"
	}
	return withdrawn(ctx, tx, consultationID, lawyerID, reason)
}

// Returned records when an accepted consultation left its lawyer without a call: [RepeatAfter] counts from then.
func (s *Service) Returned(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) error {
	return returned(ctx, tx, consultationID, lawyerID)
}

// Expired lists open offers whose time is over, earliest expiry first, without locking them. It starts after the offer
// after, which is the last of the previous page, or zero.
func (s *Service) Expired(ctx context.Context, tx postgres.Tx, after Offer, limit int) ([]Offer, error) {
	return overdue(ctx, tx, after, limit)
}

// Expire ends an offer whose time is over. The lawyer becomes AWAY, so that the next offer is not wasted on someone
// absent. It returns false if the offer was ended first or its time is not over. The caller must hold the
// consultation's row lock.
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
	if errors.Is(err, lawyer.ErrState) { // signed off or lost since then, so they do not wait for work
		err = nil
	}
	return o, err == nil, err
}

// Revoke revokes the open offers of consultations that no longer need a lawyer, and returns them. Their lawyers become
// AVAILABLE at their old place in the queue. The caller must hold the consultations' row locks.
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

// TakeBack revokes the open offer of a lawyer, if any; the lawyer keeps their state. The caller must hold the lawyer's
// lock, which everyone who ends an offer takes. It cannot take the consultation's lock, which would have to come before
// the lawyer's.
func (s *Service) TakeBack(ctx context.Context, tx postgres.Tx, lawyerID string) (o Offer, open bool, err error) {
	if o, open, err = openOfLawyer(ctx, tx, lawyerID); err != nil || !open {
		return Offer{}, false, err
	}
	o, err = s.close(ctx, tx, closing{offerID: o.ID, to: Revoked})
	return o, err == nil, err
}

// Story returns, in order, to whom a consultation was offered, why, and the answer. It is for operators only.
func (s *Service) Story(ctx context.Context, tx postgres.Tx, consultationID string) ([]Chapter, error) {
	return story(ctx, tx, consultationID)
}

// IdlePairs returns the pairs for which a lawyer of the crew is AVAILABLE with fresh presence.
func (s *Service) IdlePairs(ctx context.Context, tx postgres.Tx, c Crew, pairs ...Pair) ([]Pair, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	statement, crew := ofCrew(c, idlePairsSQL, idleOwnPairsSQL)
	return pairsOf(ctx, tx, statement, pairs, crew...)
}

// Coverage returns how well a crew serves a pair now. It costs at most one statement.
func (s *Service) Coverage(ctx context.Context, tx postgres.Tx, p Pair, c Crew, w Waits) (Coverage, error) {
	there, err := s.supply(ctx, tx, served{p, c})
	if err != nil {
		return Coverage{}, err
	}
	return coverage(there.online, there.idle, w), nil
}

const (
	manyOnline = 100         // lawyers; counting more takes longer than the rest of a request
	countHolds = time.Second // for so many, one more or less does not matter to a client
)

// served identifies a pair as served by a crew.
type served struct {
	Pair
	Crew
}

// supply is who was online at a time.
type supply struct {
	online, idle int
	at           time.Time
}

// supply counts the lawyers online. A count of many is cached for a second per process. Few are counted each time, so
// that a lawyer who comes or goes is seen.
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

// asOfferGone turns errors about the lawyer into [ErrOfferGone].
func asOfferGone(err error) error {
	if errors.Is(err, lawyer.ErrNotFound) || errors.Is(err, lawyer.ErrState) {
		return ErrOfferGone
	}
	return err
}
