package oauth

import (
	"context"
	"slices"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// optional lists the scopes that spend money or show what a lawyer wrote.
var optional = []application.Scope{application.WalletTopUp, application.ConsultationsWrite, application.NotesRead}

// MayRefuse reports whether the client can refuse the scope and still grant the others.
func MayRefuse(s application.Scope) bool { return slices.Contains(optional, s) }

// askAlways lists the scopes that are never granted without asking.
var askAlways = []application.Scope{application.WalletTopUp}

// Remembered returns the scopes to which the client has consented for the application and has not withdrawn consent.
// Consent lasts while an active grant includes it, so that the account page shows it and can end it.
//
// Consent whose code was not redeemed does not count, and later grants do not bring back old consent. The grant must
// have used the same redirect URI, so that a URI registered later gets no code without a page.
func (s *Service) Remembered(ctx context.Context, tx postgres.Tx,
	clientID, applicationID, redirectURI string,
) ([]application.Scope, error) {
	return consents(ctx, tx, clientID, applicationID, redirectURI)
}

// MustAsk returns the requested scopes that need the client's consent: those without earlier consent and those that are
// always asked. If there are none, the request can be approved as it is.
func MustAsk(asked, remembered []application.Scope) []application.Scope {
	var out []application.Scope
	for _, s := range asked {
		if slices.Contains(askAlways, s) || !slices.Contains(remembered, s) {
			out = append(out, s)
		}
	}
	return out
}

// remember stores the client's answer for each requested scope.
func remember(ctx context.Context, tx postgres.Tx, clientID, applicationID string,
	asked, granted []application.Scope,
) error {
	var refused []application.Scope
	for _, s := range asked {
		if !slices.Contains(granted, s) {
			refused = append(refused, s)
		}
	}
	if err := deleteConsents(ctx, tx, clientID, applicationID, refused); err != nil {
		return err
	}
	return insertConsents(ctx, tx, clientID, applicationID, granted)
}
