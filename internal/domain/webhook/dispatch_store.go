package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"partnerd/internal/infra/postgres"
)

type claim struct {
	now        time.Time
	leaseUntil time.Time
	token      string
	room       int            // attempts that may start per endpoint, unless listed in rooms
	rooms      map[string]int // by application
	limit      int            // deliveries in total
}

type claimedRow struct {
	ID                   string
	ApplicationID        string
	ConsultationID       string
	ClientID             string // set for an event about a client
	Type                 Type
	Sequence             int64
	Attempts             int
	ScheduleFrom         int
	CreatedAt            time.Time
	Body                 []byte
	URL                  string
	SecretSealed         []byte
	PreviousSecretSealed []byte // null if none is in force
	TraceParent          string // span in which the event was written; empty for none
}

// Conditions with an index: all pending deliveries, and those that are not held.
const (
	pending = "d.state = 'PENDING'"
	ready   = "d.ended_at IS NULL AND NOT d.held"
)

// pendingSQL and readySQL list the applications with such deliveries, with one index probe for each application,
// followed by a null.
const (
	pendingSQL = waitingSQL + pending + waitingNextSQL + pending + waitingEndSQL
	readySQL   = waitingSQL + ready + waitingNextSQL + ready + waitingEndSQL

	waitingSQL = `
WITH RECURSIVE waiting AS (
	(SELECT d.application_id FROM webhook_deliveries d WHERE `
	waitingNextSQL = ` ORDER BY d.application_id LIMIT 1)
	UNION ALL
	SELECT (SELECT d.application_id FROM webhook_deliveries d WHERE `
	waitingEndSQL = ` AND d.application_id > w.application_id ORDER BY d.application_id LIMIT 1)
	FROM waiting w WHERE w.application_id IS NOT NULL
)`
)

// claimSQL lists the applications with ready deliveries and skips those that get none. For each of the rest, in random
// order, it claims as many due deliveries as there is capacity for. A first attempt waits for the first attempts of
// earlier events of its consultation.
//
// Parameters: now, room, rooms, limit, end of the lease, token.
var claimSQL = postgres.SQL(postgres.Claim, readySQL+`, `+postgres.Unhurried+`, process AS MATERIALIZED (
	SELECT CAST($3 AS jsonb) AS rooms
), ready AS MATERIALIZED (
	SELECT e.*, coalesce(CAST(p.rooms ->> e.application_id AS integer), $2) AS room
	FROM waiting w CROSS JOIN process p CROSS JOIN LATERAL (
		SELECT e.application_id, e.url, e.secret_sealed,
			CASE WHEN e.previous_secret_until > $1 THEN e.previous_secret_sealed END AS previous_secret_sealed
		FROM webhook_endpoints e JOIN applications a ON a.id = e.application_id
		WHERE e.application_id = w.application_id AND e.url IS NOT NULL AND e.disabled_at IS NULL AND a.suspended_at IS NULL
		LIMIT 1) e
	ORDER BY random()
), picked AS MATERIALIZED (
	SELECT p.id, r.url, r.secret_sealed, r.previous_secret_sealed FROM ready r CROSS JOIN LATERAL (
		SELECT d.id FROM webhook_deliveries d
		WHERE d.application_id = r.application_id AND `+ready+` AND d.next_at <= $1
			AND (d.lease_until IS NULL OR d.lease_until <= $1)
			AND (d.attempts > 0 OR NOT EXISTS (
				SELECT 1 FROM webhook_deliveries earlier
				WHERE earlier.consultation_id = d.consultation_id AND earlier.sequence < d.sequence AND earlier.attempts = 0))
		ORDER BY d.next_at LIMIT r.room
		FOR UPDATE SKIP LOCKED) p
	WHERE r.room > 0
	LIMIT $4
)
UPDATE webhook_deliveries d SET lease_until = $5, lease_token = $6
FROM picked p, webhook_events e, unhurried
WHERE d.id = p.id AND e.id = d.event_id
RETURNING d.id, d.application_id, coalesce(d.consultation_id, ''), coalesce(e.client_id, ''), e.type, d.sequence, d.attempts,
	d.schedule_from, d.created_at, e.body, p.url, p.secret_sealed, p.previous_secret_sealed, coalesce(e.trace_parent, '')`)

// claimDue leases due deliveries. Two processes never hold the same one. A concurrent claim skips the locked row; after
// the commit, no other process touches the delivery until its lease ends. A lease lost in a crash may cause a second
// attempt, like any crash before a result is recorded.
func claimDue(ctx context.Context, tx postgres.Tx, c claim) ([]claimedRow, error) {
	rooms, err := json.Marshal(c.rooms)
	if err != nil {
		return nil, fmt.Errorf("encode rooms: %w", err)
	}
	var out []claimedRow
	err = tx.Rows(ctx, claimSQL, func(rows *sql.Rows) error {
		var r claimedRow
		err := rows.Scan(&r.ID, &r.ApplicationID, &r.ConsultationID, &r.ClientID, &r.Type, &r.Sequence, &r.Attempts,
			&r.ScheduleFrom, &r.CreatedAt, &r.Body, &r.URL, &r.SecretSealed, &r.PreviousSecretSealed, &r.TraceParent)
		out = append(out, r)
		return err
	}, c.now, c.room, string(rooms), c.limit, c.leaseUntil, c.token)
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return out, nil
}

// completion is a result in the form that the statement expects.
type completion struct {
	ID           string    `json:"id"`
	Token        string    `json:"token"`
	Attempt      int       `json:"attempt"`
	State        State     `json:"state"`
	NextAt       time.Time `json:"next_at"`
	StartedAt    time.Time `json:"started_at"`
	DurationMs   int64     `json:"duration_ms"`
	StatusCode   *int      `json:"status_code"`
	Error        string    `json:"error"`
	ResponseBody string    `json:"response_body"`
}

// health is what a batch of results says about an endpoint.
type health struct {
	ApplicationID string `json:"application_id"`
	URL           string `json:"url"` // results of a replaced URL say nothing about the new one
	OK            bool   `json:"ok"`
	Gone          bool   `json:"gone"`
}

// completeSQL records results whose lease still holds, logs the attempts, and updates the health of endpoints only
// where it changes.
//
// Parameters: results, health, now, time before which a failure disables, reasons (gone, failing).
var completeSQL = postgres.SQL(postgres.Batch, `
WITH result AS (
	SELECT * FROM json_to_recordset(CAST($1 AS json)) AS r (id text, token text, attempt integer, state text,
		next_at timestamptz, started_at timestamptz, duration_ms integer, status_code integer, error text, response_body text)
), done AS (
	UPDATE webhook_deliveries d SET state = r.state, attempts = r.attempt, next_at = r.next_at, lease_token = NULL, lease_until = NULL,
		ended_at = CASE WHEN r.state <> 'PENDING' THEN CAST($3 AS timestamptz) END
	FROM result r WHERE d.id = r.id AND d.lease_token = r.token
	RETURNING r.*
), logged AS (
	INSERT INTO webhook_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
	SELECT id, attempt, started_at, duration_ms, status_code, error, response_body FROM done
), seen AS (
	SELECT * FROM json_to_recordset(CAST($2 AS json)) AS h (application_id text, url text, ok boolean, gone boolean)
), changed AS (
	UPDATE webhook_endpoints e SET
		failing_since = CASE WHEN NOT h.ok THEN coalesce(e.failing_since, CAST($3 AS timestamptz)) END,
		disabled_at = CASE WHEN h.gone OR NOT h.ok AND e.failing_since <= $4 THEN CAST($3 AS timestamptz) END,
		disabled_reason = CASE WHEN h.gone THEN $5 WHEN NOT h.ok AND e.failing_since <= $4 THEN $6 END
	FROM seen h
	WHERE e.application_id = ANY (ARRAY(SELECT application_id FROM seen)) -- a lookup, whatever the order of the join
		AND e.application_id = h.application_id AND e.url = h.url AND e.disabled_at IS NULL
		AND (h.gone OR h.ok AND e.failing_since IS NOT NULL
			OR NOT h.ok AND (e.failing_since IS NULL OR e.failing_since <= $4))
	RETURNING e.application_id, e.disabled_reason
)
SELECT id, '', '' FROM done
UNION ALL
SELECT '', application_id, disabled_reason FROM changed WHERE disabled_reason IS NOT NULL`)

// completed is the result of [complete].
type completed struct {
	recorded map[string]bool   // deliveries; all others had lost their lease
	disabled map[string]string // reasons by application whose endpoint was disabled
}

func complete(ctx context.Context, tx postgres.Tx, results []completion, seen []health) (completed, error) {
	resultsJSON, err := json.Marshal(results)
	if err != nil {
		return completed{}, fmt.Errorf("encode results: %w", err)
	}
	seenJSON, err := json.Marshal(seen)
	if err != nil {
		return completed{}, fmt.Errorf("encode health: %w", err)
	}
	out := completed{recorded: map[string]bool{}, disabled: map[string]string{}}
	err = tx.Rows(ctx, completeSQL, func(rows *sql.Rows) error {
		var delivery, application, reason string
		if err := rows.Scan(&delivery, &application, &reason); err != nil {
			return err
		}
		if delivery != "" {
			out.recorded[delivery] = true
		} else {
			out.disabled[application] = reason
		}
		return nil
	}, string(resultsJSON), string(seenJSON), tx.Now, tx.Now.Add(-DisableAfter), DisabledGone, DisabledFailing)
	if err != nil {
		return completed{}, fmt.Errorf("record attempts: %w", err)
	}
	return out, nil
}
