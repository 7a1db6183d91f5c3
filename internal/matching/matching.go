package matching

import (
	"errors"
	"time"
)

// OfferTime is how long a lawyer may look at an offer.
const OfferTime = 30 * time.Second

// RepeatAfter is how long after he missed an offer, or had to give the work back, the same lawyer may be offered the same
// consultation again.
const RepeatAfter = time.Minute

// ReasonConflict is the reason of a decline that does not cost the lawyer his place in the queue.
const ReasonConflict = "conflict_of_interest"

// ErrOfferGone means that the offer is not open any more, or is not this lawyer's.
var ErrOfferGone = errors.New("the offer is gone")

// Pair is a competence in a language: what a lawyer serves and what a consultation asks for.
type Pair struct{ Competence, Language string }

// Work is a consultation that waits for a lawyer.
type Work struct {
	ConsultationID, ClientID string
	Pair                     Pair

	Quarantined func(lawyerID string) // told of each lawyer whom its search put out of the way; may be nil
}

// OfferState is the state of an offer.
type OfferState string

// The states of an offer; all but OPEN are final.
const (
	Open     OfferState = "OPEN"
	Accepted OfferState = "ACCEPTED"
	Declined OfferState = "DECLINED"
	Expired  OfferState = "EXPIRED"
	Revoked  OfferState = "REVOKED" // the consultation was cancelled or left the search
)

// Offer is work shown to one lawyer.
type Offer struct {
	ID, ConsultationID, LawyerID string
	State                        OfferState
	CreatedAt, ExpiresAt         time.Time
}

// Coverage is how well a pair is served right now (specification section 2.6, decisions H34 to H36).
type Coverage struct {
	Available            bool // somebody who can serve the pair is online
	LawyersOnline        int  // with fresh presence, idle or busy
	EstimatedWaitSeconds *int // seconds, 5 to 1800; nil when nobody is online or nothing is known
}

// Waits are the recent facts of a pair that an estimate is made from; nil means that there is no such fact.
type Waits struct {
	MedianAccept    *time.Duration // time to accept an offer, over the last hour
	LastEnteredWait *time.Duration // how long the last one that found a lawyer in the last 30 minutes had waited
	OldestWaiting   *time.Duration // age of the one that waits longest now
}
