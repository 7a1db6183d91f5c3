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

// Who may invite at the desk; an admin may do everything.
const (
	InvitesStaff  = staff.Admin    // operators, and people who start anew
	InvitesOthers = staff.Security // lawyers, and people to an application
)

// Proposers are the roles that propose money of a kind.
func Proposers(k Kind) []staff.Role {
	if k == Refund {
		return []staff.Role{staff.Support, staff.Finance}
	}
	return []staff.Role{staff.Finance}
}

// ErrMayNot means that the person may no longer do it.
var ErrMayNot = errors.New("the person's role no longer allows it")

// sender holds who invites until tx ends. Whoever loses the right at the same time has invited before that, and the
// invitation ends with it, or is refused here ([ErrMayNot]). The command line is no person.
func (s *Service) sender(ctx context.Context, tx postgres.Tx, by Act, role staff.Role) error {
	p, err := s.Staff.Lock(ctx, tx, by.Actor)
	switch {
	case errors.Is(err, staff.ErrNotFound):
		return nil
	case err == nil && !mayInvite(p, role):
		return ErrMayNot
	}
	return err
}

// Right is what an act of a person rests on until it commits: they are not disabled, and have one of the roles of the
// act. Without roles every operator may.
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

// endInvitations ends the open invitations that a person sent and may no longer send, and tells how many.
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

// endSent ends what a person left open and may no longer begin: their proposals, each with an audit entry where its
// money would have moved, and their invitations. It returns how many, for the entry of the act.
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
		why := Act{Actor: by.Actor, Reason: by.Reason} // the form's entry is that of the act itself
		if err := why.Record(ctx, tx, "proposal.end", o.Subject, decided(o)); err != nil {
			return nil, err
		}
	}
	invitations, err := s.endInvitations(ctx, tx, p)
	return map[string]int{"proposalsEnded": len(open), "invitationsEnded": invitations}, err
}

// InviteOperator adds an operator and mails the invitation. The link is empty in live: nobody but the invited sees it.
// Faults are those of [staff.Service.Invite].
func (s *Service) InviteOperator(ctx context.Context, by Act,
	n staff.NewPerson,
) (p staff.Person, link string, err error) {
	n.Kind, n.SentBy = staff.Operator, by.Actor
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.sender(ctx, tx, by, InvitesStaff); err != nil {
			return err
		}
		if p, link, err = s.Staff.Invite(ctx, tx, n); err != nil {
			return err
		}
		return by.Record(ctx, tx, "operator.invite", p.ID, map[string]any{"roles": p.Roles}, s.shown(link)...)
	})
	return p, strings.Join(s.shown(link), ""), err
}

// InviteLawyer registers a lawyer, who is offline until he goes on duty at the desk, and mails the invitation. The link
// is as that of [Service.InviteOperator].
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
		if err := s.sender(ctx, tx, by, InvitesOthers); err != nil {
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
			map[string]any{"person": p.ID, "competences": n.Competences, "languages": n.Languages}, s.shown(link)...)
	})
	return l, strings.Join(s.shown(link), ""), err
}

// CheckLawyer says what is wrong with a lawyer to be, all of it: it returns [lawyer.ErrInvalid].
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

// ReinvitePerson ends everything with which an operator or a person of a partner signs in, and mails a new invitation:
// see [staff.Service.Reinvite]. The link is as that of [Service.InviteOperator]. Faults: [staff.ErrNotFound], also for
// the person of a lawyer, and [staff.ErrLastAdmin].
func (s *Service) ReinvitePerson(ctx context.Context, by Act, staffID string) (p staff.Person, link string, err error) {
	return s.reinvite(ctx, by, staffID, s.Staff.KeepAnAdmin)
}

// RecoverPerson is [Service.ReinvitePerson] for the last admin too: whoever has the machine brings them back.
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
		if err := s.sender(ctx, tx, by, InvitesStaff); err != nil { // after the admins, who are locked in one order
			return err
		}
		if p, link, err = s.Staff.Reinvite(ctx, tx, staffID, by.Actor); err != nil {
			return err
		}
		ended, err := s.endSent(ctx, tx, by, p)
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "staff.reinvite", p.ID, ended, s.shown(link)...)
	})
	return p, strings.Join(s.shown(link), ""), err
}

// ReinviteLawyer is [Service.ReinvitePerson] for a lawyer, by the identifier of the lawyer, who need not have been
// invited before: language is that of a first invitation. Faults: [staff.ErrNotFound], also for a simulated lawyer.
func (s *Service) ReinviteLawyer(ctx context.Context, by Act,
	lawyerID, language string,
) (p staff.Person, link string, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.sender(ctx, tx, by, InvitesOthers); err != nil {
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
		return by.Record(ctx, tx, "staff.reinvite", p.ID, nil, s.shown(link)...)
	})
	return p, strings.Join(s.shown(link), ""), err
}

// Person returns an operator or a person of a partner, or [staff.ErrNotFound], also for the person of a lawyer: what is
// done to a lawyer names the lawyer.
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

// DisablePerson keeps an operator or a person of a partner out, and ends their sessions, proposals and open
// invitations; not the last admin. Faults: [staff.ErrNotFound], also for the person of a lawyer, whom
// [Service.SuspendLawyer] keeps out; [staff.ErrLastAdmin].
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

// SetRoles replaces what an operator may do, and ends their proposals and open invitations that they may no longer
// make; see [staff.Service.SetRoles]. Anybody else has no roles: [staff.ErrNotFound].
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

// InviteMember mails an invitation to an application; see [portal.Service.Invite]. The link is as that of
// [Service.InviteOperator].
func (s *Service) InviteMember(ctx context.Context, by Act, applicationID, email string, role portal.Role,
	language string,
) (i portal.Invitation, link string, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		a, err := s.Applications.Get(ctx, tx, applicationID)
		if err != nil {
			return err
		}
		if err := s.sender(ctx, tx, by, InvitesOthers); err != nil {
			return err
		}
		if i, link, err = s.Portal.InviteTo(ctx, tx, by.Actor, a, email, role, language); err != nil {
			return err
		}
		if err := s.tellPartner(ctx, tx, a.ID, "invited", i.Email, role); err != nil {
			return err
		}
		return by.Record(ctx, tx, "application.invite", a.ID, map[string]any{"invitation": i.ID, "role": role},
			s.shown(link)...)
	})
	return i, strings.Join(s.shown(link), ""), err
}

// shown is a link as its maker may see it: in a sandbox.
func (s *Service) shown(link string) []string {
	if !s.Sandbox || link == "" {
		return nil
	}
	return []string{link}
}
