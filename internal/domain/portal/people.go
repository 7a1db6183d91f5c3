package portal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// People lists the members and the open invitations of an application, for its members. It returns NOT_FOUND to others.
func (s *Service) People(ctx context.Context, tx postgres.Tx, by Caller) ([]Member, []Invitation, error) {
	if _, err := s.Membership(ctx, tx, by); err != nil {
		return nil, nil, err
	}
	return s.PeopleOf(ctx, tx, by.ApplicationID)
}

// PeopleOf is [Service.People] for operators.
func (s *Service) PeopleOf(ctx context.Context, tx postgres.Tx,
	applicationID string,
) (members []Member, waiting []Invitation, err error) {
	rows, err := membersOf(ctx, tx, applicationID)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		p, err := s.deps.Staff.Get(ctx, tx, r.StaffID)
		if err != nil {
			return nil, nil, err
		}
		members = append(members, Member{p.ID, p.Email, p.Name, r.Role, r.CreatedAt})
	}
	slices.SortFunc(members,
		func(a, b Member) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.StaffID, b.StaffID)) })
	open, err := openInvitations(ctx, tx, applicationID)
	for _, l := range open {
		waiting = append(waiting, Invitation{l.ID, l.Email, l.Role, l.ExpiresAt})
	}
	return members, waiting, err
}

// Invite emails an invitation to an application, in the given language. It does not reveal whether the address is
// known. It returns [ErrForbidden], [ErrSuspended], [ErrInvalid], [ErrMember], [ErrTooMany], RATE_LIMITED or NOT_FOUND.
func (s *Service) Invite(ctx context.Context, tx postgres.Tx, by Caller, email string, role Role,
	language string,
) error {
	return s.asMemberIn(ctx, tx, by, Owner, "application.invite",
		func(a application.Application, _ []memberRow) (any, error) {
			for _, of := range []string{a.ID, by.StaffID} {
				if d, err := ratelimit.Take(ctx, tx, "portal invitations of "+of, invitationQuota); err != nil ||
					!d.Allowed {
					return nil, cmp.Or[error](err,
						problem.ErrRateLimited.Because("Too many invitations; see Retry-After.").After(d.RetryAfter))
				}
			}
			// The lock orders this against disabling the sender: either the invitation comes first and ends with them,
			// or it fails.
			p, err := s.deps.Staff.Lock(ctx, tx, by.StaffID)
			if err == nil && p.State != staff.Active {
				err = ErrForbidden
			}
			if err != nil {
				return nil, err
			}
			invitation, _, err := s.InviteTo(ctx, tx, p.ID, a, email, role, language)
			return map[string]any{"invitation": invitation.ID, "role": role}, err
		})
}

// InviteTo is [Service.Invite] for operators, in their transaction. sentBy is the sender as the audit log names them.
// Only a sandbox may show the link.
func (s *Service) InviteTo(ctx context.Context, tx postgres.Tx, sentBy string, a application.Application,
	email string, role Role, language string) (i Invitation, link string, err error) {
	email = strings.TrimSpace(email)
	if issues := checkInvitation(email, role, language); issues != nil {
		return i, "", problem.Refuse(ErrInvalid, issues...)
	}
	members, err := membersOf(ctx, tx, a.ID, postgres.ForNoKeyUpdate)
	if err != nil {
		return i, "", err
	}
	waiting, err := openInvitations(ctx, tx, a.ID)
	if err != nil {
		return i, "", err
	}
	if len(members)+len(waiting) >= MaxPeople {
		return i, "", problem.Refuse(ErrTooMany, rulePeople.At("email", MaxPeople))
	}
	known, err := s.deps.Staff.ByEmail(ctx, tx, email)
	if err != nil && !errors.Is(err, staff.ErrNotFound) {
		return i, "", err
	}
	if slices.ContainsFunc(members, func(r memberRow) bool { return r.StaffID == known.ID }) {
		return i, "", ErrMember
	}
	if n, err := countLinks(ctx, tx, a.ID, email); err != nil || n >= linksPerHour {
		return i, "", cmp.Or(err, problem.Refuse(ErrTooMany, ruleLinks.At("email", linksPerHour)))
	}
	// the new invitation replaces the old one
	if _, err := links.End(ctx, tx, "application_id = ? AND lower(email) = lower(?)", a.ID, email); err != nil {
		return i, "", err
	}
	by, err := s.deps.Staff.SenderOf(ctx, tx, sentBy, language)
	if err != nil {
		return i, "", err
	}
	of := text.Mailed(a.Name, a.ID)
	token := tx.NewSecret("lnk")
	r := linkRow{ID: tx.NewID(id.Invitation), TokenHash: id.DigestOf(token), ApplicationID: a.ID, Role: role,
		Email: email, Language: language, SentBy: sentBy, ExpiresAt: tx.Now.Add(InvitationLifetime)}
	if err := insertLink(ctx, tx, r); err != nil {
		return i, "", err
	}
	i = Invitation{r.ID, r.Email, r.Role, r.ExpiresAt}
	if known.ID != "" && known.Kind != staff.Partner {
		return i, "", s.send(ctx, tx, email, language, "portal.taken", by, of)
	}
	link = s.link(token)
	args := []any{by, of, role, link, r.ExpiresAt.Format(noticeTime)}
	key := "portal.invitation"
	same := func(l linkRow) bool { return strings.EqualFold(l.Email, email) }
	if at := slices.IndexFunc(waiting, same); at >= 0 {
		key, args = "portal.invitation.again", append(args, waiting[at].CreatedAt.Format(noticeTime))
	}
	return i, link, s.send(ctx, tx, email, language, key, s.translateRoles(language, args)...)
}

func checkInvitation(email string, role Role, language string) (issues []problem.Issue) {
	if !text.IsEmail(email) {
		issues = append(issues, problem.Address("email", email))
	}
	if !slices.Contains(Roles(), role) {
		issues = append(issues, problem.Choice("role", string(role)))
	}
	if !slices.Contains(text.Languages, language) {
		issues = append(issues, problem.Choice("language", language))
	}
	return issues
}

// CancelInvitation ends an open invitation. It succeeds if the invitation has already ended. It returns [ErrForbidden]
// or NOT_FOUND.
func (s *Service) CancelInvitation(ctx context.Context, by Caller, invitationID string) error {
	return s.asOwner(ctx, by, "application.cancel_invitation",
		func(tx postgres.Tx, a application.Application, _ []memberRow) (any, error) {
			_, err := links.End(ctx, tx, "application_id = ? AND id = ?", a.ID, invitationID)
			return map[string]any{"invitation": invitationID}, err
		})
}

// EndInvitations ends all open invitations sent by sentBy, to any application, and returns how many there were.
func (s *Service) EndInvitations(ctx context.Context, tx postgres.Tx, sentBy string) (int, error) {
	return links.End(ctx, tx, "sent_by = ?", sentBy)
}

// endSent ends the open invitations to an application sent by a member who is no longer an owner.
func endSent(ctx context.Context, tx postgres.Tx, applicationID, staffID string) error {
	_, err := links.End(ctx, tx, "application_id = ? AND sent_by = ?", applicationID, staffID)
	return err
}

// SetRole changes a member's role. While the application is suspended, it can only lower the role. It returns
// [ErrForbidden], [ErrSuspended], [ErrLastOwner], [ErrInvalid] or NOT_FOUND.
func (s *Service) SetRole(ctx context.Context, by Caller, staffID string, role Role) error {
	if !slices.Contains(Roles(), role) {
		return problem.Refuse(ErrInvalid, problem.Choice("role", string(role)))
	}
	return s.asOwner(ctx, by, "application.set_role",
		func(tx postgres.Tx, a application.Application, members []memberRow) (any, error) {
			before, err := checkRoleLoss(members, staffID, role)
			if err != nil {
				return nil, err
			}
			if a.Suspended && !before.May(role) {
				return nil, ErrSuspended
			}
			to, err := s.deps.Staff.Get(ctx, tx, staffID)
			if err != nil {
				return nil, err
			}
			if before != role {
				// also notifies an owner who loses that role
				if err := s.tellPeople(ctx, tx, by, a, to.Email, "role", to.Email, role); err != nil {
					return nil, err
				}
			}
			if err := updateRole(ctx, tx, a.ID, staffID, role); err != nil {
				return nil, err
			}
			if !role.May(Owner) {
				if err := endSent(ctx, tx, a.ID, staffID); err != nil {
					return nil, err
				}
			}
			return map[string]any{"person": staffID, "before": before, "after": role}, nil
		})
}

// Remove removes a member from an application. Every member can remove themselves. It returns [ErrForbidden],
// [ErrLastOwner] or NOT_FOUND.
func (s *Service) Remove(ctx context.Context, by Caller, staffID string) error {
	do := func(tx postgres.Tx, a application.Application, members []memberRow) (any, error) {
		if _, err := checkRoleLoss(members, staffID, ""); err != nil {
			return nil, err
		}
		to, err := s.deps.Staff.Get(ctx, tx, staffID)
		if err != nil {
			return nil, err
		}
		if err := s.tellPeople(ctx, tx, by, a, to.Email, "removed", to.Email); err != nil {
			return nil, err
		}
		if err := endSent(ctx, tx, a.ID, staffID); err != nil {
			return nil, err
		}
		return map[string]any{"person": staffID}, deleteMember(ctx, tx, a.ID, staffID)
	}
	if by.StaffID == staffID {
		return s.asMember(ctx, by, Viewer, "application.remove_person", do)
	}
	return s.asOwner(ctx, by, "application.remove_person", do)
}

// checkRoleLoss returns the current role of a member whose role is about to become next (empty: removed). It returns
// [ErrLastOwner] for the only owner.
func checkRoleLoss(members []memberRow, staffID string, next Role) (Role, error) {
	at := slices.IndexFunc(members, func(r memberRow) bool { return r.StaffID == staffID })
	if at < 0 {
		return "", problem.ErrNotFound
	}
	if members[at].Role == Owner && next != Owner && count(members, Owner) == 1 {
		return "", ErrLastOwner
	}
	return members[at].Role, nil
}

// asOwner runs an action that needs an owner, while no one else can change the members.
func (s *Service) asOwner(ctx context.Context, by Caller, action string,
	do func(postgres.Tx, application.Application, []memberRow) (any, error),
) error {
	return s.asMember(ctx, by, Owner, action, do)
}

func (s *Service) asMember(ctx context.Context, by Caller, need Role, action string,
	do func(postgres.Tx, application.Application, []memberRow) (any, error),
) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		return s.asMemberIn(ctx, tx, by, need, action,
			func(a application.Application, members []memberRow) (any, error) { return do(tx, a, members) })
	})
}

// asMemberIn is [Service.asMember] in the caller's transaction.
func (s *Service) asMemberIn(ctx context.Context, tx postgres.Tx, by Caller, need Role, action string,
	do func(application.Application, []memberRow) (any, error),
) error {
	members, err := membersOf(ctx, tx, by.ApplicationID, postgres.ForNoKeyUpdate)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(members, func(r memberRow) bool { return r.StaffID == by.StaffID })
	if at < 0 {
		return problem.ErrNotFound
	}
	if !members[at].Role.May(need) {
		return ErrForbidden
	}
	a, err := s.deps.Applications.Hold(ctx, tx, by.ApplicationID)
	if err == nil && a.Suspended && !allowedWhileSuspended[action] {
		err = ErrSuspended
	}
	if err != nil {
		return err
	}
	details, err := do(a, members)
	if err != nil {
		return err
	}
	return record(ctx, tx, by, action, a.ID, details)
}
