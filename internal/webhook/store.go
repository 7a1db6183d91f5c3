package webhook

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
	"partnerd/internal/problem"
)

type eventRow struct {
	subject        Subject
	id, deliveryID string
	sequence       int64
	kind           Type
	body           []byte
}

// insertEvents writes events and their deliveries in one statement.
func insertEvents(ctx context.Context, tx postgres.Tx, rows []eventRow) error {
	n := len(rows)
	ids, deliveries, applications, consultations := make([]string, n), make([]string, n), make([]string, n), make([]*string, n)
	sequences, kinds, bodies := make([]int64, n), make([]string, n), make([][]byte, n)
	for i, r := range rows {
		ids[i], deliveries[i], applications[i], consultations[i] = r.id, r.deliveryID, r.subject.ApplicationID, orNull(r.subject.ConsultationID)
		sequences[i], kinds[i], bodies[i] = r.sequence, string(r.kind), r.body
	}
	_, err := tx.SQL().ExecContext(ctx, `
		WITH new AS (
			SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bytea[])
				AS new (id, delivery_id, application_id, consultation_id, sequence, type, body)
		), events AS (
			INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
			SELECT id, application_id, consultation_id, sequence, type, body, $1 FROM new
		)
		INSERT INTO webhook_deliveries (id, event_id, application_id, consultation_id, sequence, state, next_at, created_at)
		SELECT delivery_id, id, application_id, consultation_id, sequence, 'PENDING', $1, $1 FROM new`,
		tx.Now, ids, deliveries, applications, consultations, sequences, kinds, bodies)
	return err
}

type endpointRow struct {
	ApplicationID       string
	URL                 *string
	PreviousSecretUntil *time.Time
	DisabledAt          *time.Time
	DisabledReason      *string
	FailingSince        *time.Time
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

func insertEndpoint(ctx context.Context, tx postgres.Tx, applicationID, url string, secretSealed []byte) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO webhook_endpoints (application_id, url, secret_sealed, created_at, updated_at)
		VALUES (?, nullif(?, ''), ?, ?, ?)`, applicationID, url, secretSealed, tx.Now, tx.Now).Error
}

func selectEndpoint(ctx context.Context, tx postgres.Tx, applicationID string) (Endpoint, error) {
	var rows []endpointRow
	err := tx.Gorm(ctx).Raw(`SELECT application_id, url, previous_secret_until, disabled_at, disabled_reason,
			failing_since, created_at, updated_at
		FROM webhook_endpoints WHERE application_id = ?`, applicationID).Scan(&rows).Error
	if err != nil {
		return Endpoint{}, fmt.Errorf("read webhook endpoint of %s: %w", applicationID, err)
	}
	if len(rows) == 0 {
		return Endpoint{}, problem.ErrNotFound
	}
	r := rows[0]
	return Endpoint{
		ApplicationID: r.ApplicationID, URL: orZero(r.URL), PreviousSecretUntil: r.PreviousSecretUntil,
		DisabledAt: r.DisabledAt, DisabledReason: orZero(r.DisabledReason), FailingSince: r.FailingSince,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}, nil
}

// sealedSecrets are the signing secrets of an endpoint that are in force; the previous one is empty when none is.
type sealedSecrets struct {
	SecretSealed         []byte
	PreviousSecretSealed []byte
}

func selectSecrets(ctx context.Context, tx postgres.Tx, applicationID string) (sealedSecrets, error) {
	var rows []sealedSecrets
	err := tx.Gorm(ctx).Raw(`SELECT secret_sealed, CASE WHEN previous_secret_until > ? THEN previous_secret_sealed END AS previous_secret_sealed
		FROM webhook_endpoints WHERE application_id = ?`, tx.Now, applicationID).Scan(&rows).Error
	if err != nil {
		return sealedSecrets{}, fmt.Errorf("read webhook secrets of %s: %w", applicationID, err)
	}
	if len(rows) == 0 {
		return sealedSecrets{}, problem.ErrNotFound
	}
	return rows[0], nil
}

func updateEndpointURL(ctx context.Context, tx postgres.Tx, applicationID, url string) error {
	return updateEndpoint(ctx, tx, applicationID, `UPDATE webhook_endpoints SET url = nullif(?, ''), disabled_at = NULL,
		disabled_reason = NULL, failing_since = NULL, updated_at = ? WHERE application_id = ?`, url, tx.Now, applicationID)
}

// enableEndpoint changes nothing of an endpoint that is not disabled.
func enableEndpoint(ctx context.Context, tx postgres.Tx, applicationID string) error {
	return updateEndpoint(ctx, tx, applicationID, `UPDATE webhook_endpoints SET disabled_at = NULL, disabled_reason = NULL,
		failing_since = CASE WHEN disabled_at IS NULL THEN failing_since END WHERE application_id = ?`, applicationID)
}

func rotateSecret(ctx context.Context, tx postgres.Tx, applicationID string, secretSealed []byte, previousUntil time.Time) error {
	return updateEndpoint(ctx, tx, applicationID, `UPDATE webhook_endpoints SET previous_secret_sealed = secret_sealed,
		previous_secret_until = ?, secret_sealed = ?, updated_at = ? WHERE application_id = ?`,
		previousUntil, secretSealed, tx.Now, applicationID)
}

func updateEndpoint(ctx context.Context, tx postgres.Tx, applicationID, statement string, args ...any) error {
	res := tx.Gorm(ctx).Exec(statement, args...)
	if res.Error != nil {
		return fmt.Errorf("change webhook endpoint of %s: %w", applicationID, res.Error)
	}
	if res.RowsAffected == 0 {
		return problem.ErrNotFound
	}
	return nil
}

type deliveryRow struct {
	ID             string
	EventID        string
	ConsultationID string
	Type           Type
	Sequence       int64
	State          State
	Attempts       int
	NextAt         time.Time
	CreatedAt      time.Time
	EndedAt        *time.Time
}

const deliveryColumns = `d.id, d.event_id, coalesce(d.consultation_id, '') AS consultation_id, e.type, d.sequence, d.state, d.attempts,
	d.next_at, d.created_at, d.ended_at`

func (r deliveryRow) delivery() Delivery {
	d := Delivery{
		ID: r.ID, EventID: r.EventID, ConsultationID: r.ConsultationID, Type: r.Type, Sequence: r.Sequence,
		State: r.State, Attempts: r.Attempts, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt,
	}
	if r.State == Pending {
		d.NextAt = &r.NextAt
	}
	return d
}

func selectDelivery(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string) (Delivery, error) {
	var rows []deliveryRow
	err := tx.Gorm(ctx).Raw(`SELECT `+deliveryColumns+`
		FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
		WHERE d.id = ? AND d.application_id = ?`, deliveryID, applicationID).Scan(&rows).Error
	if err != nil {
		return Delivery{}, fmt.Errorf("read delivery %s: %w", deliveryID, err)
	}
	if len(rows) == 0 {
		return Delivery{}, problem.ErrNotFound
	}
	return rows[0].delivery(), nil
}

func selectDeliveries(ctx context.Context, tx postgres.Tx, applicationID string, f DeliveryFilter, limit int) ([]Delivery, error) {
	q := tx.Gorm(ctx).Table("webhook_deliveries AS d").
		Select(deliveryColumns).
		Joins("JOIN webhook_events AS e ON e.id = d.event_id").
		Where("d.application_id = ?", applicationID)
	if f.State != "" {
		q = q.Where("d.state = ?", f.State)
	}
	if f.ConsultationID != "" {
		q = q.Where("e.consultation_id = ?", f.ConsultationID)
	}
	if f.EventID != "" {
		q = q.Where("d.event_id = ?", f.EventID)
	}
	if !f.From.IsZero() {
		q = q.Where("d.created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		q = q.Where("d.created_at < ?", f.To)
	}
	if f.Before != (Position{}) {
		q = q.Where("(d.created_at, d.id) < (?, ?)", f.Before.CreatedAt, f.Before.ID)
	}
	var rows []deliveryRow
	if err := q.Order("d.created_at DESC, d.id DESC").Limit(limit).Scan(&rows).Error; err != nil {
		return nil, err
	}
	items := make([]Delivery, len(rows))
	for i, r := range rows {
		items[i] = r.delivery()
	}
	return items, nil
}

type attemptRow struct {
	Attempt      *int // null: the delivery has had none
	StartedAt    time.Time
	DurationMs   int64
	StatusCode   *int
	Error        string
	ResponseBody string
}

func selectAttempts(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string) ([]Attempt, error) {
	var rows []attemptRow
	err := tx.Gorm(ctx).Raw(`
		SELECT a.attempt, coalesce(a.started_at, d.created_at) AS started_at, coalesce(a.duration_ms, 0) AS duration_ms,
			a.status_code, coalesce(a.error, '') AS error, coalesce(a.response_body, '') AS response_body
		FROM webhook_deliveries d LEFT JOIN webhook_attempts a ON a.delivery_id = d.id
		WHERE d.id = ? AND d.application_id = ? ORDER BY a.attempt`, deliveryID, applicationID).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list attempts of %s: %w", deliveryID, err)
	}
	if len(rows) == 0 {
		return nil, problem.ErrNotFound
	}
	items := make([]Attempt, 0, len(rows))
	for _, r := range rows {
		if r.Attempt == nil {
			continue
		}
		items = append(items, Attempt{
			Number: *r.Attempt, StartedAt: r.StartedAt, Duration: time.Duration(r.DurationMs) * time.Millisecond,
			StatusCode: orZero(r.StatusCode), Error: r.Error, ResponseBody: r.ResponseBody,
		})
	}
	return items, nil
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
