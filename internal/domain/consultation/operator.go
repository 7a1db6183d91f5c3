package consultation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// Actions of operators. None of them bypasses the state table. In the same transaction, the caller records in the audit
// log who did it and why.

// Errors of operators' actions.
var (
	ErrNotClosable   = errors.New("only a consultation whose call has ended without a note can be closed")
	ErrNotRefundable = errors.New("only a completed consultation can be refunded, once, with 1 cent up to its price")
	ErrNotAssignable = errors.New("only a consultation that searches a lawyer can be offered by hand, to one client " +
		"one at a time, and a callback in the hours of the client's day")
	ErrLawyerUnable = errors.New("the lawyer cannot be offered it: not signed on and available, not of the pair, " +
		"or has refused it")
	ErrNotWithdrawn = errors.New("the client has not declared a withdrawal from this consultation")

	ErrNotCorrectable = errors.New("only the note of a completed consultation whose texts are kept can be corrected")
)

// Close ends a consultation whose call is over, and releases the money (X12). The reason is WrongPerson,
// TechnicalFault, TooShort (for a call of less than a minute), NoteMissing, or WithdrawnFrom (after the client's
// declaration). It returns [problem.ErrNotFound], [ErrNotClosable], [ErrReason] or [ErrNotWithdrawn].
func (s *Service) Close(ctx context.Context, tx postgres.Tx, consultationID string,
	reason Reason,
) (Consultation, error) {
	c, err := s.Closable(ctx, tx, consultationID, reason)
	if err != nil {
		return c, err
	}
	err = s.uselessCall(ctx, tx, &c, reason)
	return c, err
}

// Closable locks a consultation that [Service.Close] would close for the reason now, and returns the errors of Close.
func (s *Service) Closable(ctx context.Context, tx postgres.Tx, consultationID string,
	reason Reason,
) (Consultation, error) {
	c, err := s.lockForOperator(ctx, tx, consultationID)
	if err != nil {
		return c, err
	}
	if c.Status != CallEnded {
		return c, fmt.Errorf("%w: it is %s", ErrNotClosable, c.Status)
	}
	if reason == WithdrawnFrom {
		if _, found, err := findWithdrawal(ctx, tx, c.ID); err != nil || !found {
			return c, errors.Join(err, ErrNotWithdrawn)
		}
	}
	closed := c
	if closed.EndReason = reason; !uselessCall(closed, tx.Now) {
		return c, ErrReason
	}
	return c, nil
}

// Refund refunds all or part of a completed consultation's price to the client, once (X15): amount cents, from 1 to the
// price. It also settles a withdrawal that was declared during the call and whose note arrived. It returns
// [problem.ErrNotFound] or [ErrNotRefundable].
func (s *Service) Refund(ctx context.Context, tx postgres.Tx, consultationID string,
	amount money.Cents,
) (Consultation, error) {
	c, err := s.lockForOperator(ctx, tx, consultationID)
	if err != nil {
		return c, err
	}
	if c.RefundedAt == nil {
		c.Refunded = amount
	}
	if err := s.apply(ctx, tx, &c, onRefund); errors.Is(err, ErrForbidden) {
		return c, fmt.Errorf("%w: it is %s", ErrNotRefundable, c.Status)
	} else if err != nil {
		return c, err
	}
	return c, nil
}

// CancelForOperator cancels a consultation whose call has not started (X13). A cancelled consultation is returned
// unchanged. It returns [problem.ErrNotFound] or [ErrNotCancellable].
func (s *Service) CancelForOperator(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	c, err := s.lockForOperator(ctx, tx, consultationID)
	if err != nil || c.Status == Cancelled {
		return c, err
	}
	err = s.cancelLocked(ctx, tx, &c, CancelledByUs)
	return c, err
}

// AssignByHand offers a waiting consultation only to the lawyer whom an operator chose; open offers are revoked. The
// lawyer must be AVAILABLE and has [matching.ByHandTime] to accept. It is an offer because only the lawyer can check
// for a conflict of interest. A lawyer away from the desk could neither read the question nor write the note, so
// operators should call them first.
//
// It returns [problem.ErrNotFound], [lawyer.ErrNotFound], [ErrNotAssignable] or [ErrLawyerUnable]. After any of these
// errors tx must be rolled back.
func (s *Service) AssignByHand(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) error {
	c, err := s.lockForOperator(ctx, tx, consultationID)
	if err != nil {
		return err
	}
	if !storable(lawyerID) {
		return lawyer.ErrNotFound
	}
	if err := s.revoke(ctx, tx, c); err != nil {
		return err
	}
	work, ok, err := lockWaiting(ctx, tx, consultationID)
	if err != nil {
		return err
	}
	if !ok {
		return ErrNotAssignable
	}
	if _, err := s.deps.Lawyers.Lock(ctx, tx, lawyerID); err != nil {
		return err
	}
	found, err := s.deps.Matching.OfferByHand(ctx, tx, s.workOf(tx, work), lawyerID)
	if err == nil && !found {
		err = ErrLawyerUnable
	}
	return err
}

// LawyerChanged starts a search for work for a lawyer once tx has committed, because something relevant to it changed.
func (s *Service) LawyerChanged(tx postgres.Tx, lawyerID string) { s.wakeLawyer(tx, lawyerID) }

// Suspended is the result of a suspension.
type Suspended struct {
	lawyer.Lawyer
	Offered  string // the consultation whose offer was revoked; may be empty
	Finishes bool   // whether a call or a note is left, for which the desk stays connected
}

// SuspendLawyer keeps a lawyer from work. Their open offer is revoked, and a search for its client starts. A
// consultation assigned to them goes back at the next sweep, as from a lost lawyer. A call goes on, and the lawyer
// keeps it with its note ([Service.Finishes]). why is as for [lawyer.Service.Suspend]. Error: [lawyer.ErrNotFound].
func (s *Service) SuspendLawyer(ctx context.Context, tx postgres.Tx, lawyerID string,
	why lawyer.Leaving,
) (l Suspended, err error) {
	if _, err := s.deps.Lawyers.Lock(ctx, tx, lawyerID); err != nil {
		return l, err
	}
	o, open, err := s.deps.Matching.TakeBack(ctx, tx, lawyerID)
	if err != nil {
		return l, err
	}
	if open {
		r, err := peek(ctx, tx, o.ConsultationID)
		if err != nil {
			return l, err
		}
		s.wakeClient(tx, r.ClientID)
	}
	if l.Finishes, err = s.Finishes(ctx, tx, lawyerID); err != nil {
		return l, err
	}
	if err := s.deps.Lawyers.Suspend(ctx, tx, lawyerID, why, l.Finishes); err != nil {
		return l, err
	}
	l.Offered = o.ConsultationID
	l.Lawyer, err = s.deps.Lawyers.Get(ctx, tx, lawyerID)
	return l, err
}

// Finishes reports whether a lawyer has something in hand that no one else can finish: a call that runs or is being set
// up, or a note to write. A consultation that is only assigned goes to others.
func (s *Service) Finishes(ctx context.Context, tx postgres.Tx, lawyerID string) (bool, error) {
	work, err := inHands(ctx, tx, []string{lawyerID})
	return slices.ContainsFunc(work, func(c Consultation) bool { return c.Status != Assigned || c.Dialling() }), err
}

func (s *Service) lockForOperator(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	if !storable(consultationID) {
		return Consultation{}, problem.ErrNotFound
	}
	return lock(ctx, tx, consultationID)
}

// Peek returns a consultation of any client, without what the client wrote. It returns [problem.ErrNotFound].
func (s *Service) Peek(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	if !storable(consultationID) {
		return Consultation{}, problem.ErrNotFound
	}
	r, err := peek(ctx, tx, consultationID)
	return fromRow(r), err
}

// Lock is [Service.Peek] with the consultation locked until the transaction ends.
func (s *Service) Lock(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	return s.lockForOperator(ctx, tx, consultationID)
}

// ProposeRefund returns the default refund for a completed consultation. It is 0 unless the client declared a
// withdrawal while the call went on or the note was written. It returns [problem.ErrNotFound].
func (s *Service) ProposeRefund(ctx context.Context, tx postgres.Tx, consultationID string) (money.Cents, error) {
	c, err := s.Peek(ctx, tx, consultationID)
	if err != nil {
		return 0, err
	}
	w, declared, err := s.Withdrawn(ctx, tx, consultationID)
	if err != nil || !declared {
		return 0, err
	}
	return WithdrawalRefund(c, w), nil
}

// Filter selects consultations of all clients. Empty fields select all.
type Filter struct {
	Status        Status
	ApplicationID string
	ClientID      string
	ExternalRef   string        // exact match with what the partner gave
	Age           time.Duration // minimum time since the start
	After         string        // ID of the last item seen
}

// Find lists at most limit consultations, newest first, without what clients wrote; more reports whether others follow.
func (s *Service) Find(ctx context.Context, tx postgres.Tx, f Filter,
	limit int,
) (items []Consultation, more bool, err error) {
	for _, v := range []string{string(f.Status), f.ApplicationID, f.ClientID, f.ExternalRef, f.After} {
		if !storable(v) {
			return nil, false, nil
		}
	}
	if items, err = find(ctx, tx, f, limit+1); err != nil || len(items) <= limit {
		return items, false, err
	}
	return items[:limit], true, nil
}

// Promised lists the consultations whose client waits for a promised call, earliest due first. They are
// PENDING_CALLBACK, or ASSIGNED after it.
func (s *Service) Promised(ctx context.Context, tx postgres.Tx, limit int) ([]Consultation, error) {
	return promised(ctx, tx, limit)
}

// AskForCorrection emails the lawyer of a completed consultation to ask that they review their note (X16); they may or
// may not correct it. The email contains nothing of the consultation but its ID. It returns [problem.ErrNotFound] or
// [ErrNotCorrectable].
func (s *Service) AskForCorrection(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	c, err := s.Peek(ctx, tx, consultationID)
	if err != nil {
		return c, err
	}
	if c.Status != Completed || c.ErasedAt != nil {
		return c, fmt.Errorf("%w: it is %s", ErrNotCorrectable, c.Status)
	}
	return c, s.mailLawyer(ctx, tx, c, "note.correct", c.ID)
}
