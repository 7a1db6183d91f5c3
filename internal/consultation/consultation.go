package consultation

import (
	"strings"
	"time"

	"partnerd/internal/matching"
	"partnerd/internal/money"
	"partnerd/internal/wallet"
)

// Price is what a consultation costs.
const Price = wallet.Price

// Status is where a consultation stands. The names are part of the contract.
type Status string

// The nine statuses. Draft exists only inside the creation transaction and in the first event.
const (
	Draft           Status = "DRAFT"
	Matching        Status = "MATCHING"
	PendingCallback Status = "PENDING_CALLBACK"
	Assigned        Status = "ASSIGNED"
	InCall          Status = "IN_CALL"
	CallEnded       Status = "CALL_ENDED"
	Completed       Status = "COMPLETED"
	Cancelled       Status = "CANCELLED"
	Expired         Status = "EXPIRED"
)

// Statuses lists all nine, in the order of a consultation's life.
func Statuses() []Status {
	return []Status{Draft, Matching, PendingCallback, Assigned, InCall, CallEnded, Completed, Cancelled, Expired}
}

// Terminal tells whether nothing but a refund or a corrected note can follow.
func (s Status) Terminal() bool { return s == Completed || s == Cancelled || s == Expired }

// Consultation is one consultation with everything the state machine knows of it. Partners see the fields of
// decision H4 only: never the lawyer, the phone number or the fields under "machine".
type Consultation struct {
	ID               string
	ApplicationID    string
	ClientID         string
	Status           Status
	Competence       string // catalog code
	Language         string // catalog code
	Subject          string // 3 to 200 code points; sealed at rest
	Description      string // at most 2000 code points, empty when the partner gave none; sealed at rest
	RecordingConsent bool
	ExternalRef      string      // at most 100 code points, empty when the partner gave none
	Price            money.Cents // reserved at creation

	CreatedAt     time.Time
	UpdatedAt     time.Time
	AssignedAt    *time.Time // when the present lawyer took it
	CallbackDueAt *time.Time // set with PENDING_CALLBACK, kept from then on
	CallStartedAt *time.Time
	CallEndedAt   *time.Time
	DurationSec   *int // joined time, 0 to 1200 seconds; set with CallEndedAt
	CompletedAt   *time.Time
	CancelledAt   *time.Time
	ExpiredAt     *time.Time
	Refunded      money.Cents // released or paid back; 0 while RefundedAt is nil
	RefundedAt    *time.Time
	ErasedAt      *time.Time // when its texts were destroyed at the client's request

	// machine
	Crew            matching.Crew // whose lawyers may be offered it
	LawyerID        string        // empty while nobody has it
	EndReason       Reason
	EventSeq        int64      // webhook events so far
	SearchStartedAt time.Time  // first search; the 30 minutes run from here
	FirstAssignedAt *time.Time // when a lawyer accepted it first, whoever has it now: the wait that was estimated ended then
	DialAttempts    int        // calls begun in this assignment
	FirstDialAt     *time.Time
	LastDialAt      *time.Time
	NextDialAt      *time.Time // the client was not reached and is called again then; while it is searched, nobody is asked before
	ChooseBy        *time.Time // until when his lawyer may say that he waits for that
	EarlierAttempts int        // unanswered ones with lawyers who had it before
	CallableFrom    *time.Time // hours of the client's day in which a callback may be offered: the present ones, or the next
	CallableUntil   *time.Time
	AlarmedAt       *time.Time // when operators were told that the callback is due soon
	CallCapAt       *time.Time // when 20 minutes of joined time are reached
	LineLostAt      *time.Time // the line dropped and may be restored
	Reminders       int        // reminders of a missing note so far
	TraceParent     string     // the span that it was created in; empty when nothing was traced
}

// WaiverAcknowledged is always true: nothing else is ever stored. The evidence of it is a record of its own.
func (c Consultation) WaiverAcknowledged() bool { return true }

// NoteAvailable tells whether the preview can be read: exactly when the consultation is completed (T4).
func (c Consultation) NoteAvailable() bool { return c.Status == Completed }

// NoteDueAt is when a consultation whose call has ended is closed with the money back, unless the note has come.
func (c Consultation) NoteDueAt() time.Time { return c.CallEndedAt.Add(NoteLimit) }

// Dialling tells whether a call is being set up: begun, and neither joined nor given up.
func (c Consultation) Dialling() bool {
	return c.Status == Assigned && c.DialAttempts > 0 && c.NextDialAt == nil
}

// Attempts counts the calls that were begun to reach the client, whoever began them.
func (c Consultation) Attempts() int { return c.EarlierAttempts + c.DialAttempts }

// Reason is why a consultation ended without being completed, or why a lawyer gave it back.
type Reason string

// Code is the reason as partners read it; empty for none.
func (r Reason) Code() string { return strings.ToUpper(string(r)) }

// Reasons of an end, recorded on the consultation.
const (
	CancelledByPartner Reason = "cancelled_by_partner"
	CancelledByClient  Reason = "cancelled_by_client"
	GuaranteeMissed    Reason = "guarantee_missed"   // nobody was found before callbackDueAt (X14)
	ClientNotReached   Reason = "client_not_reached" // three attempts (X9)
	PhoneLost          Reason = "phone_lost"         // the number lost its verification (X9)
	WrongPerson        Reason = "wrong_person"       // X12
	TooShort           Reason = "too_short"          // X12: joined for less than a minute
	TechnicalFault     Reason = "technical_fault"    // X12
	NoteMissing        Reason = "note_missing"       // X12: seven days after the call, or before by an operator
	WithdrawnFrom      Reason = "withdrawn_from"     // X12: by an operator, after the client's declaration during or after the call
	CancelledByUs      Reason = "cancelled_by_operator"
)

// Reasons for which a lawyer gives an assigned consultation back (X7, X8).
const (
	ConflictOfInterest Reason = "conflict_of_interest"
	NotMyField         Reason = "not_my_field"
	Unavailable        Reason = "unavailable"
)

// LawyersReasons lists why a lawyer can decline an offer or give a consultation back.
func LawyersReasons() []Reason { return []Reason{ConflictOfInterest, NotMyField, Unavailable, busy} }

// busy is a reason to decline an offer only.
const busy Reason = matching.ReasonBusy

// Position is a place in a list: just after the item that it names.
type Position struct {
	CreatedAt time.Time
	ID        string
}
