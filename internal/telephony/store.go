package telephony

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

type callRow struct {
	ID             string
	ConsultationID string
	ClientID       string
	LawyerID       string
	Attempt        int
	State          State
	Record         bool
	Language       string
	StartedAt      time.Time
	JoinedAt       *time.Time
	BridgedAt      *time.Time
	LostAt         *time.Time
	JoinedUs       int64
	LastEventAt    time.Time
	EndedAt        *time.Time
	Outcome        *string
	Reason         *string
	RecordingRef   *string
	Seen           bool
}

const callColumns = `id, consultation_id, client_id, lawyer_id, attempt, state, record, language, started_at, joined_at,
	bridged_at, lost_at, joined_us, last_event_at, ended_at, outcome, reason, recording_ref`

func fromRow(r callRow) Call {
	return Call{ID: r.ID, ConsultationID: r.ConsultationID, ClientID: r.ClientID, LawyerID: r.LawyerID, Attempt: r.Attempt,
		State: r.State, Record: r.Record, Language: r.Language, StartedAt: r.StartedAt, JoinedAt: r.JoinedAt,
		BridgedAt: r.BridgedAt, LostAt: r.LostAt, Joined: time.Duration(r.JoinedUs) * time.Microsecond,
		LastEventAt: r.LastEventAt, EndedAt: r.EndedAt, Outcome: OutcomeKind(deref(r.Outcome)), Reason: deref(r.Reason),
		RecordingRef: deref(r.RecordingRef)}
}

// insertCall tells whether the line was free. ON CONFLICT keeps the transaction usable when it was not.
func insertCall(ctx context.Context, tx postgres.Tx, c Call) (bool, error) {
	res := tx.Gorm(ctx).Exec(`INSERT INTO calls (id, consultation_id, client_id, lawyer_id, attempt, state, record, language, started_at, last_event_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		c.ID, c.ConsultationID, c.ClientID, c.LawyerID, c.Attempt, c.State, c.Record, c.Language, c.StartedAt, c.LastEventAt)
	if res.Error != nil {
		return false, fmt.Errorf("insert call: %w", res.Error)
	}
	return res.RowsAffected == 1, nil
}

func get(ctx context.Context, tx postgres.Tx, callID string) (Call, error) {
	c, found, err := one(ctx, tx, "SELECT "+callColumns+" FROM calls WHERE id = ?", callID)
	if err == nil && !found {
		err = ErrNoCall
	}
	return c, err
}

func active(ctx context.Context, tx postgres.Tx, consultationID string) (Call, bool, error) {
	return one(ctx, tx, "SELECT "+callColumns+" FROM calls WHERE consultation_id = ? AND state <> 'ENDED'", consultationID)
}

func one(ctx context.Context, tx postgres.Tx, query, arg string) (Call, bool, error) {
	var r callRow
	res := tx.Gorm(ctx).Raw(query, arg).Scan(&r)
	if res.Error != nil {
		return Call{}, false, fmt.Errorf("read call: %w", res.Error)
	}
	return fromRow(r), res.RowsAffected > 0, nil
}

// lockForEvent locks a call and tells whether it has the event already.
func lockForEvent(ctx context.Context, tx postgres.Tx, callID, eventID string) (c Call, seen bool, err error) {
	var r callRow
	res := tx.Gorm(ctx).Raw("SELECT "+callColumns+" FROM calls WHERE id = ? FOR UPDATE", callID).Scan(&r)
	if res.Error != nil {
		return Call{}, false, fmt.Errorf("lock call: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return Call{}, false, ErrNoCall
	}
	if eventID != "" { // a statement of its own: it must see what was committed while the lock was waited for
		err = tx.Gorm(ctx).Raw("SELECT EXISTS (SELECT FROM call_events WHERE call_id = ? AND event_id = ?)", callID, eventID).Scan(&seen).Error
		if err != nil {
			return Call{}, false, fmt.Errorf("look for call event: %w", err)
		}
	}
	return fromRow(r), seen, nil
}

func lineMarks(ctx context.Context, tx postgres.Tx, callID string) ([]mark, error) {
	var rows []struct {
		Kind EventKind
		At   time.Time
	}
	err := tx.Gorm(ctx).Raw("SELECT kind, at FROM call_events WHERE call_id = ? AND fitted AND kind IN ('BRIDGED', 'UNBRIDGED')", callID).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read the line's changes: %w", err)
	}
	marks := make([]mark, len(rows))
	for i, r := range rows {
		marks[i] = mark{joined: r.Kind == LegsJoined, at: r.At}
	}
	return marks, nil
}

func insertEvent(ctx context.Context, tx postgres.Tx, e Event, fits bool) error {
	err := tx.Gorm(ctx).Exec("INSERT INTO call_events (call_id, event_id, kind, at, fitted) VALUES (?, ?, ?, ?, ?)",
		e.CallID, e.ID, e.Kind, e.At, fits).Error
	if err != nil {
		return fmt.Errorf("insert call event: %w", err)
	}
	return nil
}

func update(ctx context.Context, tx postgres.Tx, c Call) error {
	err := tx.Gorm(ctx).Exec(`UPDATE calls SET state = @state, joined_at = @joinedAt, bridged_at = @bridgedAt, lost_at = @lostAt,
			joined_us = @joined, last_event_at = @lastEvent, ended_at = @endedAt, outcome = @outcome, reason = @reason, recording_ref = @ref
		WHERE id = @id`, map[string]any{"id": c.ID, "state": c.State, "joinedAt": c.JoinedAt, "bridgedAt": c.BridgedAt,
		"lostAt": c.LostAt, "joined": c.Joined.Microseconds(), "lastEvent": c.LastEventAt, "endedAt": c.EndedAt,
		"outcome": null(string(c.Outcome)), "reason": null(c.Reason), "ref": null(c.RecordingRef)}).Error
	if err != nil {
		return fmt.Errorf("update call: %w", err)
	}
	return nil
}

func attempts(ctx context.Context, tx postgres.Tx, consultationID string) (int, error) {
	var n int
	err := tx.Gorm(ctx).Raw("SELECT count(*) FROM calls WHERE consultation_id = ? AND outcome = 'NOT_REACHED'", consultationID).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("count attempts: %w", err)
	}
	return n, nil
}

func insertCommand(ctx context.Context, tx postgres.Tx, callID string, o order) error {
	args, err := json.Marshal(o.args)
	if err != nil {
		return fmt.Errorf("write command: %w", err)
	}
	err = tx.Gorm(ctx).Exec("INSERT INTO call_commands (id, call_id, kind, args, due_at) VALUES (?, ?, ?, ?, ?)",
		tx.NewID("cmd"), callID, o.kind, string(args), tx.Now.Add(o.after)).Error
	if err != nil {
		return fmt.Errorf("insert command: %w", err)
	}
	return nil
}

// dropWaiting settles the commands of a call that is over. One that a worker is at stays, so that the hang-up behind it
// is carried out after it and not before.
func dropWaiting(ctx context.Context, tx postgres.Tx, callID string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE call_commands SET done_at = @now, last_error = 'the call is over'
		WHERE call_id = @call AND done_at IS NULL AND kind <> 'HANGUP' AND (claimed_until IS NULL OR claimed_until <= @now)`,
		map[string]any{"now": tx.Now, "call": callID}).Error
	if err != nil {
		return fmt.Errorf("drop commands: %w", err)
	}
	return nil
}

// claim takes the first open command of every call that has one due.
func claim(ctx context.Context, tx postgres.Tx) ([]command, error) {
	var rows []struct {
		ID             string
		Kind           commandKind
		Args           string
		Attempts       int
		CallID         string
		ConsultationID string
		LawyerID       string
		Language       string
		Ended          bool
	}
	err := tx.Gorm(ctx).Raw(`WITH due AS MATERIALIZED (
			SELECT q.id FROM call_commands q WHERE q.done_at IS NULL AND q.due_at <= @now
				AND (q.claimed_until IS NULL OR q.claimed_until <= @now)
				AND NOT EXISTS (SELECT FROM call_commands e WHERE e.call_id = q.call_id AND e.done_at IS NULL AND e.position < q.position)
			ORDER BY q.due_at, q.position LIMIT @batch FOR UPDATE SKIP LOCKED)
		UPDATE call_commands c SET claimed_until = @lease, attempts = c.attempts + 1
		FROM due, calls k WHERE c.id = due.id AND k.id = c.call_id
		RETURNING c.id, c.kind, c.args, c.attempts, c.call_id, k.consultation_id, k.lawyer_id, k.language, k.state = 'ENDED' AS ended`,
		map[string]any{"now": tx.Now, "lease": tx.Now.Add(lease), "batch": batch}).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("claim commands: %w", err)
	}
	due := make([]command, len(rows))
	for i, r := range rows {
		due[i] = command{id: r.ID, kind: r.Kind, tries: r.Attempts, callID: r.CallID, consultationID: r.ConsultationID,
			lawyerID: r.LawyerID, language: r.Language, ended: r.Ended}
		if err := json.Unmarshal([]byte(r.Args), &due[i].args); err != nil {
			return nil, fmt.Errorf("read command %s: %w", r.ID, err)
		}
	}
	return due, nil
}

func settle(ctx context.Context, tx postgres.Tx, commandID string, r settlement) error {
	var doneAt *time.Time
	if r.done {
		doneAt = &tx.Now
	}
	err := tx.Gorm(ctx).Exec("UPDATE call_commands SET done_at = ?, claimed_until = NULL, last_error = ?, due_at = GREATEST(due_at, ?) WHERE id = ?",
		doneAt, null(r.fault), tx.Now.Add(r.after), commandID).Error
	if err != nil {
		return fmt.Errorf("settle command: %w", err)
	}
	return nil
}

// claimSilent lists calls without an event for the time of silence, and counts the question as one, so that each is
// asked about once per time of silence and by one replica.
func claimSilent(ctx context.Context, tx postgres.Tx) ([]string, error) {
	var ids []string
	err := tx.Gorm(ctx).Raw(`WITH silent AS MATERIALIZED (
			SELECT id FROM calls WHERE state <> 'ENDED' AND last_event_at <= ? ORDER BY last_event_at LIMIT ? FOR UPDATE SKIP LOCKED)
		UPDATE calls SET last_event_at = ? FROM silent WHERE calls.id = silent.id RETURNING calls.id`,
		tx.Now.Add(-Silence), batch, tx.Now).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("list silent calls: %w", err)
	}
	return ids, nil
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
