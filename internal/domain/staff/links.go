package staff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/signin"
)

// ErrBadLink is returned for an emailed link that cannot be used.
var ErrBadLink = signin.ErrBadLink

const (
	resetJob     = "staff.reset"
	linksPerHour = 5 // emails with a password reset link, per person
)

// resetRequest is a request for an email with a link.
type resetRequest struct {
	Email string `json:"email"`
}

// PendingInvitation returns the person whom a link invites, without using the link. It returns [ErrBadLink].
func (s *Service) PendingInvitation(ctx context.Context, tx postgres.Tx, token string) (Person, error) {
	return s.pending(ctx, tx, kindInvite, token)
}

// PendingReset returns the person whose password a link replaces, without using the link. It returns [ErrBadLink].
func (s *Service) PendingReset(ctx context.Context, tx postgres.Tx, token string) (Person, error) {
	return s.pending(ctx, tx, kindReset, token)
}

// AcceptInvitation uses a link, sets the password and opens a session that waits for the second factor to be set up. It
// returns [ErrBadLink], or [ErrInvalid], after which the link can be used again. After either the caller must roll back
// tx.
func (s *Service) AcceptInvitation(ctx context.Context, tx postgres.Tx, token, plain string,
	d Device,
) (session string, err error) {
	_, session, err = s.useLink(ctx, tx, kindInvite, token, plain, d)
	return session, err
}

// Reset uses a link, replaces the password and opens a session that waits for the existing second factor. It returns
// the errors of [Service.AcceptInvitation].
func (s *Service) Reset(ctx context.Context, tx postgres.Tx, token, plain string,
	d Device,
) (session string, err error) {
	r, session, err := s.useLink(ctx, tx, kindReset, token, plain, d)
	if err != nil {
		return "", err
	}
	return session, s.notify(ctx, tx, r, "password")
}

// RequestReset emails the person with that address a link to choose a new password. The caller gets the same response
// after the same work whether or not the person exists, because the job finds out. It returns [ErrInvalid] for an
// invalid address.
func (s *Service) RequestReset(ctx context.Context, tx postgres.Tx, email string) error {
	if email = strings.TrimSpace(email); !text.IsEmail(email) {
		return problem.Refuse(ErrInvalid, problem.Address("email", email))
	}
	raw, err := json.Marshal(resetRequest{email})
	if err != nil {
		return fmt.Errorf("write %s: %w", resetJob, err)
	}
	sealed, err := s.deps.Box.Seal(resetJob, raw)
	if err != nil {
		return err
	}
	return s.deps.Queue.Insert(ctx, tx, resetJob, sealed)
}

func (s *Service) mailReset(ctx context.Context, sealed []byte) error {
	raw, err := s.deps.Box.Open(resetJob, sealed)
	if err != nil {
		return err
	}
	var request resetRequest
	if err := json.Unmarshal(raw, &request); err != nil {
		return fmt.Errorf("read %s: %w", resetJob, err)
	}
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		r, err := person(ctx, tx, locked, "lower(email) = lower(?)", request.Email)
		if errors.Is(err, ErrNotFound) || err == nil && r.person().State != Active {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := links.Count(ctx, tx, "kind = ? AND staff_id = ?", kindReset, r.ID)
		if err != nil || n >= linksPerHour {
			return err
		}
		token := tx.NewSecret("lnk")
		if err := insertLink(ctx, tx, linkRow{TokenHash: id.DigestOf(token), Kind: kindReset, StaffID: r.ID,
			ExpiresAt: tx.Now.Add(ResetLifetime)}); err != nil {
			return err
		}
		return s.send(ctx, tx, r, "staff.reset", r.Name, s.link("/staff/password/reset", token))
	})
}

// Register adds a person with a proven email address and the chosen password. It opens a session that waits for the
// second factor to be set up. It returns [ErrInvalid] or [ErrEmailTaken]; after either the caller must roll back tx.
func (s *Service) Register(ctx context.Context, tx postgres.Tx, n NewPerson, plain string,
	d Device,
) (p Person, session string, err error) {
	if n, err = checked(n); err != nil {
		return Person{}, "", err
	}
	r := newRow(tx, n)
	if err := s.checkPassword(r, plain); err != nil {
		return Person{}, "", err
	}
	r.PasswordHash = password.Hash(plain)
	if err := insertPerson(ctx, tx, r); err != nil {
		return Person{}, "", err
	}
	session, err = openSession(ctx, tx, r, sessionRow{}, d)
	return r.person(), session, err
}

func (s *Service) pending(ctx context.Context, tx postgres.Tx, kind, token string) (Person, error) {
	l, err := links.Find(ctx, tx, kind, token)
	if err != nil {
		return Person{}, err
	}
	return s.Get(ctx, tx, l.StaffID)
}

// useLink locks the person before the link, which is the order everywhere, and sets the password.
func (s *Service) useLink(ctx context.Context, tx postgres.Tx, kind, token, plain string,
	d Device,
) (r staffRow, session string, err error) {
	l, err := links.Find(ctx, tx, kind, token)
	if err != nil {
		return r, "", err
	}
	if r, err = lockPerson(ctx, tx, l.StaffID); err != nil {
		return r, "", err
	}
	if err := s.checkPassword(r, plain); err != nil {
		return r, "", err
	}
	if _, err := links.Use(ctx, tx, kind, token); err != nil {
		return r, "", err
	}
	if r.DisabledAt != nil {
		return r, "", ErrBadLink
	}
	if err := s.setPassword(ctx, tx, r, plain, ""); err != nil {
		return r, "", err
	}
	session, err = openSession(ctx, tx, r, sessionRow{}, d)
	return r, session, err
}
