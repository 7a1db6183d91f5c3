package staff

import (
	"context"
	"errors"

	"partnerd/internal/base/text"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
)

// passkeyRow is a row of staff_passkeys.
type passkeyRow struct {
	passkey.Row
	StaffID string `gorm:"column:staff_id"`
}

// TableName implements [schema.Tabler].
func (passkeyRow) TableName() string { return "staff_passkeys" }

// challengeRow is a row of staff_challenges.
type challengeRow struct {
	passkey.ChallengeRow
	StaffID string `gorm:"column:staff_id;serializer:zeronull"` // empty for a sign-in
}

// TableName implements [schema.Tabler].
func (challengeRow) TableName() string { return "staff_challenges" }

var passkeyTables = passkey.Tables{Passkeys: passkeyRow{}.TableName(), Challenges: challengeRow{}.TableName(),
	Person: "staff_id"}

// HasPasskeys reports whether this deployment can offer passkeys.
func (s *Service) HasPasskeys() bool { return s.passkeys.Offered() }

// BeginPasskey creates a challenge to register a passkey. It returns [passkey.ErrTooMany].
func (s *Service) BeginPasskey(ctx context.Context, tx postgres.Tx, staffID string) (passkey.Challenge, error) {
	r, err := personByID(ctx, tx, staffID)
	if err != nil {
		return passkey.Challenge{}, err
	}
	return s.passkeys.Begin(ctx, tx, r.holder())
}

// AddPasskey verifies the browser's response to [Service.BeginPasskey], stores the passkey and emails the person. It
// returns the errors of [passkey.Ring.Add], after which the caller must roll back tx.
func (s *Service) AddPasskey(ctx context.Context, tx postgres.Tx, staffID, token, name string, answer []byte) error {
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return err
	}
	if err := s.passkeys.Add(ctx, tx, r.holder(), token, name, answer); err != nil {
		return err
	}
	return s.notify(ctx, tx, r, "passkey.added")
}

// BeginPasskeySignIn creates a challenge for a sign-in without a user name; the passkey identifies the person.
func (s *Service) BeginPasskeySignIn(ctx context.Context, tx postgres.Tx) (passkey.Challenge, error) {
	return s.passkeys.BeginSignIn(ctx, tx)
}

// PasskeySignIn verifies the browser's response to [Service.BeginPasskeySignIn] and opens a complete session, because
// the passkey has verified its user. It returns [passkey.ErrRefused], also for a disabled person. The challenge is
// spent even then, so the caller should commit tx.
func (s *Service) PasskeySignIn(ctx context.Context, tx postgres.Tx, token string, answer []byte,
	d Device,
) (session string, p Person, err error) {
	var r staffRow
	passkeyID, err := s.passkeys.SignIn(ctx, tx, token, answer, func(staffID string) (passkey.Person, error) {
		if !text.IsName(staffID, 100) { // IDs are shorter
			return passkey.Person{}, passkey.ErrRefused
		}
		var err error
		if r, err = lockPerson(ctx, tx, staffID); errors.Is(err, ErrNotFound) ||
			err == nil && r.person().State != Active {
			err = passkey.ErrRefused
		}
		return r.holder(), err
	})
	if err != nil {
		return "", Person{}, err
	}
	session, err = openSession(ctx, tx, r, sessionRow{Complete: true, PasskeyID: passkeyID}, d)
	return session, r.person(), err
}

// Passkeys lists a person's passkeys, oldest first.
func (s *Service) Passkeys(ctx context.Context, tx postgres.Tx, staffID string) ([]passkey.Passkey, error) {
	return s.passkeys.List(ctx, tx, staffID)
}

// RemovePasskey removes one of a person's passkeys, ends the sessions that it opened and emails the person. It succeeds
// if the passkey no longer exists.
func (s *Service) RemovePasskey(ctx context.Context, tx postgres.Tx, staffID, passkeyID string) error {
	r, err := lockPerson(ctx, tx, staffID)
	if err != nil {
		return err
	}
	removed, err := s.passkeys.Remove(ctx, tx, staffID, passkeyID)
	if err != nil || !removed {
		return err
	}
	return s.notify(ctx, tx, r, "passkey.removed")
}

func (r staffRow) holder() passkey.Person {
	return passkey.Person{ID: r.ID, Email: r.Email, Name: r.Name}
}
