package staff

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
)

const maxNameLength = 200

// checked returns n with every field in its stored form, or [ErrInvalid].
func checked(n NewPerson) (NewPerson, error) {
	n.Email, n.Name = strings.TrimSpace(n.Email), norm.NFC.String(strings.TrimSpace(n.Name))
	var issues, ofRoles []problem.Issue
	if n.Kind != Lawyer { // a lawyer's name comes from their lawyer record
		issues = problem.Name("name", n.Name, maxNameLength)
	}
	if !text.IsEmail(n.Email) {
		issues = append(issues, problem.Address("email", n.Email))
	}
	if !slices.Contains(text.Languages, n.Language) {
		issues = append(issues, problem.Choice("language", n.Language))
	}
	n.Roles, ofRoles = checkedRoles(n.Kind, n.Roles)
	if issues = append(issues, ofRoles...); issues != nil {
		return n, problem.Refuse(ErrInvalid, issues...)
	}
	return n, nil
}

var (
	ruleRoles   = problem.DeclareRule("roles", problem.IssueInvalidValue, "Only operators have roles.")
	ruleInvited = problem.DeclareRule("invited", problem.IssueInvalidValue, "This lawyer has already been invited.")
)

// checkedRoles returns each role once, or the issues of roles that the kind cannot have. An operator has at least one
// role; others have none.
func checkedRoles(kind Kind, roles []Role) ([]Role, []problem.Issue) {
	roles = slices.Compact(slices.Sorted(slices.Values(roles)))
	switch {
	case kind != Operator && len(roles) > 0:
		return nil, []problem.Issue{ruleRoles.At("roles")}
	case kind == Operator && len(roles) == 0:
		return nil, []problem.Issue{problem.RuleRequired.At("roles")}
	}
	for _, r := range roles {
		if !slices.Contains(Roles(), r) {
			return nil, []problem.Issue{problem.Choice("roles", string(r))}
		}
	}
	return roles, nil
}
