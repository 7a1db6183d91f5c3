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

// Reasons for declining an offer.
const (
	DeclineConflict   = matching.ReasonConflict
	DeclineNotMyField = string(consultation.NotMyField)
	DeclineBusy       = "busy"
)

func leaseOf(session staff.Session) lawyer.Lease {
	lawyerID, epoch := session.Lease()
	return lawyer.Lease{LawyerID: lawyerID, Epoch: epoch}
}

// GoOnDuty makes a session the lawyer's current connection and searches for work for them. It returns the updated
// session. Problem: NOT_NOW if the lawyer is suspended or has no phone number.
func (s *Service) GoOnDuty(ctx context.Context, session staff.Session) (staff.Session, error) {
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		lease, err := s.deps.Consultations.SignOn(ctx, tx, session.Person.LawyerID)
		if err != nil {
			return err
		}
		session.LeaseEpoch = lease.Epoch
		return s.deps.Staff.KeepLease(ctx, tx, session.ID, lease.Epoch)
	})
	return session, asProblem(err)
}

// Pause pauses the lawyer, immediately or after the work in hand. Problems: CONNECTED_ELSEWHERE, NOT_NOW.
func (s *Service) Pause(ctx context.Context, session staff.Session) error {
	return asProblem(s.deps.DB.InTx(ctx,
		func(tx postgres.Tx) error { return s.deps.Lawyers.Pause(ctx, tx, leaseOf(session)) }))
}

// GoOffDuty ends the lawyer's connection and returns the updated session. Problems: CONNECTED_ELSEWHERE, or NOT_NOW
// while the lawyer has an offer, an assigned consultation or a call.
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
	return session, asProblem(err)
}

// Beat renews the lawyer's presence. Problem: CONNECTED_ELSEWHERE.
func (s *Service) Beat(ctx context.Context, session staff.Session) error {
	return asProblem(s.deps.Lawyers.Beat(ctx, s.deps.DB.Read(), leaseOf(session)))
}

// Accept accepts an offer. Problems: CONNECTED_ELSEWHERE, OFFER_GONE.
func (s *Service) Accept(ctx context.Context, session staff.Session, offerID string) error {
	return asProblem(s.deps.Consultations.AcceptOffer(ctx, leaseOf(session), offerID))
}

// Decline declines an offer, for one of the reasons above. Problems: CONNECTED_ELSEWHERE, OFFER_GONE.
func (s *Service) Decline(ctx context.Context, session staff.Session, offerID, reason string) error {
	switch reason {
	case DeclineConflict, DeclineNotMyField, DeclineBusy:
		return asProblem(s.deps.Consultations.DeclineOffer(ctx, leaseOf(session), offerID, reason))
	default:
		return asProblem(consultation.ErrReason)
	}
}

// Callbacks lists the callbacks that the lawyer can claim.
func (s *Service) Callbacks(ctx context.Context, tx postgres.Tx,
	session staff.Session,
) ([]consultation.Callback, error) {
	return s.deps.Consultations.Callbacks(ctx, tx, session.Person.LawyerID)
}

// Claim makes an offer of a callback to the lawyer. Problems: CONNECTED_ELSEWHERE, OFFER_GONE.
func (s *Service) Claim(ctx context.Context, session staff.Session, consultationID string) error {
	return asProblem(s.deps.Consultations.Claim(ctx, leaseOf(session), consultationID))
}

// StartCall calls the lawyer, and then the client. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW, LINE_BUSY,
// PHONE_LOST.
func (s *Service) StartCall(ctx context.Context, session staff.Session, consultationID string) error {
	return asProblem(s.deps.Consultations.StartCall(ctx, leaseOf(session), consultationID))
}

// RestartCall tries immediately to restore the line. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) RestartCall(ctx context.Context, session staff.Session, consultationID string) error {
	return asProblem(s.deps.Consultations.RestartCall(ctx, leaseOf(session), consultationID))
}

// EndCall ends the call. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) EndCall(ctx context.Context, session staff.Session, consultationID string) error {
	return asProblem(s.deps.Consultations.EndCall(ctx, leaseOf(session), consultationID))
}

// ChooseRedial sets whether the lawyer waits for the next attempt after one that the client did not answer. Otherwise
// the lawyer returns the consultation at no cost. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) ChooseRedial(ctx context.Context, session staff.Session, consultationID string, wait bool) error {
	return asProblem(s.deps.Consultations.ChooseRedial(ctx, leaseOf(session), consultationID, wait))
}

// Withdraw returns an assigned consultation. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) Withdraw(ctx context.Context, session staff.Session, consultationID, reason string) error {
	return asProblem(s.deps.Consultations.Withdraw(ctx, leaseOf(session), consultationID, consultation.Reason(reason)))
}

// Useless closes a consultation whose call was of no use. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) Useless(ctx context.Context, session staff.Session, consultationID, reason string) error {
	return asProblem(s.deps.Consultations.NoUsefulCall(ctx, leaseOf(session), consultationID,
		consultation.Reason(reason)))
}

// Draft returns the saved draft of a note that is to be written. Problem: NOT_FOUND.
func (s *Service) Draft(ctx context.Context, tx postgres.Tx, session staff.Session,
	consultationID string,
) (note.Draft, error) {
	d, err := s.deps.Consultations.Draft(ctx, tx, session.Person.LawyerID, consultationID)
	return d, asProblem(err)
}

// SaveDraft saves a draft of a note over a version of the draft. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW,
// DRAFT_CHANGED, VALIDATION_ERROR.
func (s *Service) SaveDraft(ctx context.Context, session staff.Session, consultationID string, d note.Draft,
	version string,
) error {
	return asProblem(s.deps.Consultations.SaveDraft(ctx, leaseOf(session), consultationID, d, version))
}

// DropDraft deletes the draft of a note. Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW.
func (s *Service) DropDraft(ctx context.Context, session staff.Session, consultationID string) error {
	return asProblem(s.deps.Consultations.DropDraft(ctx, leaseOf(session), consultationID))
}

// TakesNote reports whether the lawyer may send or correct the note of a consultation. Problem: NOT_FOUND.
func (s *Service) TakesNote(ctx context.Context, tx postgres.Tx, session staff.Session, consultationID string) error {
	return asProblem(s.deps.Consultations.TakesNote(ctx, tx, session.Person.LawyerID, consultationID))
}

// SubmitNote sends the note and its preview, which the partner can read, or corrects them. confirmed says that the
// lawyer checked the preview for secrets (H38). version is that of the draft that the texts were written over.
// Problems: CONNECTED_ELSEWHERE, NOT_FOUND, NOT_NOW, DRAFT_CHANGED, VALIDATION_ERROR.
func (s *Service) SubmitNote(ctx context.Context, session staff.Session, consultationID string, d note.Draft,
	version string, confirmed bool,
) error {
	if !confirmed {
		return ErrConfirm
	}
	return asProblem(s.deps.Consultations.SubmitNoteOver(ctx, leaseOf(session), consultationID, d.Note, d.Preview,
		version))
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

// History lists the lawyer's consultations that have ended, like [consultation.Service.History].
func (s *Service) History(ctx context.Context, tx postgres.Tx, session staff.Session, before consultation.Position,
	limit int,
) (items []consultation.Served, more bool, err error) {
	return s.deps.Consultations.History(ctx, tx, session.Person.LawyerID, before, limit)
}

// Earnings returns the lawyer's earnings by month.
func (s *Service) Earnings(ctx context.Context, tx postgres.Tx, session staff.Session) ([]consultation.Earned, error) {
	return s.deps.Consultations.Earnings(ctx, tx, session.Person.LawyerID)
}
