package operator

import (
	"context"

	"partnerd/internal/lawyer"
	"partnerd/internal/postgres"
)

// SetLawyerDuty replaces when a lawyer may be woken; see [lawyer.Service.SetDuty].
func (s *Service) SetLawyerDuty(ctx context.Context, by Act, lawyerID string, d lawyer.Duty) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Lawyers.SetDuty(ctx, tx, lawyerID, d); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.duty", lawyerID, map[string]any{"timeZone": d.TimeZone, "hours": len(d.Hours), "onCall": d.OnCall})
	})
}

// LawyerDuty returns when a lawyer may be woken, or [lawyer.ErrNotFound].
func (s *Service) LawyerDuty(ctx context.Context, lawyerID string) (lawyer.Duty, error) {
	return s.Lawyers.Duty(ctx, s.DB.Read(), lawyerID)
}
