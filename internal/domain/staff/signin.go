package staff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

// pendingLifetime is how long a session waits for the second factor after the password.
const pendingLifetime = 15 * time.Minute

// Errors of a sign-in.
var (
	ErrBadCredentials = errors.New("e-mail address or password is wrong")
	ErrCode           = errors.New("the code is wrong or was used")
)

// Proof proves that someone entered the correct password.
type Proof struct {
	staffID string
	hash    string // of the password
}

// CheckPassword verifies a password. It returns [ErrBadCredentials] after the same work for an unknown address, a wrong
// password, and an invited or disabled person. Pass a handle of [postgres.DB.Read], because hashing takes tens of
// milliseconds.
func (s *Service) CheckPassword(ctx context.Context, tx postgres.Tx, email, plain string) (Proof, error) {
	var r staffRow
	if email = strings.TrimSpace(email); text.IsEmail(email) {
		var err error
		if r, err = personByEmail(ctx, tx, email); err != nil && !errors.Is(err, ErrNotFound) {
			return Proof{}, err
		}
	}
	if !password.Verify(r.PasswordHash, plain) || r.DisabledAt != nil {
		return Proof{}, ErrBadCredentials
	}
	return Proof{r.ID, r.PasswordHash}, nil
}

// Begin opens a session that waits for the second factor, and returns its token. It returns [ErrBadCredentials] if the
// person was disabled or the password replaced since [Service.CheckPassword].
func (s *Service) Begin(ctx context.Context, tx postgres.Tx, by Proof, d Device) (token string, err error) {
	r, err := lockPerson(ctx, tx, by.staffID)
	if err != nil {
		return "", err
	}
	if r.DisabledAt != nil || r.PasswordHash != by.hash {
		return "", ErrBadCredentials
	}
	return openSession(ctx, tx, r, sessionRow{}, d)
}

// Pending returns the person whose second factor the session of token waits for, or [ErrNoSession].
func (s *Service) Pending(ctx context.Context, tx postgres.Tx, token string) (Person, error) {
	r, err := sessionOf(ctx, tx, id.DigestOf(token), false)
	return r.Row.person(), err
}

// EnterCode ends a session that waits for the second factor and returns the token of a complete one. code is a code of
// the person's device or a recovery code, whose use is reported by email. It returns [ErrCode], or [ErrNoSession] if
// the session has ended; the caller must then roll back tx.
func (s *Service) EnterCode(ctx context.Context, tx postgres.Tx, token string, code Code,
	d Device,
) (string, Person, error) {
	r, err := s.takePending(ctx, tx, token)
	if err != nil {
		return "", Person{}, err
	}
	if err := s.useCode(ctx, tx, r, code); err != nil {
		return "", Person{}, err
	}
	full, err := openSession(ctx, tx, r, sessionRow{Complete: true}, d)
	return full, r.person(), err
}

// TellWrongCodes emails a person that someone at device d knows the password and enters wrong codes.
func (s *Service) TellWrongCodes(ctx context.Context, tx postgres.Tx, staffID string, d Device) error {
	r, err := personByID(ctx, tx, staffID)
	if err != nil {
		return err
	}
	return s.send(ctx, tx, r, "staff.wrong", r.Name, tx.Now.Format(noticeTime), text.Printable(d.Address),
		s.deps.BaseURL+"/staff/password/forgot", s.deps.BaseURL+"/staff/security")
}

// lockPending locks the person of a session that waits for the second factor.
func (s *Service) lockPending(ctx context.Context, tx postgres.Tx, token string) (staffRow, error) {
	waiting, err := sessionOf(ctx, tx, id.DigestOf(token), false)
	if err != nil {
		return staffRow{}, err
	}
	r, err := lockPerson(ctx, tx, waiting.Row.ID)
	if err == nil && r.DisabledAt != nil {
		err = ErrNoSession
	}
	return r, err
}

// takePending is like [Service.lockPending] and also ends the session. If several calls run concurrently, only one
// succeeds.
func (s *Service) takePending(ctx context.Context, tx postgres.Tx, token string) (staffRow, error) {
	r, err := s.lockPending(ctx, tx, token)
	if err != nil {
		return staffRow{}, err
	}
	ended, err := sessions.End(ctx, tx, id.DigestOf(token))
	if err == nil && !ended {
		err = ErrNoSession
	}
	return r, err
}

// useCode spends a code of the device or a recovery code. The caller has locked the person.
func (s *Service) useCode(ctx context.Context, tx postgres.Tx, r staffRow, code Code) error {
	if r.TOTPConfirmedAt == nil {
		return ErrCode
	}
	if code.IsRecovery() {
		return s.useRecovery(ctx, tx, r, code)
	}
	secret, err := s.deps.Box.Open(totpPlace(r.ID), r.TOTPSealed)
	if err != nil {
		return err
	}
	step, ok := acceptedStep(secret, code, r.TOTPStep, tx.Now)
	if !ok {
		return ErrCode
	}
	return update(ctx, tx, r.ID, staffRow{TOTPStep: step}, "totp_step")
}

func (s *Service) useRecovery(ctx context.Context, tx postgres.Tx, r staffRow, code Code) error {
	used, err := useRecoveryCode(ctx, tx, r.ID, recoveryDigest(code))
	if err != nil {
		return err
	}
	if !used {
		return ErrCode
	}
	return s.notify(ctx, tx, r, "recovery")
}

// SetUpFactor returns the data to set up the device of a person whose session waits for the first second factor. Each
// session has its own secret, so someone else who knew the password saw a different one. It returns [ErrNoSession],
// also if the person already has a second factor.
func (s *Service) SetUpFactor(ctx context.Context, tx postgres.Tx, token string) (Factor, Person, error) {
	r, err := s.lockPending(ctx, tx, token)
	if err != nil {
		return Factor{}, Person{}, err
	}
	if r.TOTPConfirmedAt != nil {
		return Factor{}, Person{}, ErrNoSession
	}
	key, err := totpKey(secretOf(token), r.Email)
	if err != nil {
		return Factor{}, Person{}, err
	}
	f, err := factorOf(key)
	return f, r.person(), err
}

// ConfirmFactor ends a session that waits for the first second factor, given a code of the device set up in it. It
// returns the token of a complete session and the recovery codes, which are shown once. It returns [ErrCode] or
// [ErrNoSession] as [Service.EnterCode] does; the caller must then roll back tx.
func (s *Service) ConfirmFactor(ctx context.Context, tx postgres.Tx, token, code string,
	d Device,
) (full string, p Person, recovery []string, err error) {
	r, err := s.takePending(ctx, tx, token)
	if err != nil {
		return "", p, nil, err
	}
	if r.TOTPConfirmedAt != nil {
		return "", p, nil, ErrNoSession
	}
	secret := secretOf(token)
	var ok bool
	if r.TOTPStep, ok = acceptedStep(secret, ReadCode(code), r.TOTPStep, tx.Now); !ok {
		return "", p, nil, ErrCode
	}
	if r.TOTPSealed, err = s.deps.Box.Seal(totpPlace(r.ID), secret); err != nil {
		return "", p, nil, err
	}
	r.TOTPConfirmedAt = &tx.Now
	if err := update(ctx, tx, r.ID, r, "totp_sealed", "totp_step", "totp_confirmed_at"); err != nil {
		return "", p, nil, err
	}
	if recovery, err = newRecoveryCodes(ctx, tx, r.ID); err != nil {
		return "", p, nil, err
	}
	if full, err = openSession(ctx, tx, r, sessionRow{Complete: true}, d); err != nil {
		return "", p, nil, err
	}
	return full, r.person(), recovery, s.notify(ctx, tx, r, "factor")
}

// RecoveryCodesLeft returns how many recovery codes of a person are unused.
func (s *Service) RecoveryCodesLeft(ctx context.Context, tx postgres.Tx, staffID string) (int64, error) {
	return countRecoveryCodes(ctx, tx, staffID)
}

// RenewRecoveryCodes replaces a person's recovery codes, given a code of the device or an old recovery code. It returns
// [ErrCode]; the caller must then roll back tx.
func (s *Service) RenewRecoveryCodes(ctx context.Context, tx postgres.Tx, staffID, code string) ([]string, error) {
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return nil, err
	}
	if err := s.useCode(ctx, tx, r, ReadCode(code)); err != nil {
		return nil, err
	}
	codes, err := newRecoveryCodes(ctx, tx, r.ID)
	if err != nil {
		return nil, err
	}
	return codes, s.notify(ctx, tx, r, "codes")
}

// newRecoveryCodes replaces all existing recovery codes.
func newRecoveryCodes(ctx context.Context, tx postgres.Tx, staffID string) ([]string, error) {
	if err := deleteRecoveryCodes(ctx, tx, staffID); err != nil {
		return nil, err
	}
	codes := make([]string, recoveryCodes)
	for i := range codes {
		codes[i] = newRecoveryCode()
		if err := insertRecoveryCode(ctx, tx, staffID, recoveryDigest(ReadCode(codes[i]))); err != nil {
			return nil, err
		}
	}
	return codes, nil
}

// ChangePassword sets a new password for a person who knows the current one, and ends all sessions except sessionID. It
// returns [ErrBadCredentials] or [ErrInvalid].
func (s *Service) ChangePassword(ctx context.Context, tx postgres.Tx, staffID, present, plain, sessionID string) error {
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return err
	}
	if err := s.checkPassword(r, plain); err != nil {
		return err
	}
	if !password.Verify(r.PasswordHash, present) || r.DisabledAt != nil {
		return ErrBadCredentials
	}
	if err := s.setPassword(ctx, tx, r, plain, sessionID); err != nil {
		return err
	}
	return s.notify(ctx, tx, r, "password")
}

// setPassword sets the password, ends all sessions except sessionID and ends all emailed links. The caller has locked
// the person.
func (s *Service) setPassword(ctx context.Context, tx postgres.Tx, r staffRow, plain, sessionID string) error {
	if err := update(ctx, tx, r.ID, staffRow{PasswordHash: password.Hash(plain)}, "password_hash"); err != nil {
		return err
	}
	if err := endLinks(ctx, tx, r.ID); err != nil {
		return err
	}
	_, err := s.EndSessions(ctx, tx, r.ID, sessionID)
	return err
}

// openSession inserts a session of a locked person.
func openSession(ctx context.Context, tx postgres.Tx, of staffRow, r sessionRow, d Device) (token string, err error) {
	token = tx.NewSecret("sts")
	lifetime := pendingLifetime
	if r.Complete {
		lifetime = SessionLifetime
	}
	r.TokenHash, r.StaffID, r.ExpiresAt = id.DigestOf(token), of.ID, tx.Now.Add(lifetime)
	r.UserAgent, r.Address = text.Printable(d.UserAgent), text.Printable(d.Address)
	return token, insertSession(ctx, tx, r)
}

// checkPassword returns [ErrInvalid] with the [password.Weakness] of a password that the person may not choose.
func (s *Service) checkPassword(r staffRow, plain string) error {
	if err := password.OfStaff.Check(plain, r.Email, r.Name, s.deps.Mail.Service); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

func totpPlace(staffID string) string { return "staff.totp:" + staffID }
