package oauth

import (
	"context"
	"time"

	"partnerd/internal/infra/postgres"
)

// The events of a grant.
const (
	EventCreated   = "created"   // the client consented
	EventActivated = "activated" // the code was redeemed
	EventRefreshed = "refreshed"
	EventReplayed  = "replayed" // a used code or refresh token was used again; revoked follows
	EventRevoked   = "revoked"
)

// The reasons of events that do not end a grant.
const (
	reasonConsent    Reason = "client_consented"
	reasonRemembered Reason = "consent_remembered" // nothing new was requested, so no page was shown
	reasonRedeemed   Reason = "code_redeemed"
	reasonUsed       Reason = "refresh_token_used"
)

// Refreshes are most of the events and the least informative.
const (
	eventRetention     = 365 * 24 * time.Hour
	refreshedRetention = Retention
)

// kept is the retention of each event.
var kept = map[string]time.Duration{
	EventCreated: eventRetention, EventActivated: eventRetention, EventRefreshed: refreshedRetention,
	EventReplayed: eventRetention, EventRevoked: eventRetention,
}

// Event is an entry of a grant's history. Entries never change.
type Event struct {
	GrantID       string    `json:"grantId"`
	ApplicationID string    `json:"applicationId"`
	ClientID      string    `json:"clientId"`
	Event         string    `json:"event"` // one of the Event… constants
	Reason        Reason    `json:"reason"`
	CreatedAt     time.Time `json:"createdAt"`
}

// History returns up to limit events between a client and an application, newest first. Events are kept for a year,
// refresh events for 30 days.
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
