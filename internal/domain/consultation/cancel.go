package consultation

import (
	"context"
	"errors"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// Cancel cancels a consultation whose call has not started, and releases the money (X13). A cancelled consultation is
// returned unchanged (T21). Problems: NOT_FOUND, NOT_CANCELLABLE.
func (s *Service) Cancel(ctx context.Context, tx postgres.Tx,
	applicationID, clientID, consultationID string,
) (Consultation, error) {
	if applicationID == "" {
		return Consultation{}, problem.ErrNotFound
	}
	return s.cancel(ctx, tx, applicationID, clientID, consultationID, CancelledByPartner)
}

// CancelForClient is [Service.Cancel] for the client's own page, whichever application started the consultation.
func (s *Service) CancelForClient(ctx context.Context, tx postgres.Tx,
	clientID, consultationID string,
) (Consultation, error) {
	return s.cancel(ctx, tx, "", clientID, consultationID, CancelledByClient)
}

func (s *Service) cancel(ctx context.Context, tx postgres.Tx, applicationID, clientID, consultationID string,
	why Reason,
) (Consultation, error) {
	if !storable(consultationID) {
		return Consultation{}, problem.ErrNotFound
	}
	r, err := lockOwned(ctx, tx, applicationID, clientID, consultationID)
	if err != nil {
		return Consultation{}, err
	}
	c, err := s.open(r)
	if err != nil || c.Status == Cancelled {
		return c, err
	}
	if err := s.cancelLocked(ctx, tx, &c, why); err != nil {
		return Consultation{}, err
	}
	return c, nil
}

func (s *Service) cancelLocked(ctx context.Context, tx postgres.Tx, c *Consultation, why Reason) error {
	if !c.Status.Cancellable() {
		return ErrNotCancellable
	}
	if err := s.endAssignment(ctx, tx, *c, toWork); err != nil {
		return err
	}
	c.EndReason = why
	return s.apply(ctx, tx, c, onCancel)
}

// endAssignment ends everything under way for a consultation that is taken from its lawyer: the open offer, the call
// being set up, the assignment. The lawyer moves to to.
func (s *Service) endAssignment(ctx context.Context, tx postgres.Tx, c Consultation, to lawyer.Move) error {
	if c.Status != Assigned {
		return s.revoke(ctx, tx, c)
	}
	call, active, err := s.deps.Telephony.Active(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if active {
		if err := s.deps.Telephony.Hangup(ctx, tx, call.ID, "consultation_over"); err != nil {
			return err
		}
	}
	return s.freeLawyer(ctx, tx, c, lawyer.Busy, to)
}

// revoke revokes the open offers of consultations; their lawyers and clients are free for other work.
func (s *Service) revoke(ctx context.Context, tx postgres.Tx, list ...Consultation) error {
	ids, clients := make([]string, len(list)), map[string]string{}
	for i, c := range list {
		ids[i], clients[c.ID] = c.ID, c.ClientID
	}
	offers, err := s.deps.Matching.Revoke(ctx, tx, ids...)
	for _, o := range offers {
		s.wakeLawyer(tx, o.LawyerID)
		s.wakeClient(tx, clients[o.ConsultationID])
	}
	return err
}

// toWork moves a lawyer back to work.
var toWork = lawyer.On(lawyer.Available)

// freeLawyer moves the lawyer of c on. A lawyer in an unexpected state (moved by an operator or at their desk) stays
// there, because that must not make the client's transition fail.
func (s *Service) freeLawyer(ctx context.Context, tx postgres.Tx, c Consultation, from lawyer.State,
	to lawyer.Move,
) error {
	err := s.deps.Lawyers.SetState(ctx, tx, c.LawyerID, []lawyer.State{from}, to)
	if errors.Is(err, lawyer.ErrState) {
		tx.AfterCommit(func() {
			s.log.Warn("lawyer is not where the consultation expects", "consultation", c.ID, "lawyer", c.LawyerID,
				"expected", from)
		})
		return nil
	}
	if err == nil && to.ToQueue() {
		s.wakeLawyer(tx, c.LawyerID)
	}
	return err
}
