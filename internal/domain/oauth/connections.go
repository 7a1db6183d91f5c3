package oauth

import (
	"context"
	"slices"
	"time"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// Connection is an application that a client is linked to, with any number of grants.
type Connection struct {
	Application application.Application
	Scopes      []application.Scope // of all its grants together
	Since       time.Time           // time of its oldest grant
	Newest      time.Time           // time of its newest grant
	LastUsed    *time.Time          // to the minute; nil if never used
	RedirectURI string              // redirect URI of its newest grant, if known and still registered
}

// Connections returns the client's connections, newest first.
func (s *Service) Connections(ctx context.Context, tx postgres.Tx, clientID string) ([]Connection, error) {
	grants, err := activeGrants(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	var out []Connection
	for _, g := range grants {
		i := slices.IndexFunc(out, func(c Connection) bool { return c.Application.ID == g.ApplicationID })
		if i < 0 {
			app, err := s.applications.Get(ctx, tx, g.ApplicationID)
			if err != nil {
				return nil, err
			}
			out, i = append(out, Connection{Application: app, Since: *g.ActivatedAt}), len(out)
		}
		c := &out[i]
		c.Newest = *g.ActivatedAt
		if slices.Contains(c.Application.RedirectURIs, g.RedirectURI) {
			c.RedirectURI = g.RedirectURI
		}
		c.Scopes = application.Ordered(append(c.Scopes, g.Scopes...))
		if g.LastUsedAt != nil && (c.LastUsed == nil || g.LastUsedAt.After(*c.LastUsed)) {
			c.LastUsed = g.LastUsedAt
		}
	}
	slices.Reverse(out)
	return out, nil
}

// Disconnect is [Service.Unlink] by the client.
func (s *Service) Disconnect(ctx context.Context, tx postgres.Tx, clientID, applicationID string) error {
	_, err := s.Unlink(ctx, tx, clientID, applicationID, ReasonClient)
	return err
}

// Unlink revokes every grant of the client with the application, including one whose code is not redeemed yet, and
// forgets the client's consent. The next call with any of their tokens is rejected. Unlink returns how many grants it
// revoked (0 if there is no connection), or [problem.ErrNotFound] for an unknown client.
func (s *Service) Unlink(ctx context.Context, tx postgres.Tx, clientID, applicationID string, why Reason) (int, error) {
	if applicationID == "" || !isText(applicationID) {
		return 0, nil
	}
	return s.unlink(ctx, tx, clientID, applicationID, why)
}

// UnlinkAll is [Service.Unlink] for all applications.
func (s *Service) UnlinkAll(ctx context.Context, tx postgres.Tx, clientID string, why Reason) (int, error) {
	return s.unlink(ctx, tx, clientID, anyApplication, why)
}

// Recover ends the connections that a client wants to end when recovering the account. It also ends every grant whose
// code is not redeemed yet.
func (s *Service) Recover(ctx context.Context, tx postgres.Tx, clientID string, r account.Recovery) error {
	if _, err := s.accounts.Lock(ctx, tx, clientID); err != nil {
		return err
	}
	connections, err := s.Connections(ctx, tx, clientID)
	if err != nil {
		return err
	}
	for _, c := range connections {
		if !r.Ends(c.Application.ID, c.Newest, tx.Now) {
			continue
		}
		if _, err := s.Unlink(ctx, tx, clientID, c.Application.ID, ReasonRecovery); err != nil {
			return err
		}
	}
	return revokePending(ctx, tx, clientID, ReasonRecovery)
}

// ToppedUp notifies each application with wallet:read that a payment was credited. Call it in the crediting
// transaction, which holds the client's lock, so that no connection can end in between.
func (s *Service) ToppedUp(ctx context.Context, tx postgres.Tx, clientID string) error {
	readers, err := linkedWith(ctx, tx, clientID, application.WalletRead)
	if err != nil {
		return err
	}
	return s.tell(ctx, tx, clientID, webhook.WalletToppedUp, readers)
}

func (s *Service) tell(ctx context.Context, tx postgres.Tx, clientID string, t webhook.Type,
	applicationIDs []string,
) error {
	if s.cfg.Webhooks == nil {
		return nil
	}
	return s.cfg.Webhooks.Tell(ctx, tx, clientID, t, applicationIDs)
}

// unlink locks the client, as creating a grant does, so that no grant slips in between. It notifies the applications
// with an active connection.
func (s *Service) unlink(ctx context.Context, tx postgres.Tx, clientID, applicationID string, why Reason) (int, error) {
	if _, err := s.accounts.Lock(ctx, tx, clientID); err != nil {
		return 0, err
	}
	if err := forgetConsents(ctx, tx, clientID, applicationID); err != nil {
		return 0, err
	}
	linked, err := linkedTo(ctx, tx, clientID, applicationID)
	if err != nil {
		return 0, err
	}
	n, err := revokeLinks(ctx, tx, clientID, applicationID, why)
	if err != nil {
		return 0, err
	}
	return n, s.tell(ctx, tx, clientID, webhook.ClientDisconnected, linked)
}
