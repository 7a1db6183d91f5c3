package operator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// The roles that may invite at the desk. An admin has all permissions.
const (
	InvitesStaff  = staff.Admin    // operators, and reinvited people
	InvitesOthers = staff.Security // lawyers, and people to an application
)

// Proposers returns the roles that may propose money of a kind.
func Proposers(k Kind) []staff.Role {
	if k == Refund {
		return []staff.Role{staff.Support, staff.Finance}
	}
	return []staff.Role{staff.Finance}
}

// ErrMayNot is returned if the person's role no longer allows the action.
var ErrMayNot = errors.New("the person's role no longer allows it")

// lockSender locks the sender of an invitation until tx ends. If the sender is losing the right to invite, the
// invitation either comes first and ends with that right, or is refused here ([ErrMayNot]). The command line is not a
// person and always passes.
func (s *Service) lockSender(ctx context.Context, tx postgres.Tx, by Act, role staff.Role) error {
	p, err := s.Staff.Lock(ctx, tx, by.Actor)
	switch {
	case errors.Is(err, staff.ErrNotFound):
		return nil
	case err == nil && !mayInvite(p, role):
		return ErrMayNot
	}
	return err
}

// Right is the permission that must hold until an action commits: the person is enabled and has one of the roles.
// Without roles, any operator may act.
type Right struct {
	Person string
	Roles  []staff.Role
}

// Premise implements [postgres.Rests].
func (r Right) Premise(time.Time) (postgres.Premise, bool) {
	return staff.May(r.Person, r.Roles, ErrMayNot), true
}

func mayPropose(p staff.Person, k Kind) bool {
	return p.State == staff.Active && p.May(Proposers(k)...)
}

func mayInvite(p staff.Person, role staff.Role) bool { return p.State == staff.Active && p.May(role) }

// endInvitations ends the open invitations that a person may no longer send, and returns how many.
func (s *Service) endInvitations(ctx context.Context, tx postgres.Tx, p staff.Person) (ended int, err error) {
	var kinds []staff.Kind
	if !mayInvite(p, InvitesStaff) {
		kinds = append(kinds, staff.Operator, staff.Partner)
	}
	if !mayInvite(p, InvitesOthers) {
		kinds = append(kinds, staff.Lawyer)
		if ended, err = s.Portal.EndInvitations(ctx, tx, p.ID); err != nil {
			return 0, err
		}
	}
	n, err := s.Staff.EndInvitations(ctx, tx, p.ID, kinds...)
	return ended + n, err
}

// endSent ends what a person started and may no longer start: their proposals and their invitations. Each proposal gets
// an audit entry for its subject. It returns the counts for the entry of the action.
func (s *Service) endSent(ctx context.Context, tx postgres.Tx, by Act, p staff.Person) (map[string]int, error) {
	open, err := lockProposalsOf(ctx, tx, p.ID)
	if err != nil {
		return nil, err
	}
	open = slices.DeleteFunc(open, func(o Proposal) bool { return mayPropose(p, o.Kind) })
	for _, o := range open {
		if err := endEarly(ctx, tx, o); err != nil {
			return nil, err
		}
		why := Act{Actor: by.Actor, Reason: by.Reason} // the form's entry ID belongs to the action itself
		if err := why.Record(ctx, tx, "proposal.end", o.Subject, decided(o)); err != nil {
			return nil, err
		}
	}
	invitations, err := s.endInvitations(ctx, tx, p)
	return map[string]int{"proposalsEnded": len(open), "invitationsEnded": invitations}, err
}

// InviteOperator adds an operator and emails the invitation. In a live deployment, link is empty, so that only the
// invited person sees it. It returns the errors of [staff.Service.Invite].
func (s *Service) InviteOperator(ctx context.Context, by Act,
	n staff.NewPerson,
) (p staff.Person, link string, err error) {
	n.Kind, n.SentBy = staff.Operator, by.Actor
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.lockSender(ctx, tx, by, InvitesStaff); err != nil {
			return err
		}
		if p, link, err = s.Staff.Invite(ctx, tx, n); err != nil {
			return err
		}
		return by.Record(ctx, tx, "operator.invite", p.ID, map[string]any{"roles": p.Roles}, s.visibleLink(link)...)
	})
	return p, strings.Join(s.visibleLink(link), ""), err
}

// InviteLawyer registers a lawyer and emails the invitation. The lawyer is offline until they go on duty at the desk.
// link is as in [Service.InviteOperator].
func (s *Service) InviteLawyer(ctx context.Context, by Act, n lawyer.NewLawyer,
	language string,
) (l lawyer.Lawyer, link string, err error) {
	if err := CheckLawyer(n); err != nil {
		return l, "", err
	}
	if n.Phone, err = account.E164(n.Phone); err != nil {
		return l, "", err
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.lockSender(ctx, tx, by, InvitesOthers); err != nil {
			return err
		}
		if l, err = s.Lawyers.Create(ctx, tx, n); err != nil {
			return err
		}
		var p staff.Person
		if p, link, err = s.Staff.Invite(ctx, tx, personOf(l, language, by)); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.invite", l.ID,
			map[string]any{"person": p.ID, "competences": n.Competences, "languages": n.Languages},
			s.visibleLink(link)...)
	})
	return l, strings.Join(s.visibleLink(link), ""), err
}

// CheckLawyer validates a new lawyer and returns all errors together, as [lawyer.ErrInvalid].
func CheckLawyer(n lawyer.NewLawyer) error {
	phone, err := account.E164(n.Phone)
	issues := problem.IssuesOf(err)
	n.Phone = phone
	for _, i := range problem.IssuesOf(lawyer.Check(n)) {
		if i.Path != "phone" {
			issues = append(issues, i)
		}
	}
	if issues == nil {
		return nil
	}
	return problem.Refuse(lawyer.ErrInvalid, issues...)
}

// ReinvitePerson ends every way in which an operator or a partner's person signs in, and emails a new invitation; see
// [staff.Service.Reinvite]. link is as in [Service.InviteOperator]. It returns [staff.ErrNotFound], also for the person
// of a lawyer, or [staff.ErrLastAdmin].
func (s *Service) ReinvitePerson(ctx context.Context, by Act, staffID string) (p staff.Person, link string, err error) {
	return s.reinvite(ctx, by, staffID, s.Staff.KeepAnAdmin)
}

// RecoverPerson is [Service.ReinvitePerson] that also accepts the last admin, for someone who controls the machine.
func (s *Service) RecoverPerson(ctx context.Context, by Act, staffID string) (p staff.Person, link string, err error) {
	return s.reinvite(ctx, by, staffID, func(context.Context, postgres.Tx, string) error { return nil })
}

func (s *Service) reinvite(ctx context.Context, by Act, staffID string,
	allowed func(context.Context, postgres.Tx, string) error) (p staff.Person, link string, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := s.Person(ctx, tx, staffID); err != nil {
			return err
		}
		if err := allowed(ctx, tx, staffID); err != nil {
			return err
		}
		if err := s.lockSender(ctx, tx, by, InvitesStaff); err != nil { // after the admins, locked in a fixed order
			return err
		}
		if p, link, err = s.Staff.Reinvite(ctx, tx, staffID, by.Actor); err != nil {
			return err
		}
		ended, err := s.endSent(ctx, tx, by, p)
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "staff.reinvite", p.ID, ended, s.visibleLink(link)...)
	})
	return p, strings.Join(s.visibleLink(link), ""), err
}

// ReinviteLawyer is [Service.ReinvitePerson] for a lawyer, by lawyer ID. The lawyer need not have been invited before;
// language is used for a first invitation. It returns [staff.ErrNotFound], also for a simulated lawyer.
func (s *Service) ReinviteLawyer(ctx context.Context, by Act,
	lawyerID, language string,
) (p staff.Person, link string, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.lockSender(ctx, tx, by, InvitesOthers); err != nil {
			return err
		}
		p, err = s.Staff.OfLawyer(ctx, tx, lawyerID)
		switch {
		case err == nil:
			p, link, err = s.Staff.Reinvite(ctx, tx, p.ID, by.Actor)
		case errors.Is(err, staff.ErrNotFound):
			p, link, err = s.inviteKnownLawyer(ctx, tx, by, lawyerID, language)
		}
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "staff.reinvite", p.ID, nil, s.visibleLink(link)...)
	})
	return p, strings.Join(s.visibleLink(link), ""), err
}

// Person returns an operator or a partner's person, or [staff.ErrNotFound]. It also returns that for the person of a
// lawyer, because actions on a lawyer use the lawyer ID.
func (s *Service) Person(ctx context.Context, tx postgres.Tx, staffID string) (staff.Person, error) {
	p, err := s.Staff.Get(ctx, tx, staffID)
	if err == nil && p.Kind == staff.Lawyer {
		return staff.Person{}, staff.ErrNotFound
	}
	return p, err
}

func (s *Service) inviteKnownLawyer(ctx context.Context, tx postgres.Tx, by Act,
	lawyerID, language string) (staff.Person, string, error) {
	l, err := s.Lawyers.Get(ctx, tx, lawyerID)
	if errors.Is(err, lawyer.ErrNotFound) || err == nil && l.Simulated {
		err = staff.ErrNotFound
	}
	if err != nil {
		return staff.Person{}, "", err
	}
	return s.Staff.Invite(ctx, tx, personOf(l, language, by))
}

func personOf(l lawyer.Lawyer, language string, by Act) staff.NewPerson {
	return staff.NewPerson{Kind: staff.Lawyer, LawyerID: l.ID, Email: l.Email, Name: l.Name, Language: language,
		SentBy: by.Actor}
}

// DisablePerson disables an operator or a partner's person and ends their sessions, proposals and open invitations. It
// returns [staff.ErrLastAdmin] for the last admin, or [staff.ErrNotFound]. The latter includes the person of a lawyer;
// use [Service.SuspendLawyer] for lawyers.
func (s *Service) DisablePerson(ctx context.Context, by Act, staffID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := s.Person(ctx, tx, staffID); err != nil {
			return err
		}
		p, err := s.Staff.Disable(ctx, tx, staffID)
		if err != nil {
			return err
		}
		if err := s.Staff.Told(ctx, tx, p, "disabled"); err != nil {
			return err
		}
		ended, err := s.endSent(ctx, tx, by, p)
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "staff.disable", staffID, ended)
	})
}

// SetRoles replaces the roles of an operator. It ends their proposals and open invitations that they may no longer
// make; see [staff.Service.SetRoles]. For anyone else it returns [staff.ErrNotFound].
func (s *Service) SetRoles(ctx context.Context, by Act, staffID string, roles []staff.Role) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if p, err := s.Staff.Get(ctx, tx, staffID); err != nil || p.Kind != staff.Operator {
			return cmp.Or(err, staff.ErrNotFound)
		}
		before, after, err := s.Staff.SetRoles(ctx, tx, staffID, roles)
		if err != nil {
			return err
		}
		if err := s.Staff.Told(ctx, tx, after, "roles", rolesOf(before), rolesOf(after)); err != nil {
			return err
		}
		ended, err := s.endSent(ctx, tx, by, after)
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "operator.set_roles", staffID, map[string]any{"before": before.Roles,
			"after": after.Roles, "proposalsEnded": ended["proposalsEnded"],
			"invitationsEnded": ended["invitationsEnded"]})
	})
}

func rolesOf(p staff.Person) string {
	names := make([]string, len(p.Roles))
	for i, r := range p.Roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// Operators lists the operators.
func (s *Service) Operators(ctx context.Context) ([]staff.Person, error) {
	return s.Staff.List(ctx, s.DB.Read(), staff.Operator)
}

// InviteMember emails an invitation to an application; see [portal.Service.Invite]. link is as in
// [Service.InviteOperator].
func (s *Service) InviteMember(ctx context.Context, by Act, applicationID, email string, role portal.Role,
	language string,
) (i portal.Invitation, link string, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		a, err := s.Applications.Get(ctx, tx, applicationID)
		if err != nil {
			return err
		}
		if err := s.lockSender(ctx, tx, by, InvitesOthers); err != nil {
			return err
		}
		if i, link, err = s.Portal.InviteTo(ctx, tx, by.Actor, a, email, role, language); err != nil {
			return err
		}
		if err := s.tellPartner(ctx, tx, a.ID, "invited", i.Email, role); err != nil {
			return err
		}
		return by.Record(ctx, tx, "application.invite", a.ID, map[string]any{"invitation": i.ID, "role": role},
			s.visibleLink(link)...)
	})
	return i, strings.Join(s.visibleLink(link), ""), err
}

// visibleLink returns the link if its creator may see it, which is the case only in a sandbox.
func (s *Service) visibleLink(link string) []string {
	if !s.Sandbox || link == "" {
		return nil
	}
	return []string{link}
}
