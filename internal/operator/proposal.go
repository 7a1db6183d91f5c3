package operator

import (
	"context"
	"errors"
	"time"

	"partnerd/internal/consultation"
	"partnerd/internal/id"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
	"partnerd/internal/wallet"
)

// FourEyes is the most that one person alone gives back or adjusts at the desk: half the price of a consultation. A part of it
// settles a dropped line; who could give whole prices away alone could empty the till with friends who complain.
const FourEyes = consultation.Price / 2

// ProposalLifetime is how long a proposal waits for the second person: over a long weekend.
const ProposalLifetime = 96 * time.Hour

// Kind is what a proposal gives.
type Kind string

// The kinds.
const (
	Refund     Kind = "REFUND"     // of a consultation (X15)
	Adjustment Kind = "ADJUSTMENT" // of a client's wallet
)

// ProposalState is how far a proposal is.
type ProposalState string

// The states; all but OPEN are final.
const (
	Open      ProposalState = "OPEN"
	Confirmed ProposalState = "CONFIRMED"
	Refused   ProposalState = "REFUSED"
	RanOut    ProposalState = "EXPIRED"
)

// Faults of proposals, in words for operators.
var (
	ErrProposed   = errors.New("another proposal for it is open")
	ErrNoProposal = errors.New("there is no such proposal")
	ErrDecided    = errors.New("the proposal is decided already, or has run out")
	ErrOwn        = errors.New("the second person must be another one")
)

// Proposal is money that one person wants to move and another has to confirm.
type Proposal struct {
	ID        string
	Kind      Kind
	Subject   string // the consultation or the client
	Amount    money.Cents
	By        string // who proposes: a person who works here
	Reason    string
	CreatedAt time.Time
	ExpiresAt time.Time
	State     ProposalState
	DecidedBy string // empty while it is open, and when it ran out
	DecidedAt *time.Time
}

// GiveBack is [Service.RefundConsultation] at the desk: done at once up to [FourEyes], and above it proposed to another person;
// then the proposal has an identifier. It returns [ErrProposed], too.
func (s *Service) GiveBack(ctx context.Context, by Act, consultationID string, amount money.Cents) (p Proposal, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		cents, err := s.refundable(ctx, tx, consultationID, amount)
		if err != nil {
			return err
		}
		if cents > FourEyes {
			p, err = s.propose(ctx, tx, by, Proposal{Kind: Refund, Subject: consultationID, Amount: cents})
			if err != nil {
				return err
			}
			return by.Record(ctx, tx, "consultation.propose_refund", consultationID, map[string]any{"amountCents": cents, "proposal": p.ID})
		}
		if _, err := s.Consultations.Refund(ctx, tx, consultationID, cents); err != nil {
			return err
		}
		return by.Record(ctx, tx, "consultation.refund", consultationID, map[string]any{"amountCents": cents, "proposed": amount == 0})
	})
	return p, err
}

// refundable is what is to be given back, of a consultation that allows it.
func (s *Service) refundable(ctx context.Context, tx postgres.Tx, consultationID string, amount money.Cents) (cents money.Cents, err error) {
	c, err := s.Consultations.Peek(ctx, tx, consultationID)
	if err != nil {
		return 0, err
	}
	if cents = amount; cents == 0 {
		if cents, err = s.Consultations.ProposeRefund(ctx, tx, consultationID); err != nil {
			return 0, err
		}
		if cents <= 0 {
			return 0, ErrNoAmount
		}
	}
	if c.Status != consultation.Completed || c.RefundedAt != nil || cents < 1 || cents > c.Price {
		return 0, consultation.ErrNotRefundable
	}
	return cents, nil
}

// Adjust is [Service.AdjustWallet] at the desk: done at once up to [FourEyes], whichever way, and above it proposed to another
// person; then the proposal has an identifier. It returns [ErrProposed], too.
func (s *Service) Adjust(ctx context.Context, by Act, clientID string, amount money.Cents) (p Proposal, err error) {
	switch {
	case amount == 0:
		return p, ErrNoAmount
	case amount > wallet.MaxAdjustment || amount < -wallet.MaxAdjustment:
		return p, wallet.ErrTooMuch
	case amount <= FourEyes && amount >= -FourEyes:
		_, err = s.AdjustWallet(ctx, wallet.Correction{ClientID: clientID, Amount: amount, Actor: by.Actor, Reason: by.Reason, Entry: by.Entry})
		return p, err
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.KnownClient(ctx, tx, clientID); err != nil {
			return err
		}
		if p, err = s.propose(ctx, tx, by, Proposal{Kind: Adjustment, Subject: clientID, Amount: amount}); err != nil {
			return err
		}
		return by.Record(ctx, tx, "wallet.propose_adjust", clientID, map[string]any{"amountCents": amount, "proposal": p.ID})
	})
	return p, err
}

func (s *Service) propose(ctx context.Context, tx postgres.Tx, by Act, p Proposal) (Proposal, error) {
	p.ID, p.By, p.Reason, p.State = tx.NewID(id.Proposal), by.Actor, by.Reason, Open
	p.CreatedAt, p.ExpiresAt = tx.Now, tx.Now.Add(ProposalLifetime)
	if err := endOverdue(ctx, tx, p.Kind, p.Subject); err != nil {
		return p, err
	}
	return p, insertProposal(ctx, tx, p)
}

// Confirm does what another person has proposed. Of several who decide at once one does. Faults: [ErrNoProposal],
// [ErrDecided], [ErrOwn], and those of what was proposed, which then stays open.
func (s *Service) Confirm(ctx context.Context, by Act, proposalID string) (p Proposal, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if p, err = s.decide(ctx, tx, by, proposalID, Confirmed); err != nil {
			return err
		}
		switch p.Kind {
		case Refund:
			_, err = s.Consultations.Refund(ctx, tx, p.Subject, p.Amount)
		case Adjustment:
			err = s.Wallet.Adjust(ctx, tx, p.Subject, p.Amount, "Correction")
		}
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "proposal.confirm", p.Subject, decided(p))
	})
	return p, err
}

// Refuse ends a proposal; also the person who made it may. Faults: [ErrNoProposal], [ErrDecided].
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

// decide ends an open proposal before anything else is locked: whoever decides next waits here.
func (s *Service) decide(ctx context.Context, tx postgres.Tx, by Act, proposalID string, to ProposalState) (Proposal, error) {
	p, err := lockProposal(ctx, tx, proposalID)
	if err != nil {
		return p, err
	}
	if p.State != Open || !tx.Now.Before(p.ExpiresAt) {
		return p, ErrDecided
	}
	if to == Confirmed && by.Actor == p.By {
		return p, ErrOwn
	}
	p.State, p.DecidedBy, p.DecidedAt = to, by.Actor, &tx.Now
	return p, endProposal(ctx, tx, p)
}

// Proposals lists the open proposals that have not run out, the oldest first.
func (s *Service) Proposals(ctx context.Context, tx postgres.Tx) ([]Proposal, error) {
	return openProposals(ctx, tx)
}

// ProposalsFor lists the proposals for a consultation or a client, decided or not, the oldest first.
func (s *Service) ProposalsFor(ctx context.Context, tx postgres.Tx, subject string) ([]Proposal, error) {
	return proposalsFor(ctx, tx, subject)
}

// Proposal returns a proposal, or [ErrNoProposal].
func (s *Service) Proposal(ctx context.Context, tx postgres.Tx, proposalID string) (Proposal, error) {
	return proposalByID(ctx, tx, proposalID)
}
