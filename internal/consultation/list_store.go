package consultation

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/matching"
	"partnerd/internal/postgres"
)

func list(ctx context.Context, tx postgres.Tx, applicationID, clientID string, status Status, before Position, limit int) ([]row, error) {
	q := tx.Gorm(ctx).Table("consultations c").Select(columns).Where("c.application_id = ? AND c.client_id = ?", applicationID, clientID)
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

// dueTimers lists consultations whose timer is due, the longest overdue first.
func dueTimers(ctx context.Context, tx postgres.Tx, limit int) ([]string, error) {
	var ids []string
	err := tx.Gorm(ctx).Raw(`SELECT id FROM consultations WHERE timer_at <= ? ORDER BY timer_at LIMIT ?`, tx.Now, limit).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("list due timers: %w", err)
	}
	return ids, nil
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

// waiting is what may be offered at the time that is given twice: a callback only in the hours of the client's day.
const waiting = `c.status IN ('MATCHING', 'PENDING_CALLBACK')
	AND (c.status = 'MATCHING' OR c.callable_from <= ? AND c.callable_until > ?)
	AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.state = 'OPEN')`

// waitingPairs lists what is waited for and not on offer.
func waitingPairs(ctx context.Context, tx postgres.Tx) ([]matching.Pair, error) {
	var pairs []matching.Pair
	err := tx.Gorm(ctx).Raw(`SELECT DISTINCT c.competence, c.language FROM consultations c WHERE `+waiting, tx.Now, tx.Now).Scan(&pairs).Error
	if err != nil {
		return nil, fmt.Errorf("list pairs with waiting work: %w", err)
	}
	return pairs, nil
}

// waitingOf lists the oldest waiting work of a pair.
func waitingOf(ctx context.Context, tx postgres.Tx, p matching.Pair, limit int) ([]Consultation, error) {
	return many(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE c.competence = ? AND c.language = ? AND `+waiting+`
		ORDER BY c.search_started_at LIMIT ?`, p.Competence, p.Language, tx.Now, tx.Now, limit)
}

// waitingFor lists the oldest waiting work of a lawyer's pairs that he has not given back.
func waitingFor(ctx context.Context, tx postgres.Tx, lawyerID string, pairs []matching.Pair, limit int) ([]Consultation, error) {
	in := make([][]any, len(pairs))
	for i, p := range pairs {
		in[i] = []any{p.Competence, p.Language}
	}
	return many(ctx, tx, `SELECT `+columns+` FROM consultations c WHERE (c.competence, c.language) IN ? AND `+waiting+`
		AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.lawyer_id = ?
			AND (o.state = 'DECLINED' OR o.decline_reason IS NOT NULL))
		ORDER BY c.search_started_at LIMIT ?`, in, tx.Now, tx.Now, lawyerID, limit)
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
