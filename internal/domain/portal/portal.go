package portal

import (
	"errors"
	"slices"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/signin"
)

// Limits of what people make at the portal.
const (
	MaxApplications = 10 // of a sandbox, that one person owns
	MaxPeople       = 50 // members and open invitations of an application

	SignUpLifetime     = 24 * time.Hour
	InvitationLifetime = 7 * 24 * time.Hour

	linksPerHour = 5 // mails with a link to one address, for one application or for a sign-up
)

// What bounds the mails that people have us send. All processes count together, and what is taken back counts, too.
var (
	invitationQuota = ratelimit.Quota{Burst: 30, Interval: time.Hour}    // of an application, and of a person
	signUpQuota     = ratelimit.Quota{Burst: 5, Interval: 4 * time.Hour} // to one address

	contactQuota     = ratelimit.Quota{Burst: 10, Interval: time.Hour} // contact addresses of an application
	contactMailQuota = ratelimit.Quota{Burst: 10, Interval: time.Hour} // to one contact who is no member
)

// goesOn are the acts that end something: they stay while an application is suspended.
var goesOn = map[string]bool{"application.end_previous_secret": true, "application.cancel_invitation": true,
	"application.set_role": true, "application.remove_person": true}

// Role is what a person may do with an application.
type Role string

// The roles; each may what the next one may.
const (
	Owner     Role = "owner"     // people, too
	Developer Role = "developer" // settings, secrets, webhooks
	Viewer    Role = "viewer"    // sees
)

// Roles lists them.
func Roles() []Role { return []Role{Owner, Developer, Viewer} }

// May tells whether a role is enough for what another one may.
func (r Role) May(what Role) bool {
	at := slices.Index(Roles(), r)
	return at >= 0 && at <= slices.Index(Roles(), what)
}

// Faults that callers distinguish, besides [application.ErrInvalid] and the problems of package webhook.
var (
	ErrForbidden = errors.New("the role does not allow it")
	ErrLastOwner = errors.New("an application keeps an owner")
	ErrTooMany   = errors.New("there are as many as there may be")
	ErrMember    = errors.New("the person is a member already")
	ErrInvalid   = errors.New("the data of the person are not valid")
	ErrSuspended = errors.New("the application is suspended")
	ErrBadLink   = signin.ErrBadLink
	ErrLive      = errors.New("applications of a live deployment are made by operators")
)

// ErrPortal refuses an application's credentials what a person has to do: a secret that leaked must not move clients.
var ErrPortal = problem.Declare(problem.Forbidden, "PORTAL_REQUIRED",
	"In live, the name and the redirect URIs are changed at the developer portal by somebody who has signed in lately.")

// Caller is who asks: a person, or the application itself with its credentials.
type Caller struct {
	StaffID       string // empty: the application itself
	ApplicationID string
	Device        staff.Device // named in the mails about what is changed
}

// Itself is the application that shows its credentials, at an address.
func Itself(applicationID, address string) Caller {
	return Caller{ApplicationID: applicationID, Device: staff.Device{Address: address}}
}

func (c Caller) actor() string {
	if c.StaffID == "" {
		return c.ApplicationID
	}
	return c.StaffID
}

// why is the reason of an audit entry: people of a partner are asked for none.
func (c Caller) why() string {
	if c.StaffID == "" {
		return "By the application, through the Platform API."
	}
	return "By its people, at the portal."
}

// Membership is an application as one of its people sees it.
type Membership struct {
	Application application.Application
	Role        Role
}

// Member is one of the people of an application.
type Member struct {
	StaffID     string
	Email, Name string
	Role        Role
	Since       time.Time
}

// Invitation is one that waits for its link to be used.
type Invitation struct {
	ID        string // does not open anything
	Email     string
	Role      Role
	ExpiresAt time.Time
}

// Usage is what an application may call in a minute, and what is left of it at this process.
type Usage struct {
	Partner  ratelimit.Decision // of all clients together
	Client   int                // of each client
	Platform ratelimit.Decision
}
