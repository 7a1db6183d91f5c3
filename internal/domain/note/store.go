package note

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// noteRow is a row of notes. The program's database role writes NoteSealed and cannot read it.
type noteRow struct {
	ConsultationID string     `gorm:"column:consultation_id;primaryKey"`
	LawyerID       string     `gorm:"column:lawyer_id"`
	NoteSealed     []byte     `gorm:"column:note_sealed"`
	PreviewSealed  []byte     `gorm:"column:preview_sealed"`
	Digest         []byte     `gorm:"column:digest"` // sealed, so a database copy does not help to guess the note
	SubmittedAt    time.Time  `gorm:"column:submitted_at"`
	CorrectedAt    *time.Time `gorm:"column:corrected_at"`
	ErasedAt       *time.Time `gorm:"column:erased_at"`
	// encrypted to the lawyer's own key; NULL if they had none, or the copy was deleted
	CopySealed  []byte     `gorm:"column:copy_sealed"`
	CopyTakenAt *time.Time `gorm:"column:copy_taken_at"` // when it was first taken
}

// TableName implements [schema.Tabler].
func (noteRow) TableName() string { return "notes" }

// draftRow is a row of note_drafts.
type draftRow struct {
	ConsultationID string    `gorm:"column:consultation_id;primaryKey"`
	LawyerID       string    `gorm:"column:lawyer_id"`
	NoteSealed     []byte    `gorm:"column:note_sealed"` // sealed with the client's key, like PreviewSealed
	PreviewSealed  []byte    `gorm:"column:preview_sealed"`
	SavedAt        time.Time `gorm:"column:saved_at"`
}

// TableName implements [schema.Tabler].
func (draftRow) TableName() string { return "note_drafts" }

// openDraftRow is a draft with its client and the sealed key that opens it.
type openDraftRow struct {
	Row       draftRow `gorm:"embedded"`
	ClientID  string
	KeySealed []byte
}

// previewRow is the part of a note that the program can read, with its client and the sealed key that opens it.
type previewRow struct {
	ConsultationID string
	PreviewSealed  []byte
	Digest         []byte
	SubmittedAt    time.Time
	CorrectedAt    *time.Time
	ClientID       string
	KeySealed      []byte
}

// upsert corrects in a separate statement and not by ON CONFLICT: reading excluded.note_sealed requires the right to
// read notes.
func upsert(ctx context.Context, tx postgres.Tx, r noteRow) (first bool, err error) {
	inserted := gorm.WithResult()
	if err := gorm.G[noteRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}, inserted).Create(ctx, &r); err != nil {
		return false, fmt.Errorf("store note of %s: %w", r.ConsultationID, err)
	}
	if inserted.RowsAffected == 1 {
		return true, nil
	}
	corrected, err := gorm.G[noteRow](tx.Gorm(ctx)).
		Where("consultation_id = ? AND lawyer_id = ? AND erased_at IS NULL", r.ConsultationID, r.LawyerID).
		Select("note_sealed", "preview_sealed", "digest", "corrected_at", "copy_sealed", "copy_taken_at").
		Updates(ctx, noteRow{NoteSealed: r.NoteSealed, PreviewSealed: r.PreviewSealed, Digest: r.Digest,
			CorrectedAt: &tx.Now, CopySealed: r.CopySealed})
	if err != nil {
		return false, fmt.Errorf("correct note of %s: %w", r.ConsultationID, err)
	}
	if corrected == 0 {
		return false, ErrOtherLawyer
	}
	return false, nil
}

// findBefore reads the client of a consultation and the digest of the lawyer's note. The digest is nil if there is no
// note, and for notes of older releases: sending the same text again then counts as a correction, once.
func findBefore(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) (r previewRow, err error) {
	err = tx.Gorm(ctx).Table("consultations c").
		Joins("LEFT JOIN notes n ON n.consultation_id = c.id AND n.lawyer_id = ?", lawyerID).
		Where("c.id = ?", consultationID).
		Select("c.client_id, n.digest, " + vault.Stored("c.client_id") + " AS key_sealed").Take(&r).Error
	if err != nil {
		return previewRow{}, fmt.Errorf("read what is before note %s: %w", consultationID, err)
	}
	return r, nil
}

func find(ctx context.Context, tx postgres.Tx, consultationID string) (r previewRow, found bool, err error) {
	err = tx.Gorm(ctx).Table("notes n").Joins("JOIN consultations c ON c.id = n.consultation_id").
		Where("n.consultation_id = ? AND n.erased_at IS NULL", consultationID).
		Select("n.consultation_id, n.preview_sealed, n.submitted_at, " +
			"n.corrected_at, c.client_id, " + vault.Stored("c.client_id") + " AS key_sealed").Take(&r).Error
	if postgres.IsNotFound(err) {
		return previewRow{}, false, nil
	}
	if err != nil {
		return previewRow{}, false, fmt.Errorf("read note of %s: %w", consultationID, err)
	}
	return r, true, nil
}

// recipientRow is a row of note_recipients.
type recipientRow struct {
	LawyerID  string    `gorm:"column:lawyer_id;primaryKey"`
	Recipient string    `gorm:"column:recipient"` // the lawyer's own public key
	SetAt     time.Time `gorm:"column:set_at"`
}

// TableName implements [schema.Tabler].
func (recipientRow) TableName() string { return "note_recipients" }

// setRecipient reports whether the key changed. Setting the same key again keeps its time.
func setRecipient(ctx context.Context, tx postgres.Tx, r recipientRow) (bool, error) {
	onConflict := clause.OnConflict{Columns: []clause.Column{{Name: "lawyer_id"}},
		DoUpdates: clause.AssignmentColumns([]string{"recipient", "set_at"}),
		Where: clause.Where{Exprs: []clause.Expression{
			clause.Expr{SQL: "note_recipients.recipient <> excluded.recipient"},
		}}}
	written := gorm.WithResult()
	if err := gorm.G[recipientRow](tx.Gorm(ctx), onConflict, written).Create(ctx, &r); err != nil {
		return false, fmt.Errorf("store the key of lawyer %s: %w", r.LawyerID, err)
	}
	return written.RowsAffected > 0, nil
}

func deleteRecipient(ctx context.Context, tx postgres.Tx, lawyerID string) (bool, error) {
	n, err := gorm.G[recipientRow](tx.Gorm(ctx)).Where("lawyer_id = ?", lawyerID).Delete(ctx)
	if err != nil {
		return false, fmt.Errorf("delete the key of lawyer %s: %w", lawyerID, err)
	}
	return n > 0, nil
}

// sharing is a lock that lets others read the row and makes changes wait.
var sharing = clause.Locking{Strength: "SHARE"}

func findRecipient(ctx context.Context, tx postgres.Tx, lawyerID string,
	lock ...clause.Expression,
) (r recipientRow, found bool, err error) {
	r, err = gorm.G[recipientRow](tx.Gorm(ctx), lock...).Where("lawyer_id = ?", lawyerID).Take(ctx)
	if postgres.IsNotFound(err) {
		return recipientRow{}, false, nil
	}
	if err != nil {
		return recipientRow{}, false, fmt.Errorf("read the key of lawyer %s: %w", lawyerID, err)
	}
	return r, true, nil
}

// copyRow is a lawyer's copy with its client and the client's sealed key.
type copyRow struct {
	CopySealed []byte
	ClientID   string
	KeySealed  []byte
}

// offered selects the copies in notes n that can still be taken.
func offered(tx postgres.Tx) func(*gorm.DB) *gorm.DB {
	return func(q *gorm.DB) *gorm.DB {
		return q.Where("n.copy_sealed IS NOT NULL AND coalesce(n.copy_taken_at, n.corrected_at, n.submitted_at) > "+
			"CASE WHEN n.copy_taken_at IS NULL THEN ?::timestamptz ELSE ? END", tx.Now.Add(-CopyLifetime),
			tx.Now.Add(-CopyAgain))
	}
}

// takeCopy locks the row, so that no correction replaces the copy before [markTaken].
func takeCopy(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string) (r copyRow, found bool, err error) {
	err = tx.Gorm(ctx).Table("notes n").Joins("JOIN consultations c ON c.id = n.consultation_id").Scopes(offered(tx)).
		Clauses(clause.Locking{Strength: "NO KEY UPDATE", Table: clause.Table{Name: "n"}}).
		Where("n.consultation_id = ? AND n.lawyer_id = ?", consultationID, lawyerID).
		Select("n.copy_sealed, c.client_id, " + vault.Stored("c.client_id") + " AS key_sealed").Take(&r).Error
	if postgres.IsNotFound(err) {
		return copyRow{}, false, nil
	}
	if err != nil {
		return copyRow{}, false, fmt.Errorf("read the copy of note %s: %w", consultationID, err)
	}
	return r, true, nil
}

func markTaken(ctx context.Context, tx postgres.Tx, consultationID string) error {
	_, err := gorm.G[noteRow](tx.Gorm(ctx)).Where("consultation_id = ? AND copy_taken_at IS NULL", consultationID).
		Updates(ctx, noteRow{CopyTakenAt: &tx.Now})
	if err != nil {
		return fmt.Errorf("mark the copy of note %s: %w", consultationID, err)
	}
	return nil
}

func copies(ctx context.Context, tx postgres.Tx, lawyerID string, limit int) (list []Copy, err error) {
	err = tx.Gorm(ctx).Table("notes n").Scopes(offered(tx)).Where("lawyer_id = ?", lawyerID).
		Select("consultation_id, coalesce(corrected_at, submitted_at) AS written_at, copy_taken_at AS taken_at").
		Order("written_at DESC, consultation_id").Limit(limit).Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list the copies of lawyer %s: %w", lawyerID, err)
	}
	return list, nil
}

func dropCopies(ctx context.Context, tx postgres.Tx, taken, written time.Time) (int, error) {
	n, err := gorm.G[noteRow](tx.Gorm(ctx)).
		Where("copy_sealed IS NOT NULL AND coalesce(copy_taken_at, corrected_at, submitted_at) <= ?", taken).
		Where("copy_taken_at IS NOT NULL OR coalesce(corrected_at, submitted_at) <= ?", written).Select("copy_sealed").
		Updates(ctx, noteRow{})
	if err != nil {
		return 0, fmt.Errorf("drop copies of notes: %w", err)
	}
	return n, nil
}

func erase(ctx context.Context, tx postgres.Tx, consultationIDs []string) error {
	_, err := gorm.G[noteRow](tx.Gorm(ctx)).Where("consultation_id IN ? AND erased_at IS NULL", consultationIDs).
		Select("note_sealed", "preview_sealed", "digest", "copy_sealed", "erased_at").
		Updates(ctx, noteRow{ErasedAt: &tx.Now})
	if err != nil {
		return fmt.Errorf("erase notes: %w", err)
	}
	if _, err := gorm.G[draftRow](tx.Gorm(ctx)).Where("consultation_id IN ?", consultationIDs).Delete(ctx); err != nil {
		return fmt.Errorf("erase drafts of notes: %w", err)
	}
	return nil
}

func upsertDraft(ctx context.Context, tx postgres.Tx, r draftRow) error {
	if err := gorm.G[draftRow](tx.Gorm(ctx), clause.OnConflict{Columns: []clause.Column{{Name: "consultation_id"}},
		UpdateAll: true}).Create(ctx, &r); err != nil {
		return fmt.Errorf("store draft of note %s: %w", r.ConsultationID, err)
	}
	return nil
}

func findDraft(ctx context.Context, tx postgres.Tx,
	consultationID, lawyerID string,
) (r openDraftRow, found bool, err error) {
	err = tx.Gorm(ctx).Table("note_drafts d").Joins("JOIN consultations c ON c.id = d.consultation_id").
		Where("d.consultation_id = ? AND d.lawyer_id = ?", consultationID, lawyerID).
		Select(postgres.Columns[draftRow]("d") + ", c.client_id, " + vault.Stored("c.client_id") + " AS key_sealed").
		Take(&r).Error
	if postgres.IsNotFound(err) {
		return openDraftRow{}, false, nil
	}
	if err != nil {
		return openDraftRow{}, false, fmt.Errorf("read draft of note %s: %w", consultationID, err)
	}
	return r, true, nil
}

func deleteDraft(ctx context.Context, tx postgres.Tx, consultationID string) error {
	_, err := gorm.G[draftRow](tx.Later(postgres.Called("delete draft of note")).Gorm(ctx)).
		Where("consultation_id = ?", consultationID).Delete(ctx)
	return err
}

func purgeDrafts(ctx context.Context, tx postgres.Tx, before time.Time) (int, error) {
	n, err := gorm.G[draftRow](tx.Gorm(ctx)).Where("saved_at < ?", before).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge drafts of notes: %w", err)
	}
	return n, nil
}
