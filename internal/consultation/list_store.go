package consultation

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/matching"
	"partnerd/internal/postgres"
)

func list(ctx context.Context, tx postgres.Tx, applicationID, clientID string, status Status, before Position, limit int) ([]row, error) {
	q := tx.Gorm(ctx).Table("consultations c").Select(openColumns).Where("c.application_id = ? AND c.client_id = ?", applicationID, clientID)
	if status != "" {
		q = q.Where("c.status = ?", status)
	}
	if before.ID != "" {
		q = q.Where("(c.created_at, c.id) < (?, ?)", before.CreatedAt, before.ID)
	}
	var rows []row
	if err := q.Order("c.created_at DESC, c.id DESC").Limit(limit).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("list consultations: %w", err)
	}
	return rows, nil
}

func inHands(ctx context.Context, tx postgres.Tx, lawyerIDs []string) ([]Consultation, error) {
	return many(ctx, tx, `SELECT `+columns+` FROM consultations c
		WHERE c.status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED') AND c.lawyer_id IN ? ORDER BY c.assigned_at, c.id`, lawyerIDs)
}

// otherNotes tells whether the lawyer has another note to write, fewer than reminders of which were sent.
func otherNotes(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string, reminders int) (found bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT EXISTS (SELECT FROM consultations WHERE lawyer_id = ? AND status = 'CALL_ENDED' AND reminders < ? AND id <> ?)`,
		lawyerID, reminders, consultationID).Scan(&found).Error
	return found, err
}

// missingNotes lists what at least so many reminders were sent for, the oldest first.
func missingNotes(ctx context.Context, tx postgres.Tx, reminders, limit int) ([]Consultation, error) {
	return many(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.status = 'CALL_ENDED' AND c.reminders >= ?
		ORDER BY c.call_ended_at LIMIT ?`, reminders, limit)
}

func countMissingNotes(ctx context.Context, tx postgres.Tx, reminders int) (n int, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT count(*) FROM consultations WHERE status = 'CALL_ENDED' AND reminders >= ?`, reminders).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("count missing notes: %w", err)
	}
	return n, nil
}

// due is a consultation whose timer is due.
type due struct {
	ID      string
	Status  Status
	TimerAt time.Time
}

// dueTimers lists consultations whose timer is due, the longest overdue first: those that follow on after.
func dueTimers(ctx context.Context, tx postgres.Tx, after due, limit int) ([]due, error) {
	var list []due
	err := tx.Gorm(ctx).Raw(`SELECT id, status, timer_at FROM consultations WHERE timer_at <= ? AND (timer_at, id) > (?, ?) ORDER BY timer_at, id LIMIT ?`,
		tx.Now, after.TimerAt, after.ID, limit).Scan(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list due timers: %w", err)
	}
	return list, nil
}

// postpone has the timer of a consultation that cannot be handled looked at later, so that it does not crowd out others.
func postpone(ctx context.Context, tx postgres.Tx, consultationID string, until time.Time) error {
	err := tx.Gorm(ctx).Exec(`UPDATE consultations SET timer_at = ? WHERE id =
		(SELECT id FROM consultations WHERE id = ? AND timer_at <= ? FOR UPDATE SKIP LOCKED)`, until, consultationID, tx.Now).Error
	if err != nil {
		return fmt.Errorf("postpone the timer of %s: %w", consultationID, err)
	}
	return nil
}

// waiting is the condition that a consultation can be offered @now: a callback only in the hours of the client's day. A
// client is served one at a time: while one of his consultations is on offer, assigned or in call, the others wait
// their turn.
const waiting = `c.status IN ('MATCHING', 'PENDING_CALLBACK')
	AND (c.status = 'MATCHING' OR c.callable_from <= @now AND c.callable_until > @now)
	AND NOT EXISTS (SELECT FROM offers o WHERE o.client_id = c.client_id AND o.state = 'OPEN')
	AND NOT EXISTS (SELECT FROM consultations e WHERE e.client_id = c.client_id AND e.status IN ('ASSIGNED', 'IN_CALL'))`

// lockWaiting locks a consultation that can be offered; ok is false when it cannot, or somebody else is at it.
func lockWaiting(ctx context.Context, tx postgres.Tx, consultationID string) (c Consultation, ok bool, err error) {
	list, err := many(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.id = @id AND `+waiting+` FOR UPDATE OF c SKIP LOCKED`,
		map[string]any{"id": consultationID, "now": tx.Now})
	if err != nil || len(list) == 0 {
		return Consultation{}, false, err
	}
	return list[0], true, nil
}

// figures are what the metrics tell of the search.
type figures struct{ Matching, Callback, Oldest, Offers float64 } // numbers, but Oldest in seconds

func readFigures(ctx context.Context, tx postgres.Tx) (f figures, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT count(*) FILTER (WHERE status = 'MATCHING') AS matching, count(*) FILTER (WHERE status = 'PENDING_CALLBACK') AS callback,
			coalesce(extract(epoch FROM CAST(? AS timestamptz) - min(search_started_at)), 0) AS oldest,
			(SELECT count(*) FROM offers WHERE state = 'OPEN') AS offers
		FROM consultations WHERE status IN ('MATCHING', 'PENDING_CALLBACK')`, tx.Now).Scan(&f).Error
	if err != nil {
		return figures{}, fmt.Errorf("count what waits: %w", err)
	}
	return f, nil
}

// waitingPairs lists the pairs that consultations search in, by one look into the index for each.
func waitingPairs(ctx context.Context, tx postgres.Tx) ([]matching.Pair, error) {
	var pairs []matching.Pair
	err := tx.Gorm(ctx).Raw(`WITH RECURSIVE pairs AS (
			(SELECT competence, language FROM consultations WHERE status IN ('MATCHING', 'PENDING_CALLBACK')
				ORDER BY competence, language LIMIT 1)
			UNION ALL
			SELECT next.competence, next.language FROM pairs CROSS JOIN LATERAL (
				SELECT c.competence, c.language FROM consultations c WHERE c.status IN ('MATCHING', 'PENDING_CALLBACK')
					AND (c.competence, c.language) > (pairs.competence, pairs.language)
				ORDER BY c.competence, c.language LIMIT 1) next
		) SELECT competence, language FROM pairs`).Scan(&pairs).Error
	if err != nil {
		return nil, fmt.Errorf("list pairs with waiting work: %w", err)
	}
	return pairs, nil
}

// waitingOf lists the oldest waiting work of a pair.
func waitingOf(ctx context.Context, tx postgres.Tx, p matching.Pair, limit int) ([]Consultation, error) {
	return many(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.competence = @competence AND c.language = @language AND `+waiting+`
		ORDER BY c.search_started_at LIMIT @limit`,
		map[string]any{"competence": p.Competence, "language": p.Language, "limit": limit, "now": tx.Now})
}

// waitingOfClient lists the oldest waiting work of a client, in the order of the index of his consultations.
func waitingOfClient(ctx context.Context, tx postgres.Tx, clientID string, limit int) ([]Consultation, error) {
	return many(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.client_id = @client AND `+waiting+`
		ORDER BY c.created_at, c.id LIMIT @limit`,
		map[string]any{"client": clientID, "limit": limit, "now": tx.Now})
}

// waitingFor lists the oldest waiting work that may be offered to a lawyer, of each of his pairs at most limit.
func waitingFor(ctx context.Context, tx postgres.Tx, lawyerID string, limit int) ([]Consultation, error) {
	return many(ctx, tx, `SELECT `+columns+` FROM lawyer_pairs p CROSS JOIN LATERAL (
			SELECT c.* FROM consultations c WHERE c.competence = p.competence AND c.language = p.language AND `+waiting+`
				AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.lawyer_id = p.lawyer_id AND `+matching.Barred+`)
			ORDER BY c.search_started_at LIMIT @limit) c
		WHERE p.lawyer_id = @lawyer ORDER BY c.search_started_at LIMIT @limit`,
		map[string]any{"lawyer": lawyerID, "limit": limit, "now": tx.Now, "repeat": matching.Repeat(tx.Now)})
}

func many(ctx context.Context, tx postgres.Tx, query string, args ...any) ([]Consultation, error) {
	var rows []row
	if err := tx.Gorm(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("list consultations: %w", err)
	}
	out := make([]Consultation, len(rows))
	for i, r := range rows {
		out[i] = fromRow(r)
	}
	return out, nil
}

// waits reads the facts that an estimate for a pair is made from.
func waits(ctx context.Context, tx postgres.Tx, p matching.Pair) (matching.Waits, error) {
	var r struct{ Median, Entered, Oldest *float64 } // seconds
	err := tx.Gorm(ctx).Raw(`SELECT
		(SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM o.ended_at - o.created_at))
			FROM consultations c JOIN offers o ON o.consultation_id = c.id AND o.state = 'ACCEPTED' AND o.ended_at > @hour
			WHERE c.competence = @competence AND c.language = @language AND c.assigned_at > @hour) AS median,
		(SELECT extract(epoch FROM c.assigned_at - c.search_started_at) FROM consultations c
			WHERE c.competence = @competence AND c.language = @language AND c.assigned_at > @half
			ORDER BY c.assigned_at DESC LIMIT 1) AS entered,
		(SELECT extract(epoch FROM CAST(@now AS timestamptz) - min(c.search_started_at)) FROM consultations c
			WHERE c.competence = @competence AND c.language = @language AND c.status IN ('MATCHING', 'PENDING_CALLBACK')) AS oldest`,
		map[string]any{
			"competence": p.Competence, "language": p.Language, "now": tx.Now,
			"hour": tx.Now.Add(-time.Hour), "half": tx.Now.Add(-30 * time.Minute),
		}).Scan(&r).Error
	if err != nil {
		return matching.Waits{}, fmt.Errorf("read waits: %w", err)
	}
	return matching.Waits{MedianAccept: duration(r.Median), LastEnteredWait: duration(r.Entered), OldestWaiting: duration(r.Oldest)}, nil
}

func duration(sec *float64) *time.Duration {
	if sec == nil {
		return nil
	}
	d := time.Duration(*sec * float64(time.Second))
	return &d
}
