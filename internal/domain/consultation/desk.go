package consultation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/infra/postgres"
)

// AcceptOffer assigns a consultation to the lawyer it was offered to (X3, X5). The time decides, not the timer. An
// acceptance within the search time counts (29:59 wins). A later acceptance finds the consultation waiting for a
// callback, and at night the offer is gone. Errors: [matching.ErrOfferGone], [lawyer.ErrLeaseLost].
func (s *Service) AcceptOffer(ctx context.Context, lease lawyer.Lease, offerID string) error {
	var late error
	err := s.onOffer(ctx, lease, offerID, func(tx postgres.Tx, c Consultation) error {
		late = nil
		if c.Status == Matching && searchElapsed(c, tx.Now) {
			if err := s.endSearch(ctx, tx, &c); err != nil {
				return err
			}
			if !callable(c, tx.Now) {
				late = matching.ErrOfferGone
				return nil
			}
		}
		revoked, err := s.deps.Matching.Accept(ctx, tx, lease.LawyerID, offerID)
		if err != nil {
			return err
		}
		for _, o := range revoked {
			s.wakeLawyer(tx, o.LawyerID)
		}
		c.LawyerID = lease.LawyerID
		err = s.apply(ctx, tx, &c, onAccept)
		if errors.Is(err, ErrForbidden) {
			return matching.ErrOfferGone
		}
		return err
	})
	if recordsDisagree(err) {
		return s.endRejectedOffer(ctx, lease, offerID, err)
	}
	return errors.Join(err, late)
}

// DeclineOffer declines an offer; the consultation is offered to others. Errors: [matching.ErrOfferGone],
// [lawyer.ErrLeaseLost].
func (s *Service) DeclineOffer(ctx context.Context, lease lawyer.Lease, offerID, reason string) error {
	return s.onOffer(ctx, lease, offerID, func(tx postgres.Tx, c Consultation) error {
		if _, err := s.deps.Matching.Decline(ctx, tx, lease.LawyerID, offerID, reason); err != nil {
			return err
		}
		s.wakeClient(tx, c.ClientID)
		s.wakeLawyer(tx, lease.LawyerID)
		return nil
	})
}

// onOffer runs f with locks on the offer's consultation and the lawyer, if the lawyer holds the lease.
func (s *Service) onOffer(ctx context.Context, lease lawyer.Lease, offerID string,
	f func(tx postgres.Tx, c Consultation) error,
) error {
	if !storable(offerID) {
		return matching.ErrOfferGone
	}
	o, err := s.deps.Matching.Get(ctx, s.deps.DB.Read(), offerID)
	if err != nil {
		return err
	}
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := lock(ctx, tx, o.ConsultationID)
		if err != nil {
			return err
		}
		if err := s.deps.Lawyers.Hold(ctx, tx, lease); err != nil {
			return err
		}
		return f(tx, c)
	})
}

// Withdraw returns an assigned consultation to the search before the call has started (X7, X8), for the reason
// ConflictOfInterest, NotMyField or Unavailable. It is not offered to this lawyer again. Errors: [ErrNotYours],
// [ErrReason], [ErrForbidden], [lawyer.ErrLeaseLost].
func (s *Service) Withdraw(ctx context.Context, lease lawyer.Lease, consultationID string, reason Reason) error {
	switch reason {
	case ConflictOfInterest, NotMyField, Unavailable:
	default:
		return ErrReason
	}
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, Assigned)
		if err != nil {
			return err
		}
		if err := s.deps.Matching.Withdrawn(ctx, tx, c.ID, c.LawyerID, string(reason)); err != nil {
			return err
		}
		return s.unassign(ctx, tx, &c, toWork)
	})
}

// unassign takes an assigned consultation from its lawyer, moves the lawyer to to, and searches again (X7, X8).
func (s *Service) unassign(ctx context.Context, tx postgres.Tx, c *Consultation, to lawyer.Move) error {
	if err := s.deps.Matching.Returned(ctx, tx, c.ID, c.LawyerID); err != nil {
		return err
	}
	if err := s.endAssignment(ctx, tx, *c, to); err != nil {
		return err
	}
	lost := lawyerLost(*c, tx.Now)
	if lost == onLawyerLostLate {
		if err := s.setHours(ctx, tx, c); err != nil {
			return err
		}
	}
	return s.apply(ctx, tx, c, lost)
}

// NoUsefulCall closes a consultation whose call was of no use, and releases the money (X12). The reason is WrongPerson,
// TechnicalFault or, for a call of less than a minute, TooShort. Errors: [ErrNotYours], [ErrReason], [ErrForbidden],
// [lawyer.ErrLeaseLost].
func (s *Service) NoUsefulCall(ctx context.Context, lease lawyer.Lease, consultationID string, reason Reason) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, CallEnded)
		if err != nil {
			return err
		}
		if reason == NoteMissing || reason == WithdrawnFrom { // reserved for operators
			return ErrReason
		}
		return s.uselessCall(ctx, tx, &c, reason)
	})
}

// SubmitNote stores the lawyer's note with its preview and completes the consultation (X11), or corrects them
// afterwards (X16). Submitting the same texts again changes nothing. It returns [ErrForbidden] for a note later than
// [NoteLimit] after the call, and [lawyer.ErrSuspended] for a correction by a suspended lawyer. Other errors:
// [note.ErrInvalid], [ErrNotYours], [ErrForbidden], [lawyer.ErrLeaseLost].
func (s *Service) SubmitNote(ctx context.Context, lease lawyer.Lease, consultationID, text, preview string) error {
	return s.SubmitNoteOver(ctx, lease, consultationID, text, preview, note.AnyVersion)
}

// SubmitNoteOver is [Service.SubmitNote] for a note that was written over a version of its draft, as in
// [note.Service.Submit]. It also returns [note.ErrDraftChanged].
func (s *Service) SubmitNoteOver(ctx context.Context, lease lawyer.Lease,
	consultationID, text, preview, version string,
) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, CallEnded, Completed)
		if err != nil {
			return err
		}
		if c.Status == Completed { // a suspended lawyer may finish, but not correct
			l, err := s.deps.Lawyers.Get(ctx, tx, c.LawyerID)
			if err == nil && l.Suspended {
				err = lawyer.ErrSuspended
			}
			if err != nil {
				return err
			}
		}
		_, err = s.deps.Notes.Submit(ctx, tx, c.ID, c.LawyerID, text, preview, version)
		if errors.Is(err, note.ErrSame) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Status == CallEnded {
			if err := s.endWrapUp(ctx, tx, c, toWork); err != nil {
				return err
			}
		}
		return s.apply(ctx, tx, &c, onSubmitNote)
	})
}

// lockOf locks a consultation and its lawyer. The lawyer must hold the lease and have the consultation in hand, in one
// of the given statuses.
func (s *Service) lockOf(ctx context.Context, tx postgres.Tx, lease lawyer.Lease, consultationID string,
	in ...Status,
) (Consultation, error) {
	if !storable(consultationID) {
		return Consultation{}, ErrNotYours
	}
	c, err := lock(ctx, tx, consultationID)
	if errors.Is(err, problem.ErrNotFound) {
		return Consultation{}, ErrNotYours
	}
	if err != nil {
		return Consultation{}, err
	}
	if err := s.deps.Lawyers.Hold(ctx, tx, lease); err != nil {
		return Consultation{}, err
	}
	if c.LawyerID != lease.LawyerID {
		return Consultation{}, ErrNotYours
	}
	if !slices.Contains(in, c.Status) {
		return Consultation{}, fmt.Errorf("%w: it is %s", ErrForbidden, c.Status)
	}
	return c, nil
}
