package sandbox

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm/clause"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// chore is an action that a simulated lawyer has to do.
type chore struct {
	kind      choreKind
	lease     lawyer.Lease // the lawyer's current lease
	subjectID string       // an offer to accept, otherwise a consultation
	language  string
	due       time.Time
}

type choreKind string

const (
	accept choreKind = "accept"
	dial   choreKind = "dial"
	wait   choreKind = "wait"
	hangUp choreKind = "hang_up"
	write  choreKind = "write"

	decline  choreKind = "decline"
	withdraw choreKind = "withdraw"
	useless  choreKind = "useless"
	nothing  choreKind = "nothing"

	// Actions outside the lawyers' work, or after it.
	open    choreKind = "open"    // lawyers become available after all
	cancel  choreKind = "cancel"  // by the client
	correct choreKind = "correct" // the note
	refund  choreKind = "refund"  // by an operator
	over    choreKind = "over"    // it ended in another way, so none of these is due any longer
)

func (c chore) key() string { return string(c.kind) + " " + c.subjectID }

// choresText looks for open work by its partial indexes, looks up each lawyer, and applies the consultation's scenario.
// OFFSET 0 keeps the planner from starting with all lawyers.
//
// Parameters: now; five times in seconds; the scenarios from [ways]. The times are:
//   - From the offer to its acceptance.
//   - From the assignment to the call.
//   - The length of the call.
//   - From the end of the call to the note.
//   - The time for the choice to wait for another attempt.
var choresText = `
	WITH way AS MATERIALIZED (SELECT * FROM json_to_recordset($7::json) AS w (scenario text, offer text, assigned text, talk text, after text, wait float8, each boolean))
	SELECT * FROM (
	SELECT CASE WHEN EXISTS (SELECT FROM offers e WHERE e.consultation_id = o.consultation_id AND e.created_at < o.created_at) THEN 'accept'
			ELSE coalesce(w.offer, 'accept') END AS kind,
		o.lawyer_id, l.lease_epoch AS epoch, o.id AS subject_id, o.consultation_id, '' AS language, o.created_at + make_interval(secs => $2) AS due
	FROM offers o` + simulatedSQL("o.lawyer_id", "l.suspended_at IS NULL") + wayOf("o.consultation_id") + `
	WHERE o.state = 'OPEN' AND o.expires_at > $1
	UNION ALL
	SELECT CASE WHEN w.assigned IS NULL OR w.each IS NOT true AND (SELECT count(*) FROM offers e WHERE e.consultation_id = c.id AND e.state = 'ACCEPTED') > 1 THEN 'dial'
			ELSE w.assigned END, c.lawyer_id, l.lease_epoch, c.id, c.id, c.language, c.assigned_at + make_interval(secs => $3)
	FROM consultations c` + simulatedSQL("c.lawyer_id", "l.suspended_at IS NULL") + wayOf("c.id") + `
	WHERE c.status = 'ASSIGNED' AND (w.each AND w.assigned = 'withdraw' OR c.dial_attempts = 0 AND c.next_dial_at IS NULL
		AND NOT EXISTS (SELECT FROM calls k WHERE k.client_id = c.client_id AND k.state <> 'ENDED'))
	UNION ALL
	SELECT 'wait', c.lawyer_id, l.lease_epoch, c.id, c.id, c.language, c.choose_by - make_interval(secs => $6)
	FROM consultations c` + simulatedSQL("c.lawyer_id", "l.suspended_at IS NULL") + `
	WHERE c.status = 'ASSIGNED' AND c.choose_by IS NOT NULL
	UNION ALL
	SELECT coalesce(w.talk, 'hang_up'), c.lawyer_id, l.lease_epoch, c.id, c.id, c.language, k.bridged_at + make_interval(secs => $4)
	FROM calls k JOIN consultations c ON c.id = k.consultation_id AND c.status = 'IN_CALL'` +
	simulatedSQL("c.lawyer_id", "true") + wayOf("c.id") + `
	WHERE k.state = 'BRIDGED'
	UNION ALL
	SELECT coalesce(w.after, 'write'), c.lawyer_id, l.lease_epoch, c.id, c.id, c.language, c.call_ended_at + make_interval(secs => coalesce(w.wait, $5))
	FROM consultations c` + simulatedSQL("c.lawyer_id", "l.suspended_at IS NULL") + wayOf("c.id") + `
	WHERE c.status = 'CALL_ENDED'
	UNION ALL
	SELECT CASE WHEN c.status IN ('CANCELLED', 'EXPIRED') THEN 'over' ELSE p.act END, coalesce(c.lawyer_id, ''), coalesce(l.lease_epoch, 0), c.id, c.id, c.language,
		c.updated_at + make_interval(secs => $5)
	FROM sandbox_plays p JOIN consultations c ON c.id = p.consultation_id AND (c.status IN ('CANCELLED', 'EXPIRED')
		OR p.act = 'open' AND c.status = 'PENDING_CALLBACK' OR p.act = 'cancel' AND c.status IN ('MATCHING', 'PENDING_CALLBACK')
		OR p.act IN ('correct', 'refund') AND c.status = 'COMPLETED')
	LEFT JOIN lawyers l ON l.id = c.lawyer_id AND l.simulated
	WHERE p.act IS NOT NULL) chore WHERE kind <> 'nothing'`

var (
	choresSQL = postgres.SQL(postgres.Report, choresText+`
	ORDER BY due LIMIT 200`)

	// Parameter after those of choresText: consultation.
	choreOfSQL = postgres.SQL(postgres.Report, `SELECT min(x.due) FROM (`+choresText+`) x WHERE x.consultation_id = $8`)
)

func wayOf(consultationID string) string {
	return `
	LEFT JOIN sandbox_plays p ON p.consultation_id = ` + consultationID + ` LEFT JOIN way w ON w.scenario = p.scenario`
}

func simulatedSQL(id, condition string) string {
	return `
	CROSS JOIN LATERAL (SELECT l.lease_epoch FROM lawyers l WHERE l.id = ` + id + ` AND l.simulated AND ` + condition +
		` OFFSET 0) l`
}

// choreOf returns when the first chore of a consultation is due, or nil if there is none.
func choreOf(ctx context.Context, tx postgres.Tx, p Pace, consultationID string) (at *time.Time, err error) {
	if err := tx.QueryRow(ctx, choreOfSQL, append(choreArgs(tx, p), consultationID)...).Scan(&at); err != nil {
		return nil, fmt.Errorf("look for what comes next of a consultation: %w", err)
	}
	return at, nil
}

var playedWays = ways()

func choreArgs(tx postgres.Tx, p Pace) []any {
	return []any{tx.Now, p.Accept.Seconds(), p.Dial.Seconds(), p.Talk.Seconds(), p.Write.Seconds(),
		consultation.ChooseLimit.Seconds(), playedWays}
}

// chores reads all due and future chores in one statement, earliest first.
//
// A lawyer dials a consultation once; the service makes further attempts. No lawyer dials a client who is already on
// the line. A suspended lawyer only hangs up.
func chores(ctx context.Context, tx postgres.Tx, p Pace) ([]chore, error) {
	type row struct {
		Kind           choreKind
		LawyerID       string
		Epoch          int64
		SubjectID      string
		ConsultationID string
		Language       string
		Due            time.Time
	}
	rows, err := postgres.Query[row](ctx, tx, choresSQL, choreArgs(tx, p)...)
	if err != nil {
		return nil, fmt.Errorf("list what simulated lawyers have to do: %w", err)
	}
	list := make([]chore, len(rows))
	for i, r := range rows {
		list[i] = chore{kind: r.Kind, lease: lawyer.Lease{LawyerID: r.LawyerID, Epoch: r.Epoch}, subjectID: r.SubjectID,
			language: r.Language, due: r.Due}
	}
	return list, nil
}

// idleLawyers lists up to limit simulated lawyers after the ID after who should return to work. They are off duty, were
// not sent away by their application, and have nothing in hand except a note that is meant to be late.
func idleLawyers(ctx context.Context, tx postgres.Tx, after string, limit int,
	lock ...clause.Expression,
) (ids []string, err error) {
	err = tx.Gorm(ctx).Clauses(lock...).Table("lawyers l").
		Where("l.id > ? AND l.simulated AND l.suspended_at IS NULL AND l.state IN ('OFFLINE', 'AWAY', 'WRAP_UP')",
			after).
		Where("l.application_id IS NULL OR EXISTS (SELECT FROM sandbox_lawyers s WHERE s.lawyer_id = l.id AND NOT s.away)").
		Where("NOT EXISTS (SELECT FROM offers o WHERE o.lawyer_id = l.id AND o.state = 'OPEN')").
		Where(`NOT EXISTS (SELECT FROM consultations c WHERE c.lawyer_id = l.id AND c.status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED')
			AND NOT (c.status = 'CALL_ENDED' AND EXISTS (SELECT FROM sandbox_plays p WHERE p.consultation_id = c.id AND p.scenario IN ?)))`, lateNoteScenarios()).
		Order("l.id").Limit(limit).Pluck("l.id", &ids).Error
	if err != nil {
		return nil, fmt.Errorf("list simulated lawyers who come back: %w", err)
	}
	return ids, nil
}

func simulatedEmails(ctx context.Context, tx postgres.Tx) (emails []string, err error) {
	if err := tx.Gorm(ctx).Table("lawyers").Where("simulated").Pluck("email", &emails).Error; err != nil {
		return nil, fmt.Errorf("list simulated lawyers: %w", err)
	}
	return emails, nil
}
