package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

// share is how many attempts may begin at an endpoint that may not have its full share.
type share struct {
	ApplicationID string `json:"application_id"`
	Room          int    `json:"room"`
}

type claim struct {
	now        time.Time
	leaseUntil time.Time
	token      string
	room       int // attempts per endpoint that is not in shares
	shares     []share
	limit      int // deliveries in all
}

type claimedRow struct {
	ID                   string
	ApplicationID        string
	ConsultationID       string
	Type                 Type
	Sequence             int64
	Attempts             int
	ScheduleFrom         int
	CreatedAt            time.Time
	Body                 []byte
	URL                  string
	SecretSealed         []byte
	PreviousSecretSealed []byte // null when none is in force
}

// claimSQL walks the applications that have pending deliveries (one index probe each), leaves out those whose
// deliveries are held, and takes from each of the rest, in random order, as many due deliveries as it has room for.
// A first attempt waits for the first attempts of earlier events of its consultation.
const claimSQL = `
WITH RECURSIVE waiting AS (
	(SELECT application_id FROM webhook_deliveries WHERE state = 'PENDING' ORDER BY application_id LIMIT 1)
	UNION ALL
	SELECT (SELECT d.application_id FROM webhook_deliveries d
		WHERE d.state = 'PENDING' AND d.application_id > w.application_id ORDER BY d.application_id LIMIT 1)
	FROM waiting w WHERE w.application_id IS NOT NULL
), ready AS MATERIALIZED (
	SELECT e.application_id, e.url, e.secret_sealed,
		CASE WHEN e.previous_secret_until > @now THEN e.previous_secret_sealed END AS previous_secret_sealed,
		coalesce(s.room, @room) AS room
	FROM waiting w
	JOIN webhook_endpoints e ON e.application_id = w.application_id AND e.url IS NOT NULL AND e.disabled_at IS NULL
	JOIN applications a ON a.id = w.application_id AND a.suspended_at IS NULL
	LEFT JOIN json_to_recordset(CAST(@shares AS json)) AS s (application_id text, room integer) ON s.application_id = w.application_id
	WHERE coalesce(s.room, @room) > 0
	ORDER BY random()
), picked AS MATERIALIZED (
	SELECT p.id FROM ready r CROSS JOIN LATERAL (
		SELECT d.id FROM webhook_deliveries d
		WHERE d.application_id = r.application_id AND d.state = 'PENDING' AND d.next_at <= @now
			AND (d.attempts > 0 OR NOT EXISTS (
				SELECT 1 FROM webhook_deliveries earlier
				WHERE earlier.consultation_id = d.consultation_id AND earlier.sequence < d.sequence AND earlier.attempts = 0))
		ORDER BY d.next_at LIMIT r.room
		FOR UPDATE SKIP LOCKED) p
	LIMIT @limit
)
UPDATE webhook_deliveries d SET next_at = @lease, lease_token = @token
FROM picked p, ready r, webhook_events e
WHERE d.id = p.id AND r.application_id = d.application_id AND e.id = d.event_id
RETURNING d.id, d.application_id, coalesce(d.consultation_id, '') AS consultation_id, e.type, d.sequence, d.attempts,
	d.schedule_from, d.created_at, e.body,
	r.url, r.secret_sealed, r.previous_secret_sealed`

// claimDue leases due deliveries. Two processes never hold the same one: the lock is skipped by the other, and after the
// commit the delivery is not due until the lease ends.
func claimDue(ctx context.Context, tx postgres.Tx, c claim) ([]claimedRow, error) {
	if c.shares == nil {
		c.shares = []share{}
	}
	shares, err := json.Marshal(c.shares)
	if err != nil {
		return nil, fmt.Errorf("encode shares: %w", err)
	}
	var rows []claimedRow
	err = tx.Gorm(ctx).Raw(claimSQL, map[string]any{
		"now": c.now, "room": c.room, "shares": string(shares), "limit": c.limit, "lease": c.leaseUntil, "token": c.token,
	}).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return rows, nil
}

// completion is one result as the database takes it.
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
	URL           string `json:"url"` // results from a replaced URL say nothing about the new one
	OK            bool   `json:"ok"`
	Gone          bool   `json:"gone"`
}

// completeSQL records results whose lease still holds, logs the attempts, and updates the health of endpoints only
// where it changes.
const completeSQL = `
WITH result AS (
	SELECT * FROM json_to_recordset(CAST(@results AS json)) AS r (id text, token text, attempt integer, state text,
		next_at timestamptz, started_at timestamptz, duration_ms integer, status_code integer, error text, response_body text)
), done AS (
	UPDATE webhook_deliveries d SET state = r.state, attempts = r.attempt, next_at = r.next_at, lease_token = NULL,
		ended_at = CASE WHEN r.state <> 'PENDING' THEN CAST(@now AS timestamptz) END
	FROM result r WHERE d.id = r.id AND d.lease_token = r.token
	RETURNING d.id
), logged AS (
	INSERT INTO webhook_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
	SELECT r.id, r.attempt, r.started_at, r.duration_ms, r.status_code, r.error, r.response_body
	FROM result r JOIN done USING (id)
), seen AS (
	SELECT * FROM json_to_recordset(CAST(@health AS json)) AS h (application_id text, url text, ok boolean, gone boolean)
), changed AS (
	UPDATE webhook_endpoints e SET
		failing_since = CASE WHEN NOT h.ok THEN coalesce(e.failing_since, CAST(@now AS timestamptz)) END,
		disabled_at = CASE WHEN h.gone OR NOT h.ok AND e.failing_since <= @cutoff THEN CAST(@now AS timestamptz) END,
		disabled_reason = CASE WHEN h.gone THEN @reason_gone WHEN NOT h.ok AND e.failing_since <= @cutoff THEN @reason_failing END
	FROM seen h
	WHERE e.application_id = h.application_id AND e.url = h.url AND e.disabled_at IS NULL
		AND (h.gone OR h.ok AND e.failing_since IS NOT NULL
			OR NOT h.ok AND (e.failing_since IS NULL OR e.failing_since <= @cutoff))
	RETURNING e.application_id, e.disabled_reason
)
SELECT 'delivery' AS kind, id, NULL AS reason FROM done
UNION ALL
SELECT 'disabled', application_id, disabled_reason FROM changed WHERE disabled_reason IS NOT NULL`

// completed tells what [complete] did.
type completed struct {
	recorded map[string]bool   // deliveries; the others had lost their lease
	disabled map[string]string // applications whose endpoint was disabled, with the reason
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
	var rows []struct{ Kind, ID, Reason string }
	err = tx.Gorm(ctx).Raw(completeSQL, map[string]any{
		"results": string(resultsJSON), "health": string(seenJSON), "now": tx.Now, "cutoff": tx.Now.Add(-DisableAfter),
		"reason_gone": DisabledGone, "reason_failing": DisabledFailing,
	}).Scan(&rows).Error
	if err != nil {
		return completed{}, fmt.Errorf("record attempts: %w", err)
	}
	out := completed{recorded: map[string]bool{}, disabled: map[string]string{}}
	for _, r := range rows {
		if r.Kind == "disabled" {
			out.disabled[r.ID] = r.Reason
			continue
		}
		out.recorded[r.ID] = true
	}
	return out, nil
}
