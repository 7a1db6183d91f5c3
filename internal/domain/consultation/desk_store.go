package consultation

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

func openByID(ctx context.Context, tx postgres.Tx, consultationID string) (openRow, error) {
	return one[openRow](openRows(ctx, tx).Where("c.id = ?", consultationID))
}

func openInHands(ctx context.Context, tx postgres.Tx, lawyerID string) (list []openRow, err error) {
	err = openRows(ctx, tx).Where("c.status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED') AND c.lawyer_id = ?", lawyerID).
		Order("c.assigned_at, c.id").Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list what a lawyer has in hand: %w", err)
	}
	return list, nil
}

// belongsToLawyer reports whether a consultation belongs to the lawyer and is in one of the statuses.
func belongsToLawyer(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string, in ...Status) (bool, error) {
	_, err := gorm.G[row](tx.Gorm(ctx)).Select("id").
		Where("id = ? AND lawyer_id = ? AND status IN ?", consultationID, lawyerID, in).Take(ctx)
	if postgres.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whose consultation it is: %w", err)
	}
	return true, nil
}

func callbacksFor(ctx context.Context, tx postgres.Tx, lawyerID string, limit int) ([]Callback, error) {
	ofPair := rows(ctx, tx).Where("c.competence = p.competence AND c.language = p.language AND c.status = 'PENDING_CALLBACK' AND c.crew IS NULL AND c.callback_due_at > ?", tx.Now).
		Where("NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND (o.state = 'OPEN' OR o.lawyer_id = p.lawyer_id AND "+matching.Barred("?")+"))",
			matching.Repeat(tx.Now)).
		Order("c.search_started_at").Limit(limit)
	waiting, err := many(tx.Gorm(ctx).Table("lawyer_pairs p").Joins("CROSS JOIN LATERAL (?) c", ofPair).Select(columns).
		Where("p.lawyer_id = ?", lawyerID).Order("c.callback_due_at, c.id").Limit(limit))
	list := make([]Callback, len(waiting))
	for i, c := range waiting {
		list[i] = Callback{ConsultationID: c.ID, Pair: matching.Pair{Competence: c.Competence, Language: c.Language},
			SearchedSince: c.SearchStartedAt, DueAt: *c.CallbackDueAt, Now: callable(c, tx.Now)}
		if c.CallableFrom != nil && c.CallableUntil != nil {
			list[i].From, list[i].Until = *c.CallableFrom, *c.CallableUntil
		}
	}
	return list, err
}

// history reads the fee from the settled hold, which every completed consultation has.
func history(ctx context.Context, tx postgres.Tx, lawyerID string, before Position, limit int) ([]Served, error) {
	type servedRow struct {
		ID            string
		Competence    string
		Language      string
		Status        Status
		EndReason     Reason `gorm:"serializer:zeronull"`
		CreatedAt     time.Time
		CallStartedAt *time.Time
		DurationSec   *int
		CompletedAt   *time.Time
		Fee           money.Cents
	}
	q := tx.Gorm(ctx).Table("consultations c").
		Joins("LEFT JOIN holds h ON h.consultation_id = c.id AND c.status = 'COMPLETED'").
		Select(`c.id, c.competence, c.language, c.status, c.end_reason, c.created_at, c.call_started_at, c.duration_sec, c.completed_at,
			coalesce(h.lawyer_fee_cents, 0) AS fee`).
		Where("c.lawyer_id = ? AND c.status IN ('COMPLETED', 'EXPIRED')", lawyerID)
	if before.ID != "" {
		q = q.Where("(c.created_at, c.id) < (?, ?)", before.CreatedAt, before.ID)
	}
	var list []servedRow
	if err := q.Order("c.created_at DESC, c.id DESC").Limit(limit).Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list a lawyer's history: %w", err)
	}
	out := make([]Served, len(list))
	for i, r := range list {
		out[i] = Served{ConsultationID: r.ID, Pair: matching.Pair{Competence: r.Competence, Language: r.Language},
			Status: r.Status, Reason: r.EndReason, CreatedAt: r.CreatedAt, CallStartedAt: r.CallStartedAt,
			DurationSec: r.DurationSec, CompletedAt: r.CompletedAt, Fee: r.Fee}
	}
	return out, nil
}

var earningsSQL = postgres.SQL(postgres.Report,
	`SELECT date_trunc('month', c.completed_at, 'UTC') AS month, count(*) AS consultations,
		coalesce(sum(h.lawyer_fee_cents), 0)::bigint AS fees
	FROM consultations c JOIN holds h ON h.consultation_id = c.id
	WHERE c.lawyer_id = $1 AND c.status = 'COMPLETED' AND c.completed_at >= $2
	GROUP BY 1 ORDER BY 1 DESC`)

func earnings(ctx context.Context, tx postgres.Tx, lawyerID string, since time.Time) ([]Earned, error) {
	list, err := postgres.Query[Earned](ctx, tx, earningsSQL, lawyerID, since)
	if err != nil {
		return nil, fmt.Errorf("sum a lawyer's earnings: %w", err)
	}
	return list, nil
}
