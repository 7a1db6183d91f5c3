package telephony

import (
	"cmp"
	"errors"
	"time"
)

// Limits that every provider is given. The caller also enforces them with its own timers.
const (
	LegTimeout     = 30 * time.Second // for a leg to be answered
	ConfirmTimeout = 20 * time.Second // for either side to press 1
	MaxDuration    = 20 * time.Minute // of joined time (section 1 of the specification)
	Silence        = 30 * time.Second // without an event, after which the provider is queried
)

// State is the state of a call.
type State string

// The states.
const (
	LawyerRinging    State = "LAWYER_RINGING"    // the lawyer's leg is placed
	LawyerConfirming State = "LAWYER_CONFIRMING" // the lawyer's leg was answered; the lawyer is asked to press 1
	ClientRinging    State = "CLIENT_RINGING"    // the lawyer pressed 1; the client's leg is placed
	Confirming       State = "CONFIRMING"        // the client answered and is asked to press 1
	Bridging         State = "BRIDGING"          // the client pressed 1
	Bridged          State = "BRIDGED"           // both are joined
	Lost             State = "LOST"              // the line dropped; the missing leg is placed again
	Ended            State = "ENDED"
)

// Role is one side of a call.
type Role string

// The roles.
const (
	Lawyer Role = "LAWYER"
	Client Role = "CLIENT"
)

// EventKind is the kind of a provider's report.
type EventKind string

// The kinds of events.
const (
	LegRinging  EventKind = "LEG_RINGING"
	LegAnswered EventKind = "LEG_ANSWERED"
	LegMachine  EventKind = "LEG_MACHINE" // an answering machine
	LegDigits   EventKind = "LEG_DIGITS"  // Digits is empty after a timeout
	LegFailed   EventKind = "LEG_FAILED"  // Reason says why
	LegsJoined  EventKind = "BRIDGED"
	LegsParted  EventKind = "UNBRIDGED" // the line dropped; By says whose leg is gone
	CallOver    EventKind = "ENDED"     // someone hung up, or the maximum duration was reached
)

// Reasons of LEG_FAILED and of outcomes.
const (
	Busy         = "busy"
	NoAnswer     = "no_answer"
	Invalid      = "invalid"
	Carrier      = "carrier"
	Voicemail    = "voicemail"
	NotConfirmed = "not_confirmed" // no one pressed 1
	HungUp       = "hung_up"
	Timeout      = "timeout" // passed to End if the provider goes silent during setup
)

// Reasons that say who ended a completed call.
const (
	byLawyer   = "by_lawyer"
	byClient   = "by_client"
	byProvider = "by_provider"
)

// Reasons lists why a leg or a call can end.
func Reasons() []string {
	return []string{Busy, NoAnswer, Invalid, Carrier, Voicemail, NotConfirmed, HungUp, Timeout, byLawyer, byClient,
		byProvider}
}

// Event is one verified report of a provider. A repeated report has the same ID.
type Event struct {
	ID          string    `json:"id"` // unique within its call
	CallID      string    `json:"callId"`
	Kind        EventKind `json:"kind"`
	Role        Role      `json:"role,omitempty"`        // LEG_… only
	Digits      string    `json:"digits,omitempty"`      // LEG_DIGITS only
	Reason      string    `json:"reason,omitempty"`      // LEG_FAILED only
	By          Role      `json:"by,omitempty"`          // UNBRIDGED and ENDED only; empty for the provider or the line
	DurationSec int       `json:"durationSec,omitempty"` // ENDED only: as measured by the provider
	At          time.Time `json:"at"`                    // when it happened, by the provider's clock
}

// about returns whose line the event is about, or who hung up for [LegsParted] and [CallOver].
func (e Event) about() Role { return cmp.Or(e.Role, e.By) }

// OutcomeKind is what an event means for the consultation.
type OutcomeKind string

// The kinds of outcomes.
const (
	Started OutcomeKind = "STARTED" // joined for the first time: the paid call has begun
	// the line was lost; attempts to restore it continue until the call is ended
	Dropped    OutcomeKind = "DROPPED"
	Restored   OutcomeKind = "RESTORED"    // joined again
	Finished   OutcomeKind = "FINISHED"    // over, after having been joined: DurationSec
	NotReached OutcomeKind = "NOT_REACHED" // over: the client was not reached (Reason)
	// over: the lawyer was not reached (Reason); not an attempt to reach the client
	LawyerNotReached OutcomeKind = "LAWYER_NOT_REACHED"
	Aborted          OutcomeKind = "ABORTED" // over: ended by the caller before both were joined
)

// Outcome is what happened to a call, for the consultation to act on.
type Outcome struct {
	Kind        OutcomeKind
	At          time.Time // when it happened
	DurationSec int       // FINISHED only: joined time in whole seconds, 0 to 1200
	Reason      string    // NOT_REACHED, LAWYER_NOT_REACHED, FINISHED and ABORTED only
}

// Call is one attempt to connect a lawyer and a client.
type Call struct {
	ID, ConsultationID, ClientID, LawyerID string
	Attempt                                int // from 1
	State                                  State
	Record                                 bool
	Language                               string
	StartedAt                              time.Time
	JoinedAt                               *time.Time    // when both were first joined
	BridgedAt                              *time.Time    // start of the current joined period
	LostAt                                 *time.Time    // when the line was lost
	Joined                                 time.Duration // total of the past joined periods
	LastEventAt                            time.Time
	EndedAt                                *time.Time
	Outcome                                OutcomeKind // how it ended
	Reason                                 string
}

// Told is a call with the reports of its provider.
type Told struct {
	Call
	Events []Report
}

// Report is a stored event.
type Report struct {
	Kind   EventKind
	Role   Role      // whose line it is about, or who hung up; empty for both and for the provider
	At     time.Time // by the provider's clock
	Fitted bool      // it had an effect when it arrived
}

// Start is the input of [Service.Place].
type Start struct {
	ConsultationID, ClientID, LawyerID string
	Attempt                            int
	Record                             bool   // the client consented and the application has recording enabled
	Language                           string // of the announcements, catalog code
}

// Errors that callers distinguish.
var (
	ErrLineBusy = errors.New("the client or the consultation has a call already")
	ErrNoCall   = errors.New("there is no such call")
)
