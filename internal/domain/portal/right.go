package portal

import (
	"slices"
	"time"

	"partnerd/internal/infra/postgres"
)

// Right is the permission that must hold until an action commits: the caller is a member whose role includes Need.
type Right struct {
	Caller Caller
	Need   Role
}

// Premise implements [postgres.Rests]. It fails with [ErrForbidden].
func (r Right) Premise(time.Time) (postgres.Premise, bool) {
	roles := postgres.Array[Role](slices.DeleteFunc(Roles(), func(has Role) bool { return !has.May(r.Need) }))
	args := []any{r.Caller.ApplicationID, r.Caller.StaffID, roles}
	return postgres.Premise{Statement: mayMemberSQL, Args: args, Otherwise: ErrForbidden}, true
}
