package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// ErrRepeated refuses a second entry with the identifier of the first: the transaction cannot go on then.
var ErrRepeated = errors.New("this was done already")

// ErrIncomplete refuses an entry without an actor, an action or a reason.
var ErrIncomplete = errors.New("an audit entry needs an actor, an action and a reason")

// Entry is one thing that somebody did.
type Entry struct {
	ID        string // minted by [Record], unless whoever must not do a thing twice has chosen it
	Seq       int64  // from 1, without gaps; given by [Record]
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
	if e.ID == "" {
		e.ID = tx.NewID(id.Audit)
	}
	err = insert(ctx, tx, e, string(details))
	if postgres.IsUnique(err, "audit_entries_id_key") {
		return ErrRepeated
	}
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Action, err)
	}
	return nil
}

// List returns the newest entries first, at most limit, after the one with number before (0: from the newest), about
// a subject unless that is empty. Details are [json.RawMessage].
func List(ctx context.Context, tx postgres.Tx, subject string, before int64, limit int) ([]Entry, error) {
	entries, err := newest(ctx, tx, subject, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list audit entries: %w", err)
	}
	return entries, nil
}

// Latest is when an action was done last; zero for never.
func Latest(ctx context.Context, tx postgres.Tx, action string) (time.Time, error) {
	at, err := latest(ctx, tx, action)
	if err != nil {
		return at, fmt.Errorf("read the audit: %w", err)
	}
	return at, nil
}

// Has tells whether there is an entry of that identifier.
func Has(ctx context.Context, tx postgres.Tx, entryID string) (bool, error) {
	return has(ctx, tx, entryID)
}

// Link is an entry as it is chained. Hash is the SHA-256 of the hash before (nothing for the first entry) and Hashed, a
// JSON array of number, identifier, actor, action, subject, reason, details and time.
type Link struct {
	Seq    int64
	Hashed string
	Hash   []byte
}

// Links returns the entries after the one with number after (0: from the first), in order, at most limit.
func Links(ctx context.Context, tx postgres.Tx, after int64, limit int) ([]Link, error) {
	list, err := links(ctx, tx, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read the chain of audit entries: %w", err)
	}
	return list, nil
}

// Verify says in plain words which entries were changed or removed; nothing when none was.
func Verify(ctx context.Context, tx postgres.Tx) ([]string, error) {
	findings, err := broken(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("verify the audit entries: %w", err)
	}
	return findings, nil
}
