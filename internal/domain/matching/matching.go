package matching

import (
	"errors"
	"time"
)

// OfferTime is how long a lawyer may look at an offer.
const OfferTime = 30 * time.Second

// ByHandTime is the same for an offer that an operator made by hand, after a call perhaps.
const ByHandTime = 2 * time.Minute

// RepeatAfter is how long after he missed an offer, or had to give the work back, the same lawyer may be offered the
// same consultation again.
const RepeatAfter = time.Minute

// BusyFor is how long a lawyer who declined because they were busy is not asked again: longer than a search, and
// shorter than the time that is left for a callback.
const BusyFor = time.Hour

// A search that goes badly is widened: from then on it asks [AtOnce] lawyers at a time, and the first who accepts has
// it.
const (
	AtOnce        = 3
	widenAfter    = 2 * time.Minute // of search
	widenFailures = 3               // offers that were refused or missed, or acceptances that were given back
)

// ReasonConflict is the reason of a decline that does not cost the lawyer his place in the queue.
const ReasonConflict = "conflict_of_interest"

// ReasonBusy is the reason of a decline that says nothing of the consultation: it bars its lawyer for [BusyFor], and
// not for good.
const ReasonBusy = "busy"

// ErrOfferGone means that the offer is not open any more, or is not this lawyer's.
var ErrOfferGone = errors.New("the offer is gone")

// Pair is a competence in a language: what a lawyer serves and what a consultation asks for.
type Pair struct{ Competence, Language string }

// Crew is whose lawyers may be offered a consultation: everybody's when it is empty, as always in a live deployment,
// otherwise those of the application with that identifier.
type Crew string

// Nobody is the crew of a consultation that no lawyer is offered.
const Nobody Crew = "nobody"

// Work is a consultation that waits for a lawyer.
type Work struct {
	ConsultationID, ClientID string
	Pair                     Pair
	Crew                     Crew
	Since                    time.Time // when its search began
	Failures                 int       // what was refused, missed or given back so far

	Quarantined func(lawyerID string) // told of each lawyer whom its search put out of the way; may be nil
}

// widened tells whether the search asks several lawyers at a time.
func (w Work) widened(now time.Time) bool {
	return w.Failures >= widenFailures || !now.Before(w.Since.Add(widenAfter))
}

// Why is why an offer went to its lawyer.
type Why string

// The reasons; offers of older releases have none.
const (
	LongestIdle Why = "LONGEST_IDLE"  // of those who may take it he waited longest for work
	LawyerFree  Why = "LAWYER_FREE"   // he became free, and of all that waited for him it came first
	ThreeAtOnce Why = "THREE_AT_ONCE" // one of the three longest idle, asked at the same time
	ByHand      Why = "BY_HAND"       // an operator chose him
)

// OfferState is the state of an offer.
type OfferState string

// The states of an offer; all but OPEN are final.
const (
	Open     OfferState = "OPEN"
	Accepted OfferState = "ACCEPTED"
	Declined OfferState = "DECLINED"
	Expired  OfferState = "EXPIRED"
	// another lawyer accepted first, or the consultation was cancelled or left the search
	Revoked OfferState = "REVOKED"
)

// Offer is work shown to one lawyer.
type Offer struct {
	ID, ConsultationID, LawyerID string
	Why                          Why
	State                        OfferState
	CreatedAt, ExpiresAt         time.Time
}

// Chapter is an offer with what was known when it was made, and its answer.
type Chapter struct {
	Offer
	QueueSeen  int           // lawyers in the queue of the pair then, 50 for 50 or more; 0 when that was not looked at
	QueuePlace int           // the lawyer's place among them, from 1; 51 for any behind, 0 when he was not in the queue
	Idle       time.Duration // for how long he had waited for work; 0 when he was not in the queue
	EndedAt    *time.Time    // nil while it is open
	Reason     string        // of a decline, or for which he gave back what he had accepted; may be empty
	ReturnedAt *time.Time    // when what he had accepted left him without a call
}

// Coverage is how well a pair is served right now (specification section 2.6, decisions H34 to H36).
type Coverage struct {
	Available            bool // somebody who can serve the pair is online
	LawyersOnline        int  // with fresh presence, idle or busy
	LawyersIdle          int  // of them, those who wait for work
	Ahead                int  // consultations that wait for a lawyer of the pair
	EstimatedWaitSeconds *int // until a lawyer accepts, 5 to 1800; nil when nobody is online
}

// Waits are the facts of a pair that an estimate is made from; nil means that too little was seen.
type Waits struct {
	Accept  *time.Duration // how long those waited who came while somebody was idle: [AcceptQuantile] of them no longer
	Engaged *time.Duration // for how long one consultation takes a lawyer, from the acceptance to the note, in the mean
	Ahead   int            // how many wait for a lawyer now
	Oldest  time.Duration  // for how long the one has searched that waits longest; 0 when none does
	Last    time.Duration  // how long the last one waited that found a lawyer in the last 30 minutes; 0 when none did
}

// AcceptQuantile is the share of clients whom somebody idle accepted no later than estimated. It is above one half
// because a client who was told too little is worse off, and low enough that the estimate stays near.
const AcceptQuantile = 0.65
