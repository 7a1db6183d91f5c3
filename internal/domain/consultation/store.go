package consultation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// row is a row of consultations: a consultation, with the columns that only the database has.
type row struct {
	Consultation
	// sealed with the client's key, like the next two; NULL when erased
	SubjectSealed     []byte `gorm:"column:subject_sealed;<-:create"`
	DescriptionSealed []byte `gorm:"column:description_sealed;<-:create"` // also NULL if there is none
	PhoneSealed       []byte `gorm:"column:phone_sealed;<-:create"`       // read only when dialling
	// when the machine looks again, derived when the row is written
	TimerAt       *time.Time   `gorm:"column:timer_at"`
	RefundedCents *money.Cents `gorm:"column:refunded_cents"` // NULL before a refund
	// the partner's estimate before creation; NULL also for "not known"
	EstimateSec    *int       `gorm:"column:estimate_sec;<-:create"`
	EstimateOnline *int       `gorm:"column:estimate_online;<-:create"` // numbers behind it, like the next two
	EstimateIdle   *int       `gorm:"column:estimate_idle;<-:create"`
	EstimateAhead  *int       `gorm:"column:estimate_ahead;<-:create"`
	EstimateToldAt *time.Time `gorm:"column:estimate_told_at;<-:create"` // NULL if the partner did not ask
}

// TableName implements [schema.Tabler].
func (row) TableName() string { return "consultations" }

// openRow is a row with the sealed key that opens its texts.
type openRow struct {
	Row       row `gorm:"embedded"`
	KeySealed []byte
}

func toRow(c Consultation) row {
	r := row{Consultation: c, TimerAt: nextTimer(c)}
	if c.RefundedAt != nil {
		refunded := c.Refunded
		r.RefundedCents = &refunded
	}
	return r
}

func fromRow(r row) Consultation {
	if r.RefundedCents != nil {
		r.Refunded = *r.RefundedCents
	}
	return r.Consultation
}

var (
	columns = postgres.Columns[row]("c", "phone_sealed", "estimate_sec", "estimate_online", "estimate_idle",
		"estimate_ahead", "estimate_told_at")
	openColumns = columns + ", " + vault.Stored("c.client_id") + " AS key_sealed"
)

// beginning is the input of [insertSQL].
type beginning struct {
	Row       row         `gorm:"embedded"`
	Evidence  evidenceRow `gorm:"embedded;embeddedPrefix:evidence_"`
	ToldAfter time.Time   // an an estimate given at or before this time is not stored
}

// insertSQL writes record and evidence in one round trip: neither exists without the other. The record keeps the
// estimate that the partner was given.
var insertSQL = postgres.Bind[beginning](postgres.SQL(postgres.Atomic, `WITH told AS (
		SELECT seconds, lawyers_online, lawyers_idle, ahead, told_at FROM estimates
		WHERE application_id = @application_id AND client_id = @client_id AND competence = @competence AND language = @language
			AND told_at > @told_after
	), c AS (
		`+postgres.Insert[row]("@", map[string]string{
	"estimate_sec": "(SELECT seconds FROM told)", "estimate_online": "(SELECT lawyers_online FROM told)",
	"estimate_idle": "(SELECT lawyers_idle FROM told)", "estimate_ahead": "(SELECT ahead FROM told)",
	"estimate_told_at": "(SELECT told_at FROM told)",
})+`
	)
	`+postgres.Insert[evidenceRow]("@evidence_", map[string]string{
	"consultation_id": "@id", "application_id": "@application_id", "client_id": "@client_id",
	"acknowledged_at": "@created_at",
})))

func insertWithEvidence(ctx context.Context, tx postgres.Tx, r row, e evidenceRow) error {
	args, err := insertSQL.Args(ctx, &beginning{Row: r, Evidence: e, ToldAfter: r.CreatedAt.Add(-estimateValidity)})
	if err != nil {
		return err
	}
	_, err = tx.Later(postgres.Called("insert consultation")).Exec(ctx, insertSQL.Statement, args...)
	return err
}

// updatable lists the columns that a transition may change.
var updatable = postgres.Updatable[row]()

var updateSQL = postgres.SQL(postgres.Batch, func() string {
	set := make([]string, len(updatable))
	for i, name := range updatable {
		set[i] = name + " = r." + name
	}
	return "UPDATE consultations c SET " + strings.Join(set, ", ") +
		" FROM jsonb_populate_recordset(NULL::consultations, $1::jsonb) r WHERE c.id = ANY ($2) AND c.id = r.id AND c.status = $3"
}())

// update writes the updatable columns and the timers of consultations that are still in status from.
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

// updateOneSQL has a plan that is made once. The plan of updateSQL depends on the number of rows, and is made each
// time.
var updateOneSQL = postgres.SQL(postgres.Hot,
	"UPDATE consultations SET "+postgres.Assign(updatable, 3)+" WHERE id = $1 AND status = $2")

func updateOne(ctx context.Context, tx postgres.Tx, from Status, c Consultation) error {
	r := toRow(c)
	values, err := postgres.Values(ctx, &r, updatable...)
	if err != nil {
		return fmt.Errorf("write consultation: %w", err)
	}
	_, err = tx.Later(updated(from, c.ID)).Exec(ctx, updateOneSQL, append([]any{c.ID, from}, values...)...)
	return err
}

// updated checks that all updated consultations were still in status from.
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

// rows starts a query for consultations c without their phone numbers.
func rows(ctx context.Context, tx postgres.Tx, lock ...clause.Expression) *gorm.DB {
	return tx.Gorm(ctx).Clauses(lock...).Table("consultations c").Select(columns)
}

// openRows starts a query for consultations c whose texts will be opened.
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
	return one[openRow](openRows(ctx, tx).Where("c.id = ? AND c.application_id = ? AND c.client_id = ?", consultationID,
		applicationID, clientID))
}

// lockOwned locks a consultation of the client, restricted to the application unless that is empty.
func lockOwned(ctx context.Context, tx postgres.Tx, applicationID, clientID, consultationID string) (openRow, error) {
	q := openRows(ctx, tx, postgres.ForUpdate).Where("c.id = ? AND c.client_id = ?", consultationID, clientID)
	if applicationID != "" {
		q = q.Where("c.application_id = ?", applicationID)
	}
	return one[openRow](q)
}

// isOpen matches the statuses that are not final, in the words of the index on open consultations.
const isOpen = "status IN ('MATCHING', 'PENDING_CALLBACK', 'ASSIGNED', 'IN_CALL', 'CALL_ENDED')"

func lock(ctx context.Context, tx postgres.Tx, consultationID string) (Consultation, error) {
	return locked(ctx, tx, lockSQL, consultationID)
}

var (
	lockSQL = postgres.SQL(postgres.Hot,
		"SELECT "+columns+" FROM consultations c WHERE c.id = $1 FOR UPDATE OF c")
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

// tryLock locks a consultation; ok is false if it is locked already.
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

// tryLockAll locks the given consultations, except those that are already locked.
func tryLockAll(ctx context.Context, tx postgres.Tx, ids []string) ([]Consultation, error) {
	return many(rows(ctx, tx, postgres.SkipLocked).Where("c.id IN ?", ids).Order("c.id"))
}

// phoneToDial reads the phone number, the client and the key.
func phoneToDial(ctx context.Context, tx postgres.Tx, consultationID string) (openRow, error) {
	r, err := one[openRow](tx.Gorm(ctx).Table("consultations c").
		Select("c.client_id, c.phone_sealed, "+vault.Stored("c.client_id")+" AS key_sealed").
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

// leftoverCall finds a call on the line of c's client that should be over: an earlier call of c, which is about to be
// dialled, or a call of a consultation that has left its lawyer.
func leftoverCall(ctx context.Context, tx postgres.Tx, c Consultation) (callID string, found bool, err error) {
	res := tx.Gorm(ctx).Table("calls k").Joins("JOIN consultations o ON o.id = k.consultation_id").Select("k.id").
		Where("k.state <> 'ENDED' AND (k.consultation_id = ? OR k.client_id = ? AND o.status NOT IN "+
			"('ASSIGNED', 'IN_CALL'))", c.ID, c.ClientID).
		Limit(1).Find(&callID)
	if res.Error != nil {
		return "", false, fmt.Errorf("look for calls of nobody: %w", res.Error)
	}
	return callID, res.RowsAffected > 0, nil
}

// inCallOf returns the client's consultation in call, or "" if there is none.
func inCallOf(ctx context.Context, tx postgres.Tx, clientID string) (consultationID string, err error) {
	err = gorm.G[row](tx.Gorm(ctx)).Where("client_id = ? AND status = 'IN_CALL'", clientID).Select("id").
		Scan(ctx, &consultationID)
	if err != nil {
		return "", fmt.Errorf("look for the client's call: %w", err)
	}
	return consultationID, nil
}
