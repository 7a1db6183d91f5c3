package portal

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/ratelimit"
)

// Deps are the dependencies of a [Service].
type Deps struct {
	DB           *postgres.DB
	Box          *seal.Box // encrypts queued requests for a link
	Queue        *queue.Queue
	Mail         *mail.Service
	Staff        *staff.Service
	Applications *application.Service
	Webhooks     *webhook.Service
	Limiter      *ratelimit.Limiter // the limiter of the APIs
	BaseURL      string             // absolute, without a trailing slash
	Sandbox      bool

	ApplicationPerMinute, ClientPerMinute int // default rate limits of an application
}

// Service is the portal. It is safe for concurrent use.
type Service struct {
	deps  Deps
	texts text.Catalogue
}

// New creates the service.
func New(d Deps) (*Service, error) {
	texts, err := text.Messages()
	if err != nil {
		return nil, err
	}
	s := &Service{d, texts}
	queue.Handle(d.Queue, signUpJob, s.mailSignUp)
	return s, nil
}

// Applications lists the applications of a person, oldest membership first.
func (s *Service) Applications(ctx context.Context, tx postgres.Tx, staffID string) ([]Membership, error) {
	rows, err := membershipsOf(ctx, tx, staffID)
	if err != nil {
		return nil, err
	}
	list := make([]Membership, len(rows))
	for i, r := range rows {
		list[i].Role = r.Role
		if list[i].Application, err = s.deps.Applications.Get(ctx, tx, r.ApplicationID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Membership returns an application as the caller sees it. The application itself has the role of a developer. It
// returns NOT_FOUND, also if the caller is not a member.
func (s *Service) Membership(ctx context.Context, tx postgres.Tx, by Caller) (Membership, error) {
	m := Membership{Role: Developer}
	if by.StaffID != "" {
		r, found, err := memberOf(ctx, tx, by.ApplicationID, by.StaffID)
		if err == nil && !found {
			err = problem.ErrNotFound
		}
		if err != nil {
			return Membership{}, err
		}
		m.Role = r.Role
	}
	var err error
	m.Application, err = s.deps.Applications.Get(ctx, tx, by.ApplicationID)
	return m, err
}

// Create registers an application in a sandbox, with an endpoint without a URL, and makes the person its owner. The
// secrets cannot be read again. It returns [ErrLive], [ErrTooMany] or [application.ErrInvalid].
func (s *Service) Create(ctx context.Context, tx postgres.Tx, staffID string,
	n application.NewApplication,
) (made Created, err error) {
	if !s.deps.Sandbox {
		return made, ErrLive
	}
	if _, err := s.deps.Staff.Lock(ctx, tx, staffID); err != nil { // serializes creations by one person
		return made, err
	}
	owned, err := membershipsOf(ctx, tx, staffID)
	if err != nil {
		return made, err
	}
	if count(owned, Owner) >= MaxApplications {
		return made, problem.Refuse(ErrTooMany, ruleApplications.At("applications", MaxApplications))
	}
	made.Application, made.Secret, err = s.deps.Applications.Create(ctx, tx,
		application.NewApplication{Name: n.Name, RedirectURIs: n.RedirectURIs, ContactEmail: n.ContactEmail})
	if err != nil {
		return made, err
	}
	a := made.Application
	if made.SigningSecret, err = s.deps.Webhooks.CreateEndpoint(ctx, tx, a.ID, ""); err != nil {
		return made, err
	}
	if _, err := insertMember(ctx, tx, memberRow{ApplicationID: a.ID, StaffID: staffID, Role: Owner}); err != nil {
		return made, err
	}
	details := map[string]any{"name": a.Name, "redirectUris": a.RedirectURIs}
	return made, record(ctx, tx, Caller{StaffID: staffID}, "application.create", a.ID, details)
}

// Created is an application with its secrets, which cannot be read again.
type Created struct {
	Application           application.Application
	Secret, SigningSecret string
}

func count(rows []memberRow, role Role) (n int) {
	for _, r := range rows {
		if r.Role == role {
			n++
		}
	}
	return n
}

// Change is the input of [Service.Update]; nil leaves a field unchanged.
type Change struct {
	Name         *string
	RedirectURIs []string
	ContactEmail *string // empty removes the contact
}

// Update changes the settings of an application and notifies the owners and the contact. In live, the application's own
// credentials cannot change where clients are sent. It returns [application.ErrInvalid], [ErrForbidden], [ErrPortal],
// RATE_LIMITED or NOT_FOUND.
func (s *Service) Update(ctx context.Context, by Caller, c Change) (after application.Application, err error) {
	err = s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := s.allowed(ctx, tx, by, allowedWhileSuspended["application.update"]); err != nil {
			return err
		}
		var before application.Application
		before, after, err = s.deps.Applications.Update(ctx, tx, by.ApplicationID,
			application.Change{Name: c.Name, RedirectURIs: c.RedirectURIs, ContactEmail: c.ContactEmail},
			!s.deps.Sandbox)
		if err != nil {
			return err
		}
		was, is := settingsOf(before), settingsOf(after)
		if reflect.DeepEqual(was, is) {
			return nil
		}
		leads := was.Name != is.Name || !slices.Equal(was.RedirectURIs, is.RedirectURIs)
		if leads && by.StaffID == "" && !s.deps.Sandbox {
			return ErrPortal
		}
		if is.Contact != "" && !strings.EqualFold(was.Contact, is.Contact) { // unproven: it may be anyone's address
			d, err := ratelimit.Take(ctx, tx, "portal contacts of "+after.ID, contactQuota)
			if err != nil || !d.Allowed {
				refused := problem.ErrRateLimited.Because("Too many contact addresses; see Retry-After.").
					After(d.RetryAfter)
				return cmp.Or[error](err, refused)
			}
		}
		if err := s.tellChange(ctx, tx, by, before, after); err != nil {
			return err
		}
		return record(ctx, tx, by, "application.update", after.ID, map[string]settings{"before": was, "after": is})
	})
	return after, err
}

// settings are the settings of an application as the audit log keeps them.
type settings struct {
	Name         string   `json:"name"`
	RedirectURIs []string `json:"redirectUris"`
	Contact      string   `json:"contact,omitempty"`
}

func settingsOf(a application.Application) settings {
	return settings{a.Name, a.RedirectURIs, a.ContactEmail}
}

// tellChange emails the new settings to the owners and to both the previous and the new contact.
func (s *Service) tellChange(ctx context.Context, tx postgres.Tx, by Caller,
	before, after application.Application,
) error {
	args := []any{text.Mailed(after.Name, after.ID), strings.Join(after.RedirectURIs, " "),
		cmp.Or(after.ContactEmail, "–")}
	readers, err := s.readersOf(ctx, tx, before, before.ContactEmail, after.ContactEmail)
	if err != nil {
		return err
	}
	return s.tellEach(ctx, tx, by, before, readers, "settings", args...)
}

// noticeTime is the time format in emails.
const noticeTime = "2006-01-02 15:04 UTC"

// RotateSecret creates a new client secret and returns the time at which the other valid secret stops working. That is
// the current one, or the previous one if r keeps it. It returns [ErrForbidden] or the errors of
// [application.Service.RotateSecret].
func (s *Service) RotateSecret(ctx context.Context, tx postgres.Tx, by Caller,
	r application.Rotation,
) (secret string, until time.Time, err error) {
	err = s.actIn(ctx, tx, by, "application.rotate_secret", func(a application.Application) (any, error) {
		if secret, until, err = s.deps.Applications.RotateSecret(ctx, tx, a.ID, r); err != nil {
			return nil, err
		}
		what := "secret.rotated"
		if r.KeepPrevious {
			what = "secret.replaced"
		}
		return rotated{until, r.EndPrevious, r.KeepPrevious}, s.tell(ctx, tx, by, a, what)
	})
	return secret, until, err
}

// rotated is what the audit log keeps of a rotation.
type rotated struct {
	PreviousSecretUntil time.Time `json:"previousSecretUntil"`
	EndedPrevious       bool      `json:"endedPrevious,omitempty"`
	KeptPrevious        bool      `json:"keptPrevious,omitempty"` // the current secret ended
}

// EndPreviousSecret immediately ends the overlap of the last rotation. It returns [ErrForbidden] or NOT_FOUND.
func (s *Service) EndPreviousSecret(ctx context.Context, by Caller) error {
	return s.act(ctx, by, "application.end_previous_secret",
		func(tx postgres.Tx, a application.Application) (any, error) {
			if err := s.deps.Applications.EndPreviousSecret(ctx, tx, a.ID); err != nil {
				return nil, err
			}
			return nil, s.tell(ctx, tx, by, a, "secret.ended")
		})
}

// Usage returns the rate limits of an application and what is left of them.
func (s *Service) Usage(ctx context.Context, a application.Application) Usage {
	now := s.deps.DB.Clock().Now()
	all := cmp.Or(a.RatePerMinute, s.deps.ApplicationPerMinute)
	return Usage{Client: cmp.Or(a.ClientRatePerMinute, s.deps.ClientPerMinute),
		Partner:  s.deps.Limiter.Peek(ctx, "application "+a.ID, all, now),
		Platform: s.deps.Limiter.Peek(ctx, "platform "+a.ID, all, now)}
}

// act runs an action that needs a developer, and records it with the details that do returns.
func (s *Service) act(ctx context.Context, by Caller, action string,
	do func(tx postgres.Tx, a application.Application) (any, error),
) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		return s.actIn(ctx, tx, by, action, func(a application.Application) (any, error) { return do(tx, a) })
	})
}

// actIn is [Service.act] in the caller's transaction.
func (s *Service) actIn(ctx context.Context, tx postgres.Tx, by Caller, action string,
	do func(application.Application) (any, error),
) error {
	a, err := s.allowed(ctx, tx, by, allowedWhileSuspended[action])
	if err != nil {
		return err
	}
	details, err := do(a)
	if err != nil {
		return err
	}
	return record(ctx, tx, by, action, a.ID, details)
}

// allowed returns the application if the caller has the permissions of a developer, and locks them until tx ends. It
// returns [ErrSuspended] for a suspended application, unless ending says that the action only ends something.
func (s *Service) allowed(ctx context.Context, tx postgres.Tx, by Caller,
	ending bool,
) (application.Application, error) {
	if by.StaffID != "" {
		r, found, err := memberOf(ctx, tx, by.ApplicationID, by.StaffID, forShare)
		switch {
		case err != nil:
			return application.Application{}, err
		case !found:
			return application.Application{}, problem.ErrNotFound
		case !r.Role.May(Developer):
			return application.Application{}, ErrForbidden
		}
	}
	a, err := s.deps.Applications.Hold(ctx, tx, by.ApplicationID)
	if err == nil && a.Suspended && !ending {
		err = ErrSuspended
	}
	return a, err
}

func record(ctx context.Context, tx postgres.Tx, by Caller, action, applicationID string, details any) error {
	return audit.Record(ctx, tx, audit.Entry{Actor: by.actor(), Action: action, Subject: applicationID,
		Reason: by.auditReason(), Details: details})
}

// madeBy says in the given language who made a change, and from where.
func (s *Service) madeBy(ctx context.Context, tx postgres.Tx, by Caller, language string) (string, error) {
	from, err := mail.Origin{UserAgent: by.Device.UserAgent, Address: by.Device.Address}.Said(s.texts, language)
	if err != nil {
		return "", err
	}
	if by.StaffID == "" {
		return s.texts.Get(language, "portal.by.secret", from)
	}
	who, err := s.deps.Staff.SenderOf(ctx, tx, by.StaffID, language)
	if err != nil {
		return "", err
	}
	return s.texts.Get(language, "portal.by.person", who, from)
}

// translateRoles returns args with each role replaced by its name in the given language.
func (s *Service) translateRoles(lang string, args []any) []any {
	args = slices.Clone(args)
	for i, a := range args {
		if role, ok := a.(Role); ok {
			args[i] = s.texts["portal.role."+string(role)][lang]
		}
	}
	return args
}

// send emails the text of key.
func (s *Service) send(ctx context.Context, tx postgres.Tx, to, lang, key string, args ...any) error {
	subject, body, err := s.texts.Letter(lang, key, args...)
	if err != nil {
		return err
	}
	return s.deps.Mail.Send(ctx, tx, mail.Message{To: to, Subject: subject, Text: body})
}
