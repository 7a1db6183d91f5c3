package oauth

import (
	"context"
	"errors"
	"slices"
	"time"

	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// usedResolution is how exactly the last use of a grant is known.
const usedResolution = time.Minute

// Principal is who makes an API call: an application in the name of a client.
type Principal struct {
	ApplicationID       string
	ClientID            string
	GrantID             string
	Scopes              []application.Scope // of this access token, without those taken from the application since
	RatePerMinute       int                 // of the application; 0 means the deployment's default
	ClientRatePerMinute int                 // of each of its clients; 0 means the deployment's default
	RecordingEnabled    bool
}

// Has tells whether the access token carries scope.
func (p Principal) Has(scope application.Scope) bool { return slices.Contains(p.Scopes, scope) }

// Authenticate returns who presents the access token, or [ErrUnauthorized] (UNAUTHORIZED): when the token is not ours
// or has expired, its grant is revoked, its application suspended or its client disabled. It costs one read by primary
// key, and a signature check for a token that was not seen before; once a minute and grant it also writes when the
// grant was last used.
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
		// The account page's "last used" is not worth a failed request, and the next call of the grant tries again.
		// Only the log tells, unless it is the caller who went away.
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

// Premise is what an act of the principal rests on: as [Service.Authenticate], but for the expiry of the token.
func (p Principal) Premise() postgres.Premise {
	return postgres.Premise{Statement: standsSQL, Args: []any{p.GrantID, p.ApplicationID, p.ClientID},
		Otherwise: ErrUnauthorized}
}
