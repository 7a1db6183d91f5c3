package lawyer

import (
	"errors"
	"time"
)

// PresenceFresh is how long after a heartbeat a lawyer counts as there.
const PresenceFresh = 30 * time.Second

// LeaseLost is how long after the last heartbeat an assigned consultation is taken from its lawyer
// (rule 5 of the transitions).
const LeaseLost = 60 * time.Second

// State is what a lawyer is doing.
type State string

// The states.
const (
	Offline   State = "OFFLINE"   // not signed on
	Available State = "AVAILABLE" // waits for work; the longest idle is offered it first
	Offered   State = "OFFERED"   // looks at an offer
	Busy      State = "BUSY"      // has a consultation that is assigned or in call
	WrapUp    State = "WRAP_UP"   // the call is over, the note is being written
	Away      State = "AWAY"      // a pause, a missed offer, or taken out because the records about him disagree
)

// Leaving is why a lawyer is off duty or paused.
type Leaving string

// The reasons. Each belongs to one of OFFLINE and AWAY, but SUSPENDED and SENT_HOME, which may come while a call or a
// note keeps the lawyer BUSY or in WRAP_UP: they are OFFLINE after it.
const (
	SignedOff       Leaving = "SIGNED_OFF"       // by the lawyer
	Paused          Leaving = "PAUSED"           // by the lawyer
	PausedAfter     Leaving = "PAUSED_AFTER"     // by the lawyer, for when what was in hand was over
	NoPage          Leaving = "NO_PAGE"          // no page of the desk was open: the lease was lost
	MissedOffer     Leaving = "MISSED_OFFER"     // an offer was not answered
	NotReached      Leaving = "NOT_REACHED"      // the lawyer's phone was not answered, or nobody pressed 1
	NotDialled      Leaving = "NOT_DIALLED"      // the call to the client was not begun in time
	NoteMissing     Leaving = "NOTE_MISSING"     // a note is overdue
	BySuspension    Leaving = "SUSPENDED"        // by an operator
	SentHome        Leaving = "SENT_HOME"        // by an operator
	RecordsDisagree Leaving = "RECORDS_DISAGREE" // the records about the lawyer contradict each other
)

// Reasons lists them.
func Reasons() []Leaving {
	return []Leaving{SignedOff, Paused, PausedAfter, NoPage, MissedOffer, NotReached, NotDialled, NoteMissing,
		BySuspension, SentHome, RecordsDisagree}
}

// Left is when and why a lawyer left duty; zero while on duty.
type Left struct {
	Why Leaving
	At  time.Time
}

// Move is what a change of state leads to. One off duty is made of its reason, so that the desk can say it.
type Move struct {
	to  State
	why Leaving
}

// On is a move to a state of somebody on duty.
func On(to State) Move { return Move{to: to} }

// Off is a move off duty: a lawyer who left, or whose lease was lost, is OFFLINE, anybody else AWAY.
func Off(why Leaving) Move {
	if why == SignedOff || why == NoPage {
		return Move{Offline, why}
	}
	return Move{Away, why}
}

// ToQueue tells whether the lawyer waits for work afterwards, unless something keeps them from it.
func (m Move) ToQueue() bool { return m.to == Available }

// Faults that callers distinguish. None of them is part of the partner contract.
var (
	ErrNotFound    = errors.New("there is no such lawyer")
	ErrState       = errors.New("the lawyer is not in a state that allows this")
	ErrLeaseLost   = errors.New("the lawyer is connected elsewhere or was signed off")
	ErrEmailTaken  = errors.New("the e-mail address belongs to another lawyer")
	ErrInvalid     = errors.New("the lawyer's data are not valid")
	ErrUnknownCode = errors.New("not in the catalog")
	ErrNoPhone     = errors.New("the lawyer has no phone number")
	ErrSuspended   = errors.New("the lawyer is suspended")
)

// Lawyer is one lawyer, without secrets.
type Lawyer struct {
	ID, Email, Name string
	State           State
	Simulated       bool   // plays in the sandbox; nobody can sign in as it
	ApplicationID   string // whose consultations alone he serves, in a sandbox; empty: everybody's
	Suspended       bool
	Pausing         bool      // goes AWAY instead of AVAILABLE when what he has in hand is over
	IdleSince       time.Time // zero unless the lawyer was AVAILABLE at least once
	HeartbeatAt     time.Time // zero before the first
	LeaseEpoch      int64
	Left            Left // the last time, until the lawyer is on duty again
	CreatedAt       time.Time
}

// Fresh tells whether the lawyer's presence is fresh at now.
func (l Lawyer) Fresh(now time.Time) bool { return l.HeartbeatAt.After(now.Add(-PresenceFresh)) }

// Lease is one connection of a lawyer. Whatever he does comes with it, and is refused once a newer connection took over
// or he was signed off.
type Lease struct {
	LawyerID string
	Epoch    int64
}

// NewLawyer is what [Service.Create] needs.
type NewLawyer struct {
	Email     string // unique, whatever the case
	Name      string
	Phone     string // E.164: consultations are made from it
	Simulated bool

	ApplicationID string // whose consultations alone he serves; empty: everybody's

	// Codes of the catalog, at least one of each. The lawyer serves every competence in every language.
	Competences, Languages []string
}
