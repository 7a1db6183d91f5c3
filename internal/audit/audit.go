package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

// ErrIncomplete refuses an entry without an actor, an action or a reason.
var ErrIncomplete = errors.New("an audit entry needs an actor, an action and a reason")

// Entry is one thing that somebody did.
type Entry struct {
	ID        string // minted by [Record]
	Actor     string // who, for example "cli:anna"
	Action    string // what, for example "wallet.adjust"
	Subject   string // identifier of what it was done to
	Reason    string // why, in words
	Details   any    // written as JSON; nil for none
	CreatedAt time.Time
}

// Record adds an entry in the caller's transaction, last: entries of all transactions queue here.
func Record(ctx context.Context, tx postgres.Tx, e Entry) error {
	e.Actor, e.Reason = strings.TrimSpace(e.Actor), strings.TrimSpace(e.Reason)
	if e.Actor == "" || e.Action == "" || e.Reason == "" {
		return ErrIncomplete
	}
	if e.Details == nil {
		e.Details = struct{}{}
	}
	details, err := json.Marshal(e.Details)
	if err != nil {
		return fmt.Errorf("write audit details: %w", err)
	}
	e.ID = tx.NewID(id.Audit)
	if err := insert(ctx, tx, e, string(details)); err != nil {
		return fmt.Errorf("record %s: %w", e.Action, err)
	}
	return nil
}

// List returns the newest entries first, at most limit. Details are [json.RawMessage].
func List(ctx context.Context, tx postgres.Tx, limit int) ([]Entry, error) {
	entries, err := newest(ctx, tx, limit)
	if err != nil {
		return nil, fmt.Errorf("list audit entries: %w", err)
	}
	return entries, nil
}

// Verify says in plain words which entries were changed or removed; nothing when none was.
func Verify(ctx context.Context, tx postgres.Tx) ([]string, error) {
	findings, err := broken(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("verify the audit entries: %w", err)
	}
	return findings, nil
}
