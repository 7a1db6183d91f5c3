package operator

import (
	"context"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/infra/postgres"
)

// CancelConsultation cancels a consultation whose call has not started, and releases the money (X13). It returns
// NOT_FOUND or NOT_CANCELLABLE.
func (s *Service) CancelConsultation(ctx context.Context, by Act,
	consultationID string,
) (c consultation.Consultation, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if c, err = s.Consultations.CancelForOperator(ctx, tx, consultationID); err != nil {
			return err
		}
		return by.Record(ctx, tx, "consultation.cancel", consultationID, nil)
	})
	return c, err
}

// CloseConsultation closes a consultation whose call ended without a note, and releases the money (X12). See
// [consultation.Service.Close].
func (s *Service) CloseConsultation(ctx context.Context, by Act, consultationID string,
	why consultation.Reason,
) (c consultation.Consultation, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if c, err = s.Consultations.Close(ctx, tx, consultationID, why); err != nil {
			return err
		}
		return by.Record(ctx, tx, "consultation.close", consultationID, map[string]any{"why": why})
	})
	return c, err
}

// AssignByHand offers a waiting consultation to the lawyer chosen by an operator. See
// [consultation.Service.AssignByHand].
func (s *Service) AssignByHand(ctx context.Context, by Act, consultationID, lawyerID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Consultations.AssignByHand(ctx, tx, consultationID, lawyerID); err != nil {
			return err
		}
		return by.Record(ctx, tx, "consultation.assign", consultationID, map[string]any{"lawyer": lawyerID})
	})
}

// RefundConsultation refunds a completed consultation, once, in full or in part (X15). If amount is 0, it refunds the
// amount due after a withdrawal that was declared during the call ([consultation.WithdrawalRefund]).
//
// It returns [ErrNoAmount] if no withdrawal was declared, [ErrErased] or NOT_FOUND; see [consultation.Service.Refund].
func (s *Service) RefundConsultation(ctx context.Context, by Act, consultationID string,
	amount money.Cents,
) (c consultation.Consultation, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		cents := amount
		if cents == 0 {
			if cents, err = s.Consultations.ProposeRefund(ctx, tx, consultationID); err != nil {
				return err
			}
		}
		if cents <= 0 {
			return ErrNoAmount
		}
		before, err := s.Consultations.Peek(ctx, tx, consultationID)
		if err != nil {
			return err
		}
		if err := s.lockClient(ctx, tx, before.ClientID); err != nil {
			return err
		}
		if c, err = s.Consultations.Refund(ctx, tx, consultationID, cents); err != nil {
			return err
		}
		return by.Record(ctx, tx, "consultation.refund", consultationID, map[string]any{"amountCents": cents,
			"proposed": amount == 0})
	})
	return c, err
}

// AskForCorrection emails the lawyer a request to review the note; see [consultation.Service.AskForCorrection].
func (s *Service) AskForCorrection(ctx context.Context, by Act, consultationID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.Consultations.AskForCorrection(ctx, tx, consultationID)
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "consultation.ask_correction", consultationID, map[string]any{"lawyer": c.LawyerID})
	})
}
