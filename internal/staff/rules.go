package staff

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"partnerd/internal/text"
)

const maxNameLength = 200

// checked returns n with every field in the form in which it is stored.
func checked(n NewPerson) (NewPerson, error) {
	n.Email, n.Name = strings.TrimSpace(n.Email), norm.NFC.String(strings.TrimSpace(n.Name))
	n.Roles = slices.Compact(slices.Sorted(slices.Values(n.Roles)))
	switch {
	case !text.IsEmail(n.Email):
		return n, fmt.Errorf("%w: %.80q is not an e-mail address", ErrInvalid, n.Email)
	case !text.IsName(n.Name, maxNameLength):
		return n, fmt.Errorf("%w: the name must have 1 to %d characters, none of them a control character", ErrInvalid, maxNameLength)
	case !slices.Contains(text.Languages, n.Language):
		return n, fmt.Errorf("%w: the language must be one of %s", ErrInvalid, strings.Join(text.Languages, ", "))
	case n.Kind == Operator && len(n.Roles) == 0:
		return n, fmt.Errorf("%w: an operator needs a role", ErrInvalid)
	case n.Kind != Operator && len(n.Roles) > 0:
		return n, fmt.Errorf("%w: roles are for operators", ErrInvalid)
	}
	for _, r := range n.Roles {
		if !slices.Contains(Roles(), r) {
			return n, fmt.Errorf("%w: %.20q is not a role: there are %v", ErrInvalid, r, Roles())
		}
	}
	return n, nil
}
