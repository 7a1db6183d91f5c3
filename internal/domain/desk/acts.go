package desk

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// Reasons for which an offer is declined.
const (
	DeclineConflict   = matching.ReasonConflict
	DeclineNotMyField = string(consultation.NotMyField)
	DeclineBusy       = "busy"
)

func leaseOf(session staff.Session) lawyer.Lease {
	lawyerID, epoch := session.Lease()
	return lawyer.Lease{LawyerID: lawyerID, Epoch: epoch}
}

// GoOnDuty makes a session the lawyer's present connection, and has work sought for him; it returns the session as it
// is then.
// Problem: NOT_NOW for one who is suspended or has no phone number.
func (s *Service) GoOnDuty(ctx context.Context, session staff.Session) (staff.Session, error) {
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		lease, err := s.deps.Consultations.SignOn(ctx, tx, session.Person.LawyerID)
		if err != nil {
			return err
		}
		session.LeaseEpoch = lease.Epoch
		return s.deps.Staff.KeepLease(ctx, tx, session.ID, lease.Epoch)
	})
	return session, fault(err)
}

// Pause lets the lawyer pause, at once or when what he has in hand is over. Problems: CONNECTED_ELSEWHERE, NOT_NOW.
func (s *Service) Pause(ctx context.Context, session staff.Session) error {
	return fault(s.deps.DB.InTx(ctx,
		func(tx postgres.Tx) error { return s.deps.Lawyers.Pause(ctx, tx, leaseOf(session)) }))
}

// GoOffDuty ends the lawyer's connection; it returns the session as it is then. Problems: CONNECTED_ELSEWHERE, NOT_NOW
// while he has an offer, an assigned consultation or a call.
func (s *Service) GoOffDuty(ctx context.Context, session staff.Session) (staff.Session, error) {
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.deps.Lawyers.GoOffline(ctx, tx, leaseOf(session)); err != nil {
			return err
		}
		return s.deps.Staff.KeepLease(ctx, tx, session.ID, 0)
	})
	if err == nil {
		session.LeaseEpoch = 0
	}
	return session, fault(err)
}

// Beat renews the lawyer's presence. Problem: CONNECTED_ELSEWHERE.
func (s *Service) Beat(ctx context.Context, session staff.Session) error {
	return fault(s.deps.Lawyers.Beat(ctx, s.deps.DB.Read(), leaseOf(session)))
}

// Accept accepts an offer. Problems: CONNECTED_ELSEWHERE, OFFER_GONE.
func (s *Service) Accept(ctx context.Context, session staff.Session, offerID string) error {
	return fault(s.deps.Consultations.AcceptOffer(ctx, leaseOf(session), offerID))
}

// Decline refuses an offer, for one of the reasons above. Problems: CONNECTED_ELSEWHERE, OFFER_GONE.
func (s *Service) Decline(ctx context.Context, session staff.Session, offerID, reason string) error {
	switch reason {
	case DeclineConflict, DeclineNotMyField, DeclineBusy:
		return fault(s.deps.Consultations.DeclineOffer(ctx, leaseOf(session), offerID, reason))
	default:
		return fault(consultation.ErrReason)
	}
}

// Callbacks lists what the lawyer could claim.
func (s *Service) Callbacks(ctx context.Context, tx postgres.Tx,
	session staff.Session,
) ([]consultation.Callback, error) {
	return s.deps.Consultations.Callbacks(ctx, tx, session.Person.LawyerID)
}

// Claim has a callback offered to the lawyer. Problems: CONNECTED_ELSEWHERE, OFFER_GONE.
func (s *Service) Claim(ctx context.Context, session staff.Session, consultationID string) error {
	return fault(s.deps.Consultations.Claim(ctx, leaseOf(session), consultationID))
}

// StartCall has the lawyer's phone ring, and then the client's. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW,
// LINE_BUSY, PHONE_LOST.
func (s *Service) StartCall(ctx context.Context, session staff.Session, consultationID string) error {
	return fault(s.deps.Consultations.StartCall(ctx, leaseOf(session), consultationID))
}

// RestartCall tries at once to restore the line. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) RestartCall(ctx context.Context, session staff.Session, consultationID string) error {
	return fault(s.deps.Consultations.RestartCall(ctx, leaseOf(session), consultationID))
}

// EndCall ends the call. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) EndCall(ctx context.Context, session staff.Session, consultationID string) error {
	return fault(s.deps.Consultations.EndCall(ctx, leaseOf(session), consultationID))
}

// ChooseRedial says whether the lawyer waits for the next attempt after one that the client did not answer; otherwise
// he gives the consultation back at no cost. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) ChooseRedial(ctx context.Context, session staff.Session, consultationID string, wait bool) error {
	return fault(s.deps.Consultations.ChooseRedial(ctx, leaseOf(session), consultationID, wait))
}

// Withdraw gives an assigned consultation back. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) Withdraw(ctx context.Context, session staff.Session, consultationID, reason string) error {
	return fault(s.deps.Consultations.Withdraw(ctx, leaseOf(session), consultationID, consultation.Reason(reason)))
}

// Useless closes a consultation whose call was of no use. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) Useless(ctx context.Context, session staff.Session, consultationID, reason string) error {
	return fault(s.deps.Consultations.NoUsefulCall(ctx, leaseOf(session), consultationID, consultation.Reason(reason)))
}

// Draft returns what was saved of a note that is to be written. Problem: NOT_FOUND.
func (s *Service) Draft(ctx context.Context, tx postgres.Tx, session staff.Session,
	consultationID string,
) (note.Draft, error) {
	d, err := s.deps.Consultations.Draft(ctx, tx, session.Person.LawyerID, consultationID)
	return d, fault(err)
}

// SaveDraft keeps what is written of a note so far, over a version of the draft. Problems: CONNECTED_ELSEWHERE,
// NOT_FOUND, NOT_NOW, DRAFT_CHANGED, VALIDATION_ERROR.
func (s *Service) SaveDraft(ctx context.Context, session staff.Session, consultationID string, d note.Draft,
	version string,
) error {
	return fault(s.deps.Consultations.SaveDraft(ctx, leaseOf(session), consultationID, d, version))
}

// DropDraft deletes it. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) DropDraft(ctx context.Context, session staff.Session, consultationID string) error {
	return fault(s.deps.Consultations.DropDraft(ctx, leaseOf(session), consultationID))
}

// TakesNote reports whether the lawyer may send or correct the note of a consultation. Problem: NOT_FOUND.
func (s *Service) TakesNote(ctx context.Context, tx postgres.Tx, session staff.Session, consultationID string) error {
	return fault(s.deps.Consultations.TakesNote(ctx, tx, session.Person.LawyerID, consultationID))
}

// SubmitNote sends the note with the preview that leaves the house, or corrects them; confirmed says that the lawyer
// has looked at the preview for what is secret (H38), and version is that of the draft it was written over. Problems:
// CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW, DRAFT_CHANGED, VALIDATION_ERROR.
func (s *Service) SubmitNote(ctx context.Context, session staff.Session, consultationID string, d note.Draft,
	version string, confirmed bool,
) error {
	if !confirmed {
		return ErrConfirm
	}
	return fault(s.deps.Consultations.SubmitNoteOver(ctx, leaseOf(session), consultationID, d.Note, d.Preview, version))
}

// Zone returns the time zone in which the lawyer works.
func (s *Service) Zone(ctx context.Context, tx postgres.Tx, session staff.Session) (*time.Location, error) {
	d, err := s.deps.Lawyers.Duty(ctx, tx, session.Person.LawyerID)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(d.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("load the lawyer's time zone: %w", err)
	}
	return zone, nil
}

// History lists the lawyer's consultations that have ended, as [consultation.Service.History].
func (s *Service) History(ctx context.Context, tx postgres.Tx, session staff.Session, before consultation.Position,
	limit int,
) (items []consultation.Served, more bool, err error) {
	return s.deps.Consultations.History(ctx, tx, session.Person.LawyerID, before, limit)
}

// Earnings sums what the lawyer earned, by months.
func (s *Service) Earnings(ctx context.Context, tx postgres.Tx, session staff.Session) ([]consultation.Earned, error) {
	return s.deps.Consultations.Earnings(ctx, tx, session.Person.LawyerID)
}
