package consultation

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// The constraints of the schema reject records that disagree. Code that meets such an error isolates what is wrong,
// reports an incident, and goes on, so that no other consultation waits for it.

// Constraints that a move may violate.
const (
	oneConsultationPerLawyer = "consultations_one_per_lawyer"
	oneCallPerClient         = "consultations_one_call_per_client"
)

// recordsDisagree reports whether an acceptance failed because records disagree.
func recordsDisagree(err error) bool {
	return errors.Is(err, lawyer.ErrState) || postgres.IsUnique(err, "") || postgres.IsCheck(err, "")
}

// endRejectedOffer ends an offer whose acceptance failed, and the consultation is offered to others immediately. It
// uses its own transaction, because the failed one is rolled back. A lawyer who has another consultation in hand, or is
// not OFFERED, is quarantined. A lawyer who only met a consultation with bad records keeps their place.
func (s *Service) endRejectedOffer(ctx context.Context, lease lawyer.Lease, offerID string, refusal error) error {
	err := s.onOffer(ctx, lease, offerID, func(tx postgres.Tx, c Consultation) error {
		end, kind := s.deps.Matching.Fail, offerFailed
		if errors.Is(refusal, lawyer.ErrState) || postgres.IsUnique(refusal, oneConsultationPerLawyer) {
			end, kind = s.deps.Matching.Quarantine, lawyerQuarantined
		}
		if err := end(ctx, tx, lease.LawyerID, offerID); err != nil {
			return err
		}
		s.incident(tx, kind, c.ID, lease.LawyerID)
		s.wakeSearch(tx, c.ID)
		return nil
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", matching.ErrOfferGone, refusal)
}

// freeLine ends a call on the client's line that belongs to no assignment, and reports whether there was one.
func (s *Service) freeLine(ctx context.Context, tx postgres.Tx, c Consultation) (bool, error) {
	callID, found, err := leftoverCall(ctx, tx, c)
	if err != nil || !found {
		return false, err
	}
	if err := s.deps.Telephony.Hangup(ctx, tx, callID, "consultation_over"); err != nil {
		return false, err
	}
	s.incident(tx, strayCall, c.ID, c.LawyerID)
	return true, nil
}

// endOtherCall ends the call of another consultation that is recorded as in call with call's client. A client can be on
// only one call, and is on this one.
func (s *Service) endOtherCall(ctx context.Context, call telephony.Call) error {
	id, err := inCallOf(ctx, s.deps.DB.Read(), call.ClientID)
	if err != nil {
		return err
	}
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := lock(ctx, tx, id)
		if err != nil || c.Status != InCall {
			return err
		}
		s.incident(tx, callNotKnown, c.ID, c.LawyerID)
		return s.cutCall(ctx, tx, &c, "line_lost")
	})
}
