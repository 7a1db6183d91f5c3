package note

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"partnerd/internal/base/seal"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// ErrOtherLawyer rejects a correction by a lawyer who did not write the note, or of an erased note.
var ErrOtherLawyer = errors.New("the note of this consultation was written by another lawyer or has been erased")

// ErrSame means that the same note and preview are stored already. Nothing was changed.
var ErrSame = errors.New("the note is already stored")

// Preview is the part of a note that a partner may read.
type Preview struct {
	ConsultationID string
	Text           string    // at most [MaxPreview] code points
	SubmittedAt    time.Time // when this text was submitted; a correction updates it
}

// Service stores notes. Safe for concurrent use.
type Service struct {
	keys *vault.Keys
	drop *seal.Drop
}

// New creates the service. Previews are sealed with their clients' keys, and those keys with box; drop encrypts full
// notes.
func New(box *seal.Box, drop *seal.Drop) *Service { return &Service{vault.New(box), drop} }

// Submit stores or corrects the note and preview of a consultation; first reports whether it stored a new one. The
// trimmed note must have 1 to [MaxNote] code points, the preview 1 to [MaxPreview]. The caller must hold the
// consultation's row lock.
//
// It returns errors that wrap [ErrInvalid], [ErrOtherLawyer], or [ErrSame] if the same texts were already sent. A text
// with a version other than [AnyVersion] was written over that draft and cannot correct a note. It returns
// [ErrDraftChanged] if another draft was saved or the note was sent in the meantime.
func (s *Service) Submit(ctx context.Context, tx postgres.Tx,
	consultationID, lawyerID, note, preview, version string,
) (first bool, err error) {
	typed := Draft{Note: note, Preview: preview}
	if note, err = normalize("note", note, MaxNote); err != nil {
		return false, err
	}
	if preview, err = normalize("preview", preview, MaxPreview); err != nil {
		return false, err
	}
	digest := sha256.Sum256([]byte(note + "\x00" + preview)) // no text contains U+0000
	before, err := findBefore(ctx, tx, consultationID, lawyerID)
	if err != nil {
		return false, err
	}
	key, err := s.keys.ForWriting(ctx, tx, before.ClientID, before.KeySealed)
	if errors.Is(err, vault.ErrNoKey) {
		return false, ErrOtherLawyer
	}
	if err != nil {
		return false, err
	}
	if before.Digest != nil {
		known, err := key.Open(digestPlace(consultationID), before.Digest)
		if err != nil {
			return false, err
		}
		if bytes.Equal(known, digest[:]) {
			return false, ErrSame
		}
		if version != AnyVersion {
			return false, ErrDraftChanged
		}
	}
	if _, err := s.checkDraft(ctx, tx, consultationID, lawyerID, version, typed.Note, typed.Preview); err != nil {
		return false, err
	}
	r := noteRow{ConsultationID: consultationID, LawyerID: lawyerID, SubmittedAt: tx.Now}
	if r.Digest, err = key.Seal(digestPlace(consultationID), digest[:]); err != nil {
		return false, err
	}
	inner, err := s.drop.Seal(notePlace(consultationID), []byte(note))
	if err != nil {
		return false, err
	}
	if r.NoteSealed, err = key.Seal(notePlace(consultationID), inner); err != nil {
		return false, err
	}
	if r.PreviewSealed, err = key.Seal(previewPlace(consultationID), []byte(preview)); err != nil {
		return false, err
	}
	if r.CopySealed, err = copyFor(ctx, tx, key, consultationID, lawyerID, note); err != nil {
		return false, err
	}
	return upsert(ctx, tx, r)
}

// Preview returns the preview of a consultation's note; ok is false if there is no note yet.
func (s *Service) Preview(ctx context.Context, tx postgres.Tx, consultationID string) (p Preview, ok bool, err error) {
	r, ok, err := find(ctx, tx, consultationID)
	if err != nil || !ok {
		return Preview{}, false, err
	}
	key, err := s.keys.Of(r.ClientID, r.KeySealed)
	if err != nil {
		return Preview{}, false, err
	}
	text, err := key.Open(previewPlace(consultationID), r.PreviewSealed)
	if err != nil {
		return Preview{}, false, err
	}
	p = Preview{ConsultationID: consultationID, Text: string(text), SubmittedAt: r.SubmittedAt}
	if r.CorrectedAt != nil {
		p.SubmittedAt = *r.CorrectedAt
	}
	return p, true, nil
}

// Draft is what a lawyer has typed of a note so far. Unlike a note, the program can read it, so it is deleted when
// writing ends.
type Draft struct {
	Note, Preview string // as typed; at most [MaxNote] code points each
	SavedAt       time.Time
}

// ErrDraftChanged rejects a text that was written over another draft than the stored one.
var ErrDraftChanged = errors.New("another draft was saved since")

// AnyVersion matches any stored draft.
const AnyVersion = ""

// Version identifies a draft among those saved for its note.
func (d Draft) Version() string {
	if d.SavedAt.IsZero() {
		return "0"
	}
	return strconv.FormatInt(d.SavedAt.UnixMicro(), 10)
}

// over reports whether a text written over a version may replace d without losing anything.
func (d Draft) over(version, note, preview string) bool {
	return version == AnyVersion || version == d.Version() || note == d.Note && preview == d.Preview
}

// DraftLife is the longest time that a draft is kept. No note may take that long.
const DraftLife = 8 * 24 * time.Hour

// SaveDraft replaces the given version of the lawyer's draft of a note, or returns [ErrDraftChanged]. It returns
// [ErrInvalid] if a text is not plain text or too long; empty texts are allowed. The caller must hold the
// consultation's row lock and have checked that the consultation is this lawyer's.
func (s *Service) SaveDraft(ctx context.Context, tx postgres.Tx, consultationID, clientID, lawyerID string, d Draft,
	version string,
) error {
	for what, text := range map[string]string{"note": d.Note, "preview": d.Preview} {
		if err := checkText(what, text, MaxNote); err != nil {
			return err
		}
	}
	key, err := s.keys.ForWriting(ctx, tx, clientID, nil)
	if err != nil {
		return err
	}
	before, err := s.checkDraft(ctx, tx, consultationID, lawyerID, version, d.Note, d.Preview)
	if err != nil {
		return err
	}
	r := draftRow{ConsultationID: consultationID, LawyerID: lawyerID, SavedAt: tx.Now}
	// a transaction that began earlier may have waited: no two drafts share a version
	if !r.SavedAt.After(before.SavedAt) {
		r.SavedAt = before.SavedAt.Add(time.Microsecond)
	}
	if r.NoteSealed, err = key.Seal(draftPlace(consultationID), []byte(d.Note)); err != nil {
		return err
	}
	if r.PreviewSealed, err = key.Seal(draftPreviewPlace(consultationID), []byte(d.Preview)); err != nil {
		return err
	}
	return upsertDraft(ctx, tx, r)
}

// checkDraft returns the stored draft, or [ErrDraftChanged].
func (s *Service) checkDraft(ctx context.Context, tx postgres.Tx,
	consultationID, lawyerID, version, note, preview string,
) (Draft, error) {
	d, _, err := s.Draft(ctx, tx, consultationID, lawyerID)
	if err == nil && !d.over(version, note, preview) {
		err = ErrDraftChanged
	}
	return d, err
}

// Draft returns the lawyer's draft of a consultation's note, if there is one.
func (s *Service) Draft(ctx context.Context, tx postgres.Tx,
	consultationID, lawyerID string,
) (d Draft, found bool, err error) {
	r, found, err := findDraft(ctx, tx, consultationID, lawyerID)
	if err != nil || !found {
		return Draft{}, false, err
	}
	key, err := s.keys.Of(r.ClientID, r.KeySealed)
	if err != nil {
		return Draft{}, false, err
	}
	text, err := key.Open(draftPlace(consultationID), r.Row.NoteSealed)
	if err != nil {
		return Draft{}, false, err
	}
	preview, err := key.Open(draftPreviewPlace(consultationID), r.Row.PreviewSealed)
	return Draft{Note: string(text), Preview: string(preview), SavedAt: r.Row.SavedAt}, err == nil, err
}

// DropDraft deletes the draft of a consultation's note, if there is one.
func (s *Service) DropDraft(ctx context.Context, tx postgres.Tx, consultationID string) error {
	return deleteDraft(ctx, tx, consultationID)
}

// PurgeDrafts deletes drafts older than [DraftLife], and returns how many.
func (s *Service) PurgeDrafts(ctx context.Context, tx postgres.Tx) (int, error) {
	return purgeDrafts(ctx, tx, tx.Now.Add(-DraftLife))
}

// Erase destroys the notes and previews of consultations. Only the fact that there was a note remains, and it can no
// longer be corrected.
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, consultationIDs []string) error {
	if len(consultationIDs) == 0 {
		return nil
	}
	return erase(ctx, tx, consultationIDs)
}

func notePlace(consultationID string) string         { return "note.text:" + consultationID }
func digestPlace(consultationID string) string       { return "note.digest:" + consultationID }
func previewPlace(consultationID string) string      { return "note.preview:" + consultationID }
func draftPlace(consultationID string) string        { return "note.draft:" + consultationID }
func draftPreviewPlace(consultationID string) string { return "note.draft_preview:" + consultationID }
