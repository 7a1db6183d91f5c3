package shell

import (
	"strings"

	"partnerd/internal/domain/staff"
)

const (
	AuthorizePath = "/api/oauth/authorize"
	ConsentPath   = "/oauth/consent"
)

const (
	KeyPage         = LawyersDesk + "/key"
	DevelopersDesk  = "/developers"
	DevelopersLogin = "/developers/login"
)

// Where the people who work here sign in, and where they go then.
const (
	StaffLogin   = "/staff/login"
	StaffSafety  = "/staff/security"
	LawyersDesk  = "/desk"
	OperatorDesk = "/ops"
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
