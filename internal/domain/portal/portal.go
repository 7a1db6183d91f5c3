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

// Limits of what people can create at the portal.
const (
	MaxApplications = 10 // applications in a sandbox that one person can own
	MaxPeople       = 50 // members and open invitations of an application

	SignUpLifetime     = 24 * time.Hour
	InvitationLifetime = 7 * 24 * time.Hour

	linksPerHour = 5 // emails with a link to one address, for one application or for a sign-up
)

// Limits of the emails that people can make us send. They are shared by all processes. Cancelled invitations count too.
var (
	invitationQuota = ratelimit.Quota{Burst: 30, Interval: time.Hour}    // per application and per person
	signUpQuota     = ratelimit.Quota{Burst: 5, Interval: 4 * time.Hour} // per address

	contactQuota     = ratelimit.Quota{Burst: 10, Interval: time.Hour} // contact addresses per application
	contactMailQuota = ratelimit.Quota{Burst: 10, Interval: time.Hour} // per contact who is not a member
)

// allowedWhileSuspended lists the actions that only end or reduce something. They stay available while an application
// is suspended.
var allowedWhileSuspended = map[string]bool{"application.end_previous_secret": true,
	"application.cancel_invitation": true, "application.set_role": true, "application.remove_person": true}

// Role is what a person may do with an application.
type Role string

// The roles. Each one includes the permissions of the next.
const (
	Owner     Role = "owner"     // also manages people
	Developer Role = "developer" // manages settings, secrets and webhooks
	Viewer    Role = "viewer"    // can only view
)

// Roles lists the roles, highest first.
func Roles() []Role { return []Role{Owner, Developer, Viewer} }

// May reports whether role r includes the permissions of what.
func (r Role) May(what Role) bool {
	at := slices.Index(Roles(), r)
	return at >= 0 && at <= slices.Index(Roles(), what)
}

// Errors that callers distinguish, besides [application.ErrInvalid] and the problems of package webhook.
var (
	ErrForbidden = errors.New("the role does not allow it")
	ErrLastOwner = errors.New("an application keeps an owner")
	ErrTooMany   = errors.New("a limit is reached")
	ErrMember    = errors.New("the person is a member already")
	ErrInvalid   = errors.New("the data of the person are not valid")
	ErrSuspended = errors.New("the application is suspended")
	ErrBadLink   = signin.ErrBadLink
	ErrLive      = errors.New("applications of a live deployment are created by operators")
)

// What [ErrTooMany] names.
var (
	ruleApplications = problem.DeclareRule("apps.many", problem.IssueTooLong,
		"The person already owns %d applications, the maximum.")
	rulePeople = problem.DeclareRule("people.many", problem.IssueTooLong,
		"The application has %d team members and pending invitations, the maximum. Remove one first.")
	ruleLinks = problem.DeclareRule("links.many", problem.IssueTooLong,
		"%d invitations were emailed to this address in one hour, the maximum. Try again later.")
)

// ErrPortal is returned to an application's credentials for changes that need a person. A leaked secret must not be
// able to redirect clients.
var ErrPortal = problem.Declare(problem.Forbidden, "PORTAL_REQUIRED",
	"In production, change the name and the redirect URIs in the developer portal, with a recent sign-in.")

// Caller is a person, or the application itself with its credentials.
type Caller struct {
	StaffID       string // empty: the application itself
	ApplicationID string
	Device        staff.Device // named in emails about the change
}

// Itself returns the application as caller, with the IP address from which it presented its credentials.
func Itself(applicationID, address string) Caller {
	return Caller{ApplicationID: applicationID, Device: staff.Device{Address: address}}
}

func (c Caller) actor() string {
	if c.StaffID == "" {
		return c.ApplicationID
	}
	return c.StaffID
}

// auditReason returns the reason of an audit entry, because people of a partner are not asked for one.
func (c Caller) auditReason() string {
	if c.StaffID == "" {
		return "By the application, through the Platform API."
	}
	return "By its people, at the portal."
}

// Membership is an application as one of its members sees it.
type Membership struct {
	Application application.Application
	Role        Role
}

// Member is a member of an application.
type Member struct {
	StaffID     string
	Email, Name string
	Role        Role
	Since       time.Time
}

// Invitation is an open invitation.
type Invitation struct {
	ID        string // cannot be used to accept it
	Email     string
	Role      Role
	ExpiresAt time.Time
}

// Usage is what an application may call per minute, and what is left of it at this process.
type Usage struct {
	Partner  ratelimit.Decision // across all clients
	Client   int                // per client
	Platform ratelimit.Decision
}
