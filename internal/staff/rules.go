package staff

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/problem"
	"partnerd/internal/text"
)

const maxNameLength = 200

// checked returns n with every field in the form in which it is stored.
func checked(n NewPerson) (NewPerson, error) {
	n.Email, n.Name = strings.TrimSpace(n.Email), norm.NFC.String(strings.TrimSpace(n.Name))
	n.Roles = slices.Compact(slices.Sorted(slices.Values(n.Roles)))
	issues := problem.Name("name", n.Name, maxNameLength, text.InName)
	if !text.IsEmail(n.Email) {
		issues = append(issues, problem.Address("email", n.Email))
	}
	if !slices.Contains(text.Languages, n.Language) {
		issues = append(issues, problem.Choice("language", n.Language))
	}
	if n.Kind == Operator {
		issues = append(issues, checkRoles(n.Roles)...)
	} else if len(n.Roles) > 0 {
		issues = append(issues, ruleRoles.At("roles"))
	}
	if issues != nil {
		return n, problem.Refuse(ErrInvalid, issues...)
	}
	return n, nil
}

var (
	ruleRoles   = problem.DeclareRule("roles", problem.IssueInvalidValue, "Only operators have roles.")
	ruleInvited = problem.DeclareRule("invited", problem.IssueInvalidValue, "This lawyer has already been invited.")
)

// checkRoles refuses the roles of an operator: there must be one.
func checkRoles(roles []Role) []problem.Issue {
	if len(roles) == 0 {
		return []problem.Issue{problem.RuleRequired.At("roles")}
	}
	for _, r := range roles {
		if !slices.Contains(Roles(), r) {
			return []problem.Issue{problem.Choice("roles", string(r))}
		}
	}
	return nil
}
