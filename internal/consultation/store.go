package consultation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/account"
	"partnerd/internal/id"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/vault"
)

// row is a consultation as it is stored. TimerAt is derived when it is written.
type row struct {
	ID, ApplicationID, ClientID string
	Status                      Status
	Competence, Language        string
	SubjectSealed               []byte
	DescriptionSealed           []byte
	PhoneSealed                 []byte
	RecordingConsent            bool
	ExternalRef                 *string
	PriceCents                  money.Cents
	LawyerID                    *string
	EventSeq                    int64
	TimerAt                     *time.Time
	CreatedAt, UpdatedAt        time.Time
	SearchStartedAt             time.Time
	AssignedAt, CallbackDueAt   *time.Time
	CallStartedAt, CallEndedAt  *time.Time
	DurationSec                 *int
	CompletedAt, CancelledAt    *time.Time
	ExpiredAt                   *time.Time
	EndReason                   *string
	RefundedCents               *money.Cents
	RefundedAt                  *time.Time
	DialAttempts                int
	FirstDialAt, LastDialAt     *time.Time
	NextDialAt, CallCapAt       *time.Time
	LineLostAt                  *time.Time
	Reminders                   int
	CallableFrom, CallableUntil *time.Time
	ErasedAt                    *time.Time
	KeySealed                   []byte // the client's key, of openColumns
}

// columns leaves the phone number out: it is read at dial time only.
const columns = `c.id, c.application_id, c.client_id, c.status, c.competence, c.language, c.subject_sealed, c.description_sealed,
	c.recording_consent, c.external_ref, c.price_cents, c.lawyer_id, c.event_seq, c.created_at, c.updated_at, c.search_started_at,
	c.assigned_at, c.callback_due_at, c.call_started_at, c.call_ended_at, c.duration_sec, c.completed_at, c.cancelled_at,
	c.expired_at, c.end_reason, c.refunded_cents, c.refunded_at, c.dial_attempts, c.first_dial_at, c.last_dial_at,
	c.next_dial_at, c.call_cap_at, c.line_lost_at, c.reminders, c.callable_from, c.callable_until, c.erased_at`

// openColumns are for rows whose texts are opened.
var openColumns = columns + `, ` + vault.Stored("c.client_id") + ` AS key_sealed`

func toRow(c Consultation) row {
	r := row{
		ID: c.ID, ApplicationID: c.ApplicationID, ClientID: c.ClientID, Status: c.Status, Competence: c.Competence,
		Language: c.Language, RecordingConsent: c.RecordingConsent, ExternalRef: nilIfEmpty(c.ExternalRef), PriceCents: c.Price,
		LawyerID: nilIfEmpty(c.LawyerID), EventSeq: c.EventSeq, TimerAt: nextTimer(c), CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		SearchStartedAt: c.SearchStartedAt, AssignedAt: c.AssignedAt, CallbackDueAt: c.CallbackDueAt, CallStartedAt: c.CallStartedAt,
		CallEndedAt: c.CallEndedAt, DurationSec: c.DurationSec, CompletedAt: c.CompletedAt, CancelledAt: c.CancelledAt,
		ExpiredAt: c.ExpiredAt, EndReason: nilIfEmpty(string(c.EndReason)), RefundedAt: c.RefundedAt, DialAttempts: c.DialAttempts,
		FirstDialAt: c.FirstDialAt, LastDialAt: c.LastDialAt, NextDialAt: c.NextDialAt, CallCapAt: c.CallCapAt,
		LineLostAt: c.LineLostAt, Reminders: c.Reminders, CallableFrom: c.CallableFrom, CallableUntil: c.CallableUntil,
	}
	if c.RefundedAt != nil {
		r.RefundedCents = &c.Refunded
	}
	return r
}

func fromRow(r row) Consultation {
	c := Consultation{
		ID: r.ID, ApplicationID: r.ApplicationID, ClientID: r.ClientID, Status: r.Status, Competence: r.Competence,
		Language: r.Language, RecordingConsent: r.RecordingConsent, ExternalRef: orEmpty(r.ExternalRef), Price: r.PriceCents,
		LawyerID: orEmpty(r.LawyerID), EventSeq: r.EventSeq, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		SearchStartedAt: r.SearchStartedAt.UTC(), AssignedAt: utc(r.AssignedAt), CallbackDueAt: utc(r.CallbackDueAt),
		CallStartedAt: utc(r.CallStartedAt), CallEndedAt: utc(r.CallEndedAt), DurationSec: r.DurationSec,
		CompletedAt: utc(r.CompletedAt), CancelledAt: utc(r.CancelledAt), ExpiredAt: utc(r.ExpiredAt),
		EndReason: Reason(orEmpty(r.EndReason)), RefundedAt: utc(r.RefundedAt), DialAttempts: r.DialAttempts,
		FirstDialAt: utc(r.FirstDialAt), LastDialAt: utc(r.LastDialAt), NextDialAt: utc(r.NextDialAt), CallCapAt: utc(r.CallCapAt),
		LineLostAt: utc(r.LineLostAt), Reminders: r.Reminders, ErasedAt: utc(r.ErasedAt),
		CallableFrom: utc(r.CallableFrom), CallableUntil: utc(r.CallableUntil),
	}
	if r.RefundedCents != nil {
		c.Refunded = *r.RefundedCents
	}
	return c
}

func nilIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

type insertRow struct {
	row
	Evidence
	TextVersion string
	TextDigest  id.Digest
}

// insertWithEvidence writes record and evidence in one round trip: neither exists without the other.
func insertWithEvidence(ctx context.Context, tx postgres.Tx, r insertRow) error {
	_, err := tx.SQL().ExecContext(ctx, `WITH c AS (
			INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
				description_sealed, recording_consent, external_ref, price_cents, phone_sealed, event_seq, timer_at,
				created_at, updated_at, search_started_at)
			VALUES ($1, $2, $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $4, $4, $4)
		)
		INSERT INTO consultation_evidence (consultation_id, text_version, text_sha256, acknowledged_at, application_id,
			client_id, request_id, idempotency_key_sha256, address, user_agent)
		VALUES ($1, $16, $17, $4, $2, $3, $18, $19, $20, $21)`,
		r.ID, r.ApplicationID, r.ClientID, r.CreatedAt,
		r.Status, r.Competence, r.Language, r.SubjectSealed, r.DescriptionSealed, r.RecordingConsent, r.ExternalRef, r.PriceCents, r.PhoneSealed,
		r.EventSeq, r.TimerAt, r.TextVersion, r.TextDigest, r.RequestID, id.DigestOf(r.IdempotencyKey), r.Address, account.Printable(r.UserAgent))
	if err != nil {
		return fmt.Errorf("insert consultation: %w", err)
	}
	return nil
}

var updateSQL = func() string {
	columns := []string{"status", "lawyer_id", "event_seq", "timer_at", "updated_at", "assigned_at", "callback_due_at", "call_started_at",
		"call_ended_at", "duration_sec", "completed_at", "cancelled_at", "expired_at", "end_reason", "refunded_cents", "refunded_at",
		"dial_attempts", "first_dial_at", "last_dial_at", "next_dial_at", "call_cap_at", "line_lost_at", "reminders",
		"callable_from", "callable_until"}
	for i, name := range columns {
		columns[i] = name + " = r." + name
	}
	return "UPDATE consultations c SET " + strings.Join(columns, ", ") +
		" FROM jsonb_populate_recordset(NULL::consultations, $1::jsonb) r WHERE c.id = ANY ($2) AND c.id = r.id AND c.status = $3"
}()

// update writes what can change, and the timers, of consultations that are still in status from.
func update(ctx context.Context, tx postgres.Tx, from Status, list ...Consultation) error {
	ids, rows := make([]string, len(list)), make([]map[string]any, len(list))
	for i, c := range list {
		r := toRow(c)
		ids[i], rows[i] = r.ID, map[string]any{
			"id": r.ID, "status": r.Status, "lawyer_id": r.LawyerID, "event_seq": r.EventSeq, "timer_at": r.TimerAt,
			"updated_at": r.UpdatedAt, "assigned_at": r.AssignedAt, "callback_due_at": r.CallbackDueAt, "call_started_at": r.CallStartedAt,
			"call_ended_at": r.CallEndedAt, "duration_sec": r.DurationSec, "completed_at": r.CompletedAt, "cancelled_at": r.CancelledAt,
			"expired_at": r.ExpiredAt, "end_reason": r.EndReason, "refunded_cents": (*int64)(r.RefundedCents), "refunded_at": r.RefundedAt,
			"dial_attempts": r.DialAttempts, "first_dial_at": r.FirstDialAt, "last_dial_at": r.LastDialAt, "next_dial_at": r.NextDialAt,
			"call_cap_at": r.CallCapAt, "line_lost_at": r.LineLostAt, "reminders": r.Reminders,
			"callable_from": r.CallableFrom, "callable_until": r.CallableUntil,
		}
	}
	values, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("write consultations: %w", err)
	}
	res, err := tx.SQL().ExecContext(ctx, updateSQL, string(values), ids, from)
	if err != nil {
		return fmt.Errorf("update consultation %s: %w", strings.Join(ids, ", "), err)
	}
	if n, err := res.RowsAffected(); err != nil || n != int64(len(list)) {
		return errors.Join(fmt.Errorf("%w: of %s, %d are still %s", errLostRace, strings.Join(ids, ", "), n, from), err)
	}
	return nil
}

func get(ctx context.Context, tx postgres.Tx, applicationID, clientID, consultationID string) (row, error) {
	return one(ctx, tx, `SELECT `+openColumns+` FROM consultations c WHERE c.id = ? AND c.application_id = ? AND c.client_id = ?`,
		consultationID, applicationID, clientID)
}

// lockOwned locks a consultation of the client, and of the application unless that is empty.
func lockOwned(ctx context.Context, tx postgres.Tx, applicationID, clientID, consultationID string) (row, error) {
	return one(ctx, tx, `SELECT `+openColumns+` FROM consultations c WHERE c.id = ? AND (? = '' OR c.application_id = ?) AND c.client_id = ? FOR UPDATE`,
		consultationID, applicationID, applicationID, clientID)
}

func lock(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	r, err := one(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.id = ? FOR UPDATE`, consultationID)
	return fromRow(r), err
}

// tryLock locks a consultation unless somebody else is at it; ok is false then.
func tryLock(ctx context.Context, tx postgres.Tx, consultationID string) (c Consultation, ok bool, err error) {
	r, err := one(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.id = ? FOR UPDATE SKIP LOCKED`, consultationID)
	if errors.Is(err, problem.ErrNotFound) {
		return Consultation{}, false, nil
	}
	return fromRow(r), err == nil, err
}

// tryLockAll locks those of several consultations that nobody else is at.
func tryLockAll(ctx context.Context, tx postgres.Tx, ids []string) ([]Consultation, error) {
	return many(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.id IN ? ORDER BY c.id FOR UPDATE SKIP LOCKED`, ids)
}

func one(ctx context.Context, tx postgres.Tx, query string, args ...any) (row, error) {
	var rows []row
	if err := tx.Gorm(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return row{}, fmt.Errorf("read consultation: %w", err)
	}
	if len(rows) == 0 {
		return row{}, problem.ErrNotFound
	}
	return rows[0], nil
}

// phoneToDial reads the phone number, the client and the key.
func phoneToDial(ctx context.Context, tx postgres.Tx, consultationID string) (row, error) {
	r, err := one(ctx, tx, `SELECT c.client_id, c.phone_sealed, `+vault.Stored("c.client_id")+` AS key_sealed FROM consultations c
		WHERE c.id = ? AND c.status IN ('ASSIGNED', 'IN_CALL')`, consultationID)
	if errors.Is(err, problem.ErrNotFound) {
		return row{}, fmt.Errorf("%w: %s", errNoNumber, consultationID)
	}
	return r, err
}

// callOfNobody finds a call on the line of c's client that is not over though it should be: an earlier one of c, which is
// about to be dialled, or one of a consultation that has left its lawyer.
func callOfNobody(ctx context.Context, tx postgres.Tx, c Consultation) (callID string, found bool, err error) {
	res := tx.Gorm(ctx).Raw(`SELECT k.id FROM calls k JOIN consultations o ON o.id = k.consultation_id
		WHERE k.state <> 'ENDED' AND (k.consultation_id = @id OR k.client_id = @client AND o.status NOT IN ('ASSIGNED', 'IN_CALL'))
		LIMIT 1`, map[string]any{"id": c.ID, "client": c.ClientID}).Scan(&callID)
	if res.Error != nil {
		return "", false, fmt.Errorf("look for calls of nobody: %w", res.Error)
	}
	return callID, res.RowsAffected > 0, nil
}

// inCallOf finds the consultation of a client that is in call.
func inCallOf(ctx context.Context, tx postgres.Tx, clientID string) (id string, err error) {
	err = tx.Gorm(ctx).Raw("SELECT id FROM consultations WHERE client_id = ? AND status = 'IN_CALL'", clientID).Scan(&id).Error
	if err != nil {
		return "", fmt.Errorf("look for the client's call: %w", err)
	}
	return id, nil
}
