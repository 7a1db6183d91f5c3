package consultation

import (
	"context"
	"encoding/hex"
	"fmt"

	"partnerd/internal/money"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
)

func getOwned(ctx context.Context, tx postgres.Tx, clientID, consultationID string) (row, error) {
	return one(ctx, tx, `SELECT `+openColumns+` FROM consultations c WHERE c.id = ? AND c.client_id = ?`, consultationID, clientID)
}

func peek(ctx context.Context, tx postgres.Tx, consultationID string) (row, error) {
	return one(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.id = ?`, consultationID)
}

func listOwned(ctx context.Context, tx postgres.Tx, clientID string, before Position, limit int) ([]row, error) {
	q := tx.Gorm(ctx).Table("consultations c").Select(openColumns).Where("c.client_id = ?", clientID)
	if before.ID != "" {
		q = q.Where("(c.created_at, c.id) < (?, ?)", before.CreatedAt, before.ID)
	}
	var rows []row
	if err := q.Order("c.created_at DESC, c.id DESC").Limit(limit).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("list consultations of client: %w", err)
	}
	return rows, nil
}

func usageOf(ctx context.Context, tx postgres.Tx, clientID string) (map[string]Usage, error) {
	var rows []struct {
		ApplicationID string
		Started       int
		Spent         money.Cents
	}
	err := tx.Gorm(ctx).Raw(`SELECT application_id, count(*) AS started,
			coalesce(sum(price_cents - coalesce(refunded_cents, 0)) FILTER (WHERE status = 'COMPLETED'), 0)::bigint AS spent
		FROM consultations WHERE client_id = ? GROUP BY application_id`, clientID).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read usage of applications: %w", err)
	}
	out := map[string]Usage{}
	for _, r := range rows {
		out[r.ApplicationID] = Usage{Started: r.Started, Spent: r.Spent}
	}
	return out, nil
}

// openOf lists the client's open consultations in the order in which they are locked, of one application unless that
// is empty.
func openOf(ctx context.Context, tx postgres.Tx, clientID, applicationID string) ([]string, error) {
	var ids []string
	err := tx.Gorm(ctx).Raw(`SELECT id FROM consultations WHERE client_id = ? AND (? = '' OR application_id = ?)
		AND status NOT IN ('COMPLETED', 'CANCELLED', 'EXPIRED') ORDER BY id`, clientID, applicationID, applicationID).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("list open consultations: %w", err)
	}
	return ids, nil
}

func insertWithdrawal(ctx context.Context, tx postgres.Tx, clientID string, w Withdrawal) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO consultation_withdrawals (consultation_id, client_id, declared_at, status) VALUES (?, ?, ?, ?)`,
		w.ConsultationID, clientID, w.DeclaredAt, w.Status).Error
	if err != nil {
		return fmt.Errorf("insert withdrawal: %w", err)
	}
	return nil
}

func findWithdrawal(ctx context.Context, tx postgres.Tx, consultationID string) (w Withdrawal, found bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT w.consultation_id, w.declared_at, w.status, c.price_cents FROM consultation_withdrawals w
		JOIN consultations c ON c.id = w.consultation_id WHERE w.consultation_id = ?`, consultationID).Row().
		Scan(&w.ConsultationID, &w.DeclaredAt, &w.Status, &w.Price)
	if postgres.IsNotFound(err) {
		return Withdrawal{}, false, nil
	}
	if err != nil {
		return Withdrawal{}, false, fmt.Errorf("read withdrawal: %w", err)
	}
	w.DeclaredAt = w.DeclaredAt.UTC()
	return w, true, nil
}

func proofOf(ctx context.Context, tx postgres.Tx, clientID, consultationID string) (p Proof, err error) {
	var digest []byte
	err = tx.Gorm(ctx).Raw(`SELECT text_version, text_sha256, acknowledged_at, application_id, request_id, address, user_agent
		FROM consultation_evidence WHERE consultation_id = ? AND client_id = ?`, consultationID, clientID).Row().
		Scan(&p.TextVersion, &digest, &p.AcknowledgedAt, &p.ApplicationID, &p.RequestID, &p.Address, &p.UserAgent)
	if postgres.IsNotFound(err) {
		return Proof{}, problem.ErrNotFound
	}
	if err != nil {
		return Proof{}, fmt.Errorf("read proof: %w", err)
	}
	p.TextSHA256, p.AcknowledgedAt = hex.EncodeToString(digest), p.AcknowledgedAt.UTC()
	return p, nil
}

// eraseOwned destroys the texts of the client's consultations and returns which those are.
func eraseOwned(ctx context.Context, tx postgres.Tx, clientID string) ([]string, error) {
	var ids []string
	err := tx.Gorm(ctx).Raw(`UPDATE consultations SET subject_sealed = NULL, description_sealed = NULL, phone_sealed = NULL, external_ref = NULL,
		erased_at = ?, updated_at = ? WHERE client_id = ? AND erased_at IS NULL RETURNING id`, tx.Now, tx.Now, clientID).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("erase consultations: %w", err)
	}
	return ids, nil
}
