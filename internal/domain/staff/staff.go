package staff

import (
	"errors"
	"slices"
	"time"
)

// SessionLifetime is how long a session lasts, whether it is used or not. IdleLifetime is how long it lasts unused,
// except for lawyers, who may wait for a call without using it.
const (
	SessionLifetime = 12 * time.Hour
	IdleLifetime    = 30 * time.Minute
)

// Kind tells lawyers, operators and partners' people apart.
type Kind string

// The kinds.
const (
	Lawyer   Kind = "LAWYER"
	Operator Kind = "OPERATOR"
	Partner  Kind = "PARTNER" // works for a partner; package portal stores their roles in applications
)

// Role is a set of permissions of an operator.
type Role string

// The roles. An admin has all permissions.
const (
	Support  Role = "support"
	Finance  Role = "finance"
	Security Role = "security"
	Admin    Role = "admin"
)

// Roles lists the roles.
func Roles() []Role { return []Role{Support, Finance, Security, Admin} }

// State is the state of a person's account.
type State string

// The states.
const (
	Invited  State = "INVITED" // has not chosen a password
	Active   State = "ACTIVE"
	Disabled State = "DISABLED" // cannot sign in
)

// Errors that callers distinguish. None of them is part of the partner contract.
var (
	ErrNotFound   = errors.New("there is no such person")
	ErrEmailTaken = errors.New("the e-mail address belongs to another person")
	ErrInvalid    = errors.New("the person's data are not valid")
	ErrNoSession  = errors.New("nobody is signed in")
	ErrLastAdmin  = errors.New("there must be an admin who can sign in")
)

// Person is someone other than a client who signs in here, without secrets.
type Person struct {
	ID           string // stf_…
	Kind         Kind
	LawyerID     string // set for a lawyer
	Email, Name  string
	Language     string // one of text.Languages
	Roles        []Role // set for an operator
	State        State
	SecondFactor bool // a second factor is set up
	CreatedAt    time.Time
}

// May reports whether an operator has one of the roles or is an admin. Without roles it reports whether the person is
// an operator.
func (p Person) May(roles ...Role) bool {
	if p.Kind != Operator {
		return false
	}
	return len(roles) == 0 || slices.Contains(p.Roles, Admin) ||
		slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// NewPerson is the input of [Service.Invite].
type NewPerson struct {
	Kind     Kind
	LawyerID string // set for a lawyer
	Email    string // unique, ignoring case
	Name     string // 1 to 200 code points
	Language string // of emails and pages: en or fr
	Roles    []Role // at least one for an operator
	SentBy   string // the sender of the invitation, as the audit log names them
}

// Session is an open sign-in with a second factor or a passkey.
type Session struct {
	ID         string // cannot be used to sign in
	Person     Person
	LeaseEpoch int64 // epoch of the duty begun in it, see [Service.KeepLease]; 0 for none
	SignedInAt time.Time
}

// FreshSignIn is how long after a sign-in a person may make sensitive changes, see [Session.Fresh].
const FreshSignIn = 15 * time.Minute

// Fresh reports whether the sign-in is recent enough to rule out a browser left open.
func (s Session) Fresh(now time.Time) bool { return now.Sub(s.SignedInAt) <= FreshSignIn }

// Lease returns the lease as package lawyer defines it. It is either the current one, or a newer connection has taken
// over.
func (s Session) Lease() (lawyerID string, epoch int64) { return s.Person.LawyerID, s.LeaseEpoch }

// CookieName returns the name of the session cookie. With secure, browsers reject the cookie from other hosts and over
// plain HTTP.
func CookieName(secure bool) string {
	if secure {
		return "__Host-partnerd_staff"
	}
	return "partnerd_staff"
}
