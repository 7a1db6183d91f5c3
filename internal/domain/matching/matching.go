package matching

import (
	"errors"
	"time"
)

// OfferTime is how long an offer is open.
const OfferTime = 30 * time.Second

// ByHandTime is how long an offer is open that an operator made manually, perhaps after a call.
const ByHandTime = 2 * time.Minute

// RepeatAfter is how long a lawyer who missed an offer, or lost the consultation, is not offered the same consultation.
const RepeatAfter = time.Minute

// BusyFor is how long a lawyer who declined because they were busy is not offered the same consultation. It is longer
// than a search, and shorter than the time left for a callback.
const BusyFor = time.Hour

// A search that has failed for a while is widened: it then asks [AtOnce] lawyers at a time, and the first acceptance
// wins.
const (
	AtOnce        = 3
	widenAfter    = 2 * time.Minute // since the search began
	widenFailures = 3               // offers declined or missed, or acceptances returned
)

// ReasonConflict is the reason for a decline that does not cost the lawyer their place in the queue.
const ReasonConflict = "conflict_of_interest"

// ReasonBusy is the reason for a decline that has nothing to do with the consultation. It bars the lawyer only for
// [BusyFor].
const ReasonBusy = "busy"

// ErrOfferGone means that the offer is no longer open or belongs to another lawyer.
var ErrOfferGone = errors.New("the offer is gone")

// Pair is a competence and a language: what a lawyer serves and a consultation asks for.
type Pair struct{ Competence, Language string }

// Crew says whose lawyers may be offered a consultation. If it is empty, as it always is in a live deployment, they are
// the shared lawyers; otherwise they are those of the application with this ID.
type Crew string

// Nobody is the crew of a consultation that is offered to no lawyer.
const Nobody Crew = "nobody"

// Work is a consultation that waits for a lawyer.
type Work struct {
	ConsultationID, ClientID string
	Pair                     Pair
	Crew                     Crew
	Since                    time.Time // when its search began
	Failures                 int       // offers declined or missed, or acceptances returned, so far

	Quarantined func(lawyerID string) // called for each lawyer that the search quarantined; may be nil
}

// widened reports whether the search asks several lawyers at a time.
func (w Work) widened(now time.Time) bool {
	return w.Failures >= widenFailures || !now.Before(w.Since.Add(widenAfter))
}

// Why is the reason why an offer went to its lawyer.
type Why string

// The reasons; offers of older releases have none.
const (
	LongestIdle Why = "LONGEST_IDLE"  // the lawyer had waited longest of all who may take it
	LawyerFree  Why = "LAWYER_FREE"   // the lawyer became free, and this was first among the waiting work they may take
	ThreeAtOnce Why = "THREE_AT_ONCE" // one of the three longest idle, asked at the same time
	ByHand      Why = "BY_HAND"       // an operator chose the lawyer
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
	QueueSeen  int           // lawyers in the queue of the pair, 50 for 50 or more; 0 if not recorded
	QueuePlace int           // the lawyer's place among them, from 1; 51 for any later place, 0 if not in the queue
	Idle       time.Duration // how long the lawyer had waited for work; 0 if not in the queue
	EndedAt    *time.Time    // nil while it is open
	Reason     string        // of a decline, or of a withdrawal after acceptance; may be empty
	ReturnedAt *time.Time    // when the accepted consultation left the lawyer without a call
}

// Coverage is how well a pair is served right now (specification section 2.6, decisions H34 to H36).
type Coverage struct {
	Available            bool // a lawyer who can serve the pair is online
	LawyersOnline        int  // with fresh presence, idle or busy
	LawyersIdle          int  // of LawyersOnline, those who wait for work
	Ahead                int  // consultations that wait for a lawyer of the pair
	EstimatedWaitSeconds *int // until a lawyer accepts, 5 to 1800; nil if no one is online
}

// Waits are the data for an estimate of a pair's wait; nil means too little data.
type Waits struct {
	Accept  *time.Duration // wait of consultations that arrived while a lawyer was idle: the [AcceptQuantile] quantile
	Engaged *time.Duration // mean time that one consultation takes a lawyer, from acceptance to note
	Ahead   int            // consultations that wait for a lawyer now
	Oldest  time.Duration  // how long the longest-waiting consultation has searched; 0 if none waits
	Last    time.Duration  // wait of the last consultation that found a lawyer within 30 minutes; 0 if none did
}

// AcceptQuantile is the share of clients who are accepted by an idle lawyer no later than estimated. It is above one
// half, because an estimate that is too short is worse for the client, and low enough to stay near the truth.
const AcceptQuantile = 0.65
