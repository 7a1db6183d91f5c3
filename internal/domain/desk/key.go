package desk

import (
	"context"

	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// copiesShown limits the list of copies. A lawyer with more notes within [note.CopyLifetime] sees the newest.
const copiesShown = 500

// Key returns the lawyer's own public key; false if there is none.
func (s *Service) Key(ctx context.Context, tx postgres.Tx, session staff.Session) (note.Recipient, bool, error) {
	return s.deps.Notes.Recipient(ctx, tx, session.Person.LawyerID)
}

// SetKey sets the lawyer's own public key, to which notes written from now on are copied, and notifies the lawyer by
// email. The same key again changes nothing. Problems: SIGN_IN_AGAIN, VALIDATION_ERROR. Error: [staff.ErrNoSession].
func (s *Service) SetKey(ctx context.Context, session staff.Session, recipient string) error {
	return s.changeKey(ctx, session, staff.KeySet, func(tx postgres.Tx) (bool, error) {
		return s.deps.Notes.SetRecipient(ctx, tx, session.Person.LawyerID, recipient)
	})
}

// RemoveKey removes the lawyer's key and notifies them by email; existing copies stay. Without a key it changes
// nothing. Problem: SIGN_IN_AGAIN. Error: [staff.ErrNoSession].
func (s *Service) RemoveKey(ctx context.Context, session staff.Session) error {
	return s.changeKey(ctx, session, staff.KeyRemoved, func(tx postgres.Tx) (bool, error) {
		return s.deps.Notes.RemoveRecipient(ctx, tx, session.Person.LawyerID)
	})
}

func (s *Service) changeKey(ctx context.Context, session staff.Session, what staff.Notice,
	change func(tx postgres.Tx) (bool, error),
) error {
	return asProblem(s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		if !session.Fresh(tx.Now) {
			return ErrStale
		}
		changed, err := change(tx)
		if err != nil || !changed {
			return err
		}
		return s.deps.Staff.Tell(ctx, tx, session, what)
	}))
}

// Copies lists the copies of notes that the lawyer can take, newest first.
func (s *Service) Copies(ctx context.Context, tx postgres.Tx, session staff.Session) ([]note.Copy, error) {
	return s.deps.Notes.Copies(ctx, tx, session.Person.LawyerID, copiesShown)
}

// TakeCopy returns the lawyer's copy of their own note, which only their key opens; see [note.Service.TakeCopy]. It
// does not require being on duty: the lawyer reads it where the key is. Problem: NOT_FOUND.
func (s *Service) TakeCopy(ctx context.Context, session staff.Session,
	consultationID string,
) (sealed []byte, err error) {
	err = s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		sealed, err = s.deps.Notes.TakeCopy(ctx, tx, session.Person.LawyerID, consultationID)
		return err
	})
	return sealed, asProblem(err)
}
