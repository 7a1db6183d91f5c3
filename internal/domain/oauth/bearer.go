package oauth

import (
	"context"
	"errors"
	"slices"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// usedResolution is the resolution of a grant's last use.
const usedResolution = time.Minute

// Principal is the caller of an API request: an application on behalf of a client.
type Principal struct {
	ApplicationID       string
	ClientID            string
	GrantID             string
	Scopes              []application.Scope // of this access token, as far as the application still has them
	RatePerMinute       int                 // of the application; 0 means the deployment's default
	ClientRatePerMinute int                 // of each of its clients; 0 means the deployment's default
	RecordingEnabled    bool
}

// Has reports whether the access token carries scope.
func (p Principal) Has(scope application.Scope) bool { return slices.Contains(p.Scopes, scope) }

// Authenticate returns the principal of an access token, or [ErrUnauthorized] (UNAUTHORIZED). It rejects a token that
// is not ours or has expired. It also rejects a revoked grant, a suspended application or a disabled client.
//
// It costs one read by primary key, and a signature check for a new token. Once per minute and grant it also records
// the last use.
func (s *Service) Authenticate(ctx context.Context, bearer string) (Principal, error) {
	tx := s.db.Read()
	t, err := s.verify(ctx, bearer, tx.Now)
	if errors.Is(err, errToken) {
		return Principal{}, ErrUnauthorized
	}
	if err != nil {
		return Principal{}, err
	}
	row, found, err := liveGrant(ctx, tx, t.claims)
	if err != nil {
		return Principal{}, err
	}
	if !found {
		return Principal{}, ErrUnauthorized
	}
	c := t.claims
	if aged := time.Duration(row.AgedUs-c.AgedUs) * time.Microsecond; !tx.Now.Add(aged).
		Before(time.Unix(c.ExpiresAt, 0)) {
		return Principal{}, ErrUnauthorized
	}
	if row.LastUsedAt == nil || tx.Now.Sub(*row.LastUsedAt) >= usedResolution {
		// A request must not fail because of the account page's "last used"; the grant's next call tries again. Log the
		// error, unless the caller has gone.
		if err := touchGrant(ctx, tx, c.GrantID, tx.Now.Add(-usedResolution)); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "when a link was last used is not recorded", "grant", c.GrantID, "error", err)
		}
	}
	return Principal{
		ApplicationID: c.ApplicationID, ClientID: c.ClientID, GrantID: c.GrantID,
		Scopes: application.Common(t.scopes, row.Allowed), RatePerMinute: row.RatePerMinute,
		ClientRatePerMinute: row.ClientRatePerMinute, RecordingEnabled: row.RecordingEnabled,
	}, nil
}

// Premise is the condition for an action of the principal: the same as [Service.Authenticate], except for token expiry.
func (p Principal) Premise() postgres.Premise {
	return postgres.Premise{Statement: standsSQL, Args: []any{p.GrantID, p.ApplicationID, p.ClientID},
		Otherwise: ErrUnauthorized}
}
