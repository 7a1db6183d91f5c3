package privacy

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/base/text"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

// Deps are the dependencies of a [Service].
type Deps struct {
	Accounts      *account.Service
	SelfService   *account.SelfService
	Access        *access.Log
	OAuth         *oauth.Service
	Wallet        *wallet.Service
	Payments      *payment.Service
	Consultations *consultation.Service
	Idempotency   *idempotency.Service
	Proposals     Proposals
	Mail          *mail.Service
}

// Proposals reports whether operators have open proposals to give or take money.
type Proposals interface {
	OpenFor(ctx context.Context, tx postgres.Tx, clientID string) (bool, error)
}

// Service exports and erases clients' data. It is safe for concurrent use.
type Service struct {
	deps  Deps
	texts text.Catalogue
}

// New creates the service.
func New(d Deps) (*Service, error) {
	texts, err := text.Messages()
	return &Service{d, texts}, err
}

// Erase erases the client after checking the password present, and sends a receipt to the email address just erased. It
// returns [account.ErrBadCredentials] or [Refused]; the caller must then roll back tx.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, clientID, present, lang string) error {
	// locks the client, so nothing new can begin
	if err := s.deps.Accounts.ConfirmPassword(ctx, tx, clientID, present); err != nil {
		return err
	}
	was, err := s.erase(ctx, tx, clientID)
	if err != nil {
		return err
	}
	return s.receipt(ctx, tx, was, was.Speaks(lang))
}

// EraseAgain erases a client whose erasure was lost in a restore. It needs no password and sends no receipt, because
// both happened the first time. It returns [Refused], or [problem.ErrNotFound] if the client is unknown, disabled or
// erased. The caller must then roll back tx.
func (s *Service) EraseAgain(ctx context.Context, tx postgres.Tx, clientID string) error {
	_, err := s.erase(ctx, tx, clientID)
	return err
}

func (s *Service) erase(ctx context.Context, tx postgres.Tx, clientID string) (was account.Client, err error) {
	was, err = s.deps.Accounts.Erase(ctx, tx, clientID)
	// reported below together with the other obstacles
	if open := new(account.TakeBackError); err != nil && !errors.As(err, open) {
		return was, err
	}
	if refused := s.refusal(ctx, tx, clientID); refused != nil {
		return was, refused
	}
	if err != nil {
		return was, err
	}
	if _, err := s.deps.OAuth.UnlinkAll(ctx, tx, clientID, oauth.ReasonErasure); err != nil {
		return was, err
	}
	if err := s.deps.Access.Erase(ctx, tx, clientID); err != nil {
		return was, err
	}
	if err := s.deps.Consultations.Erase(ctx, tx, clientID); err != nil {
		return was, err
	}
	if err := s.deps.Payments.Erase(ctx, tx, clientID); err != nil {
		return was, err
	}
	if err := s.deps.Idempotency.EraseClient(ctx, tx, clientID); err != nil {
		return was, err
	}
	return was, nil
}

func (s *Service) receipt(ctx context.Context, tx postgres.Tx, was account.Client, lang string) error {
	subject, body, err := s.texts.Letter(lang, "erased", tx.Now.Format("2006-01-02 15:04 UTC"))
	if err != nil {
		return err
	}
	if err := s.deps.Mail.Send(ctx, tx, mail.Message{To: was.Email, Subject: subject, Text: body}); err != nil {
		return fmt.Errorf("send receipt of erasure: %w", err)
	}
	return nil
}
