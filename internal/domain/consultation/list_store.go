package consultation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// page selects at most limit consultations before a position (zero for the newest), newest first.
func page(q *gorm.DB, before Position, limit int) ([]openRow, error) {
	if before.ID != "" {
		q = q.Where("(c.created_at, c.id) < (?, ?)", before.CreatedAt, before.ID)
	}
	var list []openRow
	if err := q.Order("c.created_at DESC, c.id DESC").Limit(limit).Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list consultations: %w", err)
	}
	return list, nil
}

func list(ctx context.Context, tx postgres.Tx, applicationID, clientID string, f ListFilter, before Position,
	limit int,
) ([]openRow, error) {
	q := openRows(ctx, tx).Where("c.application_id = ? AND c.client_id = ?", applicationID, clientID)
	switch f.Status { // literals, for the indexes on each final status and on open ones
	case "":
	case Completed:
		q = q.Where("c.status = 'COMPLETED'")
	case Cancelled:
		q = q.Where("c.status = 'CANCELLED'")
	case Expired:
		q = q.Where("c.status = 'EXPIRED'")
	default:
		q = q.Where("c.status = ? AND c."+isOpen, f.Status)
	}
	if f.ExternalRef != "" {
		q = q.Where("c.external_ref = ?", f.ExternalRef)
	}
	if !f.CreatedAfter.IsZero() {
		q = q.Where("c.created_at >= ?", f.CreatedAfter)
	}
	if !f.CreatedBefore.IsZero() {
		q = q.Where("c.created_at < ?", f.CreatedBefore)
	}
	return page(q, before, limit)
}

// find orders by the IDs, which sort by creation time.
func find(ctx context.Context, tx postgres.Tx, f Filter, limit int) ([]Consultation, error) {
	q := rows(ctx, tx)
	for column, value := range map[string]string{
		"c.status": string(f.Status), "c.application_id": f.ApplicationID, "c.client_id": f.ClientID,
		"c.external_ref": f.ExternalRef,
	} {
		if value != "" {
			q = q.Where(column+" = ?", value)
		}
	}
	if f.Age > 0 {
		q = q.Where("c.created_at <= ?", tx.Now.Add(-f.Age))
	}
	if f.After != "" {
		q = q.Where("c.id < ?", f.After)
	}
	return many(q.Order("c.id DESC").Limit(limit))
}

func promised(ctx context.Context, tx postgres.Tx, limit int) ([]Consultation, error) {
	return many(rows(ctx, tx).Where("c.status IN ('PENDING_CALLBACK', 'ASSIGNED') AND c.callback_due_at IS NOT NULL").
		Order("c.callback_due_at, c.id").Limit(limit))
}

func inHands(ctx context.Context, tx postgres.Tx, lawyerIDs []string) ([]Consultation, error) {
	return many(rows(ctx, tx).Where("c.status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED') AND c.lawyer_id IN ?",
		lawyerIDs).Order("c.assigned_at, c.id"))
}

// otherNotes reports whether the lawyer has another note to write for which fewer reminders than the given number were
// sent.
func otherNotes(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string, reminders int) (bool, error) {
	_, err := gorm.G[row](tx.Gorm(ctx)).Select("id").
		Where("lawyer_id = ? AND status = 'CALL_ENDED' AND reminders < ? AND id <> ?", lawyerID, reminders,
			consultationID).Take(ctx)
	if postgres.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// missingNotes lists consultations for whose note at least the given number of reminders were sent, oldest first.
func missingNotes(ctx context.Context, tx postgres.Tx, reminders, limit int) ([]Consultation, error) {
	return many(rows(ctx, tx).Where("c.status = 'CALL_ENDED' AND c.reminders >= ?", reminders).Order("c.call_ended_at").
		Limit(limit))
}

func countMissingNotes(ctx context.Context, tx postgres.Tx, reminders int) (int, error) {
	n, err := gorm.G[row](tx.Gorm(ctx)).Where("status = 'CALL_ENDED' AND reminders >= ?", reminders).Count(ctx, "*")
	if err != nil {
		return 0, fmt.Errorf("count missing notes: %w", err)
	}
	return int(n), nil
}

// due is a consultation whose timer is due.
type due struct {
	ID      string
	Status  Status
	TimerAt time.Time
}

// dueTimers lists consultations whose timer is due, most overdue first. It starts after the given item.
func dueTimers(ctx context.Context, tx postgres.Tx, after due, limit int) ([]due, error) {
	var list []due
	err := gorm.G[row](tx.Gorm(ctx)).
		Where("timer_at <= ? AND (timer_at, id) > (?, ?)", tx.Now, after.TimerAt, after.ID).
		Order("timer_at, id").Limit(limit).Scan(ctx, &list)
	if err != nil {
		return nil, fmt.Errorf("list due timers: %w", err)
	}
	return list, nil
}

// postpone moves the due timer of a consultation that cannot be handled to until, so that it does not crowd out others.
func postpone(ctx context.Context, tx postgres.Tx, consultationID string, until time.Time) error {
	free := tx.Gorm(ctx).Model(&row{}).Clauses(postgres.SkipLocked).Select("id").Where("id = ? AND timer_at <= ?",
		consultationID, tx.Now)
	_, err := gorm.G[row](tx.Gorm(ctx)).Where("id = (?)", free).Update(ctx, "timer_at", until)
	if err != nil {
		return fmt.Errorf("postpone the timer of %s: %w", consultationID, err)
	}
	return nil
}

// waiting selects consultations c that can be offered now:
//   - A callback only in the hours of the client's day.
//   - Not while another consultation of the client is on offer, assigned or in call: a client is served one at a time.
//   - If the client did not answer, not before the time of the next attempt.
func waiting(now time.Time) func(*gorm.DB) *gorm.DB {
	return func(q *gorm.DB) *gorm.DB {
		return q.Where(`c.status IN ('MATCHING', 'PENDING_CALLBACK') AND (c.status = 'MATCHING' OR c.callable_from <= ? AND c.callable_until > ?)
			AND (c.next_dial_at IS NULL OR c.next_dial_at <= ?)
			AND NOT EXISTS (SELECT FROM offers o WHERE o.client_id = c.client_id AND o.state = 'OPEN')
			AND NOT EXISTS (SELECT FROM consultations e WHERE e.client_id = c.client_id AND e.status IN ('ASSIGNED', 'IN_CALL'))`, now, now, now)
	}
}

// searching is a consultation that can be offered, with the number of offers that failed.
type searching struct {
	Consultation
	failures int
}

// searchingRow is a row of consultations with the number of failed offers.
type searchingRow struct {
	Row      row `gorm:"embedded"`
	Failures int
}

var searchingColumns = columns + `, (SELECT count(*) FROM offers o WHERE o.consultation_id = c.id
	AND (o.state IN ('DECLINED', 'EXPIRED') OR o.returned_at IS NOT NULL)) AS failures`

func manySearching(q *gorm.DB) ([]searching, error) {
	var list []searchingRow
	if err := q.Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list waiting consultations: %w", err)
	}
	out := make([]searching, len(list))
	for i, r := range list {
		out[i] = searching{fromRow(r.Row), r.Failures}
	}
	return out, nil
}

// lockWaiting locks a consultation that can be offered. ok is false if it cannot be offered or is locked.
func lockWaiting(ctx context.Context, tx postgres.Tx, consultationID string) (c searching, ok bool, err error) {
	free := clause.Locking{Strength: clause.LockingStrengthUpdate, Table: clause.Table{Name: "c"},
		Options: clause.LockingOptionsSkipLocked}
	r, err := one[searchingRow](tx.Gorm(ctx).Clauses(free).Table("consultations c").Select(searchingColumns).
		Where("c.id = ?", consultationID).Scopes(waiting(tx.Now)))
	if errors.Is(err, problem.ErrNotFound) {
		return searching{}, false, nil
	}
	return searching{fromRow(r.Row), r.Failures}, err == nil, err
}

// figures are the values of the search metrics.
type figures struct{ Matching, Callback, Oldest, Offers float64 } // counts, except Oldest, which is in seconds

var figuresSQL = postgres.SQL(postgres.Report,
	`SELECT count(*) FILTER (WHERE status = 'MATCHING'), count(*) FILTER (WHERE status = 'PENDING_CALLBACK'),
		coalesce(extract(epoch FROM $1::timestamptz - min(search_started_at)), 0)::float8, (SELECT count(*) FROM offers WHERE state = 'OPEN')
	FROM consultations WHERE status IN ('MATCHING', 'PENDING_CALLBACK')`)

func readFigures(ctx context.Context, tx postgres.Tx) (f figures, err error) {
	if err := tx.QueryRow(ctx, figuresSQL, tx.Now).Scan(&f.Matching, &f.Callback, &f.Oldest, &f.Offers); err != nil {
		return figures{}, fmt.Errorf("count what waits: %w", err)
	}
	return f, nil
}

// waitingPairsSQL finds the pairs with waiting consultations, with one index lookup per pair.
var waitingPairsSQL = postgres.SQL(postgres.Report, `WITH RECURSIVE pairs AS (
		(SELECT competence, language FROM consultations WHERE status IN ('MATCHING', 'PENDING_CALLBACK') AND crew IS NULL
			ORDER BY competence, language LIMIT 1)
		UNION ALL
		SELECT next.competence, next.language FROM pairs CROSS JOIN LATERAL (
			SELECT c.competence, c.language FROM consultations c WHERE c.status IN ('MATCHING', 'PENDING_CALLBACK') AND c.crew IS NULL
				AND (c.competence, c.language) > (pairs.competence, pairs.language)
			ORDER BY c.competence, c.language LIMIT 1) next
	) SELECT competence, language FROM pairs`)

// waitingPairs lists the pairs in which work waits for shared lawyers.
func waitingPairs(ctx context.Context, tx postgres.Tx) ([]matching.Pair, error) {
	pairs, err := postgres.Query[matching.Pair](ctx, tx, waitingPairsSQL)
	if err != nil {
		return nil, fmt.Errorf("list pairs with waiting work: %w", err)
	}
	return pairs, nil
}

// lockWaitingOf locks the waiting consultations of an application.
func lockWaitingOf(ctx context.Context, tx postgres.Tx, applicationID string) error {
	_, err := gorm.G[row](tx.Gorm(ctx), postgres.ForUpdate).Select("id").
		Where("application_id = ? AND status IN ('MATCHING', 'PENDING_CALLBACK')", applicationID).Order("id").Find(ctx)
	if err != nil {
		return fmt.Errorf("lock what waits for a lawyer: %w", err)
	}
	return nil
}

// waitingCrews lists the pairs in which work waits for lawyers of an application, by application.
func waitingCrews(ctx context.Context, tx postgres.Tx) (map[matching.Crew][]matching.Pair, error) {
	type queue struct {
		Crew                 matching.Crew
		Competence, Language string
	}
	var queues []queue
	err := tx.Gorm(ctx).Table("consultations").Distinct("crew", "competence", "language").
		Where("status IN ('MATCHING', 'PENDING_CALLBACK') AND crew IS NOT NULL AND crew <> ?", matching.Nobody).
		Order("crew, competence, language").Find(&queues).Error
	if err != nil {
		return nil, fmt.Errorf("list crews with waiting work: %w", err)
	}
	crews := map[matching.Crew][]matching.Pair{}
	for _, q := range queues {
		crews[q.Crew] = append(crews[q.Crew], matching.Pair{Competence: q.Competence, Language: q.Language})
	}
	return crews, nil
}

// lockCrew locks consultations that wait for a crew, or may come back to it.
func lockCrew(ctx context.Context, tx postgres.Tx, crew matching.Crew) ([]Consultation, error) {
	return many(rows(ctx, tx, postgres.ForUpdate).
		Where("c.crew = ? AND c.application_id = ? AND c.status IN ('MATCHING', 'PENDING_CALLBACK', 'ASSIGNED')",
			crew, crew).Order("c.id"))
}

// ofCrew selects consultations c that wait for a crew.
func ofCrew(crew matching.Crew) func(*gorm.DB) *gorm.DB {
	return func(q *gorm.DB) *gorm.DB {
		if crew == "" {
			return q.Where("c.crew IS NULL")
		}
		return q.Where("c.crew = ?", crew)
	}
}

// waitingOf lists the longest-waiting consultations of a pair for a crew.
func waitingOf(ctx context.Context, tx postgres.Tx, p matching.Pair, crew matching.Crew,
	limit int,
) ([]searching, error) {
	return manySearching(tx.Gorm(ctx).Table("consultations c").Select(searchingColumns).
		Where("c.competence = ? AND c.language = ?", p.Competence, p.Language).Scopes(waiting(tx.Now), ofCrew(crew)).
		Order("c.search_started_at").Limit(limit))
}

// waitingOfClient lists the oldest waiting consultations of a client, in the order of the index on the client's
// consultations.
func waitingOfClient(ctx context.Context, tx postgres.Tx, clientID string, limit int) ([]Consultation, error) {
	return many(rows(ctx, tx).Where("c.client_id = ?", clientID).Scopes(waiting(tx.Now)).Order("c.created_at, c.id").
		Limit(limit))
}

// waitingFor lists the longest-waiting consultations that may be offered to a lawyer. It looks at no more than limit
// consultations of each pair.
func waitingFor(ctx context.Context, tx postgres.Tx, l lawyer.Lawyer, limit int) ([]searching, error) {
	ofPair := tx.Gorm(ctx).Table("consultations c").Select(searchingColumns).
		Where("c.competence = p.competence AND c.language = p.language").Scopes(waiting(tx.Now), ofCrew(crewOf(l))).
		Where("NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.lawyer_id = p.lawyer_id AND "+
			matching.Barred("?")+")",
			matching.Repeat(tx.Now)).
		Order("c.search_started_at").Limit(limit)
	return manySearching(tx.Gorm(ctx).Table("lawyer_pairs p").Joins("CROSS JOIN LATERAL (?) c", ofPair).
		Select(columns+", c.failures").
		Where("p.lawyer_id = ?", l.ID).Order("c.search_started_at").Limit(limit))
}
