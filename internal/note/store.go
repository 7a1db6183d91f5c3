package note

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
	"partnerd/internal/vault"
)

type noteRow struct {
	ConsultationID string
	LawyerID       string
	NoteSealed     []byte
	PreviewSealed  []byte
	Digest         []byte // sealed: the note cannot be guessed from a copy of the database
	SubmittedAt    time.Time
	CorrectedAt    *time.Time
	ClientID       string
	KeySealed      []byte // of the client
}

// upsert does not let the correction follow from the conflict: excluded.note_sealed can be read only by who may read notes.
func upsert(ctx context.Context, tx postgres.Tx, r noteRow) (first bool, err error) {
	values := map[string]any{"consultation": r.ConsultationID, "lawyer": r.LawyerID, "note": r.NoteSealed, "preview": r.PreviewSealed,
		"digest": r.Digest, "now": tx.Now}
	inserted := tx.Gorm(ctx).Exec(`
		INSERT INTO notes (consultation_id, lawyer_id, note_sealed, preview_sealed, digest, submitted_at)
		VALUES (@consultation, @lawyer, @note, @preview, @digest, @now) ON CONFLICT (consultation_id) DO NOTHING`, values)
	if inserted.Error != nil {
		return false, fmt.Errorf("store note of %s: %w", r.ConsultationID, inserted.Error)
	}
	if inserted.RowsAffected == 1 {
		return true, nil
	}
	corrected := tx.Gorm(ctx).Exec(`
		UPDATE notes SET note_sealed = @note, preview_sealed = @preview, digest = @digest, corrected_at = @now
		WHERE consultation_id = @consultation AND lawyer_id = @lawyer AND erased_at IS NULL`, values)
	if corrected.Error != nil {
		return false, fmt.Errorf("correct note of %s: %w", r.ConsultationID, corrected.Error)
	}
	if corrected.RowsAffected == 0 {
		return false, ErrOtherLawyer
	}
	return false, nil
}

// findBefore reads the client of a consultation and the digest of the lawyer's note, which is nil when there is none and for
// a note of an older release: what is sent again then counts as a correction, once.
func findBefore(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) (r noteRow, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT c.client_id, `+vault.Stored("c.client_id")+`, n.digest FROM consultations c
		LEFT JOIN notes n ON n.consultation_id = c.id AND n.lawyer_id = ? WHERE c.id = ?`, lawyerID, consultationID).Row().
		Scan(&r.ClientID, &r.KeySealed, &r.Digest)
	if err != nil {
		return noteRow{}, fmt.Errorf("read what is before note %s: %w", consultationID, err)
	}
	return r, nil
}

func find(ctx context.Context, tx postgres.Tx, consultationID string) (noteRow, bool, error) {
	var out []noteRow
	err := tx.Gorm(ctx).Raw(`SELECT n.consultation_id, n.preview_sealed, n.submitted_at, n.corrected_at, c.client_id, `+vault.Stored("c.client_id")+` AS key_sealed
		FROM notes n JOIN consultations c ON c.id = n.consultation_id WHERE n.consultation_id = ? AND n.erased_at IS NULL`, consultationID).Scan(&out).Error
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
