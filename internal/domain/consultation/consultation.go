package consultation

import (
	"strings"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/wallet"
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

// Request is what a partner asks for. It is written once, when the consultation begins or is erased.
type Request struct {
	ApplicationID string `gorm:"column:application_id;<-:create"`
	ClientID      string `gorm:"column:client_id;<-:create"`
	Competence    string `gorm:"column:competence;<-:create"` // catalog code
	Language      string `gorm:"column:language;<-:create"`   // catalog code
	// 3 to 200 code points; the row has it sealed
	Subject string `gorm:"-"`
	// at most 2000 code points, may be empty; the row has it sealed
	Description string `gorm:"-"`
	// at most 100 code points, may be empty
	ExternalRef      string `gorm:"column:external_ref;<-:create;serializer:zeronull"`
	RecordingConsent bool   `gorm:"column:recording_consent;<-:create"`
}

// Consultation is one consultation with everything the state machine knows of it. Partners see the fields of
// decision H4 only: never the lawyer, the phone number or the fields under "machine". Its fields are columns of
// [row], unless they are marked "-"; those that a transition never writes are marked "<-:create".
type Consultation struct {
	ID     string `gorm:"column:id;primaryKey"`
	Status Status `gorm:"column:status"`
	Request
	Price money.Cents `gorm:"column:price_cents;<-:create"` // reserved at creation

	CreatedAt     time.Time   `gorm:"column:created_at;<-:create;autoCreateTime:false"`
	UpdatedAt     time.Time   `gorm:"column:updated_at;autoUpdateTime:false"`
	AssignedAt    *time.Time  `gorm:"column:assigned_at"`     // when the present lawyer took it
	CallbackDueAt *time.Time  `gorm:"column:callback_due_at"` // set with PENDING_CALLBACK, kept from then on
	CallStartedAt *time.Time  `gorm:"column:call_started_at"`
	CallEndedAt   *time.Time  `gorm:"column:call_ended_at"`
	DurationSec   *int        `gorm:"column:duration_sec"` // joined time, 0 to 1200 seconds; set with CallEndedAt
	CompletedAt   *time.Time  `gorm:"column:completed_at"`
	CancelledAt   *time.Time  `gorm:"column:cancelled_at"`
	ExpiredAt     *time.Time  `gorm:"column:expired_at"`
	Refunded      money.Cents `gorm:"-"` // released or paid back; 0 while RefundedAt is nil
	RefundedAt    *time.Time  `gorm:"column:refunded_at"`
	// when its texts were destroyed at the client's request
	ErasedAt *time.Time `gorm:"column:erased_at;<-:create"`

	// machine
	//
	// whose lawyers may be offered it; empty: everybody's
	Crew      matching.Crew `gorm:"column:crew;serializer:zeronull"`
	LawyerID  string        `gorm:"column:lawyer_id;serializer:zeronull"` // empty while nobody has it
	EndReason Reason        `gorm:"column:end_reason;serializer:zeronull"`
	EventSeq  int64         `gorm:"column:event_seq"` // webhook events so far
	// first search; the 30 minutes run from here
	SearchStartedAt time.Time `gorm:"column:search_started_at;<-:create"`
	// FirstAssignedAt is when a lawyer accepted it first, whoever has it now: the wait that was estimated ended then.
	// It is nil also for what older releases assigned.
	FirstAssignedAt *time.Time `gorm:"column:first_assigned_at"`
	DialAttempts    int        `gorm:"column:dial_attempts"` // calls begun in this assignment
	FirstDialAt     *time.Time `gorm:"column:first_dial_at"`
	LastDialAt      *time.Time `gorm:"column:last_dial_at"`
	// NextDialAt is when the client, who was not reached, is called again; while it is searched, nobody is asked
	// before.
	NextDialAt      *time.Time `gorm:"column:next_dial_at"`
	ChooseBy        *time.Time `gorm:"column:choose_by"`        // until when his lawyer may say that he waits for that
	EarlierAttempts int        `gorm:"column:earlier_attempts"` // unanswered ones with lawyers who had it before
	// CallableFrom begins the hours of the client's day in which a callback may be offered: the present ones, or the
	// next.
	CallableFrom  *time.Time `gorm:"column:callable_from"`
	CallableUntil *time.Time `gorm:"column:callable_until"` // their end, exclusive
	AlarmedAt     *time.Time `gorm:"column:alarmed_at"`     // when operators were told that the callback is due soon
	CallCapAt     *time.Time `gorm:"column:call_cap_at"`    // when 20 minutes of joined time are reached
	LineLostAt    *time.Time `gorm:"column:line_lost_at"`   // the line dropped and may be restored
	Reminders     int        `gorm:"column:reminders"`      // reminders of a missing note so far
	// TraceParent is the span that it was created in; empty when nothing was traced.
	TraceParent string `gorm:"column:trace_parent;<-:create;serializer:zeronull"`
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
	// X12: by an operator, after the client's declaration during or after the call
	WithdrawnFrom Reason = "withdrawn_from"
	CancelledByUs Reason = "cancelled_by_operator"
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
