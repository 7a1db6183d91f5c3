package sandbox

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/lawyer"
	"partnerd/internal/postgres"
)

// chore is something a simulated lawyer has to do now.
type chore struct {
	kind      choreKind
	lease     lawyer.Lease // the lawyer's present one
	subjectID string       // an offer to accept, otherwise a consultation
	language  string
}

type choreKind string

const (
	accept choreKind = "accept"
	dial   choreKind = "dial"
	hangUp choreKind = "hang_up"
	write  choreKind = "write"
)

func (c chore) key() string { return string(c.kind) + " " + c.subjectID }

var choresSQL = postgres.SQL(postgres.Report, `
	SELECT 'accept' AS kind, o.lawyer_id, l.lease_epoch AS epoch, o.id AS subject_id, '' AS language, o.created_at AS since
	FROM offers o JOIN lawyers l ON l.id = o.lawyer_id AND l.simulated AND l.suspended_at IS NULL
	WHERE o.state = 'OPEN' AND o.created_at <= $2 AND o.expires_at > $1
	UNION ALL
	SELECT 'dial', c.lawyer_id, l.lease_epoch, c.id, c.language, c.assigned_at
	FROM consultations c JOIN lawyers l ON l.id = c.lawyer_id AND l.simulated AND l.suspended_at IS NULL
	WHERE c.status = 'ASSIGNED' AND c.assigned_at <= $3 AND c.dial_attempts = 0 AND c.next_dial_at IS NULL
		AND NOT EXISTS (SELECT FROM calls k WHERE k.client_id = c.client_id AND k.state <> 'ENDED')
	UNION ALL
	SELECT 'hang_up', c.lawyer_id, l.lease_epoch, c.id, c.language, k.bridged_at
	FROM consultations c JOIN lawyers l ON l.id = c.lawyer_id AND l.simulated
	JOIN calls k ON k.consultation_id = c.id AND k.state = 'BRIDGED' AND k.bridged_at <= $4
	WHERE c.status = 'IN_CALL'
	UNION ALL
	SELECT 'write', c.lawyer_id, l.lease_epoch, c.id, c.language, c.call_ended_at
	FROM consultations c JOIN lawyers l ON l.id = c.lawyer_id AND l.simulated AND l.suspended_at IS NULL
	WHERE c.status = 'CALL_ENDED' AND c.call_ended_at <= $5
	ORDER BY since LIMIT 200`)

// dueChores reads all of them in one statement. A consultation is dialled by its lawyer once; further attempts are the
// service's. Nobody dials a client who is on the line already, and who is suspended does nothing but hang up.
func dueChores(ctx context.Context, tx postgres.Tx, p Pace) ([]chore, error) {
	type row struct {
		Kind      choreKind
		LawyerID  string
		Epoch     int64
		SubjectID string
		Language  string
		Since     time.Time
	}
	rows, err := postgres.Query[row](ctx, tx, choresSQL, tx.Now, tx.Now.Add(-p.Accept), tx.Now.Add(-p.Dial), tx.Now.Add(-p.Talk), tx.Now.Add(-p.Write))
	if err != nil {
		return nil, fmt.Errorf("list what simulated lawyers have to do: %w", err)
	}
	due := make([]chore, len(rows))
	for i, r := range rows {
		due[i] = chore{kind: r.Kind, lease: lawyer.Lease{LawyerID: r.LawyerID, Epoch: r.Epoch}, subjectID: r.SubjectID, language: r.Language}
	}
	return due, nil
}

// lockIdle locks simulated lawyers who are out of work and have nothing in hand: those that follow on after.
func lockIdle(ctx context.Context, tx postgres.Tx, after string, limit int) (ids []string, err error) {
	err = tx.Gorm(ctx).Clauses(postgres.SkipLocked).Table("lawyers l").
		Where("l.id > ? AND l.simulated AND l.suspended_at IS NULL AND l.state IN ('OFFLINE', 'AWAY', 'WRAP_UP')", after).
		Where("NOT EXISTS (SELECT FROM offers o WHERE o.lawyer_id = l.id AND o.state = 'OPEN')").
		Where("NOT EXISTS (SELECT FROM consultations c WHERE c.lawyer_id = l.id AND c.status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED'))").
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
