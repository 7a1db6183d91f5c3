package lawyer

import (
	"errors"
	"time"
)

// PresenceFresh is how long after a heartbeat a lawyer counts as present.
const PresenceFresh = 30 * time.Second

// LeaseLost is how long after the last heartbeat an assigned consultation is taken from its lawyer (rule 5 of the
// transitions).
const LeaseLost = 60 * time.Second

// State is what a lawyer is doing.
type State string

// The states.
const (
	Offline   State = "OFFLINE"   // not signed on
	Available State = "AVAILABLE" // waits for work; offers go to the longest idle first
	Offered   State = "OFFERED"   // has an open offer
	Busy      State = "BUSY"      // has a consultation that is assigned or in call
	WrapUp    State = "WRAP_UP"   // the call is over, the note is being written
	Away      State = "AWAY"      // paused, missed an offer, or quarantined because the records about them disagree
)

// Leaving is the reason why a lawyer is off duty or paused.
type Leaving string

// The reasons. Each belongs either to OFFLINE or to AWAY, except SUSPENDED and SENT_HOME. These may be set while a call
// or a note keeps the lawyer BUSY or in WRAP_UP, and the lawyer is OFFLINE afterwards.
const (
	SignedOff       Leaving = "SIGNED_OFF"       // by the lawyer
	Paused          Leaving = "PAUSED"           // by the lawyer
	PausedAfter     Leaving = "PAUSED_AFTER"     // by the lawyer, to take effect after the work in hand
	NoPage          Leaving = "NO_PAGE"          // no desk page was open, so the lease was lost
	MissedOffer     Leaving = "MISSED_OFFER"     // an offer was not answered
	NotReached      Leaving = "NOT_REACHED"      // the lawyer did not answer the phone, or no one pressed 1
	NotDialled      Leaving = "NOT_DIALLED"      // the lawyer did not start the call to the client in time
	NoteMissing     Leaving = "NOTE_MISSING"     // a note is overdue
	BySuspension    Leaving = "SUSPENDED"        // by an operator
	SentHome        Leaving = "SENT_HOME"        // by an operator
	RecordsDisagree Leaving = "RECORDS_DISAGREE" // the records about the lawyer contradict each other
)

// Reasons lists the reasons.
func Reasons() []Leaving {
	return []Leaving{SignedOff, Paused, PausedAfter, NoPage, MissedOffer, NotReached, NotDialled, NoteMissing,
		BySuspension, SentHome, RecordsDisagree}
}

// Left is when and why a lawyer left duty; zero while on duty.
type Left struct {
	Why Leaving
	At  time.Time
}

// Move is the target of a state change. A move off duty is created from its reason, so that the desk can show it.
type Move struct {
	to  State
	why Leaving
}

// On is a move to a state on duty.
func On(to State) Move { return Move{to: to} }

// Off is a move off duty: to OFFLINE for a lawyer who left or whose lease was lost, otherwise to AWAY.
func Off(why Leaving) Move {
	if why == SignedOff || why == NoPage {
		return Move{Offline, why}
	}
	return Move{Away, why}
}

// ToQueue reports whether the lawyer waits for work afterwards, unless a suspension or a pause prevents it.
func (m Move) ToQueue() bool { return m.to == Available }

// Errors that callers distinguish. None of them is part of the partner contract.
var (
	ErrNotFound    = errors.New("the lawyer does not exist")
	ErrState       = errors.New("the lawyer's state does not allow this")
	ErrLeaseLost   = errors.New("the lawyer is connected elsewhere or was signed off")
	ErrEmailTaken  = errors.New("the email address belongs to another lawyer")
	ErrInvalid     = errors.New("the lawyer's data is not valid")
	ErrUnknownCode = errors.New("not in the catalog")
	ErrNoPhone     = errors.New("the lawyer has no phone number")
	ErrSuspended   = errors.New("the lawyer is suspended")
)

// Lawyer is a lawyer, without secrets.
type Lawyer struct {
	ID, Email, Name string
	State           State
	Simulated       bool   // simulated in the sandbox; no one can sign in as this lawyer
	ApplicationID   string // in a sandbox, the only application that the lawyer serves; empty if shared
	Suspended       bool
	Pausing         bool      // goes AWAY instead of AVAILABLE after the work in hand
	IdleSince       time.Time // zero if never AVAILABLE
	HeartbeatAt     time.Time // zero before the first
	LeaseEpoch      int64
	Left            Left // the last departure, until the lawyer is on duty again
	CreatedAt       time.Time
}

// Fresh reports whether the lawyer's presence is fresh at now.
func (l Lawyer) Fresh(now time.Time) bool { return l.HeartbeatAt.After(now.Add(-PresenceFresh)) }

// Lease identifies one connection of a lawyer. Every action of the lawyer passes it. It is rejected once a newer
// connection took over or the lawyer was signed off.
type Lease struct {
	LawyerID string
	Epoch    int64
}

// NewLawyer is the input of [Service.Create].
type NewLawyer struct {
	Email     string // unique, ignoring case
	Name      string
	Phone     string // E.164; calls ring this number first
	Simulated bool

	ApplicationID string // the only application that the lawyer serves; empty if shared

	// Codes of the catalog, at least one of each. The lawyer serves every competence in every language.
	Competences, Languages []string
}
