package app

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/lawyer"
	"partnerd/internal/staff"
)

// Invitation is a link with which the developer of a sandbox becomes one of the people who work there.
type Invitation struct {
	Person staff.Person
	Link   string
}

// SeedStaff invites an operator and a lawyer of the sandbox, each time anew until the invitation was used.
func (a *App) SeedStaff(ctx context.Context) (list []Invitation, err error) {
	operator := staff.NewPerson{Email: "operator@partnerd.example", Name: "Demo Operator", Language: "en", Roles: []staff.Role{staff.Admin}}
	counsel := lawyer.NewLawyer{Email: "lawyer@partnerd.example", Name: "Demo Lawyer", Phone: "+33639980010", Competences: []string{"HOUSING"}, Languages: []string{"FR", "EN"}}
	for email, invite := range map[string]func() (string, error){
		operator.Email: func() (link string, err error) {
			_, link, err = a.Operator.InviteOperator(ctx, byProgram, operator)
			return link, err
		},
		counsel.Email: func() (link string, err error) {
			_, link, err = a.Operator.InviteLawyer(ctx, byProgram, counsel, "en")
			return link, err
		},
	} {
		p, err := a.Staff.ByEmail(ctx, a.DB.Read(), email)
		var link string
		switch {
		case errors.Is(err, staff.ErrNotFound):
			if link, err = invite(); errors.Is(err, staff.ErrEmailTaken) || errors.Is(err, lawyer.ErrEmailTaken) { // another process is quicker
				continue
			}
		case err == nil && p.State == staff.Invited:
			_, link, err = a.Operator.Reinvite(ctx, byProgram, p.ID, p.Language)
		case err == nil:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("invite %s: %w", email, err)
		}
		if p, err = a.Staff.ByEmail(ctx, a.DB.Read(), email); err != nil {
			return nil, err
		}
		list = append(list, Invitation{p, link})
	}
	return list, nil
}
