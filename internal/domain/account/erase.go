package account

import (
	"context"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/password"
	"partnerd/internal/infra/postgres"
)

// ErasedName stands where the name of an erased client was.
const ErasedName = "(erased)"

// TakeBackError says that an earlier e-mail address can take the account back until a time: whoever took it over must
// not destroy it before.
type TakeBackError struct{ Until time.Time }

func (e TakeBackError) Error() string {
	return "an earlier e-mail address can take the account back until " + clock.Format(e.Until)
}

// TakeBackOpen returns a [TakeBackError] while a link works that gives the client's account back to an earlier address.
func (s *Service) TakeBackOpen(ctx context.Context, tx postgres.Tx, clientID string) error {
	links, err := openUndoLinks(ctx, tx, clientID)
	if err != nil || len(links) == 0 {
		return err
	}
	return TakeBackError{links[0].ExpiresAt}
}

// ConfirmPassword returns [ErrBadCredentials] unless plain is the client's present password, and locks the client for
// what the password allows, which comes next in tx.
func (s *Service) ConfirmPassword(ctx context.Context, tx postgres.Tx, clientID, plain string) error {
	row, err := lockClient(ctx, tx, clientID)
	if err == nil && !password.Verify(row.PasswordHash, plain) {
		err = ErrBadCredentials
	}
	return err
}

// Erase turns the client's profile into a pseudonym: name, e-mail address, phone number, password, passkeys, sessions
// and links are destroyed, and nobody can sign in again. The client's key is destroyed, and with it whatever it sealed,
// in other domains too. The e-mail address is free for a new client. The identifier stays, because payment records
// refer to it. It locks the client, so it comes first in its transaction. It returns [problem.ErrNotFound] for a client
// who is erased or disabled already, or a [TakeBackError].
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, clientID string) (was Client, err error) {
	row, err := lockClient(ctx, tx, clientID)
	if err != nil {
		return Client{}, err
	}
	if err := s.TakeBackOpen(ctx, tx, clientID); err != nil {
		return Client{}, err
	}
	if err := s.keys.Destroy(ctx, tx, clientID); err != nil {
		return Client{}, err
	}
	was = fromRow(row)
	return was, eraseClient(ctx, tx, was)
}
