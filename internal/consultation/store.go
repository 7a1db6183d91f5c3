package consultation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/matching"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/telephony"
	"partnerd/internal/vault"
)

// row is a row of consultations. What is written once, when the consultation begins or is erased, is marked "<-:create".
type row struct {
	ID                string        `gorm:"column:id;primaryKey"`
	ApplicationID     string        `gorm:"column:application_id;<-:create"`
	ClientID          string        `gorm:"column:client_id;<-:create"`
	Status            Status        `gorm:"column:status"`
	Competence        string        `gorm:"column:competence;<-:create"`
	Language          string        `gorm:"column:language;<-:create"`
	SubjectSealed     []byte        `gorm:"column:subject_sealed;<-:create"`     // by the client's key, as the next two; NULL when erased
	DescriptionSealed []byte        `gorm:"column:description_sealed;<-:create"` // NULL also when there is none
	PhoneSealed       []byte        `gorm:"column:phone_sealed;<-:create"`       // read at dial time only
	RecordingConsent  bool          `gorm:"column:recording_consent;<-:create"`
	ExternalRef       string        `gorm:"column:external_ref;<-:create;serializer:zeronull"`
	PriceCents        money.Cents   `gorm:"column:price_cents;<-:create"`
	LawyerID          string        `gorm:"column:lawyer_id;serializer:zeronull"`
	EventSeq          int64         `gorm:"column:event_seq"` // of the newest webhook event
	TimerAt           *time.Time    `gorm:"column:timer_at"`  // when the machine looks again, derived when the row is written
	CreatedAt         time.Time     `gorm:"column:created_at;<-:create;autoCreateTime:false"`
	UpdatedAt         time.Time     `gorm:"column:updated_at;autoUpdateTime:false"`
	SearchStartedAt   time.Time     `gorm:"column:search_started_at;<-:create"`
	AssignedAt        *time.Time    `gorm:"column:assigned_at"`
	CallbackDueAt     *time.Time    `gorm:"column:callback_due_at"`
	CallStartedAt     *time.Time    `gorm:"column:call_started_at"`
	CallEndedAt       *time.Time    `gorm:"column:call_ended_at"`
	DurationSec       *int          `gorm:"column:duration_sec"`
	CompletedAt       *time.Time    `gorm:"column:completed_at"`
	CancelledAt       *time.Time    `gorm:"column:cancelled_at"`
	ExpiredAt         *time.Time    `gorm:"column:expired_at"`
	EndReason         Reason        `gorm:"column:end_reason;serializer:zeronull"`
	RefundedCents     *money.Cents  `gorm:"column:refunded_cents"`
	RefundedAt        *time.Time    `gorm:"column:refunded_at"`
	DialAttempts      int           `gorm:"column:dial_attempts"`
	FirstDialAt       *time.Time    `gorm:"column:first_dial_at"`
	LastDialAt        *time.Time    `gorm:"column:last_dial_at"`
	NextDialAt        *time.Time    `gorm:"column:next_dial_at"`
	CallCapAt         *time.Time    `gorm:"column:call_cap_at"` // when the call's 20 minutes are over
	LineLostAt        *time.Time    `gorm:"column:line_lost_at"`
	Reminders         int           `gorm:"column:reminders"`                 // sent for a note that is missing
	CallableFrom      *time.Time    `gorm:"column:callable_from"`             // the hours of the client's day for a callback
	CallableUntil     *time.Time    `gorm:"column:callable_until"`            // their end, exclusive
	EarlierAttempts   int           `gorm:"column:earlier_attempts"`          // unanswered, with lawyers who had it before
	ChooseBy          *time.Time    `gorm:"column:choose_by"`                 // until when the lawyer may say that he waits for the next attempt
	AlarmedAt         *time.Time    `gorm:"column:alarmed_at"`                // when operators were told that the callback is due soon
	FirstAssignedAt   *time.Time    `gorm:"column:first_assigned_at"`         // NULL also for what older releases assigned
	EstimateSec       *int          `gorm:"column:estimate_sec;<-:create"`    // as the partner was told before; NULL also for "not known"
	EstimateOnline    *int          `gorm:"column:estimate_online;<-:create"` // what was seen then, as the next
	EstimateIdle      *int          `gorm:"column:estimate_idle;<-:create"`
	EstimateAhead     *int          `gorm:"column:estimate_ahead;<-:create"`
	EstimateToldAt    *time.Time    `gorm:"column:estimate_told_at;<-:create"` // NULL when the partner did not ask
	ErasedAt          *time.Time    `gorm:"column:erased_at;<-:create"`
	Crew              matching.Crew `gorm:"column:crew;serializer:zeronull"`                   // NULL: everybody's
	TraceParent       string        `gorm:"column:trace_parent;<-:create;serializer:zeronull"` // the span that it was created in; NULL when nothing was traced
}

// TableName implements [schema.Tabler].
func (row) TableName() string { return "consultations" }

// openRow is a row with the key that opens its texts.
type openRow struct {
	Row       row `gorm:"embedded"`
	KeySealed []byte
}

func toRow(c Consultation) row {
	r := row{
		ID: c.ID, ApplicationID: c.ApplicationID, ClientID: c.ClientID, Status: c.Status, Competence: c.Competence,
		Language: c.Language, RecordingConsent: c.RecordingConsent, ExternalRef: c.ExternalRef, PriceCents: c.Price,
		LawyerID: c.LawyerID, EventSeq: c.EventSeq, TimerAt: nextTimer(c), CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		SearchStartedAt: c.SearchStartedAt, AssignedAt: c.AssignedAt, CallbackDueAt: c.CallbackDueAt, CallStartedAt: c.CallStartedAt,
		CallEndedAt: c.CallEndedAt, DurationSec: c.DurationSec, CompletedAt: c.CompletedAt, CancelledAt: c.CancelledAt,
		ExpiredAt: c.ExpiredAt, EndReason: c.EndReason, RefundedAt: c.RefundedAt, DialAttempts: c.DialAttempts,
		FirstDialAt: c.FirstDialAt, LastDialAt: c.LastDialAt, NextDialAt: c.NextDialAt, CallCapAt: c.CallCapAt,
		LineLostAt: c.LineLostAt, Reminders: c.Reminders, CallableFrom: c.CallableFrom, CallableUntil: c.CallableUntil,
		EarlierAttempts: c.EarlierAttempts, ChooseBy: c.ChooseBy, AlarmedAt: c.AlarmedAt, FirstAssignedAt: c.FirstAssignedAt, Crew: c.Crew,
		TraceParent: c.TraceParent,
	}
	if c.RefundedAt != nil {
		r.RefundedCents = &c.Refunded
	}
	return r
}

func fromRow(r row) Consultation {
	c := Consultation{
		ID: r.ID, ApplicationID: r.ApplicationID, ClientID: r.ClientID, Status: r.Status, Competence: r.Competence,
		Language: r.Language, RecordingConsent: r.RecordingConsent, ExternalRef: r.ExternalRef, Price: r.PriceCents,
		LawyerID: r.LawyerID, EventSeq: r.EventSeq, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		SearchStartedAt: r.SearchStartedAt, AssignedAt: r.AssignedAt, CallbackDueAt: r.CallbackDueAt,
		CallStartedAt: r.CallStartedAt, CallEndedAt: r.CallEndedAt, DurationSec: r.DurationSec,
		CompletedAt: r.CompletedAt, CancelledAt: r.CancelledAt, ExpiredAt: r.ExpiredAt,
		EndReason: r.EndReason, RefundedAt: r.RefundedAt, DialAttempts: r.DialAttempts,
		FirstDialAt: r.FirstDialAt, LastDialAt: r.LastDialAt, NextDialAt: r.NextDialAt, CallCapAt: r.CallCapAt,
		LineLostAt: r.LineLostAt, Reminders: r.Reminders, ErasedAt: r.ErasedAt,
		CallableFrom: r.CallableFrom, CallableUntil: r.CallableUntil,
		EarlierAttempts: r.EarlierAttempts, ChooseBy: r.ChooseBy, AlarmedAt: r.AlarmedAt, FirstAssignedAt: r.FirstAssignedAt, Crew: r.Crew,
		TraceParent: r.TraceParent,
	}
	if r.RefundedCents != nil {
		c.Refunded = *r.RefundedCents
	}
	return c
}

var (
	columns     = postgres.Columns[row]("c", "phone_sealed", "estimate_sec", "estimate_online", "estimate_idle", "estimate_ahead", "estimate_told_at")
	openColumns = columns + ", " + vault.Stored("c.client_id") + " AS key_sealed"
)

// insertSQL writes record and evidence in one round trip: neither exists without the other. The record keeps what the partner was
// told about the wait, if that was after $24.
var insertSQL = postgres.SQL(postgres.Atomic, `WITH told AS (
		SELECT seconds, lawyers_online, lawyers_idle, ahead, told_at FROM estimates
		WHERE application_id = $2 AND client_id = $3 AND competence = $6 AND language = $7 AND told_at > $24
	), c AS (
		INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
			description_sealed, recording_consent, external_ref, price_cents, phone_sealed, event_seq, timer_at,
			created_at, updated_at, search_started_at, estimate_sec, estimate_online, estimate_idle, estimate_ahead, estimate_told_at, crew,
			trace_parent)
		VALUES ($1, $2, $3, $5, $6, $7, $8, $9, $10, nullif($11, ''), $12, $13, $14, $15, $4, $4, $4, (SELECT seconds FROM told),
			(SELECT lawyers_online FROM told), (SELECT lawyers_idle FROM told), (SELECT ahead FROM told), (SELECT told_at FROM told), nullif($25, ''), nullif($26, ''))
	)
	INSERT INTO consultation_evidence (consultation_id, text_version, text_sha256, acknowledged_at, application_id,
		client_id, request_id, idempotency_key_sha256, address, user_agent, stated_version, stated_language)
	VALUES ($1, $16, $17, $4, $2, $3, $18, $19, $20, $21, nullif($22, ''), nullif($23, ''))`)

func insertWithEvidence(ctx context.Context, tx postgres.Tx, r row, e evidenceRow) error {
	_, err := tx.Later(postgres.Called("insert consultation")).Exec(ctx, insertSQL, r.ID, r.ApplicationID, r.ClientID, r.CreatedAt,
		r.Status, r.Competence, r.Language, r.SubjectSealed, r.DescriptionSealed, r.RecordingConsent, r.ExternalRef, r.PriceCents, r.PhoneSealed,
		r.EventSeq, r.TimerAt, e.TextVersion, e.TextSHA256, e.RequestID, e.IdempotencyKeySHA256, e.Address, e.UserAgent,
		e.StatedVersion, e.StatedLanguage, r.CreatedAt.Add(-estimateHolds), r.Crew, r.TraceParent)
	return err
}

// updatable are the columns that a transition may change.
var updatable = postgres.Updatable[row]()

var updateSQL = postgres.SQL(postgres.Batch, func() string {
	set := make([]string, len(updatable))
	for i, name := range updatable {
		set[i] = name + " = r." + name
	}
	return "UPDATE consultations c SET " + strings.Join(set, ", ") +
		" FROM jsonb_populate_recordset(NULL::consultations, $1::jsonb) r WHERE c.id = ANY ($2) AND c.id = r.id AND c.status = $3"
}())

// update writes what can change, and the timers, of consultations that are still in status from.
func update(ctx context.Context, tx postgres.Tx, from Status, list ...Consultation) error {
	if len(list) == 1 {
		return updateOne(ctx, tx, from, list[0])
	}
	ids, rows := make([]string, len(list)), make([]row, len(list))
	for i, c := range list {
		ids[i], rows[i] = c.ID, toRow(c)
	}
	values, err := postgres.Records(ctx, rows, append([]string{"id"}, updatable...)...)
	if err != nil {
		return fmt.Errorf("write consultations: %w", err)
	}
	_, err = tx.Later(updated(from, ids...)).Exec(ctx, updateSQL, values, ids, from)
	return err
}

// updateOneSQL has a plan that is made once: that of updateSQL depends on how many there are, and is made anew for each.
var updateOneSQL = postgres.SQL(postgres.Hot, "UPDATE consultations SET "+postgres.Assign(updatable, 3)+" WHERE id = $1 AND status = $2")

func updateOne(ctx context.Context, tx postgres.Tx, from Status, c Consultation) error {
	r := toRow(c)
	values, err := postgres.Values(ctx, &r, updatable...)
	if err != nil {
		return fmt.Errorf("write consultation: %w", err)
	}
	_, err = tx.Later(updated(from, c.ID)).Exec(ctx, updateOneSQL, append([]any{c.ID, from}, values...)...)
	return err
}

// updated checks that all of an update were still in status from.
func updated(from Status, ids ...string) postgres.Check {
	return postgres.Counted(func(n int, err error) error {
		if err != nil {
			return fmt.Errorf("update consultation %s: %w", strings.Join(ids, ", "), err)
		}
		if n != len(ids) {
			return fmt.Errorf("%w: of %s, %d are still %s", errLostRace, strings.Join(ids, ", "), n, from)
		}
		return nil
	})
}

// rows begins a query for consultations c without their phone numbers.
func rows(ctx context.Context, tx postgres.Tx, lock ...clause.Expression) *gorm.DB {
	return tx.Gorm(ctx).Clauses(lock...).Table("consultations c").Select(columns)
}

// openRows begins a query for consultations c whose texts are opened.
func openRows(ctx context.Context, tx postgres.Tx, lock ...clause.Expression) *gorm.DB {
	return tx.Gorm(ctx).Clauses(lock...).Table("consultations c").Select(openColumns)
}

func one[T any](q *gorm.DB) (r T, err error) {
	err = q.Take(&r).Error
	if postgres.IsNotFound(err) {
		return r, problem.ErrNotFound
	}
	if err != nil {
		return r, fmt.Errorf("read consultation: %w", err)
	}
	return r, nil
}

func many(q *gorm.DB) ([]Consultation, error) {
	var list []row
	if err := q.Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list consultations: %w", err)
	}
	out := make([]Consultation, len(list))
	for i, r := range list {
		out[i] = fromRow(r)
	}
	return out, nil
}

func get(ctx context.Context, tx postgres.Tx, applicationID, clientID, consultationID string) (openRow, error) {
	return one[openRow](openRows(ctx, tx).Where("c.id = ? AND c.application_id = ? AND c.client_id = ?", consultationID, applicationID, clientID))
}

// lockOwned locks a consultation of the client, and of the application unless that is empty.
func lockOwned(ctx context.Context, tx postgres.Tx, applicationID, clientID, consultationID string) (openRow, error) {
	q := openRows(ctx, tx, postgres.ForUpdate).Where("c.id = ? AND c.client_id = ?", consultationID, clientID)
	if applicationID != "" {
		q = q.Where("c.application_id = ?", applicationID)
	}
	return one[openRow](q)
}

// isOpen is what the statuses have that are no end, in the words of the index on what is open.
const isOpen = "status IN ('MATCHING', 'PENDING_CALLBACK', 'ASSIGNED', 'IN_CALL', 'CALL_ENDED')"

func lock(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	return locked(ctx, tx, lockSQL, consultationID)
}

var (
	lockSQL       = postgres.SQL(postgres.Hot, "SELECT "+columns+" FROM consultations c WHERE c.id = $1 FOR UPDATE OF c")
	lockOfCallSQL = postgres.SQL(postgres.Hot, "SELECT "+columns+` FROM consultations c
		WHERE c.id = (SELECT k.consultation_id FROM calls k WHERE k.id = $1) FOR UPDATE OF c`)
)

// lockOfCall locks the consultation of a call, or returns [telephony.ErrNoCall].
func lockOfCall(ctx context.Context, tx postgres.Tx, callID string) (Consultation, error) {
	c, err := locked(ctx, tx, lockOfCallSQL, callID)
	if errors.Is(err, problem.ErrNotFound) {
		err = telephony.ErrNoCall
	}
	return c, err
}

func locked(ctx context.Context, tx postgres.Tx, s postgres.Statement, id string) (Consultation, error) {
	r, found, err := postgres.One[row](ctx, tx, s, id)
	switch {
	case err != nil:
		return Consultation{}, fmt.Errorf("lock consultation: %w", err)
	case !found:
		return Consultation{}, problem.ErrNotFound
	}
	return fromRow(r), nil
}

// tryLock locks a consultation unless somebody else is at it; ok is false then.
func tryLock(ctx context.Context, tx postgres.Tx, consultationID string) (c Consultation, ok bool, err error) {
	return maybe(rows(ctx, tx, postgres.SkipLocked).Where("c.id = ?", consultationID))
}

func maybe(q *gorm.DB) (c Consultation, ok bool, err error) {
	r, err := one[row](q)
	if errors.Is(err, problem.ErrNotFound) {
		return Consultation{}, false, nil
	}
	return fromRow(r), err == nil, err
}

// tryLockAll locks those of several consultations that nobody else is at.
func tryLockAll(ctx context.Context, tx postgres.Tx, ids []string) ([]Consultation, error) {
	return many(rows(ctx, tx, postgres.SkipLocked).Where("c.id IN ?", ids).Order("c.id"))
}

// phoneToDial reads the phone number, the client and the key.
func phoneToDial(ctx context.Context, tx postgres.Tx, consultationID string) (openRow, error) {
	r, err := one[openRow](tx.Gorm(ctx).Table("consultations c").Select("c.client_id, c.phone_sealed, "+vault.Stored("c.client_id")+" AS key_sealed").
		Where("c.id = ? AND c.status IN ('ASSIGNED', 'IN_CALL')", consultationID))
	if errors.Is(err, problem.ErrNotFound) {
		return openRow{}, fmt.Errorf("%w: %s", errNoNumber, consultationID)
	}
	return r, err
}

func applicationOf(ctx context.Context, tx postgres.Tx, consultationID string) (string, error) {
	r, err := one[row](tx.Gorm(ctx).Table("consultations").Select("application_id").Where("id = ?", consultationID))
	return r.ApplicationID, err
}

// callOfNobody finds a call on the line of c's client that is not over though it should be: an earlier one of c, which is
// about to be dialled, or one of a consultation that has left its lawyer.
func callOfNobody(ctx context.Context, tx postgres.Tx, c Consultation) (callID string, found bool, err error) {
	res := tx.Gorm(ctx).Table("calls k").Joins("JOIN consultations o ON o.id = k.consultation_id").Select("k.id").
		Where("k.state <> 'ENDED' AND (k.consultation_id = ? OR k.client_id = ? AND o.status NOT IN ('ASSIGNED', 'IN_CALL'))", c.ID, c.ClientID).
		Limit(1).Find(&callID)
	if res.Error != nil {
		return "", false, fmt.Errorf("look for calls of nobody: %w", res.Error)
	}
	return callID, res.RowsAffected > 0, nil
}

// inCallOf finds the consultation of a client that is in call; it returns "" when there is none.
func inCallOf(ctx context.Context, tx postgres.Tx, clientID string) (consultationID string, err error) {
	err = gorm.G[row](tx.Gorm(ctx)).Where("client_id = ? AND status = 'IN_CALL'", clientID).Select("id").Scan(ctx, &consultationID)
	if err != nil {
		return "", fmt.Errorf("look for the client's call: %w", err)
	}
	return consultationID, nil
}
