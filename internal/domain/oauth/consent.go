package oauth

import (
	"context"
	"slices"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// optional are the scopes that spend money or show what a lawyer wrote.
var optional = []application.Scope{application.WalletTopUp, application.ConsultationsWrite, application.NotesRead}

// MayRefuse tells whether the client is asked about the scope alone and can refuse it while allowing the others.
func MayRefuse(s application.Scope) bool { return slices.Contains(optional, s) }

// askAlways are the scopes that are never granted without asking.
var askAlways = []application.Scope{application.WalletTopUp}

// Remembered returns what the client has agreed to with the application before and not taken back. It lasts as long as
// a link lives that carries it, so that the account page shows it and can end it: consent whose code was not redeemed
// does not count, and none comes back with a later link. The link must have been made through the same redirect URI: a
// URI that was registered later gets no code without a page.
func (s *Service) Remembered(ctx context.Context, tx postgres.Tx,
	clientID, applicationID, redirectURI string,
) ([]application.Scope, error) {
	return consents(ctx, tx, clientID, applicationID, redirectURI)
}

// MustAsk tells which of the scopes asked for the client has to be asked about: those not agreed to before, and those
// that are never granted without asking. When it is empty the request can be approved as it is.
func MustAsk(asked, remembered []application.Scope) []application.Scope {
	var out []application.Scope
	for _, s := range asked {
		if slices.Contains(askAlways, s) || !slices.Contains(remembered, s) {
			out = append(out, s)
		}
	}
	return out
}

// remember keeps what the client said to each of the scopes asked for.
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
