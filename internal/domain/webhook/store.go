package webhook

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/infra/postgres"
)

// endpointRow is a row of webhook_endpoints.
type endpointRow struct {
	ApplicationID string `gorm:"column:application_id;primaryKey"`
	// empty: events are held until it is set
	URL                  string     `gorm:"column:url;serializer:zeronull"`
	SecretSealed         []byte     `gorm:"column:secret_sealed"`
	PreviousSecretSealed []byte     `gorm:"column:previous_secret_sealed"`
	PreviousSecretUntil  *time.Time `gorm:"column:previous_secret_until"`
	DisabledAt           *time.Time `gorm:"column:disabled_at"`
	DisabledReason       string     `gorm:"column:disabled_reason;serializer:zeronull"`
	FailingSince         *time.Time `gorm:"column:failing_since"`
	// the highest position of the application's events; 0 before the first
	LastPosition  int64                `gorm:"column:last_position"`
	Parked        bool                 `gorm:"column:parked"`         // deliveries may be marked as held
	EnabledEvents postgres.Array[Type] `gorm:"column:enabled_events"` // of ClientTypes
	CreatedAt     time.Time            `gorm:"column:created_at;autoCreateTime:false"`
	// when URL or secret was last set
	UpdatedAt time.Time `gorm:"column:updated_at;autoUpdateTime:false"`
}

// TableName implements [schema.Tabler].
func (endpointRow) TableName() string { return "webhook_endpoints" }

// secrets returns the secrets in force.
func (r endpointRow) secrets(now time.Time) sealedSecrets {
	if r.PreviousSecretUntil == nil || !r.PreviousSecretUntil.After(now) {
		return sealedSecrets{SecretSealed: r.SecretSealed}
	}
	return sealedSecrets{r.SecretSealed, r.PreviousSecretSealed}
}

// sealedSecrets are the signing secrets of an endpoint that are in force; the previous one may be empty.
type sealedSecrets struct {
	SecretSealed         []byte
	PreviousSecretSealed []byte
}

// eventRow is a row of webhook_events.
type eventRow struct {
	ID             string `gorm:"column:id;primaryKey"`
	ApplicationID  string `gorm:"column:application_id"`
	ConsultationID string `gorm:"column:consultation_id;serializer:zeronull"` // empty: about a client, or a test event
	ClientID       string `gorm:"column:client_id;serializer:zeronull"`       // set for an event about a client
	// 1, 2, 3 … per consultation, or per application and client
	Sequence int64  `gorm:"column:sequence"`
	Type     Type   `gorm:"column:type"`
	Body     []byte `gorm:"column:body"` // exactly what is sent
	// in the application's list; null until the list is read past the event
	Position  *int64    `gorm:"column:position"`
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	// the span in which it was written; empty without tracing
	TraceParent string `gorm:"column:trace_parent;serializer:zeronull"`
}

// TableName implements [schema.Tabler].
func (eventRow) TableName() string { return "webhook_events" }

// deliveryRow is a row of webhook_deliveries: a delivery, with the columns that are only stored. Application,
// consultation and sequence are those of its event.
type deliveryRow struct {
	Delivery
	ApplicationID string `gorm:"column:application_id"`
	// attempts before the last redelivery; the schedule starts after them
	ScheduleFrom int        `gorm:"column:schedule_from"`
	NextAt       time.Time  `gorm:"column:next_at"` // when the next attempt is due, or the current one was
	LeaseToken   string     `gorm:"column:lease_token;serializer:zeronull"`
	LeaseUntil   *time.Time `gorm:"column:lease_until"`
	Held         bool       `gorm:"column:held"` // claims skip it
}

// TableName implements [schema.Tabler].
func (deliveryRow) TableName() string { return "webhook_deliveries" }

// attemptRow is a row of webhook_attempts.
type attemptRow struct {
	DeliveryID   string    `gorm:"column:delivery_id;primaryKey"`
	Attempt      int       `gorm:"column:attempt;primaryKey;autoIncrement:false"` // 1, 2, 3 …
	StartedAt    time.Time `gorm:"column:started_at"`
	DurationMs   int       `gorm:"column:duration_ms"`
	StatusCode   int       `gorm:"column:status_code;serializer:zeronull"` // null: no response
	Error        string    `gorm:"column:error"`                           // empty on success
	ResponseBody string    `gorm:"column:response_body"`                   // its beginning
}

// TableName implements [schema.Tabler].
func (attemptRow) TableName() string { return "webhook_attempts" }

// newEvent is an event to be written, with its delivery.
type newEvent struct {
	ID             string `gorm:"column:id"`
	DeliveryID     string `gorm:"column:delivery_id"`
	ApplicationID  string `gorm:"column:application_id"`
	ConsultationID string `gorm:"column:consultation_id;serializer:zeronull"`
	ClientID       string `gorm:"column:client_id;serializer:zeronull"` // set for an event about a client
	Sequence       int64  `gorm:"column:sequence"`
	Type           Type   `gorm:"column:type"`
	Body           []byte `gorm:"column:body"`
}

// insertEventsSQL writes events and their deliveries, at time $1, in span $2.
var insertEventsSQL = postgres.SQL(postgres.Batch,
	`WITH new AS (SELECT * FROM `+postgres.Unnest[newEvent]("new", 3)+`), events AS (
		`+postgres.Insert[eventRow]("new.", map[string]string{
		"position": "NULL", "created_at": "$1", "trace_parent": "nullif($2, '')",
	})+` FROM new
	)
	`+postgres.Insert[deliveryRow]("new.", map[string]string{
		"id": "new.delivery_id", "event_id": "new.id", "state": "'PENDING'", "attempts": "0", "schedule_from": "0",
		"next_at": "$1", "lease_token": "NULL", "lease_until": "NULL", "held": "false", "created_at": "$1",
		"ended_at": "NULL",
	})+` FROM new`)

// insertEvents queues the statement that writes events and their deliveries.
func insertEvents(ctx context.Context, tx postgres.Tx, events []newEvent) error {
	arrays, err := postgres.Arrays(ctx, events)
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	args := append([]any{tx.Now, telemetry.Carry(ctx)}, arrays...)
	_, err = tx.Later(postgres.Called("write events")).Exec(ctx, insertEventsSQL, args...)
	return err
}

func insertEndpoint(ctx context.Context, tx postgres.Tx, applicationID, url string, secretSealed []byte) error {
	return gorm.G[endpointRow](tx.Gorm(ctx)).Create(ctx, &endpointRow{
		ApplicationID: applicationID, URL: url, SecretSealed: secretSealed, CreatedAt: tx.Now, UpdatedAt: tx.Now})
}

func selectEndpoint(ctx context.Context, tx postgres.Tx, applicationID string) (endpointRow, error) {
	r, err := gorm.G[endpointRow](tx.Gorm(ctx)).Where("application_id = ?", applicationID).Take(ctx)
	if postgres.IsNotFound(err) {
		return endpointRow{}, problem.ErrNotFound
	}
	if err != nil {
		return endpointRow{}, fmt.Errorf("read webhook endpoint of %s: %w", applicationID, err)
	}
	return r, nil
}

func updateEndpointURL(ctx context.Context, tx postgres.Tx, applicationID, url string) error {
	n, err := gorm.G[endpointRow](tx.Gorm(ctx)).Where("application_id = ?", applicationID).
		Select("url", "disabled_at", "disabled_reason", "failing_since", "updated_at").
		Updates(ctx, endpointRow{URL: url, UpdatedAt: tx.Now})
	return changed(n, applicationID, err)
}

// enableEndpoint changes nothing if the endpoint is not disabled.
func enableEndpoint(ctx context.Context, tx postgres.Tx, applicationID string) error {
	r := tx.Gorm(ctx).Model(&endpointRow{}).Where("application_id = ?", applicationID).Updates(map[string]any{
		"disabled_at": nil, "disabled_reason": nil,
		"failing_since": gorm.Expr("CASE WHEN disabled_at IS NULL THEN failing_since END")})
	return changed(int(r.RowsAffected), applicationID, r.Error)
}

// rotateSecret changes nothing if a previous secret still signs, unless how ends or keeps it. It also changes nothing
// if how keeps a previous secret that no longer signs.
func rotateSecret(ctx context.Context, tx postgres.Tx, applicationID string, secretSealed []byte,
	how Rotation,
) (done bool, err error) {
	q := tx.Gorm(ctx).Model(&endpointRow{}).Where("application_id = ?", applicationID)
	change := map[string]any{"secret_sealed": secretSealed, "updated_at": tx.Now}
	if how.KeepPrevious {
		q = q.Where("previous_secret_until > ?", tx.Now)
	} else {
		change["previous_secret_sealed"], change["previous_secret_until"] = gorm.Expr("secret_sealed"),
			tx.Now.Add(SecretOverlap)
		if !how.EndPrevious {
			q = q.Where("previous_secret_until IS NULL OR previous_secret_until <= ?", tx.Now)
		}
	}
	r := q.Updates(change)
	if r.Error != nil {
		return false, fmt.Errorf("rotate webhook secret of %s: %w", applicationID, r.Error)
	}
	return r.RowsAffected == 1, nil
}

// changed returns the error for the change of an endpoint.
func changed(rows int, applicationID string, err error) error {
	if err != nil {
		return fmt.Errorf("change webhook endpoint of %s: %w", applicationID, err)
	}
	if rows == 0 {
		return problem.ErrNotFound
	}
	return nil
}

// loggedDelivery is a delivery with the columns it takes from its event.
type loggedDelivery struct {
	Row      deliveryRow `gorm:"embedded"`
	Type     Type
	ClientID string
}

func (l loggedDelivery) delivery() Delivery {
	d := l.Row.Delivery
	d.Type, d.ClientID = l.Type, l.ClientID
	if d.State == Pending {
		d.NextAt = &l.Row.NextAt
	}
	return d
}

// logged selects deliveries of an application as d, with their events as e.
func logged(ctx context.Context, tx postgres.Tx, applicationID string) *gorm.DB {
	return tx.Gorm(ctx).Table("webhook_deliveries d").Joins("JOIN webhook_events e ON e.id = d.event_id").
		Select(postgres.Columns[deliveryRow]("d")+", e.type, coalesce(e.client_id, '') AS client_id").
		Where("d.application_id = ?", applicationID)
}

func selectDelivery(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string) (Delivery, error) {
	var l loggedDelivery
	err := logged(ctx, tx, applicationID).Where("d.id = ?", deliveryID).Take(&l).Error
	if postgres.IsNotFound(err) {
		return Delivery{}, problem.ErrNotFound
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("read delivery %s: %w", deliveryID, err)
	}
	return l.delivery(), nil
}

func selectDeliveries(ctx context.Context, tx postgres.Tx, applicationID string, f DeliveryFilter,
	limit int,
) ([]Delivery, error) {
	q := logged(ctx, tx, applicationID)
	switch f.State { // literal states, to match the partial index of each
	case "":
	case Pending:
		q = q.Where("d.state = 'PENDING'")
	case Delivered:
		q = q.Where("d.state = 'DELIVERED'")
	case Failed:
		q = q.Where("d.state = 'FAILED'")
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
	var rows []loggedDelivery
	if err := q.Order("d.created_at DESC, d.id DESC").Limit(limit).Find(&rows).Error; err != nil {
		return nil, err
	}
	items := make([]Delivery, len(rows))
	for i, l := range rows {
		items[i] = l.delivery()
	}
	return items, nil
}

func selectAttempts(ctx context.Context, tx postgres.Tx, applicationID, deliveryID string) ([]Attempt, error) {
	var rows []attemptRow // one row without a number if the delivery has had none
	err := tx.Gorm(ctx).Table("webhook_deliveries d").Joins("LEFT JOIN webhook_attempts a ON a.delivery_id = d.id").
		Select(postgres.Columns[attemptRow]("a")).Where("d.id = ? AND d.application_id = ?", deliveryID, applicationID).
		Order("a.attempt").Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list attempts of %s: %w", deliveryID, err)
	}
	if len(rows) == 0 {
		return nil, problem.ErrNotFound
	}
	items := make([]Attempt, 0, len(rows))
	for _, r := range rows {
		if r.Attempt == 0 {
			continue
		}
		items = append(items, Attempt{
			Number: r.Attempt, StartedAt: r.StartedAt, Duration: time.Duration(r.DurationMs) * time.Millisecond,
			StatusCode: r.StatusCode, Error: r.Error, ResponseBody: r.ResponseBody,
		})
	}
	return items, nil
}

func healthOf(ctx context.Context, tx postgres.Tx, applicationID string, since time.Time) (h Health, err error) {
	var counts []struct {
		State  State
		Count  int
		Oldest time.Time
	}
	err = tx.Gorm(ctx).Table("webhook_deliveries").Select("state, count(*) AS count, min(created_at) AS oldest").
		Where("application_id = ? AND created_at >= ?", applicationID, since).Group("state").Find(&counts).Error
	if err != nil {
		return h, fmt.Errorf("count deliveries of %s: %w", applicationID, err)
	}
	for _, c := range counts {
		switch c.State {
		case Delivered:
			h.Delivered = c.Count
		case Failed:
			h.Failed = c.Count
		case Pending:
			h.Pending, h.Oldest = c.Count, &c.Oldest
		}
	}
	return h, nil
}
