package matching

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/lawyer"
	"partnerd/internal/postgres"
)

type offerRow struct {
	ID             string
	ConsultationID string
	LawyerID       string
	State          OfferState
	CreatedAt      time.Time
	ExpiresAt      time.Time
}

const offerColumns = "id, consultation_id, lawyer_id, state, created_at, expires_at"

func fromRow(r offerRow) Offer { return Offer(r) }

// Barred is the condition that the lawyer of an offer o may not be offered its consultation; @repeat is [RepeatAfter] ago.
const Barred = `(o.state = 'DECLINED' OR o.decline_reason IS NOT NULL
	OR o.state IN ('EXPIRED', 'ACCEPTED') AND coalesce(o.returned_at, o.ended_at) > @repeat)`

// Repeat is the instant that [Barred] compares with.
func Repeat(now time.Time) time.Time { return now.Add(-RepeatAfter) }

// offerSQL picks, offers and marks in one statement. Its row locks are SKIP LOCKED: two searches never wait for each
// other, and the sweeper repeats what one of them could not see. The candidate comes back without an offer when a
// unique index refused it, or would refuse that he accepts. It is completed by where the lawyer comes from.
const offerSQL = `
WITH candidate AS (
	SELECT l.id FROM lawyer_pairs p
	JOIN lawyers l ON l.id = p.lawyer_id AND l.state = 'AVAILABLE' AND l.suspended_at IS NULL
	JOIN lawyer_presence h ON h.lawyer_id = p.lawyer_id AND h.heartbeat_at > @fresh
	WHERE p.competence = @competence AND p.language = @language AND %s
		AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = @consultation AND o.lawyer_id = p.lawyer_id AND ` + Barred + `)
	ORDER BY p.idle_since, p.lawyer_id LIMIT 1
	FOR UPDATE OF l SKIP LOCKED
), offer AS (
	INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at)
	SELECT @offer, @consultation, @client, id, 'OPEN', @now, @expires FROM candidate
	WHERE NOT EXISTS (SELECT FROM consultations c WHERE c.lawyer_id = candidate.id AND c.status IN ('ASSIGNED', 'IN_CALL'))
	ON CONFLICT DO NOTHING RETURNING lawyer_id
), taken AS (
	UPDATE lawyers l SET state = 'OFFERED', updated_at = @now FROM offer WHERE l.id = offer.lawyer_id RETURNING l.id
), queue AS (
	UPDATE lawyer_pairs p SET idle_since = NULL FROM offer WHERE p.lawyer_id = offer.lawyer_id
)
SELECT candidate.id, (SELECT count(*) FROM taken) AS taken FROM candidate`

var (
	offerToQueueSQL  = fmt.Sprintf(offerSQL, "p.idle_since IS NOT NULL")
	offerToLawyerSQL = fmt.Sprintf(offerSQL, "p.lawyer_id = @only")
)

// offerNext offers w to the longest idle lawyer who may take it (to none but only, unless that is empty). candidate is
// empty when there is none; o is zero when the candidate could not be offered it.
func offerNext(ctx context.Context, tx postgres.Tx, w Work, only string) (candidate string, o Offer, err error) {
	o = Offer{ID: tx.NewID(id.Offer), ConsultationID: w.ConsultationID, State: Open, CreatedAt: tx.Now, ExpiresAt: tx.Now.Add(OfferTime)}
	statement := offerToQueueSQL
	if only != "" {
		statement = offerToLawyerSQL
	}
	var r struct {
		ID    string
		Taken int
	}
	err = tx.Gorm(ctx).Raw(statement, map[string]any{
		"competence": w.Pair.Competence, "language": w.Pair.Language, "consultation": w.ConsultationID, "client": w.ClientID,
		"only": only, "repeat": Repeat(tx.Now), "fresh": tx.Now.Add(-lawyer.PresenceFresh),
		"offer": o.ID, "now": tx.Now, "expires": o.ExpiresAt,
	}).Scan(&r).Error
	if err != nil {
		return "", Offer{}, fmt.Errorf("search a lawyer: %w", err)
	}
	if r.Taken == 0 {
		return r.ID, Offer{}, nil
	}
	o.LawyerID = r.ID
	return r.ID, o, nil
}

type closing struct {
	offerID, lawyerID string // lawyerID empty: whoever has it
	to                OfferState
	alive             bool // only while its time is not over
	overdue           bool // only when its time is over
	reason            string
}

func closeOffer(ctx context.Context, tx postgres.Tx, c closing) (Offer, error) {
	var r offerRow
	var reason *string
	if c.reason != "" {
		reason = &c.reason
	}
	res := tx.Gorm(ctx).Raw(`UPDATE offers SET state = @to, ended_at = @now, decline_reason = @reason
		WHERE id = @id AND state = 'OPEN' AND (@lawyer = '' OR lawyer_id = @lawyer)
			AND (NOT @alive OR expires_at > @now) AND (NOT @overdue OR expires_at <= @now)
		RETURNING `+offerColumns, map[string]any{"to": c.to, "now": tx.Now, "reason": reason, "id": c.offerID,
		"lawyer": c.lawyerID, "alive": c.alive, "overdue": c.overdue}).Scan(&r)
	if res.Error != nil {
		return Offer{}, fmt.Errorf("close offer as %s: %w", c.to, res.Error)
	}
	if res.RowsAffected == 0 {
		return Offer{}, ErrOfferGone
	}
	return fromRow(r), nil
}

func get(ctx context.Context, tx postgres.Tx, offerID string) (Offer, error) {
	o, found, err := one(ctx, tx, "id = ?", offerID)
	if err == nil && !found {
		err = ErrOfferGone
	}
	return o, err
}

func openOfConsultation(ctx context.Context, tx postgres.Tx, consultationID string) (Offer, bool, error) {
	return one(ctx, tx, "consultation_id = ? AND state = 'OPEN'", consultationID)
}

func openOfConsultations(ctx context.Context, tx postgres.Tx, ids []string) ([]Offer, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []offerRow
	err := tx.Gorm(ctx).Raw("SELECT "+offerColumns+" FROM offers WHERE consultation_id IN ? AND state = 'OPEN' ORDER BY lawyer_id", ids).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read open offers: %w", err)
	}
	offers := make([]Offer, len(rows))
	for i, r := range rows {
		offers[i] = fromRow(r)
	}
	return offers, nil
}

// openOf finds what keeps a consultation from being offered: its own open offer, or another one of its client.
func openOf(ctx context.Context, tx postgres.Tx, w Work) (bool, error) {
	_, own, err := openOfConsultation(ctx, tx, w.ConsultationID)
	if err != nil || own {
		return own, err
	}
	_, other, err := one(ctx, tx, "client_id = ? AND state = 'OPEN'", w.ClientID)
	return other, err
}

// contradicted tells whether a lawyer who is AVAILABLE has work all the same.
func contradicted(ctx context.Context, tx postgres.Tx, lawyerID string) (has bool, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT EXISTS (SELECT FROM offers WHERE lawyer_id = @id AND state = 'OPEN')
		OR EXISTS (SELECT FROM consultations WHERE lawyer_id = @id AND status IN ('ASSIGNED', 'IN_CALL'))`,
		map[string]any{"id": lawyerID}).Scan(&has).Error
	if err != nil {
		return false, fmt.Errorf("look for the lawyer's work: %w", err)
	}
	return has, nil
}

// cutShort makes the open offer of a lawyer overdue.
func cutShort(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	err := tx.Gorm(ctx).Exec("UPDATE offers SET expires_at = ? WHERE lawyer_id = ? AND state = 'OPEN' AND expires_at > ?", tx.Now, lawyerID, tx.Now).Error
	if err != nil {
		return fmt.Errorf("cut the lawyer's offer short: %w", err)
	}
	return nil
}

func openOfLawyer(ctx context.Context, tx postgres.Tx, lawyerID string) (Offer, bool, error) {
	return one(ctx, tx, "lawyer_id = ? AND state = 'OPEN'", lawyerID)
}

func one(ctx context.Context, tx postgres.Tx, where string, arg string) (Offer, bool, error) {
	var r offerRow
	res := tx.Gorm(ctx).Raw("SELECT "+offerColumns+" FROM offers WHERE "+where, arg).Scan(&r)
	if res.Error != nil {
		return Offer{}, false, fmt.Errorf("read offer: %w", res.Error)
	}
	return fromRow(r), res.RowsAffected > 0, nil
}

func overdue(ctx context.Context, tx postgres.Tx, after Offer, limit int) ([]Offer, error) {
	var rows []offerRow
	err := tx.Gorm(ctx).Raw("SELECT "+offerColumns+" FROM offers WHERE state = 'OPEN' AND expires_at <= ? AND (expires_at, id) > (?, ?)"+
		" ORDER BY expires_at, id LIMIT ?", tx.Now, after.ExpiresAt, after.ID, limit).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list overdue offers: %w", err)
	}
	offers := make([]Offer, len(rows))
	for i, r := range rows {
		offers[i] = fromRow(r)
	}
	return offers, nil
}

// returned goes with the last acceptance by that lawyer: there may be earlier ones.
func returned(ctx context.Context, tx postgres.Tx, consultationID, lawyerID string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE offers SET returned_at = ? WHERE consultation_id = ? AND lawyer_id = ? AND state = 'ACCEPTED' AND returned_at IS NULL`,
		tx.Now, consultationID, lawyerID).Error
	if err != nil {
		return fmt.Errorf("remember that the work came back: %w", err)
	}
	return nil
}

func withdrawn(ctx context.Context, tx postgres.Tx, consultationID, lawyerID, reason string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE offers SET decline_reason = ? WHERE consultation_id = ? AND lawyer_id = ? AND state = 'ACCEPTED'`,
		reason, consultationID, lawyerID).Error
	if err != nil {
		return fmt.Errorf("remember the withdrawal: %w", err)
	}
	return nil
}

// idleSQL tells whether somebody of a pair p waits for work.
const idleSQL = `EXISTS (SELECT FROM lawyer_pairs q
	JOIN lawyers l ON l.id = q.lawyer_id AND l.state = 'AVAILABLE' AND l.suspended_at IS NULL
	JOIN lawyer_presence h ON h.lawyer_id = q.lawyer_id AND h.heartbeat_at > $1
	WHERE q.competence = p.competence AND q.language = p.language AND q.idle_since IS NOT NULL)`

func idlePairs(ctx context.Context, tx postgres.Tx, pairs []Pair) ([]Pair, error) {
	competences, languages := make([]string, len(pairs)), make([]string, len(pairs))
	for i, p := range pairs {
		competences[i], languages[i] = p.Competence, p.Language
	}
	rows, err := tx.SQL().QueryContext(ctx, `SELECT p.competence, p.language
		FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS p (competence, language, n) WHERE `+idleSQL+` ORDER BY p.n`,
		tx.Now.Add(-lawyer.PresenceFresh), competences, languages)
	if err != nil {
		return nil, fmt.Errorf("list pairs with idle lawyers: %w", err)
	}
	defer rows.Close()
	var idle []Pair
	for rows.Next() {
		var p Pair
		if err := rows.Scan(&p.Competence, &p.Language); err != nil {
			return nil, fmt.Errorf("read a pair: %w", err)
		}
		idle = append(idle, p)
	}
	return idle, rows.Err()
}

// presence looks up each lawyer of the pair who is signed on, and nobody else.
func presence(ctx context.Context, tx postgres.Tx, p Pair) (online, idle int, err error) {
	var r struct{ Online, Idle int }
	err = tx.Gorm(ctx).Raw(`SELECT count(*) AS online, count(*) FILTER (WHERE there.state = 'AVAILABLE') AS idle
		FROM lawyer_pairs p CROSS JOIN LATERAL (
			SELECT l.state FROM lawyer_presence h JOIN lawyers l ON l.id = h.lawyer_id
			WHERE h.lawyer_id = p.lawyer_id AND h.heartbeat_at > ? AND l.suspended_at IS NULL
				AND l.state IN ('AVAILABLE', 'OFFERED', 'BUSY', 'WRAP_UP')
			OFFSET 0) there
		WHERE p.competence = ? AND p.language = ?`,
		tx.Now.Add(-lawyer.PresenceFresh), p.Competence, p.Language).Scan(&r).Error
	if err != nil {
		return 0, 0, fmt.Errorf("count the lawyers of a pair: %w", err)
	}
	return r.Online, r.Idle, nil
}
