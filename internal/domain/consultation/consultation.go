package consultation

import (
	"strings"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/wallet"
)

// Price is the price of a consultation.
const Price = wallet.Price

// Status is the status of a consultation. The names are part of the contract.
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

// Statuses lists all nine statuses in the order of the lifecycle.
func Statuses() []Status {
	return []Status{Draft, Matching, PendingCallback, Assigned, InCall, CallEnded, Completed, Cancelled, Expired}
}

// Terminal reports whether only a refund or a corrected note can follow.
func (s Status) Terminal() bool { return s == Completed || s == Cancelled || s == Expired }

// Request is what a partner asks for. It is written only when the consultation begins or is erased.
type Request struct {
	ApplicationID string `gorm:"column:application_id;<-:create"`
	ClientID      string `gorm:"column:client_id;<-:create"`
	Competence    string `gorm:"column:competence;<-:create"` // catalog code
	Language      string `gorm:"column:language;<-:create"`   // catalog code
	// 3 to 200 code points; sealed in the row
	Subject string `gorm:"-"`
	// at most 2000 code points, may be empty; sealed in the row
	Description string `gorm:"-"`
	// at most 100 code points, may be empty
	ExternalRef      string `gorm:"column:external_ref;<-:create;serializer:zeronull"`
	RecordingConsent bool   `gorm:"column:recording_consent;<-:create"`
}

// Consultation is a consultation with everything that the state machine knows about it. Partners see only the fields of
// decision H4: never the lawyer, the phone number or the fields under "machine". Its fields are columns of [row],
// unless marked "-". Fields that a transition never writes are marked "<-:create".
type Consultation struct {
	ID     string `gorm:"column:id;primaryKey"`
	Status Status `gorm:"column:status"`
	Request
	Price money.Cents `gorm:"column:price_cents;<-:create"` // reserved at creation

	CreatedAt     time.Time   `gorm:"column:created_at;<-:create;autoCreateTime:false"`
	UpdatedAt     time.Time   `gorm:"column:updated_at;autoUpdateTime:false"`
	AssignedAt    *time.Time  `gorm:"column:assigned_at"`     // when the current lawyer accepted
	CallbackDueAt *time.Time  `gorm:"column:callback_due_at"` // set with PENDING_CALLBACK and kept
	CallStartedAt *time.Time  `gorm:"column:call_started_at"`
	CallEndedAt   *time.Time  `gorm:"column:call_ended_at"`
	DurationSec   *int        `gorm:"column:duration_sec"` // joined time, 0 to 1200 seconds; set with CallEndedAt
	CompletedAt   *time.Time  `gorm:"column:completed_at"`
	CancelledAt   *time.Time  `gorm:"column:cancelled_at"`
	ExpiredAt     *time.Time  `gorm:"column:expired_at"`
	Refunded      money.Cents `gorm:"-"` // released or refunded; 0 while RefundedAt is nil
	RefundedAt    *time.Time  `gorm:"column:refunded_at"`
	// when the texts were destroyed at the client's request
	ErasedAt *time.Time `gorm:"column:erased_at;<-:create"`

	// machine
	//
	// Crew whose lawyers may be offered it; empty for the shared ones.
	Crew      matching.Crew `gorm:"column:crew;serializer:zeronull"`
	LawyerID  string        `gorm:"column:lawyer_id;serializer:zeronull"` // empty while no lawyer has it
	EndReason Reason        `gorm:"column:end_reason;serializer:zeronull"`
	EventSeq  int64         `gorm:"column:event_seq"` // webhook events so far
	// when the first search began; the 30 minutes count from here
	SearchStartedAt time.Time `gorm:"column:search_started_at;<-:create"`
	// FirstAssignedAt is when a lawyer first accepted it, whoever has it now: the estimated wait ended then. It is also
	// nil for consultations assigned by older releases.
	FirstAssignedAt *time.Time `gorm:"column:first_assigned_at"`
	DialAttempts    int        `gorm:"column:dial_attempts"` // calls begun in this assignment
	FirstDialAt     *time.Time `gorm:"column:first_dial_at"`
	LastDialAt      *time.Time `gorm:"column:last_dial_at"`
	// NextDialAt is when the client, who was not reached, is called again. During a search no lawyer is asked before
	// then.
	NextDialAt      *time.Time `gorm:"column:next_dial_at"`
	ChooseBy        *time.Time `gorm:"column:choose_by"`        // deadline for the lawyer to choose to wait
	EarlierAttempts int        `gorm:"column:earlier_attempts"` // unanswered attempts by earlier lawyers
	// CallableFrom is the start of the client's hours in which a callback may be offered: the current hours or the
	// next.
	CallableFrom  *time.Time `gorm:"column:callable_from"`
	CallableUntil *time.Time `gorm:"column:callable_until"` // their end, exclusive
	AlarmedAt     *time.Time `gorm:"column:alarmed_at"`     // when operators were notified that it is due soon
	CallCapAt     *time.Time `gorm:"column:call_cap_at"`    // when 20 minutes of joined time will be reached
	LineLostAt    *time.Time `gorm:"column:line_lost_at"`   // when the line dropped; it may be restored
	Reminders     int        `gorm:"column:reminders"`      // reminders of a missing note so far
	// TraceParent is the span in which it was created; empty if nothing was traced.
	TraceParent string `gorm:"column:trace_parent;<-:create;serializer:zeronull"`
}

// WaiverAcknowledged is always true, because nothing else is ever stored. The evidence of the waiver is a separate
// record.
func (c Consultation) WaiverAcknowledged() bool { return true }

// NoteAvailable reports whether the preview can be read. That is the case exactly when the consultation is completed
// (T4).
func (c Consultation) NoteAvailable() bool { return c.Status == Completed }

// NoteDueAt returns when a consultation whose call has ended is closed and its money released, unless the note arrives.
func (c Consultation) NoteDueAt() time.Time { return c.CallEndedAt.Add(NoteLimit) }

// Dialling reports whether a call is being set up: it has begun, and has neither joined nor failed.
func (c Consultation) Dialling() bool {
	return c.Status == Assigned && c.DialAttempts > 0 && c.NextDialAt == nil
}

// Attempts counts the calls begun to reach the client, by any lawyer.
func (c Consultation) Attempts() int { return c.EarlierAttempts + c.DialAttempts }

// Reason is why a consultation ended without being completed, or why a lawyer returned it.
type Reason string

// Code returns the reason as partners see it; empty for none.
func (r Reason) Code() string { return strings.ToUpper(string(r)) }

// Reasons of an end, stored with the consultation.
const (
	CancelledByPartner Reason = "cancelled_by_partner"
	CancelledByClient  Reason = "cancelled_by_client"
	GuaranteeMissed    Reason = "guarantee_missed"   // no lawyer was found before callbackDueAt (X14)
	ClientNotReached   Reason = "client_not_reached" // three attempts (X9)
	PhoneLost          Reason = "phone_lost"         // the number lost its verification (X9)
	WrongPerson        Reason = "wrong_person"       // X12
	TooShort           Reason = "too_short"          // X12: joined for less than a minute
	TechnicalFault     Reason = "technical_fault"    // X12
	NoteMissing        Reason = "note_missing"       // X12: seven days after the call, or earlier by an operator
	// X12: by an operator, after the client declared a withdrawal during or after the call
	WithdrawnFrom Reason = "withdrawn_from"
	CancelledByUs Reason = "cancelled_by_operator"
)

// Reasons for which a lawyer returns an assigned consultation (X7, X8).
const (
	ConflictOfInterest Reason = "conflict_of_interest"
	NotMyField         Reason = "not_my_field"
	Unavailable        Reason = "unavailable"
)

// LawyersReasons lists the reasons for which a lawyer can decline an offer or return a consultation.
func LawyersReasons() []Reason { return []Reason{ConflictOfInterest, NotMyField, Unavailable, busy} }

// busy is a reason only to decline an offer.
const busy Reason = matching.ReasonBusy

// Position is a place in a list: just after the item it names.
type Position struct {
	CreatedAt time.Time
	ID        string
}
