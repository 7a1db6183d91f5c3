package shell

import (
	"strings"

	"partnerd/internal/domain/staff"
)

// Where a client decides about an application: the endpoint that shows the page, and the form of it.
const (
	AuthorizePath = "/api/oauth/authorize"
	ConsentPath   = "/oauth/consent"
)

// Where the people who work here sign in, and where they go then.
const (
	StaffLogin      = "/staff/login"
	StaffSafety     = "/staff/security"
	LawyersDesk     = "/desk"
	KeyPage         = LawyersDesk + "/key" // where a lawyer takes copies of notes
	OperatorDesk    = "/ops"
	DevelopersDesk  = "/developers"
	DevelopersLogin = DevelopersDesk + "/login"
)

// DeskOf is where a person works.
func DeskOf(person staff.Person) string {
	switch person.Kind {
	case staff.Lawyer:
		return LawyersDesk
	case staff.Partner:
		return DevelopersDesk
	case staff.Operator:
	}
	return OperatorDesk
}

// StaffNext returns raw when it is a page of a desk, else the desk of the person.
func StaffNext(raw string, person staff.Person) string {
	next := SafeNext(raw)
	for _, root := range []string{StaffSafety, LawyersDesk, OperatorDesk, DevelopersDesk} {
		if next == root || strings.HasPrefix(next, root+"/") || strings.HasPrefix(next, root+"?") {
			return next
		}
	}
	return DeskOf(person)
}
