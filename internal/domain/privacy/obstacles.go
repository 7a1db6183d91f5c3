package privacy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
)

// Kind is a reason why a client cannot be erased.
type Kind string

// The kinds. For each one the pages show how to resolve it: see outs in package web.
const (
	TakeBack          Kind = "takeback"  // an earlier email address can take the account back
	OpenConsultations Kind = "open"      // consultations have not ended
	MoneyLeft         Kind = "money"     // there is money in the wallet
	TopUpOpen         Kind = "topup"     // a top-up may still be paid, or its money is on its way
	MoneyReturning    Kind = "returning" // money is on its way back to its source
	MoneyProposed     Kind = "proposed"  // an operator's proposal to give or take money is undecided
)

// Kinds lists all kinds in the order in which they are reported.
var Kinds = []Kind{TakeBack, OpenConsultations, MoneyLeft, TopUpOpen, MoneyReturning, MoneyProposed}

// descriptions describes each kind in English, for operators.
var descriptions = map[Kind]string{
	TakeBack: "an earlier e-mail address can take the account back", OpenConsultations: "consultations are open",
	MoneyLeft: "money is left in the wallet", TopUpOpen: "a top-up is under way",
	MoneyReturning: "money is on its way back to its source",
	MoneyProposed:  "a proposal about money is open",
}

// Obstacle is one reason why a client cannot be erased now.
type Obstacle struct {
	Kind       Kind
	Until      time.Time   // TakeBack: when it ends by itself
	Amount     money.Cents // MoneyLeft and MoneyReturning: the amount
	Returnable money.Cents // MoneyLeft: the part from top-ups that can be refunded to its source
}

// Refused is the error for a client who cannot be erased now. It lists every obstacle.
type Refused []Obstacle

// Error implements error, in English.
func (r Refused) Error() string {
	all := make([]string, len(r))
	for i, o := range r {
		all[i] = descriptions[o.Kind]
		if !o.Until.IsZero() {
			all[i] += " until " + clock.Format(o.Until)
		}
	}
	return strings.Join(all, "; ")
}

// Has reports whether an obstacle of kind k is in the list.
func (r Refused) Has(k Kind) bool {
	for _, o := range r {
		if o.Kind == k {
			return true
		}
	}
	return false
}

// Obstacles returns everything that blocks erasing the client now, in the order of [Kinds].
func (s *Service) Obstacles(ctx context.Context, tx postgres.Tx, clientID string) (all Refused, err error) {
	for _, look := range []func(context.Context, postgres.Tx, string) (Refused, error){
		s.takeBack, s.ofConsultationsAndMoney, s.ofPayments, s.ofProposals,
	} {
		some, err := look(ctx, tx, clientID)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (s *Service) takeBack(ctx context.Context, tx postgres.Tx, clientID string) (Refused, error) {
	err := s.deps.Accounts.TakeBackOpen(ctx, tx, clientID)
	var open account.TakeBackError
	if errors.As(err, &open) {
		return Refused{{Kind: TakeBack, Until: open.Until}}, nil
	}
	return nil, err
}

// ofConsultationsAndMoney does not report money held by an open consultation, which is released or charged at its end.
func (s *Service) ofConsultationsAndMoney(ctx context.Context, tx postgres.Tx,
	clientID string,
) (all Refused, err error) {
	open, err := s.deps.Consultations.OpenOf(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	if open > 0 {
		all = append(all, Obstacle{Kind: OpenConsultations})
	}
	b, err := s.deps.Wallet.Balance(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	if b.Available == 0 && (open > 0 || b.Balance == 0 && b.Held == 0) {
		return all, nil
	}
	returnable, err := s.deps.Payments.Returnable(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	return append(all, Obstacle{Kind: MoneyLeft, Amount: b.Available, Returnable: returnable}), nil
}

func (s *Service) ofPayments(ctx context.Context, tx postgres.Tx, clientID string) (all Refused, err error) {
	topUps, err := s.deps.Payments.OpenTopUps(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	if len(topUps) > 0 {
		all = append(all, Obstacle{Kind: TopUpOpen})
	}
	refunds, err := s.deps.Payments.Returning(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	var sum money.Cents
	for _, r := range refunds {
		if !r.Failed {
			sum += r.Amount
		}
	}
	if sum > 0 {
		all = append(all, Obstacle{Kind: MoneyReturning, Amount: sum})
	}
	return all, nil
}

func (s *Service) ofProposals(ctx context.Context, tx postgres.Tx, clientID string) (Refused, error) {
	open, err := s.deps.Proposals.OpenFor(ctx, tx, clientID)
	if err != nil || !open {
		return nil, err
	}
	return Refused{{Kind: MoneyProposed}}, nil
}

// refusal returns nil if nothing blocks the erasure.
func (s *Service) refusal(ctx context.Context, tx postgres.Tx, clientID string) error {
	all, err := s.Obstacles(ctx, tx, clientID)
	if err != nil {
		return fmt.Errorf("look for what is in the way of an erasure: %w", err)
	}
	if len(all) > 0 {
		return all
	}
	return nil
}
