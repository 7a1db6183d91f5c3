package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// AdjustWallet corrects a wallet manually. It returns [ErrErased] or NOT_FOUND.
func (s *Service) AdjustWallet(ctx context.Context, c wallet.Correction) (b wallet.Balance, err error) {
	switch {
	case strings.TrimSpace(c.Reason) == "":
		return b, ErrNoReason
	case c.Amount == 0:
		return b, ErrNoAmount
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.lockClient(ctx, tx, c.ClientID); err != nil {
			return err
		}
		if err := s.checkCovered(ctx, tx, c.ClientID, c.Amount); err != nil {
			return err
		}
		if err := s.Wallet.Correct(ctx, tx, c); err != nil {
			return err
		}
		if err := s.tellAdjusted(ctx, tx, c.ClientID, c.Amount); err != nil {
			return err
		}
		b, err = s.Wallet.Balance(ctx, tx, c.ClientID)
		return err
	})
	return b, err
}

// checkCovered locks the wallet that a negative amount is taken from. It returns [wallet.ErrInsufficientFunds] if less
// is available, or [wallet.ErrTooMuch].
func (s *Service) checkCovered(ctx context.Context, tx postgres.Tx, clientID string, amount money.Cents) error {
	switch {
	case amount >= 0:
		return nil
	case amount < -wallet.MaxAdjustment:
		return wallet.ErrTooMuch
	}
	b, err := s.Wallet.Lock(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if b.Available+amount < 0 {
		return fmt.Errorf("%w: %d cents are available, %d were requested", wallet.ErrInsufficientFunds,
			b.Available, -amount)
	}
	return nil
}

// RefundTopUps refunds unused top-ups to their source.
func (s *Service) RefundTopUps(ctx context.Context, c payment.RefundCommand) (parts []payment.RefundPart, err error) {
	if strings.TrimSpace(c.Reason) == "" {
		return nil, ErrNoReason
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.lockClient(ctx, tx, c.ClientID); err != nil {
			return err
		}
		parts, err = s.Payments.Refund(ctx, tx, c)
		return err
	})
	return parts, err
}

// ReturnMoney refunds all of a client's unused money from top-ups to its source, however old, even if the client is
// disabled. It returns [payment.ErrNothingToRefund] or [audit.ErrRepeated].
func (s *Service) ReturnMoney(ctx context.Context, by Act, clientID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.KnownClient(ctx, tx, clientID); err != nil {
			return err
		}
		parts, err := s.Payments.Refund(ctx, tx, payment.RefundCommand{ClientID: clientID, AnyAge: true,
			Actor: by.Actor, Reason: by.Reason, Entry: by.Entry})
		if err == nil {
			var sum money.Cents
			for _, p := range parts {
				sum += p.Amount
			}
			return s.tellClient(ctx, tx, clientID, "returned", sum)
		}
		if !errors.Is(err, payment.ErrNothingToRefund) {
			return err
		}
		if again := by.Record(ctx, tx, "wallet.refund", clientID, nil); errors.Is(again, audit.ErrRepeated) {
			return again // the same form has already done it
		}
		return err
	})
}
