package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// FourEyes is the most that one person alone can move at the desk within [FourEyesWindow]. It is also the most that all
// people acting alone can together move for one client.
//
// It is half the price of a consultation: enough to compensate for a dropped line. Someone who could refund whole
// prices alone could refund all of them.
const FourEyes = consultation.Price / 2

// FourEyesWindow is the period over which amounts are added up.
const FourEyesWindow = 24 * time.Hour

// ProposalLifetime is how long a proposal waits for the second person: over a long weekend.
const ProposalLifetime = 96 * time.Hour

// Kind is what a proposal moves.
type Kind string

// The kinds.
const (
	// of a completed consultation (X15), or of one closed without a note (X12)
	Refund     Kind = "REFUND"
	Adjustment Kind = "ADJUSTMENT" // of a client's wallet
)

// ProposalState is the state of a proposal.
type ProposalState string

// The states. All except OPEN are final.
const (
	Open      ProposalState = "OPEN"
	Confirmed ProposalState = "CONFIRMED"
	Refused   ProposalState = "REFUSED"
	RanOut    ProposalState = "EXPIRED"
)

// Errors of proposals, worded for operators.
var (
	ErrProposed   = errors.New("another proposal for the same subject is open")
	ErrNoProposal = errors.New("the proposal does not exist")
	ErrDecided    = errors.New("the proposal has already been decided or has expired")
	ErrOwn        = errors.New("another person must confirm the proposal")
	ErrErased     = errors.New("the client's account has been erased, so no money can be moved")
)

// Proposal is money that one person wants to move and another has to confirm.
type Proposal struct {
	ID        string
	Kind      Kind
	Subject   string // ID of the consultation or the client
	Amount    money.Cents
	By        string // ID of the operator who proposes
	Reason    string
	Close     consultation.Reason // why the consultation is to be closed without a note; empty for a refund
	CreatedAt time.Time
	ExpiresAt time.Time
	State     ProposalState
	DecidedBy string // empty while the proposal is open, and if it expired
	DecidedAt *time.Time
}

// Waits reports whether another person can still decide the proposal. An expired one stays OPEN until the next
// proposal.
func (p Proposal) Waits(now time.Time) bool { return p.State == Open && now.Before(p.ExpiresAt) }

// EndedEarly reports whether the proposal ended because its proposer lost the role, was disabled or was invited again.
func (p Proposal) EndedEarly() bool {
	return p.State == RanOut && p.ExpiresAt.Before(p.CreatedAt.Add(ProposalLifetime))
}

// EndedAt returns when the proposal was decided or expired, or nil while it waits.
func (p Proposal) EndedAt(now time.Time) *time.Time {
	if p.DecidedAt != nil || p.Waits(now) {
		return p.DecidedAt
	}
	return &p.ExpiresAt
}

// Waiting returns the proposal in list that a second person can decide. It returns false if there is none.
func Waiting(list []Proposal, now time.Time) (Proposal, bool) {
	for _, p := range list {
		if p.Waits(now) {
			return p, true
		}
	}
	return Proposal{}, false
}

// GiveBack is [Service.RefundConsultation] at the desk. It refunds immediately within the limits for one person.
// Otherwise it creates a proposal for another person and returns it, with an ID. It can also return [ErrProposed] and
// [ErrErased].
func (s *Service) GiveBack(ctx context.Context, by Act, consultationID string,
	amount money.Cents,
) (p Proposal, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, cents, err := s.refundable(ctx, tx, consultationID, amount)
		if err != nil {
			return err
		}
		p, err = s.doOrPropose(ctx, tx, &by, c.ClientID, Proposal{Kind: Refund, Subject: consultationID, Amount: cents})
		if err != nil {
			return err
		}
		if p.ID != "" {
			return by.Record(ctx, tx, "consultation.propose_refund", consultationID,
				map[string]any{"amountCents": cents, "proposal": p.ID})
		}
		return by.Record(ctx, tx, "consultation.refund", consultationID, map[string]any{"amountCents": cents,
			"proposed": amount == 0})
	})
	return p, err
}

// Close is [Service.CloseConsultation] at the desk, done or proposed as in [Service.GiveBack]. The reserved price
// counts as money given.
func (s *Service) Close(ctx context.Context, by Act, consultationID string,
	why consultation.Reason,
) (p Proposal, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.Consultations.Peek(ctx, tx, consultationID)
		if err != nil {
			return err
		}
		if err := s.lock(ctx, tx, by, c.ClientID); err != nil { // before the consultation
			return err
		}
		if _, err := s.Consultations.Closable(ctx, tx, consultationID, why); err != nil {
			return err
		}
		p, err = s.doOrPropose(ctx, tx, &by, c.ClientID, Proposal{Kind: Refund, Subject: consultationID,
			Amount: c.Price, Close: why})
		if err != nil {
			return err
		}
		if p.ID != "" {
			return by.Record(ctx, tx, "consultation.propose_close", consultationID,
				map[string]any{"why": why, "proposal": p.ID})
		}
		return by.Record(ctx, tx, "consultation.close", consultationID, map[string]any{"why": why})
	})
	return p, err
}

var ruleMost = problem.DeclareRule("amount.most", problem.IssueInvalidValue,
	"%s is more than %s, the maximum here.")

func moreThan(amount, most money.Cents) problem.Issue {
	return ruleMost.At("amount", money.Worded{Cents: amount}, money.Worded{Cents: most})
}

// refundable returns the amount to refund, for a consultation that allows it.
func (s *Service) refundable(ctx context.Context, tx postgres.Tx, consultationID string,
	amount money.Cents) (c consultation.Consultation, cents money.Cents, err error) {
	if c, err = s.Consultations.Peek(ctx, tx, consultationID); err != nil {
		return c, 0, err
	}
	if cents = amount; cents == 0 {
		if cents, err = s.Consultations.ProposeRefund(ctx, tx, consultationID); err != nil {
			return c, 0, err
		}
		if cents <= 0 {
			return c, 0, ErrNoAmount
		}
	}
	if c.Status != consultation.Completed || c.RefundedAt != nil || cents < 1 {
		return c, 0, consultation.ErrNotRefundable
	}
	if cents > c.Price {
		return c, 0, problem.Refuse(consultation.ErrNotRefundable, moreThan(cents, c.Price))
	}
	return c, cents, nil
}

// Adjust is [Service.AdjustWallet] at the desk, done or proposed as in [Service.GiveBack], in either direction.
func (s *Service) Adjust(ctx context.Context, by Act, clientID string, amount money.Cents) (p Proposal, err error) {
	switch {
	case amount == 0:
		return p, ErrNoAmount
	case amount > wallet.MaxAdjustment || amount < -wallet.MaxAdjustment:
		return p, problem.Refuse(wallet.ErrTooMuch, moreThan(max(amount, -amount), wallet.MaxAdjustment))
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if p, err = s.doOrPropose(ctx, tx, &by, clientID, Proposal{Kind: Adjustment,
			Subject: clientID, Amount: amount}); err != nil {
			return err
		}
		if p.ID != "" {
			return by.Record(ctx, tx, "wallet.propose_adjust", clientID,
				map[string]any{"amountCents": amount, "proposal": p.ID})
		}
		return by.Record(ctx, tx, "wallet.adjust", clientID, map[string]any{"amountCents": amount})
	})
	return p, err
}

// doOrPropose carries out p within the limits for one person. Otherwise it proposes p; the result then has an ID.
func (s *Service) doOrPropose(ctx context.Context, tx postgres.Tx, by *Act, clientID string,
	p Proposal,
) (Proposal, error) {
	if err := s.lock(ctx, tx, *by, clientID); err != nil {
		return Proposal{}, err
	}
	alone, err := s.alone(ctx, tx, by, clientID, max(p.Amount, -p.Amount))
	if err != nil {
		return Proposal{}, err
	}
	if alone {
		return Proposal{}, s.do(ctx, tx, p)
	}
	return s.propose(ctx, tx, *by, p)
}

// lock locks the actor and then the client, so that the amounts of each are added up one at a time.
func (s *Service) lock(ctx context.Context, tx postgres.Tx, by Act, clientID string) error {
	if _, err := s.Staff.Lock(ctx, tx, by.Actor); err != nil {
		return err
	}
	return s.lockClient(ctx, tx, clientID)
}

// lockClient locks the client whose money moves. A concurrent erasure is either seen here, or comes later and sees the
// money. It returns NOT_FOUND or [ErrErased].
func (s *Service) lockClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	c, err := s.Accounts.Lock(ctx, tx, clientID)
	switch {
	case errors.Is(err, problem.ErrNotFound):
		return fmt.Errorf("client %q does not exist: %w", clientID, err)
	case err == nil && c.Erased:
		return ErrErased
	}
	return err
}

// alone counts an amount for the person and the client, both locked. If either sum would exceed [FourEyes], it counts
// nothing and returns false.
func (s *Service) alone(ctx context.Context, tx postgres.Tx, by *Act, clientID string,
	cents money.Cents,
) (bool, error) {
	since := tx.Now.Add(-FourEyesWindow)
	rows, err := amountsSince(ctx, tx, since, by.Actor, clientID)
	if err != nil {
		return false, err
	}
	ofPerson, ofClient := cents, cents
	for _, r := range rows {
		if r.OperatorID == by.Actor {
			ofPerson += r.AmountCents
		}
		if r.ClientID == clientID {
			ofClient += r.AmountCents
		}
	}
	if ofPerson > FourEyes || ofClient > FourEyes {
		return false, nil
	}
	by.Entry = cmp.Or(by.Entry, tx.NewID(id.Audit))
	return true, insertAmount(ctx, tx, amountRow{by.Entry, by.Actor, clientID, cents, tx.Now}, since)
}

// do moves the money of a locked client.
func (s *Service) do(ctx context.Context, tx postgres.Tx, p Proposal) (err error) {
	switch {
	case p.Kind == Adjustment:
		if err = s.Wallet.Adjust(ctx, tx, p.Subject, p.Amount, wallet.OperatorCorrection); err == nil {
			err = s.tellAdjusted(ctx, tx, p.Subject, p.Amount)
		}
	case p.Close != "":
		_, err = s.Consultations.Close(ctx, tx, p.Subject, p.Close)
	default:
		_, err = s.Consultations.Refund(ctx, tx, p.Subject, p.Amount)
	}
	return err
}

// clientOf returns the client whose money a proposal moves.
func (s *Service) clientOf(ctx context.Context, tx postgres.Tx, p Proposal) (string, error) {
	if p.Kind == Adjustment {
		return p.Subject, nil
	}
	c, err := s.Consultations.Peek(ctx, tx, p.Subject)
	return c.ClientID, err
}

// OpenFor reports whether an open proposal moves money of a client, who may then still be owed money.
func (s *Service) OpenFor(ctx context.Context, tx postgres.Tx, clientID string) (bool, error) {
	open, err := openProposals(ctx, tx)
	if err != nil {
		return false, err
	}
	for _, p := range open {
		if of, err := s.clientOf(ctx, tx, p); err != nil || of == clientID {
			return err == nil, err
		}
	}
	return false, nil
}

// propose stores a proposal. It refuses an adjustment that could not be carried out, because it would block other
// proposals. The available amount is checked again on confirmation.
func (s *Service) propose(ctx context.Context, tx postgres.Tx, by Act, p Proposal) (Proposal, error) {
	if p.Kind == Adjustment {
		if err := s.checkCovered(ctx, tx, p.Subject, p.Amount); err != nil {
			return p, err
		}
	}
	p.ID, p.By, p.Reason, p.State = tx.NewID(id.Proposal), by.Actor, by.Reason, Open
	p.CreatedAt, p.ExpiresAt = tx.Now, tx.Now.Add(ProposalLifetime)
	if err := endOverdue(ctx, tx, p.Kind, p.Subject); err != nil {
		return p, err
	}
	return p, insertProposal(ctx, tx, p)
}

// Confirm carries out what another person proposed. If several decisions run concurrently, only one succeeds. It
// returns [ErrNoProposal], [ErrDecided], [ErrOwn] or [ErrErased]. If the proposed action fails, it returns that error
// and the proposal stays open.
func (s *Service) Confirm(ctx context.Context, by Act, proposalID string) (p Proposal, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if p, err = s.Proposal(ctx, tx, proposalID); err != nil {
			return err
		}
		clientID, err := s.clientOf(ctx, tx, p)
		if err != nil {
			return err
		}
		if err := s.lockClient(ctx, tx, clientID); err != nil { // before the proposal, in the same order as proposing
			return err
		}
		if p, err = s.decide(ctx, tx, by, proposalID, Confirmed); err != nil {
			return err
		}
		if err := s.do(ctx, tx, p); err != nil {
			return err
		}
		return by.Record(ctx, tx, "proposal.confirm", p.Subject, decided(p))
	})
	return p, err
}

// Refuse ends a proposal. Its proposer may do so as well. It returns [ErrNoProposal] or [ErrDecided].
func (s *Service) Refuse(ctx context.Context, by Act, proposalID string) (p Proposal, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if p, err = s.decide(ctx, tx, by, proposalID, Refused); err != nil {
			return err
		}
		return by.Record(ctx, tx, "proposal.refuse", p.Subject, decided(p))
	})
	return p, err
}

func decided(p Proposal) map[string]any {
	return map[string]any{"proposal": p.ID, "kind": p.Kind, "amountCents": p.Amount, "by": p.By, "why": p.Reason}
}

// decide ends an open proposal, locked, so that concurrent decisions wait.
func (s *Service) decide(ctx context.Context, tx postgres.Tx, by Act, proposalID string,
	to ProposalState,
) (Proposal, error) {
	p, err := lockProposal(ctx, tx, proposalID)
	if err != nil {
		return p, err
	}
	if !p.Waits(tx.Now) {
		return p, ErrDecided
	}
	if to == Confirmed && by.Actor == p.By {
		return p, ErrOwn
	}
	p.State, p.DecidedBy, p.DecidedAt = to, by.Actor, &tx.Now
	return p, endProposal(ctx, tx, p)
}

// Proposals lists the open proposals that have not expired, oldest first.
func (s *Service) Proposals(ctx context.Context, tx postgres.Tx) ([]Proposal, error) {
	return openProposals(ctx, tx)
}

// ProposalsOf lists the open proposals of a person. They end when the person is disabled or invited again.
func (s *Service) ProposalsOf(ctx context.Context, tx postgres.Tx, staffID string) ([]Proposal, error) {
	open, err := openProposals(ctx, tx)
	return slices.DeleteFunc(open, func(p Proposal) bool { return p.By != staffID }), err
}

// ProposalsFor lists all proposals for a consultation or a client, oldest first.
func (s *Service) ProposalsFor(ctx context.Context, tx postgres.Tx, subject string) ([]Proposal, error) {
	return proposalsFor(ctx, tx, subject)
}

// Proposal returns a proposal, or [ErrNoProposal].
func (s *Service) Proposal(ctx context.Context, tx postgres.Tx, proposalID string) (Proposal, error) {
	return proposalByID(ctx, tx, proposalID)
}
