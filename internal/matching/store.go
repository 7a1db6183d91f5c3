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

// searchSQL picks, offers and marks in one statement. Its row locks are SKIP LOCKED: two searches never wait for each
// other, and the sweeper repeats what one of them could not see. The candidate comes back without an offer when a
// unique index refused it.
const searchSQL = `
WITH candidate AS (
	SELECT l.id FROM lawyers l
	JOIN lawyer_pairs p ON p.lawyer_id = l.id AND p.competence = @competence AND p.language = @language
	WHERE l.state = 'AVAILABLE' AND l.heartbeat_at > @fresh AND l.suspended_at IS NULL
		AND (@only = '' OR l.id = @only)
		AND NOT EXISTS (
			SELECT FROM offers o WHERE o.consultation_id = @consultation AND o.lawyer_id = l.id
			AND (o.state = 'DECLINED' OR o.decline_reason IS NOT NULL
				OR o.state IN ('EXPIRED', 'ACCEPTED') AND (NOT @callback OR o.ended_at > @repeat)))
	ORDER BY l.idle_since, l.id LIMIT 1
	FOR UPDATE OF l SKIP LOCKED
), offer AS (
	INSERT INTO offers (id, consultation_id, lawyer_id, state, created_at, expires_at)
	SELECT @offer, @consultation, id, 'OPEN', @now, @expires FROM candidate
	ON CONFLICT DO NOTHING RETURNING lawyer_id
), taken AS (
	UPDATE lawyers l SET state = 'OFFERED', updated_at = @now FROM offer WHERE l.id = offer.lawyer_id RETURNING l.id
)
SELECT candidate.id, (SELECT count(*) FROM taken) AS taken FROM candidate`

// offerNext offers w to the longest idle lawyer who may take it (to none but only, unless that is empty). candidate is
// empty when there is none; o is zero when the candidate could not be offered it.
func offerNext(ctx context.Context, tx postgres.Tx, w Work, only string) (candidate string, o Offer, err error) {
	o = Offer{ID: tx.NewID(id.Offer), ConsultationID: w.ConsultationID, State: Open, CreatedAt: tx.Now, ExpiresAt: tx.Now.Add(OfferTime)}
	var r struct {
		ID    string
		Taken int
	}
	err = tx.Gorm(ctx).Raw(searchSQL, map[string]any{
		"competence": w.Pair.Competence, "language": w.Pair.Language, "consultation": w.ConsultationID, "only": only,
		"callback": w.Callback, "repeat": tx.Now.Add(-RepeatAfter), "fresh": tx.Now.Add(-lawyer.PresenceFresh),
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

func overdue(ctx context.Context, tx postgres.Tx, limit int) ([]Offer, error) {
	var rows []offerRow
	err := tx.Gorm(ctx).Raw("SELECT "+offerColumns+" FROM offers WHERE state = 'OPEN' AND expires_at <= ? ORDER BY expires_at LIMIT ?",
		tx.Now, limit).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list overdue offers: %w", err)
	}
	offers := make([]Offer, len(rows))
	for i, r := range rows {
		offers[i] = fromRow(r)
	}
	return offers, nil
}

func withdrawn(ctx context.Context, tx postgres.Tx, consultationID, lawyerID, reason string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE offers SET decline_reason = ? WHERE consultation_id = ? AND lawyer_id = ? AND state = 'ACCEPTED'`,
		reason, consultationID, lawyerID).Error
	if err != nil {
		return fmt.Errorf("remember the withdrawal: %w", err)
	}
	return nil
}

func pairsOf(ctx context.Context, tx postgres.Tx, lawyerID string) ([]Pair, error) {
	var pairs []Pair
	err := tx.Gorm(ctx).Raw("SELECT competence, language FROM lawyer_pairs WHERE lawyer_id = ? ORDER BY competence, language", lawyerID).Scan(&pairs).Error
	if err != nil {
		return nil, fmt.Errorf("list the lawyer's pairs: %w", err)
	}
	return pairs, nil
}

func presence(ctx context.Context, tx postgres.Tx, p Pair) (online, idle int, err error) {
	var r struct{ Online, Idle int }
	err = tx.Gorm(ctx).Raw(`SELECT count(*) AS online, count(*) FILTER (WHERE l.state = 'AVAILABLE') AS idle
		FROM lawyers l JOIN lawyer_pairs p ON p.lawyer_id = l.id
		WHERE p.competence = ? AND p.language = ? AND l.state IN ('AVAILABLE', 'OFFERED', 'BUSY', 'WRAP_UP')
			AND l.heartbeat_at > ? AND l.suspended_at IS NULL`,
		p.Competence, p.Language, tx.Now.Add(-lawyer.PresenceFresh)).Scan(&r).Error
	if err != nil {
		return 0, 0, fmt.Errorf("count the lawyers of a pair: %w", err)
	}
	return r.Online, r.Idle, nil
}
