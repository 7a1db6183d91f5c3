package app

import (
	"context"
	"errors"

	"partnerd/internal/account"
	"partnerd/internal/application"
	"partnerd/internal/lawyer"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

// Credentials are what a partner needs; both secrets are shown once.
type Credentials struct {
	ClientID      string `json:"clientId"`
	ClientSecret  string `json:"clientSecret"`
	WebhookSecret string `json:"webhookSecret"`
}

// CreateApplication is [App.RegisterApplication] for what the program sets up by itself.
func (a *App) CreateApplication(ctx context.Context, n application.NewApplication, webhookURL string) (Credentials, error) {
	return a.RegisterApplication(ctx, Act{Actor: "partnerd", Reason: "Set up by the program."}, n, webhookURL)
}

// CreateClient registers an end client with a wallet that holds balance.
func (a *App) CreateClient(ctx context.Context, n account.NewClient, balance money.Cents) (c account.Client, err error) {
	err = a.DB.InTx(ctx, func(tx postgres.Tx) error {
		if c, err = a.Accounts.Create(ctx, tx, n); err != nil {
			return err
		}
		if err := a.Wallet.Open(ctx, tx, c.ID); err != nil {
			return err
		}
		if balance == 0 {
			return nil
		}
		return a.Wallet.Adjust(ctx, tx, c.ID, balance, "Opening balance")
	})
	return c, err
}

var errNoLawyerPhone = errors.New("the lawyer's phone number cannot be called")

// SetLawyerPhone replaces the number that a lawyer's consultations are made from, in any usual notation.
func (a *App) SetLawyerPhone(ctx context.Context, lawyerID, phone string) error {
	number, err := account.E164(phone)
	if err != nil {
		return errNoLawyerPhone
	}
	return a.DB.InTx(ctx, func(tx postgres.Tx) error { return a.Lawyers.SetPhone(ctx, tx, lawyerID, number) })
}

// CreateLawyer registers a lawyer, who is offline until signing in at the desk (or at once when simulated).
func (a *App) CreateLawyer(ctx context.Context, n lawyer.NewLawyer) (l lawyer.Lawyer, err error) {
	if n.Phone, err = account.E164(n.Phone); err != nil {
		return l, errNoLawyerPhone
	}
	err = a.DB.InTx(ctx, func(tx postgres.Tx) error {
		l, err = a.Lawyers.Create(ctx, tx, n)
		return err
	})
	return l, err
}
