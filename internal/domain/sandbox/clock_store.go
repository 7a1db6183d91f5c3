package sandbox

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

// stepsAging lists the columns of this package that move with an application's clock.
var stepsAging = []postgres.Aging{
	{Table: "sandbox_call_steps", Of: postgres.CallsOf, Instant: []string{"done_at", "due_at"},
		Inside: "event", Timer: "due_at", While: "done_at IS NULL"},
	{Table: "sandbox_payment_notices",
		Of:      "session_id IN (SELECT s.id FROM topup_sessions s WHERE s.application_id = ?)",
		Instant: []string{"delivered_at", "due_at"}, Timer: "due_at", While: "delivered_at IS NULL"},
}

// Parameters after those of choresText: application, time. A single statement sees one state of all tables. With two, a
// chore could become a command whose table was already read, and the clock would miss it.
var nextSQL = postgres.SQL(postgres.Report, `SELECT min(x.at) FROM (
	SELECT chore.due AS at FROM (`+choresText+
	`) chore JOIN consultations c ON c.id = chore.consultation_id WHERE c.application_id = $8
	UNION ALL
	`+postgres.Timers("$8", Aging...)+`) x WHERE x.at > $9`)

var oldestSQL = postgres.SQL(postgres.Report, postgres.Oldest("$1", Aging...))

// oldestOf returns the earliest time in an application's data, or nil if nothing in the data ages.
func oldestOf(ctx context.Context, tx postgres.Tx, applicationID string) (at *time.Time, err error) {
	if err := tx.QueryRow(ctx, oldestSQL, applicationID).Scan(&at); err != nil {
		return nil, fmt.Errorf("look for the oldest of an application: %w", err)
	}
	return at, nil
}

// next returns the first time after the given one at which something happens in the application, or nil if nothing
// will.
func (c *Clock) next(ctx context.Context, tx postgres.Tx, applicationID string,
	after time.Time,
) (at *time.Time, err error) {
	if err := tx.QueryRow(ctx, nextSQL, append(choreArgs(tx, c.Pace), applicationID, after)...).Scan(&at); err != nil {
		return nil, fmt.Errorf("look for what happens next to an application: %w", err)
	}
	return at, nil
}
