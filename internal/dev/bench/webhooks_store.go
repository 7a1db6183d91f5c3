package bench

import (
	"context"

	"partnerd/internal/infra/postgres"
)

var consultationSQL = postgres.SQL(postgres.Batch,
	`INSERT INTO consultations (id, application_id, client_id, status, competence, language,
		subject_sealed, recording_consent, price_cents, phone_sealed, created_at, updated_at, search_started_at)
	VALUES ($1, $2, $3, 'MATCHING', 'HOUSING', 'FR', '\x00', false, 2000, '\x00', $4, $4, $4)`)

func insertConsultation(ctx context.Context, tx postgres.Tx, id, application, client string) error {
	_, err := tx.Exec(ctx, consultationSQL, id, application, client, tx.Now)
	return err
}
