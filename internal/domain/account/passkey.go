package account

import (
	"context"

	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
)

// passkeyRow is a row of client_passkeys.
type passkeyRow struct {
	passkey.Row
	ClientID string `gorm:"column:client_id"`
}

// TableName implements [schema.Tabler].
func (passkeyRow) TableName() string { return "client_passkeys" }

// challengeRow is a row of passkey_challenges.
type challengeRow struct {
	passkey.ChallengeRow
	ClientID string `gorm:"column:client_id;serializer:zeronull"` // empty for a sign-in
}

// TableName implements [schema.Tabler].
func (challengeRow) TableName() string { return "passkey_challenges" }

var passkeyTables = passkey.Tables{Passkeys: passkeyRow{}.TableName(), Challenges: challengeRow{}.TableName(),
	Person: "client_id"}

// HasPasskeys reports whether this deployment can offer passkeys.
func (s *SelfService) HasPasskeys() bool { return s.passkeys.Offered() }

// BeginPasskey creates a challenge to register a passkey. It returns [passkey.ErrTooMany], or [passkey.ErrRefused] for
// a disabled client.
func (s *SelfService) BeginPasskey(ctx context.Context, tx postgres.Tx, clientID string) (passkey.Challenge, error) {
	c, err := signer(ctx, tx, clientID)
	if err != nil {
		return passkey.Challenge{}, err
	}
	return s.passkeys.Begin(ctx, tx, person(c))
}

// AddPasskey verifies the browser's answer to [SelfService.BeginPasskey], stores the passkey and notifies the client.
// It returns the errors of [passkey.Ring.Add], after which tx must be rolled back.
func (s *SelfService) AddPasskey(ctx context.Context, tx postgres.Tx, clientID, token, name string, answer []byte,
	lang string,
) error {
	row, err := lockClient(ctx, tx, clientID)
	if err != nil {
		return err
	}
	c := fromRow(row)
	if err := s.passkeys.Add(ctx, tx, person(c), token, name, answer); err != nil {
		return err
	}
	return s.notify(ctx, tx, c, lang, "passkey.added")
}

// BeginPasskeySignIn creates a challenge for a sign-in without a user name: the passkey identifies the client.
func (s *SelfService) BeginPasskeySignIn(ctx context.Context, tx postgres.Tx) (passkey.Challenge, error) {
	return s.passkeys.BeginSignIn(ctx, tx)
}

// PasskeySignIn verifies the browser's answer to [SelfService.BeginPasskeySignIn] and returns the client and the
// passkey used. It returns [passkey.ErrRefused], or [ErrDisabled] together with a disabled client who has shown the
// passkey. The challenge is used up in every case, so tx should commit.
func (s *SelfService) PasskeySignIn(ctx context.Context, tx postgres.Tx, token string,
	answer []byte,
) (c Client, passkeyID string, err error) {
	passkeyID, err = s.passkeys.SignIn(ctx, tx, token, answer, func(clientID string) (passkey.Person, error) {
		var err error
		c, err = holder(ctx, tx, clientID)
		return person(c), err
	})
	if err == nil && c.Disabled {
		err = ErrDisabled
	}
	return c, passkeyID, err
}

// Passkeys lists the client's passkeys, oldest first.
func (s *SelfService) Passkeys(ctx context.Context, tx postgres.Tx, clientID string) ([]passkey.Passkey, error) {
	return s.passkeys.List(ctx, tx, clientID)
}

// RemovePasskey removes one of the client's passkeys, ends the browser sessions that it opened, and notifies the
// client. A passkey that is already gone is not an error.
func (s *SelfService) RemovePasskey(ctx context.Context, tx postgres.Tx, clientID, passkeyID, lang string) error {
	c, err := s.deps.Accounts.Get(ctx, tx, clientID)
	if err != nil {
		return err
	}
	removed, err := s.passkeys.Remove(ctx, tx, clientID, passkeyID)
	if err != nil || !removed {
		return err
	}
	return s.notify(ctx, tx, c, lang, "passkey.removed")
}

// signer returns the client with the given ID, or [passkey.ErrRefused] if the client cannot sign in.
func signer(ctx context.Context, tx postgres.Tx, clientID string) (Client, error) {
	c, err := holder(ctx, tx, clientID)
	if err == nil && c.Disabled {
		err = passkey.ErrRefused
	}
	return c, err
}

// holder returns the client with the given ID, who may be disabled, or [passkey.ErrRefused] if there is none.
func holder(ctx context.Context, tx postgres.Tx, clientID string) (Client, error) {
	if !storable(clientID) {
		return Client{}, passkey.ErrRefused
	}
	row, found, err := clientByID(ctx, tx, clientID)
	if err == nil && !found {
		err = passkey.ErrRefused
	}
	return fromRow(row), err
}

func person(c Client) passkey.Person { return passkey.Person{ID: c.ID, Email: c.Email, Name: c.Name} }
