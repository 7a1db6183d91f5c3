package account

import (
	"context"

	"partnerd/internal/postgres"
)

// ErasedName stands where the name of an erased client was.
const ErasedName = "(erased)"

// Erase turns the client's profile into a pseudonym: name, e-mail address, phone number, password, passkeys, sessions
// and links are destroyed, and nobody can sign in again. The client's key is destroyed, and with it whatever it sealed, in
// other domains too. The e-mail address is free for a new client. The identifier
// stays, because payment records refer to it. It locks the client, so it comes first in its transaction. It returns
// [problem.ErrNotFound] for a client who is erased or disabled already.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, clientID string) (was Client, err error) {
	if err := lockClient(ctx, tx, clientID); err != nil {
		return Client{}, err
	}
	if was, err = s.Get(ctx, tx, clientID); err != nil {
		return Client{}, err
	}
	if err := s.keys.Destroy(ctx, tx, clientID); err != nil {
		return Client{}, err
	}
	return was, eraseClient(ctx, tx, was)
}
