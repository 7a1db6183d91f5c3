package staff

import (
	"errors"
	"slices"
	"time"
)

// How long a sign-in lasts, whether it is used or not, and how long that of anybody but a lawyer lasts unused. A lawyer
// who waits for a call uses his seldom.
const (
	SessionLifetime = 12 * time.Hour
	IdleLifetime    = 30 * time.Minute
)

// Kind is what a person does here.
type Kind string

// The kinds.
const (
	Lawyer   Kind = "LAWYER"
	Operator Kind = "OPERATOR"
	Partner  Kind = "PARTNER" // somebody of a partner; what he may do with which application is kept by package portal
)

// Role is what an operator may do.
type Role string

// The roles. An admin may everything.
const (
	Support  Role = "support"
	Finance  Role = "finance"
	Security Role = "security"
	Admin    Role = "admin"
)

// Roles lists them.
func Roles() []Role { return []Role{Support, Finance, Security, Admin} }

// State is how far a person is.
type State string

// The states.
const (
	Invited  State = "INVITED" // has not chosen a password
	Active   State = "ACTIVE"
	Disabled State = "DISABLED" // cannot sign in
)

// Faults that callers distinguish. None of them is part of the partner contract.
var (
	ErrNotFound   = errors.New("there is no such person")
	ErrEmailTaken = errors.New("the e-mail address belongs to another person")
	ErrInvalid    = errors.New("the person's data are not valid")
	ErrNoSession  = errors.New("nobody is signed in")
	ErrLastAdmin  = errors.New("there must be an admin who can sign in")
)

// Person is somebody who signs in here other than a client, without secrets.
type Person struct {
	ID           string // stf_…
	Kind         Kind
	LawyerID     string // of a lawyer
	Email, Name  string
	Language     string // of text.Languages
	Roles        []Role // of an operator
	State        State
	SecondFactor bool // confirmed
	CreatedAt    time.Time
}

// May tells whether an operator has one of the roles, or is an admin. Without roles to choose from it is every
// operator.
func (p Person) May(roles ...Role) bool {
	if p.Kind != Operator {
		return false
	}
	return len(roles) == 0 || slices.Contains(p.Roles, Admin) ||
		slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// NewPerson is what [Service.Invite] needs.
type NewPerson struct {
	Kind     Kind
	LawyerID string // of a lawyer
	Email    string // of one person only, whatever the case
	Name     string // 1 to 200 code points
	Language string // of mails and pages: en or fr
	Roles    []Role // of an operator, at least one
	SentBy   string // who invites them, as the audit names them
}

// Session is a sign-in with a second factor, or with a passkey, that has not ended.
type Session struct {
	ID         string // names it; does not sign anybody in
	Person     Person
	LeaseEpoch int64 // of the duty that the lawyer began in it, see [Service.KeepLease]; 0 for none
	SignedInAt time.Time
}

// FreshSignIn is how long after a sign-in a person may change what opens something, see [Session.Fresh].
const FreshSignIn = 15 * time.Minute

// Fresh tells whether the person has signed in so lately that a browser that was left open is no worry.
func (s Session) Fresh(now time.Time) bool { return now.Sub(s.SignedInAt) <= FreshSignIn }

// Lease returns what package lawyer calls a lease. It is his present one, or a newer connection took over.
func (s Session) Lease() (lawyerID string, epoch int64) { return s.Person.LawyerID, s.LeaseEpoch }

// CookieName is the name of the cookie with the token of a session. With secure, browsers refuse it from any other host
// or over plain HTTP.
func CookieName(secure bool) string {
	if secure {
		return "__Host-partnerd_staff"
	}
	return "partnerd_staff"
}
