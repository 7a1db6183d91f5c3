package app

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/staff"
)

// Invitation is how the developer of a sandbox becomes one of the people who work there.
type Invitation struct {
	Person staff.Person
	Link   string // empty when it was mailed before, and can still be used
}

// SeedStaff invites an operator and a lawyer of the sandbox, anew when the invitation ran out. It returns those who
// have not come yet.
func (a *App) SeedStaff(ctx context.Context) (list []Invitation, err error) {
	operator := staff.NewPerson{Email: "operator@partnerd.example", Name: "Demo Operator", Language: "en",
		Roles: []staff.Role{staff.Admin}}
	counsel := lawyer.NewLawyer{Email: "lawyer@partnerd.example", Name: "Demo Lawyer", Phone: "+33639980010",
		Competences: []string{"HOUSING"}, Languages: []string{"FR", "EN"}}
	for _, one := range []struct {
		email  string
		invite func() (link string, err error)
	}{
		{operator.Email, func() (link string, err error) {
			_, link, err = a.Operator.InviteOperator(ctx, byProgram, operator)
			return link, err
		}},
		{counsel.Email, func() (link string, err error) {
			_, link, err = a.Operator.InviteLawyer(ctx, byProgram, counsel, "en")
			return link, err
		}},
	} {
		link, err := a.seedPerson(ctx, one.email, one.invite)
		// another process is quicker
		if err != nil && !errors.Is(err, staff.ErrEmailTaken) && !errors.Is(err, lawyer.ErrEmailTaken) {
			return nil, fmt.Errorf("invite %s: %w", one.email, err)
		}
		p, err := a.Staff.ByEmail(ctx, a.DB.Read(), one.email)
		if err != nil {
			return nil, err
		}
		if p.State == staff.Invited {
			list = append(list, Invitation{p, link})
		}
	}
	return list, nil
}

// seedPerson invites who is not known, or did not come while his invitation lasted.
func (a *App) seedPerson(ctx context.Context, email string, invite func() (string, error)) (link string, err error) {
	p, err := a.Staff.ByEmail(ctx, a.DB.Read(), email)
	if errors.Is(err, staff.ErrNotFound) {
		return invite()
	}
	if err != nil || p.State != staff.Invited {
		return "", err
	}
	if lasts, err := a.Staff.InvitationLasts(ctx, a.DB.Read(), p.ID); err != nil || lasts {
		return "", err
	}
	if p.Kind == staff.Lawyer {
		_, link, err = a.Operator.ReinviteLawyer(ctx, byProgram, p.LawyerID, p.Language)
	} else {
		_, link, err = a.Operator.ReinvitePerson(ctx, byProgram, p.ID)
	}
	return link, err
}
