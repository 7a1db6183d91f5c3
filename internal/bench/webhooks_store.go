package bench

import (
	"context"

	"partnerd/internal/postgres"
)

func insertConsultation(ctx context.Context, tx postgres.Tx, id, application, client string) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
			recording_consent, price_cents, phone_sealed, created_at, updated_at, search_started_at)
		VALUES (?, ?, ?, 'MATCHING', 'HOUSING', 'FR', '\x00', false, 2000, '\x00', ?, ?, ?)`,
		id, application, client, tx.Now, tx.Now, tx.Now).Error
}
