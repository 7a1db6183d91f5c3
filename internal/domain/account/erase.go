package account

import (
	"context"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/password"
	"partnerd/internal/infra/postgres"
)

// ErasedName replaces the name of an erased client.
const ErasedName = "(erased)"

// TakeBackError reports that an earlier email address can take the account back until a given time. Until then the
// account cannot be erased, so that someone who took it over cannot destroy it.
type TakeBackError struct{ Until time.Time }

func (e TakeBackError) Error() string {
	return "an earlier e-mail address can take the account back until " + clock.Format(e.Until)
}

// TakeBackOpen returns a [TakeBackError] while a link that gives the account back to an earlier address still works.
func (s *Service) TakeBackOpen(ctx context.Context, tx postgres.Tx, clientID string) error {
	links, err := openUndoLinks(ctx, tx, clientID)
	if err != nil || len(links) == 0 {
		return err
	}
	return TakeBackError{links[0].ExpiresAt}
}

// ConfirmPassword returns [ErrBadCredentials] unless plain is the client's current password. It locks the client, so
// the password holds for the rest of tx.
func (s *Service) ConfirmPassword(ctx context.Context, tx postgres.Tx, clientID, plain string) error {
	row, err := lockClient(ctx, tx, clientID)
	if err == nil && !password.Verify(row.PasswordHash, plain) {
		err = ErrBadCredentials
	}
	return err
}

// Erase turns the client's profile into a pseudonym, and no one can sign in to it again. It destroys name, email
// address, phone number, password, passkeys, sessions and links. It destroys the client's key, and with it everything
// that the key sealed, in other domains too. The email address becomes free for a new client. The ID stays, because
// payment records refer to it.
//
// Erase locks the client, so it must come first in its transaction. It returns [problem.ErrNotFound] for a client who
// is unknown, disabled or erased, or a [TakeBackError].
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
