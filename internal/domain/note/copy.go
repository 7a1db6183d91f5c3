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

// How long a lawyer's copy of his note is kept.
const (
	CopyLifetime = 30 * 24 * time.Hour // after the note was written, if it is not taken
	CopyAgain    = 24 * time.Hour      // after it was first taken: a download may break
)

// Faults about a lawyer's own key and copies.
var (
	ErrRecipient = errors.New("that is not a public key of age, which begins with age1")
	ErrNoCopy    = errors.New("there is no copy of this note for this lawyer")
)

// Recipient is the public half of a lawyer's own key.
type Recipient struct {
	Key   string // of age, https://age-encryption.org/v1
	SetAt time.Time
}

// Copy is a copy that a lawyer can take.
type Copy struct {
	ConsultationID string
	WrittenAt      time.Time
	TakenAt        *time.Time // first; nil: not yet
}

// GoneAt is when the copy is dropped.
func (c Copy) GoneAt() time.Time {
	if c.TakenAt != nil {
		return c.TakenAt.Add(CopyAgain)
	}
	return c.WrittenAt.Add(CopyLifetime)
}

// ForEarlierKey tells whether the copy was made for another key than present, the lawyer's: before that was set, or
// when there is none.
func (c Copy) ForEarlierKey(present Recipient) bool {
	return present.Key == "" || c.WrittenAt.Before(present.SetAt)
}

// FileName is what the file with a copy is called.
func FileName(consultationID string) string { return consultationID + ".age" }

// SetRecipient keeps the public half of a lawyer's key, an age recipient (age1…): notes that are written once tx has
// committed are copied to it, and to none before it. Copies made before stay as they are. It tells whether the key is
// another one than before, and returns [ErrRecipient].
func (s *Service) SetRecipient(ctx context.Context, tx postgres.Tx, lawyerID, key string) (bool, error) {
	r, err := age.ParseX25519Recipient(strings.TrimSpace(key))
	if err != nil {
		return false, ErrRecipient
	}
	return setRecipient(ctx, tx, recipientRow{LawyerID: lawyerID, Recipient: r.String(), SetAt: tx.Now})
}

// RemoveRecipient ends the copies of notes that are written once tx has committed. It tells whether there was a key.
func (s *Service) RemoveRecipient(ctx context.Context, tx postgres.Tx, lawyerID string) (bool, error) {
	return deleteRecipient(ctx, tx, lawyerID)
}

// Recipient returns a lawyer's public key; false when he has told none.
func (s *Service) Recipient(ctx context.Context, tx postgres.Tx, lawyerID string) (Recipient, bool, error) {
	r, found, err := findRecipient(ctx, tx, lawyerID)
	return Recipient{Key: r.Recipient, SetAt: r.SetAt}, found, err
}

// Copies lists what a lawyer can take, the newest first, at most limit: none whose time is over ([Copy.GoneAt]).
func (s *Service) Copies(ctx context.Context, tx postgres.Tx, lawyerID string, limit int) ([]Copy, error) {
	return copies(ctx, tx, lawyerID, limit)
}

// TakeCopy returns a lawyer's copy of his own note, encrypted to the key that he had when he wrote it, in age's text
// form, and notes when he first took it. It returns [ErrNoCopy], also for one whose time is over.
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

// DropCopies drops the copies whose time is over, and tells how many those were.
func (s *Service) DropCopies(ctx context.Context, tx postgres.Tx) (int, error) {
	return dropCopies(ctx, tx, tx.Now.Add(-CopyAgain), tx.Now.Add(-CopyLifetime))
}

// copyFor encrypts a note to the lawyer's own key, and that by the client's; nil when the lawyer has none.
func copyFor(ctx context.Context, tx postgres.Tx, key vault.Key,
	consultationID, lawyerID, note string,
) ([]byte, error) {
	// whoever replaces the key waits until the note is stored
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
