package portal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

const signUpJob = "portal.signup"

// signUpRequest is a request for an email with a link.
type signUpRequest struct {
	Email    string `json:"email"`
	Language string `json:"language"`
}

// RequestSignUp emails a link with which the owner of the address signs up in a sandbox. A known person gets an email
// that says so instead. The caller gets the same response after the same work, because the job makes the distinction.
// It returns [ErrInvalid] for an invalid address, or [ErrLive].
func (s *Service) RequestSignUp(ctx context.Context, tx postgres.Tx, email, language string) error {
	if !s.deps.Sandbox {
		return ErrLive
	}
	if email = strings.TrimSpace(email); !text.IsEmail(email) {
		return problem.Refuse(ErrInvalid, problem.Address("email", email))
	}
	raw, err := json.Marshal(signUpRequest{email, text.Known(language)})
	if err != nil {
		return fmt.Errorf("write %s: %w", signUpJob, err)
	}
	sealed, err := s.deps.Box.Seal(signUpJob, raw)
	if err != nil {
		return err
	}
	return s.deps.Queue.Insert(ctx, tx, signUpJob, sealed)
}

func (s *Service) mailSignUp(ctx context.Context, sealed []byte) error {
	raw, err := s.deps.Box.Open(signUpJob, sealed)
	if err != nil {
		return err
	}
	var r signUpRequest
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("read %s: %w", signUpJob, err)
	}
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		n, err := countLinks(ctx, tx, "", r.Email)
		if err != nil || n >= linksPerHour {
			return err
		}
		of := id.DigestOf(strings.ToLower(r.Email)).String() // the caller is not told
		if d, err := ratelimit.Take(ctx, tx, "portal sign-ups of "+of, signUpQuota); err != nil || !d.Allowed {
			return err
		}
		token := tx.NewSecret("lnk") // unused for a known person, but the row counts towards the limit
		l := linkRow{ID: tx.NewID(id.Invitation), TokenHash: id.DigestOf(token), Email: r.Email, Language: r.Language,
			ExpiresAt: tx.Now.Add(SignUpLifetime)}
		_, err = s.deps.Staff.ByEmail(ctx, tx, r.Email)
		known := err == nil
		if err != nil && !errors.Is(err, staff.ErrNotFound) {
			return err
		}
		if err := insertLink(ctx, tx, l); err != nil {
			return err
		}
		if known {
			return s.send(ctx, tx, r.Email, r.Language, "portal.exists", s.deps.BaseURL+"/developers/login",
				s.deps.BaseURL+"/staff/password/forgot")
		}
		return s.send(ctx, tx, r.Email, r.Language, "portal.signup", s.link(token))
	})
}

func (s *Service) link(token string) string {
	return s.deps.BaseURL + "/developers/join?" + url.Values{"token": {token}}.Encode()
}

// Pending describes what a link is for.
type Pending struct {
	Email, Language string
	Application     *application.Application // nil: a sign-up
	Role            Role
	Known           bool // the reader already has an account and only joins
}

// PendingLink returns what a link is for, without using it. It returns [ErrBadLink].
func (s *Service) PendingLink(ctx context.Context, tx postgres.Tx, token string) (Pending, error) {
	r, err := findLink(ctx, tx, id.DigestOf(token))
	if err != nil {
		return Pending{}, err
	}
	known, err := s.person(ctx, tx, r)
	if err != nil {
		return Pending{}, err
	}
	p := Pending{Email: r.Email, Language: r.Language, Role: r.Role, Known: known.ID != ""}
	if r.ApplicationID != "" {
		a, err := s.deps.Applications.Get(ctx, tx, r.ApplicationID)
		if err != nil {
			return Pending{}, err
		}
		p.Application = &a
	}
	return p, nil
}

// person returns the person with the link's address, or zero if there is none. It returns [ErrBadLink] if that person
// is disabled, is not a partner, or opens a sign-up link.
func (s *Service) person(ctx context.Context, tx postgres.Tx, r linkRow) (staff.Person, error) {
	p, err := s.deps.Staff.ByEmail(ctx, tx, r.Email)
	switch {
	case errors.Is(err, staff.ErrNotFound):
		return staff.Person{}, nil
	case err == nil && (r.ApplicationID == "" || p.Kind != staff.Partner || p.State == staff.Disabled):
		return staff.Person{}, ErrBadLink
	}
	return p, err
}

// Join uses a link. A stranger gets an account with that name and password; session then waits for a second factor. A
// known person only becomes a member, and session is empty.
//
// It returns [ErrBadLink], or [staff.ErrInvalid] or [ErrSuspended], after which the link can be used again. After any
// error the caller must roll back tx.
func (s *Service) Join(ctx context.Context, tx postgres.Tx, token, name, plain string,
	d staff.Device,
) (p staff.Person, session string, err error) {
	r, err := findLink(ctx, tx, id.DigestOf(token), postgres.ForUpdate)
	if err != nil {
		return p, "", err
	}
	if p, err = s.person(ctx, tx, r); err != nil {
		return p, "", err
	}
	var a application.Application // none for a sign-up
	if r.ApplicationID != "" {
		if a, err = s.deps.Applications.Hold(ctx, tx, r.ApplicationID); err == nil && a.Suspended {
			err = ErrSuspended
		}
		if err != nil {
			return p, "", err
		}
	}
	if p.ID == "" {
		p, session, err = s.deps.Staff.Register(ctx, tx,
			staff.NewPerson{Kind: staff.Partner, Email: r.Email, Name: name, Language: r.Language}, plain, d)
		if errors.Is(err, staff.ErrEmailTaken) {
			err = ErrBadLink // a concurrent request was faster, most likely by the same person with another link
		}
		if err != nil {
			return p, "", err
		}
	}
	if _, err := links.End(ctx, tx, "token_hash = ? OR application_id IS NULL AND lower(email) = lower(?)",
		r.TokenHash, r.Email); err != nil {
		return p, "", err
	}
	if r.ApplicationID == "" {
		return p, session, audit.Record(ctx, tx, audit.Entry{Actor: p.ID, Action: "portal.sign_up", Subject: p.ID,
			Reason: "By a link in a mail."})
	}
	return p, session, s.join(ctx, tx, Caller{p.ID, a.ID, d}, r, a, p)
}

func (s *Service) join(ctx context.Context, tx postgres.Tx, by Caller, r linkRow, a application.Application,
	p staff.Person,
) error {
	added, err := insertMember(ctx, tx, memberRow{ApplicationID: a.ID, StaffID: p.ID, Role: r.Role})
	if err != nil || !added {
		return err
	}
	if err := s.tellPeople(ctx, tx, by, a, "", "joined", p.Email, r.Role); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{Actor: p.ID, Action: "application.join", Subject: a.ID,
		Reason: "By a link in a mail.", Details: map[string]any{"role": r.Role, "invitation": r.ID}})
}

// Purge deletes expired links.
func (s *Service) Purge(ctx context.Context) (int, error) { return purgeLinks(ctx, s.deps.DB.Read()) }
