package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// stepRow is a row of sandbox_call_steps: an event of a simulated call.
type stepRow struct {
	ID           string          `gorm:"column:id;primaryKey" json:"id"`
	CallID       string          `gorm:"column:call_id" json:"call_id"`
	Event        telephony.Event `gorm:"column:event;serializer:json" json:"event"`
	DueAt        time.Time       `gorm:"column:due_at" json:"due_at"` // when it is delivered; it may happen earlier
	ClaimedUntil *time.Time      `gorm:"column:claimed_until" json:"-"`
	Tries        int             `gorm:"column:tries" json:"-"` // delivery attempts
	DoneAt       *time.Time      `gorm:"column:done_at" json:"-"`
}

// TableName implements [schema.Tabler].
func (stepRow) TableName() string { return "sandbox_call_steps" }

// history is what happened in a call before a command, and its position in the scenario of its consultation.
type history struct {
	Repeated       bool // the command was already handled
	Joined, Parted bool // both were joined; the line dropped

	Scenario string // empty for none
	Attempt  int
	First    bool // the call is by the first lawyer who accepted
}

var historySQL = postgres.SQL(postgres.Hot, `SELECT past.repeated, past.joined, past.parted, coalesce(play.scenario, ''), coalesce(play.attempt, 0), coalesce(play.first, false)
	FROM (SELECT coalesce(bool_or(starts_with(id, $2)), false) AS repeated, coalesce(bool_or(event->>'kind' = $3), false) AS joined,
		coalesce(bool_or(event->>'kind' = $4), false) AS parted FROM sandbox_call_steps WHERE call_id = $1) past
	LEFT JOIN (SELECT p.scenario, k.attempt, (SELECT count(*) FROM offers o WHERE o.consultation_id = k.consultation_id AND o.state = 'ACCEPTED') = 1 AS first
		FROM calls k JOIN sandbox_plays p ON p.consultation_id = k.consultation_id WHERE k.id = $1) play ON true`)

func historyOf(ctx context.Context, tx postgres.Tx, cmd telephony.Command) (h history, err error) {
	err = tx.QueryRow(ctx, historySQL, cmd.CallID, cmd.CommandID+":", telephony.LegsJoined, telephony.LegsParted).
		Scan(&h.Repeated, &h.Joined, &h.Parted, &h.Scenario, &h.Attempt, &h.First)
	if err != nil {
		return history{}, fmt.Errorf("read simulated call: %w", err)
	}
	return h, nil
}

var insertStepsSQL = postgres.SQL(postgres.Batch, "WITH "+postgres.Unhurried+`
	INSERT INTO sandbox_call_steps (id, call_id, event, due_at) SELECT s.id, s.call_id, s.event, s.due_at
	FROM unhurried, json_to_recordset(CAST($1 AS json)) AS s (id text, call_id text, event jsonb, due_at timestamptz)`)

// insertSteps adds all steps of a command, or none if the command was already handled. A crash can lose the steps only
// together with the later record that the command was carried out. The command is then repeated.
func insertSteps(ctx context.Context, tx postgres.Tx, steps []stepRow) error {
	if len(steps) == 0 {
		return nil
	}
	list, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, insertStepsSQL, string(list))
	if err != nil && !postgres.IsUnique(err, "sandbox_call_steps_pkey") {
		return fmt.Errorf("insert simulated events: %w", err)
	}
	return nil
}

var dropStepsSQL = postgres.SQL(postgres.Hot,
	"DELETE FROM sandbox_call_steps WHERE call_id = $1 AND done_at IS NULL AND (event->>'at')::timestamptz > $2")

// dropSteps deletes what would happen in a call after the given time.
func dropSteps(ctx context.Context, tx postgres.Tx, callID string, after time.Time) error {
	if _, err := tx.Exec(ctx, dropStepsSQL, callID, after); err != nil {
		return fmt.Errorf("drop simulated events: %w", err)
	}
	return nil
}

func pastEvents(ctx context.Context, tx postgres.Tx, callID string) ([]telephony.Event, error) {
	rows, err := gorm.G[stepRow](tx.Gorm(ctx)).Where("call_id = ? AND due_at <= ?", callID, tx.Now).Order("due_at, id").
		Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list simulated events: %w", err)
	}
	events := make([]telephony.Event, len(rows))
	for i, r := range rows {
		events[i] = r.Event
	}
	return events, nil
}

// stepOf returns when the next event of a consultation's calls is due, or nil if there is none.
func stepOf(ctx context.Context, tx postgres.Tx, consultationID string) (at *time.Time, err error) {
	err = tx.Gorm(ctx).Table("sandbox_call_steps s").Joins("JOIN calls k ON k.id = s.call_id").
		Where("k.consultation_id = ? AND s.done_at IS NULL", consultationID).Select("min(s.due_at)").Row().Scan(&at)
	if err != nil {
		return nil, fmt.Errorf("look for simulated events of a consultation: %w", err)
	}
	return at, nil
}

const (
	stepClaim = 15 * time.Second // time until a step is released if the replica that claimed it dies
	stepBatch = 64
)

var claimStepsSQL = postgres.SQL(postgres.Claim, "WITH "+postgres.Unhurried+`, due AS MATERIALIZED (
		SELECT id FROM sandbox_call_steps WHERE done_at IS NULL AND due_at <= $1 AND (claimed_until IS NULL OR claimed_until <= $1)
		ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED),
	claimed AS (UPDATE sandbox_call_steps s SET claimed_until = $2, tries = s.tries + 1 FROM due, unhurried WHERE s.id = due.id
		RETURNING `+postgres.Columns[stepRow]("s")+`)
	SELECT c.*, later.due_at AS next FROM (SELECT min(due_at) AS due_at FROM sandbox_call_steps WHERE done_at IS NULL AND due_at > $1) later
	LEFT JOIN claimed c ON true`)

// claimSteps claims due events for one attempt each, which it counts. next is when the next one is due, or nil for
// none. If a crash loses a claim, an event may be delivered twice, which has no second effect.
func claimSteps(ctx context.Context, tx postgres.Tx) (due []stepRow, next *time.Time, err error) {
	type claimed struct {
		Row  stepRow `gorm:"embedded"`
		Next *time.Time
	}
	rows, err := postgres.Query[claimed](ctx, tx, claimStepsSQL, tx.Now, tx.Now.Add(stepClaim), stepBatch)
	if err != nil {
		return nil, nil, fmt.Errorf("claim simulated events: %w", err)
	}
	for _, r := range rows {
		next = r.Next
		if r.Row.ID != "" {
			due = append(due, r.Row)
		}
	}
	return due, next, nil
}

var settleStepsSQL = postgres.SQL(postgres.Batch, "WITH "+postgres.Unhurried+`
	UPDATE sandbox_call_steps s SET claimed_until = CAST($1 AS timestamptz) + make_interval(secs => r.after), done_at = CASE WHEN r.done THEN CAST($1 AS timestamptz) END
	FROM unhurried, json_to_recordset(CAST($2 AS json)) AS r (id text, done boolean, after float8) WHERE s.id = r.id`)

// settleSteps stores the results of deliveries. If a crash loses them, events are delivered again, which has no second
// effect.
func settleSteps(ctx context.Context, tx postgres.Tx, list []settlement) error {
	results, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, settleStepsSQL, tx.Now, string(results)); err != nil {
		return fmt.Errorf("settle simulated events: %w", err)
	}
	return nil
}
