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

// What operators do. None of it leaves the state table; who did it and why is in the audit that the caller writes in
// the same transaction.

// Faults of what operators ask for.
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

// Close ends a consultation whose call was over, with the money back (X12): WrongPerson, TechnicalFault, TooShort for
// less than a minute, NoteMissing, or WithdrawnFrom after the client's declaration. It returns [problem.ErrNotFound],
// [ErrNotClosable], [ErrReason] or [ErrNotWithdrawn].
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

// Closable locks a consultation that [Service.Close] would close for the reason now, and returns its faults.
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

// Refund gives a completed consultation's money, or part of it, back to the client, once (X15): amount cents, from 1 to
// the price. So a withdrawal that was declared during the call, and whose note came, is settled too. It returns
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

// CancelForOperator cancels a consultation whose call has not started (X13). One that is cancelled already is returned
// as it is. It returns [problem.ErrNotFound] or [ErrNotCancellable].
func (s *Service) CancelForOperator(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	c, err := s.lockForOperator(ctx, tx, consultationID)
	if err != nil || c.Status == Cancelled {
		return c, err
	}
	err = s.cancelLocked(ctx, tx, &c, CancelledByUs)
	return c, err
}

// AssignByHand offers a waiting consultation to the lawyer whom an operator chose, and to nobody else: offers that are
// open are taken back. He must be AVAILABLE and has [matching.ByHandTime] to accept, because he alone can look for a
// conflict of interest, and whoever is not at his desk could neither read the question nor write the note. Call him
// first. It returns [problem.ErrNotFound], [lawyer.ErrNotFound], [ErrNotAssignable] or [ErrLawyerUnable]; after those
// tx must be rolled back.
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

// LawyerChanged has work sought for a lawyer, of whom something has changed that matters for it, once tx has committed.
func (s *Service) LawyerChanged(tx postgres.Tx, lawyerID string) { s.wakeLawyer(tx, lawyerID) }

// Suspended is what a suspension left of a lawyer.
type Suspended struct {
	lawyer.Lawyer
	Offered  string // the consultation whose offer was taken back; may be empty
	Finishes bool   // a call or a note, at the desk that stays connected for it
}

// SuspendLawyer keeps a lawyer from work. Their open offer is taken back, and its client searched for; a consultation
// that is assigned to them goes back at the next sweep, as from a lawyer who is lost. A call goes on, and the lawyer
// keeps it with its note ([Service.Finishes]). why is as for [lawyer.Service.Suspend]. Fault: [lawyer.ErrNotFound].
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

// Finishes tells whether a lawyer has something in hand that nobody else can finish: a call that runs or is being set
// up, or a note that is to be written. What is only assigned goes to others.
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

// Peek returns a consultation whoever it belongs to, without what the client wrote. It returns [problem.ErrNotFound].
func (s *Service) Peek(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	if !storable(consultationID) {
		return Consultation{}, problem.ErrNotFound
	}
	r, err := peek(ctx, tx, consultationID)
	return fromRow(r), err
}

// Lock is [Service.Peek] with the consultation held until the transaction ends.
func (s *Service) Lock(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	return s.lockForOperator(ctx, tx, consultationID)
}

// ProposeRefund works out what goes back for a completed consultation when an operator does not say how much: 0 unless
// the client declared a withdrawal while the call went on or the note was written. It returns [problem.ErrNotFound].
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

// Filter chooses among the consultations of everybody. Empty fields choose all.
type Filter struct {
	Status        Status
	ApplicationID string
	ClientID      string
	ExternalRef   string        // exactly as the partner gave it
	Age           time.Duration // begun at least so long ago
	After         string        // identifier of the last one that was seen
}

// Find lists consultations, the newest first, at most limit of them, without what clients wrote; more tells whether
// others follow.
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

// Promised lists the consultations whose client waits for a call that was promised, the one that is due first at first:
// PENDING_CALLBACK, and ASSIGNED after it.
func (s *Service) Promised(ctx context.Context, tx postgres.Tx, limit int) ([]Consultation, error) {
	return promised(ctx, tx, limit)
}

// AskForCorrection writes to the lawyer of a completed consultation that his note should be looked at again (X16),
// which he does at his desk or not. Nothing of the consultation but its identifier is in the mail. It returns
// [problem.ErrNotFound], or [ErrNotCorrectable].
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
