package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"partnerd/internal/payment"
	"partnerd/internal/postgres"
	"partnerd/internal/wallet"
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
		if err := s.holder(ctx, tx, c.ClientID); err != nil {
			return err
		}
		before, err := s.Wallet.Lock(ctx, tx, c.ClientID)
		if err != nil {
			return err
		}
		err = s.Wallet.Correct(ctx, tx, c)
		if errors.Is(err, wallet.ErrInsufficientFunds) {
			return fmt.Errorf("%w: %d cents are available, %d cannot be taken", err, before.Available, -c.Amount)
		}
		if err != nil {
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

// RefundTopUps sends unused top-ups back to their source.
func (s *Service) RefundTopUps(ctx context.Context, c payment.RefundCommand) (parts []payment.RefundPart, err error) {
	if strings.TrimSpace(c.Reason) == "" {
		return nil, ErrNoReason
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.holder(ctx, tx, c.ClientID); err != nil {
			return err
		}
		parts, err = s.Payments.Refund(ctx, tx, c)
		return err
	})
	return parts, err
}
