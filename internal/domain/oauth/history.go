package oauth

import (
	"context"
	"time"

	"partnerd/internal/infra/postgres"
)

// What can happen to a grant.
const (
	EventCreated   = "created"   // the client consented
	EventActivated = "activated" // the code was redeemed
	EventRefreshed = "refreshed"
	EventReplayed  = "replayed" // a used code or refresh token came again; revoked follows
	EventRevoked   = "revoked"
)

// Why it happened, where it is no end.
const (
	reasonConsent    Reason = "client_consented"
	reasonRemembered Reason = "consent_remembered" // nothing new was asked for, so no page was shown
	reasonRedeemed   Reason = "code_redeemed"
	reasonUsed       Reason = "refresh_token_used"
)

// Refreshes are most of the events and say least.
const (
	eventRetention     = 365 * 24 * time.Hour
	refreshedRetention = Retention
)

// kept is how long each event is.
var kept = map[string]time.Duration{
	EventCreated: eventRetention, EventActivated: eventRetention, EventRefreshed: refreshedRetention,
	EventReplayed: eventRetention, EventRevoked: eventRetention,
}

// Event is an entry of a grant's history. Entries are never changed.
type Event struct {
	GrantID       string    `json:"grantId"`
	ApplicationID string    `json:"applicationId"`
	ClientID      string    `json:"clientId"`
	Event         string    `json:"event"` // one of the Event… constants
	Reason        Reason    `json:"reason"`
	CreatedAt     time.Time `json:"createdAt"`
}

// History returns what happened between a client and an application, the newest first, at most limit. It reaches back a
// year, for refreshes 30 days.
func (s *Service) History(ctx context.Context, tx postgres.Tx, clientID, applicationID string,
	limit int,
) ([]Event, error) {
	if !isText(clientID + applicationID) {
		return nil, nil
	}
	rows, err := events(ctx, tx, clientID, applicationID, limit)
	out := make([]Event, len(rows))
	for i, r := range rows {
		out[i] = Event{GrantID: r.GrantID, ApplicationID: r.ApplicationID, ClientID: r.ClientID, Event: r.Event,
			Reason: r.Reason, CreatedAt: r.CreatedAt}
	}
	return out, err
}
