package shell

import (
	"strings"

	"partnerd/internal/domain/staff"
)

// The endpoint on which a client decides about an application, and the path of its form.
const (
	AuthorizePath = "/api/oauth/authorize"
	ConsentPath   = "/oauth/consent"
)

// Where staff sign in, and where they go next.
const (
	StaffLogin      = "/staff/login"
	StaffSafety     = "/staff/security"
	LawyersDesk     = "/desk"
	KeyPage         = LawyersDesk + "/key" // where a lawyer downloads copies of notes
	OperatorDesk    = "/ops"
	DevelopersDesk  = "/developers"
	DevelopersLogin = DevelopersDesk + "/login"
)

// DeskOf returns the desk of a person.
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

// StaffNext returns raw if it is a page of a desk, and otherwise the person's desk.
func StaffNext(raw string, person staff.Person) string {
	next := SafeNext(raw)
	for _, root := range []string{StaffSafety, LawyersDesk, OperatorDesk, DevelopersDesk} {
		if next == root || strings.HasPrefix(next, root+"/") || strings.HasPrefix(next, root+"?") {
			return next
		}
	}
	return DeskOf(person)
}
