package app

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/staff"
)

// Invitation invites the developer of a sandbox to become a member of its staff.
type Invitation struct {
	Person staff.Person
	Link   string // empty if it was emailed before and is still valid
}

// SeedStaff invites an operator and a lawyer of the sandbox, and again if the invitation has expired. It returns those
// who have not accepted yet.
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
		// another process was faster
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

// seedPerson invites a person who is unknown, or who did not accept before their invitation expired.
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
