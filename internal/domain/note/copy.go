package note

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// How long a lawyer's copy of a note is kept.
const (
	CopyLifetime = 30 * 24 * time.Hour // after the note was written, if the copy is not taken
	CopyAgain    = 24 * time.Hour      // after it was first taken, because a download may fail
)

// Errors about a lawyer's own key and copies.
var (
	ErrRecipient = errors.New("not an age public key, which begins with age1")
	ErrNoCopy    = errors.New("this lawyer has no copy of this note")
)

// Recipient is a lawyer's own public key.
type Recipient struct {
	Key   string // age recipient, https://age-encryption.org/v1
	SetAt time.Time
}

// Copy is a copy of a note that a lawyer can take.
type Copy struct {
	ConsultationID string
	WrittenAt      time.Time
	TakenAt        *time.Time // when it was first taken; nil if not yet
}

// GoneAt returns when the copy is deleted.
func (c Copy) GoneAt() time.Time {
	if c.TakenAt != nil {
		return c.TakenAt.Add(CopyAgain)
	}
	return c.WrittenAt.Add(CopyLifetime)
}

// ForEarlierKey reports whether the copy was made for another key than current, the lawyer's current one: it was
// written before current was set, or there is no key.
func (c Copy) ForEarlierKey(current Recipient) bool {
	return current.Key == "" || c.WrittenAt.Before(current.SetAt)
}

// FileName returns the name of the file with a copy.
func FileName(consultationID string) string { return consultationID + ".age" }

// SetRecipient sets a lawyer's public key, an age recipient (age1…). Notes written after tx commits are copied to it;
// existing copies stay as they are. It reports whether the key differs from the previous one, or returns
// [ErrRecipient].
func (s *Service) SetRecipient(ctx context.Context, tx postgres.Tx, lawyerID, key string) (bool, error) {
	r, err := age.ParseX25519Recipient(strings.TrimSpace(key))
	if err != nil {
		return false, ErrRecipient
	}
	return setRecipient(ctx, tx, recipientRow{LawyerID: lawyerID, Recipient: r.String(), SetAt: tx.Now})
}

// RemoveRecipient removes a lawyer's key. Notes written after tx commits are not copied. It reports whether there was a
// key.
func (s *Service) RemoveRecipient(ctx context.Context, tx postgres.Tx, lawyerID string) (bool, error) {
	return deleteRecipient(ctx, tx, lawyerID)
}

// Recipient returns a lawyer's public key; false if there is none.
func (s *Service) Recipient(ctx context.Context, tx postgres.Tx, lawyerID string) (Recipient, bool, error) {
	r, found, err := findRecipient(ctx, tx, lawyerID)
	return Recipient{Key: r.Recipient, SetAt: r.SetAt}, found, err
}

// Copies lists at most limit copies that a lawyer can take, newest first. Copies past [Copy.GoneAt] are left out.
func (s *Service) Copies(ctx context.Context, tx postgres.Tx, lawyerID string, limit int) ([]Copy, error) {
	return copies(ctx, tx, lawyerID, limit)
}

// TakeCopy returns a lawyer's copy of their own note, in age's text form, and records when it was first taken. The copy
// is encrypted to the key that the lawyer had when writing the note. It returns [ErrNoCopy], also for a copy whose time
// is over.
func (s *Service) TakeCopy(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string) ([]byte, error) {
	r, found, err := takeCopy(ctx, tx, lawyerID, consultationID)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNoCopy
	}
	key, err := s.keys.Of(r.ClientID, r.KeySealed)
	if err != nil {
		return nil, err
	}
	sealed, err := key.Open(copyPlace(consultationID), r.CopySealed)
	if err != nil {
		return nil, err
	}
	return sealed, markTaken(ctx, tx, consultationID)
}

// DropCopies deletes the copies whose time is over and returns their number.
func (s *Service) DropCopies(ctx context.Context, tx postgres.Tx) (int, error) {
	return dropCopies(ctx, tx, tx.Now.Add(-CopyAgain), tx.Now.Add(-CopyLifetime))
}

// copyFor encrypts a note to the lawyer's own key and seals the result with the client's key. It returns nil if the
// lawyer has no key.
func copyFor(ctx context.Context, tx postgres.Tx, key vault.Key,
	consultationID, lawyerID, note string,
) ([]byte, error) {
	// a change of the key waits until the note is stored
	r, found, err := findRecipient(ctx, tx, lawyerID, sharing)
	if err != nil || !found {
		return nil, err
	}
	to, err := age.ParseX25519Recipient(r.Recipient)
	if err != nil {
		return nil, fmt.Errorf("read the key of lawyer %s: %w", lawyerID, err)
	}
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	in, err := age.Encrypt(text, to)
	if err != nil {
		return nil, fmt.Errorf("encrypt the copy of note %s: %w", consultationID, err)
	}
	_, err = io.WriteString(in, note)
	if err := errors.Join(err, in.Close(), text.Close()); err != nil {
		return nil, fmt.Errorf("encrypt the copy of note %s: %w", consultationID, err)
	}
	return key.Seal(copyPlace(consultationID), out.Bytes())
}

func copyPlace(consultationID string) string { return "note.copy:" + consultationID }
