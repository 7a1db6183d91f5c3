package matching

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// offerRow is a row of offers.
type offerRow struct {
	ID             string     `gorm:"column:id;primaryKey"`
	ConsultationID string     `gorm:"column:consultation_id"`
	ClientID       string     `gorm:"column:client_id;serializer:zeronull"` // NULL in offers of older releases
	LawyerID       string     `gorm:"column:lawyer_id"`
	State          OfferState `gorm:"column:state"`
	// reason of a decline, or of a withdrawal after acceptance
	DeclineReason string     `gorm:"column:decline_reason;serializer:zeronull"`
	CreatedAt     time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt     time.Time  `gorm:"column:expires_at"`
	EndedAt       *time.Time `gorm:"column:ended_at"`
	ReturnedAt    *time.Time `gorm:"column:returned_at"` // when the accepted work left its lawyer without a call
	// 1 to 3; while a consultation has an open offer, one of them is in slot 1
	Slot       int        `gorm:"column:slot"`
	Why        Why        `gorm:"column:why;serializer:zeronull"`
	QueueSeen  *int       `gorm:"column:queue_seen"` // as they were when the offer was made
	QueuePlace *int       `gorm:"column:queue_place"`
	IdleSince  *time.Time `gorm:"column:idle_since"`
}

// TableName implements [schema.Tabler].
func (offerRow) TableName() string { return "offers" }

func fromRow(r offerRow) Offer {
	return Offer{ID: r.ID, ConsultationID: r.ConsultationID, LawyerID: r.LawyerID, Why: r.Why, State: r.State,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt}
}

// Barred returns the SQL condition that bars the lawyer of an offer o from being offered its consultation again; at is
// the placeholder of [Repeat].
func Barred(at string) string {
	return `(o.decline_reason <> '` + ReasonBusy + `' OR o.state = 'DECLINED' AND o.decline_reason IS NULL
	OR o.state IN ('DECLINED', 'EXPIRED', 'ACCEPTED') AND coalesce(o.returned_at, o.ended_at)
		+ CASE WHEN o.decline_reason = '` + ReasonBusy + `' THEN ` + busyLonger + ` ELSE interval '0' END > ` + at + `)`
}

// busyLonger is the difference between [BusyFor] and [RepeatAfter].
var busyLonger = fmt.Sprintf("interval '%d seconds'", (BusyFor-RepeatAfter)/time.Second)

// Repeat returns the time that [Barred] compares with: [RepeatAfter] before now.
func Repeat(now time.Time) time.Time { return now.Add(-RepeatAfter) }

// offerSQL chooses lawyers, inserts offers and marks the lawyers in one statement. Its row locks are SKIP LOCKED: two
// searches never wait for each other, and the sweep repeats a search that skipped a row.
//
// A candidate is returned without a slot if a unique index rejected the offer, or would reject its acceptance. Further
// offers are made only together with the first.
//
// from says where the lawyers come from, and width how many are chosen. width is a constant in the text, so that the
// planner walks the queue. There is one statement for a crew and one for shared lawyers, so that shared lawyers are
// found as if there were no others.
//
// Parameters: the pair, consultation, client, the oldest fresh heartbeat, [Repeat], the IDs of the offers, their start
// and end, why. Then the lawyer, if from names one, and the crew, unless lawyers are shared.
func offerSQL(from string, width int, crew string) postgres.Statement {
	return postgres.SQL(postgres.Claim, fmt.Sprintf(`
WITH candidate AS (
	SELECT l.id, p.idle_since FROM lawyer_pairs p
	JOIN lawyers l ON l.id = p.lawyer_id AND l.state = 'AVAILABLE' AND l.suspended_at IS NULL AND %[4]s
	JOIN lawyer_presence h ON h.lawyer_id = p.lawyer_id AND h.heartbeat_at > $5
	WHERE p.competence = $1 AND p.language = $2 AND %[1]s
		AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = $3 AND o.lawyer_id = p.lawyer_id AND `+
		Barred("$6")+`)
	ORDER BY p.idle_since, p.lawyer_id LIMIT %[2]d
	FOR UPDATE OF l SKIP LOCKED
), able AS (
	SELECT id, idle_since, row_number() OVER (ORDER BY idle_since, id) AS slot FROM candidate
	WHERE NOT EXISTS (SELECT FROM consultations c WHERE c.lawyer_id = candidate.id AND c.status IN ('ASSIGNED', 'IN_CALL'))
		AND NOT EXISTS (SELECT FROM offers o WHERE o.lawyer_id = candidate.id AND o.state = 'OPEN')
), seen AS (
	SELECT able.*, queue.seen, queue.place FROM able CROSS JOIN LATERAL (
		SELECT count(*) AS seen, 1 + count(*) FILTER (WHERE (q.idle_since, q.lawyer_id) < (able.idle_since, able.id)) AS place
		FROM (SELECT q.idle_since, q.lawyer_id FROM lawyer_pairs q WHERE q.competence = $1 AND q.language = $2 AND q.idle_since IS NOT NULL
			ORDER BY q.idle_since, q.lawyer_id LIMIT %[3]d) q) queue
), lead AS (
	INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at, slot, why, queue_seen, queue_place, idle_since)
	SELECT ($7::text[])[slot], $3, $4, id, 'OPEN', $8, $9, slot, $10, seen.seen, place, idle_since FROM seen WHERE slot = 1
	ON CONFLICT DO NOTHING RETURNING lawyer_id, slot
), others AS (
	INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at, slot, why, queue_seen, queue_place, idle_since)
	SELECT ($7::text[])[slot], $3, $4, id, 'OPEN', $8, $9, slot, $10, seen.seen, place, idle_since FROM seen
	WHERE slot > 1 AND EXISTS (SELECT FROM lead)
	ON CONFLICT DO NOTHING RETURNING lawyer_id, slot
), offer AS (
	SELECT * FROM lead UNION ALL SELECT * FROM others
), taken AS (
	UPDATE lawyers l SET state = 'OFFERED', updated_at = $8 FROM offer WHERE l.id = offer.lawyer_id RETURNING l.id, offer.slot
), queue AS (
	UPDATE lawyer_pairs p SET idle_since = NULL FROM offer WHERE p.lawyer_id = offer.lawyer_id
)
SELECT candidate.id, coalesce(taken.slot, 0) FROM candidate LEFT JOIN taken ON taken.id = candidate.id
ORDER BY candidate.idle_since, candidate.id`, from, width, queueSeen, crew))
}

// sharedLawyers selects the lawyers l who are not reserved for one application. The condition is an inequality because
// the planner rightly assumes that it holds for nearly all rows. Without statistics it assumes the opposite of IS NULL,
// and would begin with the lawyers instead of the queue.
const sharedLawyers = "CASE WHEN l.application_id IS NULL THEN 1 ELSE 0 END <> 0"

// ofCrew chooses the statement for shared lawyers or for a crew; the crew is the last parameter of the latter.
func ofCrew(c Crew, shared, own postgres.Statement, args ...any) (postgres.Statement, []any) {
	if c == "" {
		return shared, args
	}
	return own, append(args, c)
}

// queueSeen is how many lawyers of a queue an offer looks at.
const queueSeen = 50

const ofQueue = "p.idle_since IS NOT NULL"

var (
	offerToQueueSQL  = offerSQL(ofQueue, 1, sharedLawyers)
	offerAtOnceSQL   = offerSQL(ofQueue, AtOnce, sharedLawyers)
	offerToLawyerSQL = offerSQL("p.lawyer_id = $11", 1, sharedLawyers)

	offerToOwnQueueSQL  = offerSQL(ofQueue, 1, "l.application_id = $11")
	offerOwnAtOnceSQL   = offerSQL(ofQueue, AtOnce, "l.application_id = $11")
	offerToOwnLawyerSQL = offerSQL("p.lawyer_id = $11", 1, "l.application_id = $12")
)

// offerNext offers w to as many of the longest idle eligible lawyers as its search asks for, or only to the chosen one.
// candidate is the first eligible lawyer, empty if there is none. offers is empty if the work could be offered to no
// one.
func offerNext(ctx context.Context, tx postgres.Tx, w Work, to chosen) (candidate string, offers []Offer, err error) {
	shared, own, why, width, open, repeat := offerToQueueSQL, offerToOwnQueueSQL, LongestIdle, 1, OfferTime,
		Repeat(tx.Now)
	switch {
	case to.byHand:
		shared, own, why, open, repeat = offerToLawyerSQL, offerToOwnLawyerSQL, ByHand, ByHandTime, tx.Now
	case to.lawyerID != "":
		shared, own, why = offerToLawyerSQL, offerToOwnLawyerSQL, LawyerFree
	case w.widened(tx.Now):
		shared, own, why, width = offerAtOnceSQL, offerOwnAtOnceSQL, ThreeAtOnce, AtOnce
	}
	ids := make([]string, width)
	for i := range ids {
		ids[i] = tx.NewID(id.Offer)
	}
	o := Offer{ConsultationID: w.ConsultationID, Why: why, State: Open, CreatedAt: tx.Now, ExpiresAt: tx.Now.Add(open)}
	args := []any{w.Pair.Competence, w.Pair.Language, w.ConsultationID, w.ClientID,
		tx.Now.Add(-lawyer.PresenceFresh), repeat, ids, o.CreatedAt, o.ExpiresAt, why}
	if to.lawyerID != "" {
		args = append(args, to.lawyerID)
	}
	statement, args := ofCrew(w.Crew, shared, own, args...)
	err = tx.Rows(ctx, statement, func(rows *sql.Rows) error {
		var slot int
		if err := rows.Scan(&o.LawyerID, &slot); err != nil {
			return err
		}
		if candidate == "" {
			candidate = o.LawyerID
		}
		if slot > 0 {
			o.ID = ids[slot-1]
			offers = append(offers, o)
		}
		return nil
	}, args...)
	if err != nil {
		return "", nil, fmt.Errorf("search a lawyer: %w", err)
	}
	return candidate, offers, nil
}

type closing struct {
	offerID, lawyerID string // lawyerID may be empty for any lawyer
	to                OfferState
	unexpired         bool // only before its time is over
	overdue           bool // only after its time is over
	reason            string
}

func closeOffer(ctx context.Context, tx postgres.Tx, c closing) (r offerRow, err error) {
	q := tx.Gorm(ctx).Model(&r).Clauses(postgres.Returning[offerRow]()).Where("id = ? AND state = 'OPEN'", c.offerID)
	if c.lawyerID != "" {
		q = q.Where("lawyer_id = ?", c.lawyerID)
	}
	if c.unexpired {
		q = q.Where("expires_at > ?", tx.Now)
	}
	if c.overdue {
		q = q.Where("expires_at <= ?", tx.Now)
	}
	res := q.Updates(offerRow{State: c.to, EndedAt: &tx.Now, DeclineReason: c.reason})
	if res.Error != nil {
		return r, fmt.Errorf("close offer as %s: %w", c.to, res.Error)
	}
	if res.RowsAffected == 0 {
		return r, ErrOfferGone
	}
	return r, nil
}

// promote moves an open offer of a consultation to slot 1, which another offer has left. It skips an offer that another
// transaction is ending, so that neither waits for the other.
func promote(ctx context.Context, tx postgres.Tx, consultationID string) error {
	next := tx.Gorm(ctx).Model(&offerRow{}).Clauses(postgres.SkipLocked).Select("id").
		Where("consultation_id = ? AND state = 'OPEN'", consultationID).Order("slot").Limit(1)
	if _, err := gorm.G[offerRow](tx.Gorm(ctx)).Where("id = (?)", next).Update(ctx, "slot", 1); err != nil {
		return fmt.Errorf("move an offer to the first slot: %w", err)
	}
	return nil
}

func get(ctx context.Context, tx postgres.Tx, offerID string) (Offer, error) {
	o, found, err := one(ctx, tx, "id = ?", offerID)
	if err == nil && !found {
		err = ErrOfferGone
	}
	return o, err
}

func story(ctx context.Context, tx postgres.Tx, consultationID string) ([]Chapter, error) {
	rows, err := gorm.G[offerRow](tx.Gorm(ctx)).Where("consultation_id = ?", consultationID).
		Order("created_at, queue_place, id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the offers of a consultation: %w", err)
	}
	list := make([]Chapter, len(rows))
	for i, r := range rows {
		list[i] = Chapter{Offer: fromRow(r), EndedAt: r.EndedAt, Reason: r.DeclineReason, ReturnedAt: r.ReturnedAt}
		if r.QueueSeen != nil {
			list[i].QueueSeen = *r.QueueSeen
		}
		if r.QueuePlace != nil && r.IdleSince != nil {
			list[i].QueuePlace, list[i].Idle = *r.QueuePlace, max(0, r.CreatedAt.Sub(*r.IdleSince))
		}
	}
	return list, nil
}

func openOfConsultation(ctx context.Context, tx postgres.Tx, consultationID string) (Offer, bool, error) {
	return one(ctx, tx, "consultation_id = ? AND state = 'OPEN'", consultationID)
}

func openOfConsultations(ctx context.Context, tx postgres.Tx, ids []string) ([]Offer, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return many(ctx, gorm.G[offerRow](tx.Gorm(ctx)).Where("consultation_id IN ? AND state = 'OPEN'", ids).
		Order("lawyer_id"))
}

// openOf reports whether an open offer prevents another one: the consultation's own, or one of its client's.
func openOf(ctx context.Context, tx postgres.Tx, w Work) (bool, error) {
	_, own, err := openOfConsultation(ctx, tx, w.ConsultationID)
	if err != nil || own {
		return own, err
	}
	_, other, err := one(ctx, tx, "client_id = ? AND state = 'OPEN'", w.ClientID)
	return other, err
}

var contradictedSQL = postgres.SQL(postgres.Atomic,
	`SELECT EXISTS (SELECT FROM offers WHERE lawyer_id = $1 AND state = 'OPEN')
	OR EXISTS (SELECT FROM consultations WHERE lawyer_id = $1 AND status IN ('ASSIGNED', 'IN_CALL'))`)

// contradicted reports whether an AVAILABLE lawyer has work nevertheless.
func contradicted(ctx context.Context, tx postgres.Tx, lawyerID string) (has bool, err error) {
	if err := tx.QueryRow(ctx, contradictedSQL, lawyerID).Scan(&has); err != nil {
		return false, fmt.Errorf("look for the lawyer's work: %w", err)
	}
	return has, nil
}

// makeOverdue makes the open offer of a lawyer overdue.
func makeOverdue(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	_, err := gorm.G[offerRow](tx.Gorm(ctx)).Where("lawyer_id = ? AND state = 'OPEN' AND expires_at > ?",
		lawyerID, tx.Now).Update(ctx, "expires_at", tx.Now)
	if err != nil {
		return fmt.Errorf("cut the lawyer's offer short: %w", err)
	}
	return nil
}

func openOfLawyer(ctx context.Context, tx postgres.Tx, lawyerID string) (Offer, bool, error) {
	return one(ctx, tx, "lawyer_id = ? AND state = 'OPEN'", lawyerID)
}

func one(ctx context.Context, tx postgres.Tx, where string, arg string) (Offer, bool, error) {
	r, err := gorm.G[offerRow](tx.Gorm(ctx)).Where(where, arg).Take(ctx)
	if postgres.IsNotFound(err) {
		return Offer{}, false, nil
	}
	if err != nil {
		return Offer{}, false, fmt.Errorf("read offer: %w", err)
	}
	return fromRow(r), true, nil
}

func many(ctx context.Context, q gorm.ChainInterface[offerRow]) ([]Offer, error) {
	rows, err := q.Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list offers: %w", err)
	}
	offers := make([]Offer, len(rows))
	for i, r := range rows {
		offers[i] = fromRow(r)
	}
	return offers, nil
}

func overdue(ctx context.Context, tx postgres.Tx, after Offer, limit int) ([]Offer, error) {
	return many(ctx, gorm.G[offerRow](tx.Gorm(ctx)).
		Where("state = 'OPEN' AND expires_at <= ? AND (expires_at, id) > (?, ?)", tx.Now, after.ExpiresAt, after.ID).
		Order("expires_at, id").Limit(limit))
}

// returned marks the acceptance by that lawyer that has not been returned yet: there may be earlier ones.
func returned(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) error {
	_, err := gorm.G[offerRow](tx.Gorm(ctx)).
		Where("consultation_id = ? AND lawyer_id = ? AND state = 'ACCEPTED' AND returned_at IS NULL",
			consultationID, lawyerID).
		Update(ctx, "returned_at", tx.Now)
	if err != nil {
		return fmt.Errorf("remember that the work came back: %w", err)
	}
	return nil
}

func withdrawn(ctx context.Context, tx postgres.Tx, consultationID, lawyerID, reason string) error {
	_, err := gorm.G[offerRow](tx.Gorm(ctx)).
		Where("consultation_id = ? AND lawyer_id = ? AND state = 'ACCEPTED'", consultationID, lawyerID).
		Update(ctx, "decline_reason", reason)
	if err != nil {
		return fmt.Errorf("remember the withdrawal: %w", err)
	}
	return nil
}

// idlePairsSQL selects those of the pairs $2 and $3 that have a lawyer waiting for work.
var (
	idlePairsSQL    = idleSQL(sharedLawyers)
	idleOwnPairsSQL = idleSQL("l.application_id = $4")
)

func idleSQL(crew string) postgres.Statement {
	return postgres.SQL(postgres.Hot, `SELECT p.competence, p.language
	FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS p (competence, language, n) WHERE EXISTS (SELECT FROM lawyer_pairs q
	JOIN lawyers l ON l.id = q.lawyer_id AND l.state = 'AVAILABLE' AND l.suspended_at IS NULL AND `+crew+`
	JOIN lawyer_presence h ON h.lawyer_id = q.lawyer_id AND h.heartbeat_at > $1
	WHERE q.competence = p.competence AND q.language = p.language AND q.idle_since IS NOT NULL) ORDER BY p.n`)
}

// unattendedSQL selects those of the pairs $2 and $3 for which no lawyer is present.
var unattendedSQL = postgres.SQL(postgres.Report, `SELECT p.competence, p.language
	FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS p (competence, language, n) WHERE NOT EXISTS (SELECT FROM lawyer_pairs q
	JOIN lawyers l ON l.id = q.lawyer_id AND l.state IN ('AVAILABLE', 'OFFERED', 'BUSY', 'WRAP_UP') AND l.suspended_at IS NULL AND `+sharedLawyers+`
	JOIN lawyer_presence h ON h.lawyer_id = q.lawyer_id AND h.heartbeat_at > $1
	WHERE q.competence = p.competence AND q.language = p.language) ORDER BY p.n`)

// pairsOf selects pairs with a statement that takes the oldest fresh heartbeat, the pairs, and more.
func pairsOf(ctx context.Context, tx postgres.Tx, choose postgres.Statement, pairs []Pair,
	more ...any,
) ([]Pair, error) {
	competences, languages := make([]string, len(pairs)), make([]string, len(pairs))
	for i, p := range pairs {
		competences[i], languages[i] = p.Competence, p.Language
	}
	list, err := postgres.Query[Pair](ctx, tx, choose,
		append([]any{tx.Now.Add(-lawyer.PresenceFresh), competences, languages}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("choose pairs by who is there: %w", err)
	}
	return list, nil
}

// wakeupRow is a row of lawyer_wakeups: a lawyer who was notified that a consultation waits.
type wakeupRow struct {
	ConsultationID string    `gorm:"column:consultation_id;primaryKey"`
	LawyerID       string    `gorm:"column:lawyer_id;primaryKey"`
	Day            time.Time `gorm:"column:day;type:date"` // in the lawyer's time zone
	Number         int       `gorm:"column:number"`        // of that day, 1 to 3
	WokenAt        time.Time `gorm:"column:woken_at"`
}

// TableName implements [schema.Tabler].
func (wakeupRow) TableName() string { return "lawyer_wakeups" }

// wakeSQL selects and records lawyers in one statement. If another process wakes a lawyer at the same time, both rows
// get the same number of the day: the second one conflicts, and its lawyer is left out.
var wakeSQL = postgres.SQL(postgres.Claim, `
WITH chosen AS (
	SELECT l.id, l.email, l.name, l.time_zone, here.day, before.times
	FROM lawyer_pairs p JOIN lawyers l ON l.id = p.lawyer_id AND l.state IN ('OFFLINE', 'AWAY') AND l.suspended_at IS NULL
		AND NOT l.simulated AND l.phone_sealed IS NOT NULL
	CROSS JOIN LATERAL (SELECT t::date AS day, extract(isodow FROM t)::int AS weekday, extract(hour FROM t)::int * 60 + extract(minute FROM t)::int AS minute
		FROM (SELECT $1::timestamptz AT TIME ZONE l.time_zone AS t) t) here
	CROSS JOIN LATERAL (SELECT count(*)::int AS times FROM lawyer_wakeups w WHERE w.lawyer_id = l.id AND w.day = here.day) before
	WHERE p.competence = $2 AND p.language = $3 AND before.times < $7
		AND ($5::boolean AND l.on_call OR EXISTS (SELECT FROM lawyer_hours h WHERE h.lawyer_id = l.id AND h.weekday = here.weekday
			AND h.from_minute <= here.minute AND h.until_minute > here.minute))
		AND NOT EXISTS (SELECT FROM lawyer_wakeups w WHERE w.lawyer_id = l.id AND (w.consultation_id = $4 OR w.woken_at > $8))
		AND NOT EXISTS (SELECT FROM lawyer_wakeups w WHERE w.consultation_id = $4 AND w.woken_at > $9)
		AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = $4 AND o.lawyer_id = l.id
			AND (o.decline_reason <> '`+ReasonBusy+`' OR o.decline_reason = '`+ReasonBusy+`' AND o.ended_at > $10))
	ORDER BY before.times, l.idle_since DESC NULLS LAST, l.id LIMIT $6
), woken AS (
	INSERT INTO lawyer_wakeups (consultation_id, lawyer_id, day, number, woken_at)
	SELECT $4, id, day, times + 1, $1 FROM chosen ON CONFLICT DO NOTHING RETURNING lawyer_id
)
SELECT chosen.id, chosen.email, chosen.name, chosen.time_zone FROM chosen JOIN woken ON woken.lawyer_id = chosen.id`)

func wake(ctx context.Context, tx postgres.Tx, w Work, soon bool) ([]Woken, error) {
	woken, err := postgres.Query[Woken](ctx, tx, wakeSQL, tx.Now, w.Pair.Competence, w.Pair.Language,
		w.ConsultationID, soon, wakeAtOnce, wakeDaily, tx.Now.Add(-wakeAgain), tx.Now.Add(-wakeNext),
		tx.Now.Add(-BusyFor))
	if err != nil {
		return nil, fmt.Errorf("choose lawyers to wake: %w", err)
	}
	return woken, nil
}

var (
	presenceSQL    = countPresentSQL(sharedLawyers)
	ownPresenceSQL = countPresentSQL("l.application_id = $4")
)

func countPresentSQL(crew string) postgres.Statement {
	return postgres.SQL(postgres.Report, `SELECT count(*), count(*) FILTER (WHERE there.state = 'AVAILABLE')
	FROM lawyer_pairs p CROSS JOIN LATERAL (
		SELECT l.state FROM lawyer_presence h JOIN lawyers l ON l.id = h.lawyer_id
		WHERE h.lawyer_id = p.lawyer_id AND h.heartbeat_at > $1 AND l.suspended_at IS NULL AND `+crew+`
			AND l.state IN ('AVAILABLE', 'OFFERED', 'BUSY', 'WRAP_UP')
		OFFSET 0) there
	WHERE p.competence = $2 AND p.language = $3`)
}

// presence looks up only the signed-on lawyers of the pair and the crew.
func presence(ctx context.Context, tx postgres.Tx, p Pair, c Crew) (online, idle int, err error) {
	statement, args := ofCrew(c, presenceSQL, ownPresenceSQL, tx.Now.Add(-lawyer.PresenceFresh), p.Competence,
		p.Language)
	if err := tx.QueryRow(ctx, statement, args...).Scan(&online, &idle); err != nil {
		return 0, 0, fmt.Errorf("count the lawyers of a pair: %w", err)
	}
	return online, idle, nil
}
