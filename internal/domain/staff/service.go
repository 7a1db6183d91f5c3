package staff

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// Lifetimes of emailed links.
const (
	InvitationLifetime = 72 * time.Hour
	ResetLifetime      = time.Hour
)

// Deps are the dependencies of a [Service].
type Deps struct {
	DB      *postgres.DB
	Box     *seal.Box // encrypts the secrets of codes
	Queue   *queue.Queue
	Mail    *mail.Service
	BaseURL string // absolute, without a trailing slash
}

// Service stores staff and partners' people and signs them in. It is safe for concurrent use.
type Service struct {
	deps  Deps
	texts text.Catalogue

	passkeys *passkey.Ring
}

// New creates the service.
func New(d Deps) (*Service, error) {
	texts, err := text.Messages()
	if err != nil {
		return nil, err
	}
	s := &Service{deps: d, texts: texts}
	if s.passkeys, err = passkey.NewRing(d.BaseURL, passkeyTables); err != nil {
		return nil, err
	}
	queue.Handle(d.Queue, resetJob, s.mailReset)
	return s, nil
}

// Invite adds a person and emails a link to choose a password. It returns [ErrInvalid], or [ErrEmailTaken], after which
// tx is aborted. Only a sandbox may show the link.
func (s *Service) Invite(ctx context.Context, tx postgres.Tx, n NewPerson) (p Person, link string, err error) {
	if n, err = checked(n); err != nil {
		return Person{}, "", err
	}
	r := newRow(tx, n)
	if err := insertPerson(ctx, tx, r); err != nil {
		return Person{}, "", err
	}
	link, err = s.mailInvitation(ctx, tx, r, "staff.invitation", n.SentBy)
	return r.person(), link, err
}

func newRow(tx postgres.Tx, n NewPerson) staffRow {
	r := staffRow{ID: tx.NewID(id.Staff), Kind: n.Kind, LawyerID: n.LawyerID, Email: n.Email, Name: n.Name,
		Language: n.Language, Roles: n.Roles, CreatedAt: tx.Now, UpdatedAt: tx.Now}
	if r.Roles == nil {
		r.Roles = postgres.Array[Role]{}
	}
	return r
}

// Reinvite ends every way in which a person signs in: password, codes, passkeys and sessions. It then emails a new
// invitation. Use it for a lost second factor, an expired invitation or a disabled person. It returns [ErrNotFound].
// link is as in [Service.Invite], sentBy as in [NewPerson.SentBy].
func (s *Service) Reinvite(ctx context.Context, tx postgres.Tx,
	staffID, sentBy string,
) (p Person, link string, err error) {
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return Person{}, "", err
	}
	r.PasswordHash, r.TOTPSealed, r.TOTPStep, r.TOTPConfirmedAt, r.DisabledAt = "", nil, 0, nil, nil
	if err := update(ctx, tx, r.ID, r, "password_hash", "totp_sealed", "totp_step",
		"totp_confirmed_at", "disabled_at"); err != nil {
		return Person{}, "", err
	}
	if err := s.endAll(ctx, tx, r.ID); err != nil {
		return Person{}, "", err
	}
	link, err = s.mailInvitation(ctx, tx, r, "staff.invitation.again", sentBy)
	return r.person(), link, err
}

// EndInvitations ends the open invitations that sentBy sent to people of the given kinds, and returns how many.
func (s *Service) EndInvitations(ctx context.Context, tx postgres.Tx, sentBy string, kinds ...Kind) (int, error) {
	return endSent(ctx, tx, sentBy, kinds)
}

// InvitationLasts reports whether an invitation of the person can still be used.
func (s *Service) InvitationLasts(ctx context.Context, tx postgres.Tx, staffID string) (bool, error) {
	return invitationLasts(ctx, tx, staffID)
}

// SetRoles replaces the roles of an operator, effective from their next request. It returns the person before and after
// the change, or [ErrNotFound], [ErrInvalid] or [ErrLastAdmin].
func (s *Service) SetRoles(ctx context.Context, tx postgres.Tx, staffID string,
	roles []Role,
) (before, after Person, err error) {
	if !slices.Contains(roles, Admin) {
		if err := s.KeepAnAdmin(ctx, tx, staffID); err != nil {
			return before, after, err
		}
	}
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return before, after, err
	}
	before = r.person()
	var issues []problem.Issue
	if r.Roles, issues = checkedRoles(r.Kind, roles); issues != nil {
		return before, after, problem.Refuse(ErrInvalid, issues...)
	}
	return before, r.person(), update(ctx, tx, r.ID, r, "roles")
}

// KeepAnAdmin returns [ErrLastAdmin] if this person is the only admin who can sign in. Invited admins do not count,
// because they may never accept. It locks the admins, so that concurrent removals see its result. Call it before
// locking the person.
func (s *Service) KeepAnAdmin(ctx context.Context, tx postgres.Tx, staffID string) error {
	admins, err := lockAdmins(ctx, tx)
	if err != nil {
		return err
	}
	if len(admins) == 1 && admins[0].ID == staffID {
		return ErrLastAdmin
	}
	return nil
}

// Disable disables a person, ends their sessions and revokes the links emailed to them. [Service.Reinvite] reinstates
// the person. It returns [ErrNotFound] or [ErrLastAdmin].
func (s *Service) Disable(ctx context.Context, tx postgres.Tx, staffID string) (Person, error) {
	if err := s.KeepAnAdmin(ctx, tx, staffID); err != nil {
		return Person{}, err
	}
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return Person{}, err
	}
	r.DisabledAt = &tx.Now
	if err := update(ctx, tx, r.ID, r, "disabled_at"); err != nil {
		return Person{}, err
	}
	return r.person(), s.endAll(ctx, tx, r.ID)
}

// endAll ends all sessions, recovery codes, passkeys and emailed links. The caller has locked the person.
func (s *Service) endAll(ctx context.Context, tx postgres.Tx, staffID string) error {
	if _, err := sessions.EndOthers(ctx, tx, staffID, id.Digest{}); err != nil {
		return err
	}
	if err := deleteRecoveryCodes(ctx, tx, staffID); err != nil {
		return err
	}
	if err := s.passkeys.RemoveThose(ctx, tx, staffID, func(passkey.Passkey) bool { return true }); err != nil {
		return err
	}
	return endLinks(ctx, tx, staffID)
}

// SetLanguage changes the language of a person's pages and emails. It returns [ErrInvalid].
func (s *Service) SetLanguage(ctx context.Context, tx postgres.Tx, staffID, language string) error {
	if !slices.Contains(text.Languages, language) {
		return problem.Refuse(ErrInvalid, problem.Choice("language", language))
	}
	return update(ctx, tx, staffID, staffRow{Language: language}, "language")
}

// Get returns a person, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, tx postgres.Tx, staffID string) (Person, error) {
	r, err := personByID(ctx, tx, staffID)
	return r.person(), err
}

// ByEmail returns the person with an address, or [ErrNotFound].
func (s *Service) ByEmail(ctx context.Context, tx postgres.Tx, email string) (Person, error) {
	r, err := personByEmail(ctx, tx, strings.TrimSpace(email))
	return r.person(), err
}

// Lock returns a person and locks them until tx ends. It returns [ErrNotFound] if there is none.
func (s *Service) Lock(ctx context.Context, tx postgres.Tx, staffID string) (Person, error) {
	r, err := lockPerson(ctx, tx, staffID)
	return r.person(), err
}

// OfLawyer returns the person of a lawyer, or [ErrNotFound] for a lawyer who was never invited.
func (s *Service) OfLawyer(ctx context.Context, tx postgres.Tx, lawyerID string) (Person, error) {
	r, err := personByLawyer(ctx, tx, lawyerID)
	return r.person(), err
}

// List returns the people of a kind, oldest first.
func (s *Service) List(ctx context.Context, tx postgres.Tx, kind Kind) ([]Person, error) {
	rows, err := people(ctx, tx, kind)
	if err != nil {
		return nil, err
	}
	list := make([]Person, len(rows))
	for i, r := range rows {
		list[i] = r.person()
	}
	return list, nil
}

// mailInvitation emails a link with the text of key, which names the sender.
func (s *Service) mailInvitation(ctx context.Context, tx postgres.Tx, r staffRow,
	key, sentBy string,
) (link string, err error) {
	by, err := s.SenderOf(ctx, tx, sentBy, r.Language)
	if err != nil {
		return "", err
	}
	token := tx.NewSecret("lnk")
	l := linkRow{TokenHash: id.DigestOf(token), Kind: kindInvite, StaffID: r.ID, SentBy: sentBy,
		ExpiresAt: tx.Now.Add(InvitationLifetime)}
	if err := insertLink(ctx, tx, l); err != nil {
		return "", err
	}
	link = s.link("/staff/invitation", token)
	return link, s.send(ctx, tx, r, key, r.Name, by, link, l.ExpiresAt.Format(noticeTime))
}

// SenderOf returns how an email in a language names the sender of an invitation or the author of a change. sentBy is as
// in the audit log. A person is named by name and proven address, the command line as our team.
func (s *Service) SenderOf(ctx context.Context, tx postgres.Tx, sentBy, language string) (string, error) {
	r, err := personByID(ctx, tx, sentBy)
	if errors.Is(err, ErrNotFound) {
		return s.texts.Get(language, "sender.team")
	}
	if err != nil {
		return "", err
	}
	if name := text.Mailed(r.Name, ""); name != "" {
		return name + " (" + r.Email + ")", nil
	}
	return r.Email, nil
}

func (s *Service) link(path, token string) string {
	return s.deps.BaseURL + path + "?" + url.Values{"token": {token}}.Encode()
}

// send emails the text of key in the person's language.
func (s *Service) send(ctx context.Context, tx postgres.Tx, to staffRow, key string, args ...any) error {
	subject, body, err := s.texts.Letter(to.Language, key, args...)
	if err != nil {
		return err
	}
	return s.deps.Mail.Send(ctx, tx, mail.Message{To: to.Email, Subject: subject, Text: body})
}

const noticeTime = "2006-01-02 15:04 UTC"

// notify emails a person that their way to sign in has changed.
func (s *Service) notify(ctx context.Context, tx postgres.Tx, to staffRow, what string) error {
	event, err := s.texts.Get(to.Language, "staff.notice."+what)
	if err != nil {
		return err
	}
	subject, err := s.texts.Get(to.Language, "notice.subject", event)
	if err != nil {
		return err
	}
	from, err := mail.OriginOf(ctx).Said(s.texts, to.Language)
	if err != nil {
		return err
	}
	at := tx.Now.Format(noticeTime) + ", " + from
	body, err := s.texts.Get(to.Language, "staff.notice.text", to.Name, event, at, s.deps.BaseURL+"/staff/security")
	if err != nil {
		return err
	}
	return s.deps.Mail.Send(ctx, tx, mail.Message{To: to.Email, Subject: subject, Text: body})
}

// Told emails a person what someone else changed in their account, with the text "staff.told.WHAT".
func (s *Service) Told(ctx context.Context, tx postgres.Tx, to Person, what string, args ...any) error {
	event, err := s.texts.Get(to.Language, "staff.told."+what, args...)
	if err != nil {
		return err
	}
	subject, body, err := s.texts.Letter(to.Language, "staff.told", to.Name, event, tx.Now.Format(noticeTime))
	if err != nil {
		return err
	}
	return s.deps.Mail.Send(ctx, tx, mail.Message{To: to.Email, Subject: subject, Text: body})
}

// Notice is a change made in a person's name that is reported to them by email.
type Notice string

// The notices about data of other packages.
const (
	KeySet     Notice = "key.set"
	KeyRemoved Notice = "key.removed"
)

// Tell emails a notice to the person of a session. It locks the person, so ending the session or disabling the person
// waits. If that has already happened, it returns [ErrNoSession] and the caller must roll back tx.
func (s *Service) Tell(ctx context.Context, tx postgres.Tx, session Session, what Notice) error {
	r, err := lockPerson(ctx, tx, session.Person.ID)
	if err != nil {
		return err
	}
	digest, ok := id.ParseDigest(session.ID)
	if !ok {
		return ErrNoSession
	}
	if _, err := sessionOf(ctx, tx, digest, true); err != nil {
		return err
	}
	return s.notify(ctx, tx, r, string(what))
}

// Purge deletes expired links, challenges and sessions.
func (s *Service) Purge(ctx context.Context) (int, error) { return purge(ctx, s.deps.DB.Read()) }
