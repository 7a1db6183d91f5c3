package operator

import (
	"context"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// SetLawyerDuty replaces the times when a lawyer may be woken; see [lawyer.Service.SetDuty].
func (s *Service) SetLawyerDuty(ctx context.Context, by Act, lawyerID string, d lawyer.Duty) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Lawyers.SetDuty(ctx, tx, lawyerID, d); err != nil {
			return err
		}
		if err := s.tellLawyer(ctx, tx, lawyerID, "duty"); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.duty", lawyerID, map[string]any{"timeZone": d.TimeZone, "hours": len(d.Hours),
			"onCall": d.OnCall})
	})
}

// LawyerDuty returns the times when a lawyer may be woken, or [lawyer.ErrNotFound].
func (s *Service) LawyerDuty(ctx context.Context, lawyerID string) (lawyer.Duty, error) {
	return s.Lawyers.Duty(ctx, s.DB.Read(), lawyerID)
}

// CheckLawyer records that someone has verified a lawyer's bar registration; see [lawyer.Service.SetRegistration].
func (s *Service) CheckLawyer(ctx context.Context, by Act, lawyerID string, r lawyer.Registration) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Lawyers.SetRegistration(ctx, tx, lawyerID, r); err != nil {
			return err
		}
		if err := s.tellLawyer(ctx, tx, lawyerID, "checked",
			r.CheckedUntil.AddDate(0, 0, -1).Format(time.DateOnly)); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.check", lawyerID, map[string]any{"bar": r.Bar, "number": r.Number,
			"until": r.CheckedUntil.Format(time.DateOnly)})
	})
}

// SendHome takes a lawyer off duty; they can go on duty again. Their open offer is withdrawn, and a new search for its
// client starts. A consultation assigned to them returns to the queue at the next sweep. The lawyer finishes a call and
// its note, and goes off duty after that.
//
// It returns [lawyer.ErrNotFound], or [lawyer.ErrSuspended] for a suspended lawyer.
func (s *Service) SendHome(ctx context.Context, by Act, lawyerID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		before, err := s.Lawyers.Lock(ctx, tx, lawyerID)
		if err != nil {
			return err
		}
		if before.Suspended {
			return lawyer.ErrSuspended
		}
		after, err := s.Consultations.SuspendLawyer(ctx, tx, lawyerID, lawyer.SentHome)
		if err != nil {
			return err
		}
		if err := s.Lawyers.Resume(ctx, tx, lawyerID); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.send_home", lawyerID, map[string]any{"before": before.State,
			"state": after.State, "offerTakenBack": after.Offered, "finishes": after.Finishes})
	})
}
