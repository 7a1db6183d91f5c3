package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"partnerd/internal/postgres"
	"partnerd/internal/telephony"
)

// history is what happened in a call before a command.
type history struct {
	repeated       bool // the command came before
	joined, parted bool // both were joined; the line dropped
}

// historyOf locks the call's row against a twin of the command.
func historyOf(ctx context.Context, tx postgres.Tx, cmd telephony.Command) (history, error) {
	var h struct{ Repeated, Joined, Parted bool }
	err := tx.Gorm(ctx).Exec("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", cmd.CallID).Error
	if err != nil {
		return history{}, fmt.Errorf("lock simulated call: %w", err)
	}
	err = tx.Gorm(ctx).Raw(`SELECT
			COALESCE(bool_or(starts_with(id, @command || ':')), false) AS repeated,
			COALESCE(bool_or(event->>'kind' = 'BRIDGED'), false) AS joined,
			COALESCE(bool_or(event->>'kind' = 'UNBRIDGED'), false) AS parted
		FROM sandbox_call_steps WHERE call_id = @call`,
		map[string]any{"command": cmd.CommandID, "call": cmd.CallID}).Scan(&h).Error
	if err != nil {
		return history{}, fmt.Errorf("read simulated call: %w", err)
	}
	return history{repeated: h.Repeated, joined: h.Joined, parted: h.Parted}, nil
}

func insertStep(ctx context.Context, tx postgres.Tx, id string, e telephony.Event, due time.Time) error {
	event, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write simulated event: %w", err)
	}
	err = tx.Gorm(ctx).Exec("INSERT INTO sandbox_call_steps (id, call_id, event, due_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
		id, e.CallID, string(event), due).Error
	if err != nil {
		return fmt.Errorf("insert simulated event: %w", err)
	}
	return nil
}

// dropSteps takes back what would happen in a call after the given instant.
func dropSteps(ctx context.Context, tx postgres.Tx, callID string, after time.Time) error {
	err := tx.Gorm(ctx).Exec(`DELETE FROM sandbox_call_steps
		WHERE call_id = ? AND done_at IS NULL AND (event->>'at')::timestamptz > ?`, callID, after).Error
	if err != nil {
		return fmt.Errorf("drop simulated events: %w", err)
	}
	return nil
}

func pastEvents(ctx context.Context, tx postgres.Tx, callID string) ([]telephony.Event, error) {
	var rows []string
	err := tx.Gorm(ctx).Raw("SELECT event FROM sandbox_call_steps WHERE call_id = ? AND due_at <= ? ORDER BY due_at, id", callID, tx.Now).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list simulated events: %w", err)
	}
	events := make([]telephony.Event, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal([]byte(r), &events[i]); err != nil {
			return nil, fmt.Errorf("read simulated event: %w", err)
		}
	}
	return events, nil
}

func nextStep(ctx context.Context, tx postgres.Tx) (time.Time, bool, error) {
	var at []time.Time
	err := tx.Gorm(ctx).Raw(`SELECT GREATEST(due_at, COALESCE(claimed_until, due_at)) FROM sandbox_call_steps
		WHERE done_at IS NULL ORDER BY due_at LIMIT 1`).Scan(&at).Error
	if err != nil {
		return time.Time{}, false, fmt.Errorf("look for simulated events: %w", err)
	}
	if len(at) == 0 {
		return time.Time{}, false, nil
	}
	return at[0], true, nil
}

type dueStep struct {
	id    string
	event telephony.Event
	dueAt time.Time
	tries int // with this one
}

// stepClaim is how long a replica that claimed a step and died holds it back.
const stepClaim = 15 * time.Second

func claimSteps(ctx context.Context, tx postgres.Tx) ([]dueStep, error) {
	var rows []struct {
		ID    string
		Event string
		DueAt time.Time
		Tries int
	}
	err := tx.Gorm(ctx).Raw(`WITH due AS MATERIALIZED (
			SELECT id FROM sandbox_call_steps WHERE done_at IS NULL AND due_at <= @now AND (claimed_until IS NULL OR claimed_until <= @now)
			ORDER BY due_at LIMIT 64 FOR UPDATE SKIP LOCKED)
		UPDATE sandbox_call_steps s SET claimed_until = @until, tries = s.tries + 1 FROM due WHERE s.id = due.id
		RETURNING s.id, s.event, s.due_at, s.tries`,
		map[string]any{"now": tx.Now, "until": tx.Now.Add(stepClaim)}).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("claim simulated events: %w", err)
	}
	due := make([]dueStep, len(rows))
	for i, r := range rows {
		due[i] = dueStep{id: r.ID, dueAt: r.DueAt, tries: r.Tries}
		if err := json.Unmarshal([]byte(r.Event), &due[i].event); err != nil {
			return nil, fmt.Errorf("read simulated event %s: %w", r.ID, err)
		}
	}
	return due, nil
}

func settleStep(ctx context.Context, tx postgres.Tx, id string, done bool, again time.Duration) error {
	var doneAt *time.Time
	if done {
		doneAt = &tx.Now
	}
	err := tx.Gorm(ctx).Exec("UPDATE sandbox_call_steps SET claimed_until = ?, done_at = ? WHERE id = ?", tx.Now.Add(again), doneAt, id).Error
	if err != nil {
		return fmt.Errorf("settle simulated event: %w", err)
	}
	return nil
}
