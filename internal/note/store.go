package note

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

type noteRow struct {
	ConsultationID string
	LawyerID       string
	NoteSealed     []byte
	PreviewSealed  []byte
	Digest         []byte // sealed: the note cannot be guessed from a copy of the database
	SubmittedAt    time.Time
	CorrectedAt    *time.Time
}

func upsert(ctx context.Context, tx postgres.Tx, r noteRow) (first bool, err error) {
	var out []struct{ First bool }
	err = tx.Gorm(ctx).Raw(`
		INSERT INTO notes (consultation_id, lawyer_id, note_sealed, preview_sealed, digest, submitted_at)
		VALUES (@consultation, @lawyer, @note, @preview, @digest, @now)
		ON CONFLICT (consultation_id) DO UPDATE
		SET note_sealed = excluded.note_sealed, preview_sealed = excluded.preview_sealed,
			digest = excluded.digest, corrected_at = excluded.submitted_at
		WHERE notes.lawyer_id = excluded.lawyer_id AND notes.erased_at IS NULL
		RETURNING corrected_at IS NULL AS first`,
		map[string]any{"consultation": r.ConsultationID, "lawyer": r.LawyerID, "note": r.NoteSealed, "preview": r.PreviewSealed,
			"digest": r.Digest, "now": tx.Now},
	).Scan(&out).Error
	if err != nil {
		return false, fmt.Errorf("store note of %s: %w", r.ConsultationID, err)
	}
	if len(out) == 0 {
		return false, ErrOtherLawyer
	}
	return out[0].First, nil
}

// findDigest finds none for a note of an older release: what is sent again then counts as a correction, once.
func findDigest(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) (digest []byte, found bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT digest FROM notes WHERE consultation_id = ? AND lawyer_id = ? AND digest IS NOT NULL`,
		consultationID, lawyerID).Row().Scan(&digest)
	if postgres.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the digest of note %s: %w", consultationID, err)
	}
	return digest, true, nil
}

func find(ctx context.Context, tx postgres.Tx, consultationID string) (noteRow, bool, error) {
	var out []noteRow
	err := tx.Gorm(ctx).Raw(`SELECT consultation_id, preview_sealed, submitted_at, corrected_at
		FROM notes WHERE consultation_id = ? AND erased_at IS NULL`, consultationID).Scan(&out).Error
	if err != nil {
		return noteRow{}, false, fmt.Errorf("read note of %s: %w", consultationID, err)
	}
	if len(out) == 0 {
		return noteRow{}, false, nil
	}
	return out[0], true, nil
}

func erase(ctx context.Context, tx postgres.Tx, consultationIDs []string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE notes SET note_sealed = NULL, preview_sealed = NULL, digest = NULL, erased_at = ? WHERE consultation_id IN ? AND erased_at IS NULL`,
		tx.Now, consultationIDs).Error
	if err != nil {
		return fmt.Errorf("erase notes: %w", err)
	}
	return nil
}
