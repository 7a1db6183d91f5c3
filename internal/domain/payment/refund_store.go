package payment

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// refundRow is a row of topup_refunds: money that left the wallet to be refunded to the source of a top-up.
type refundRow struct {
	ID          string      `gorm:"column:id;primaryKey"`
	TopUpID     string      `gorm:"column:topup_id"`
	ClientID    string      `gorm:"column:client_id"`
	AmountCents money.Cents `gorm:"column:amount_cents"`
	State       refundState `gorm:"column:state"`
	Reason      string      `gorm:"column:reason"`
	ProviderRef string      `gorm:"column:provider_ref;serializer:zeronull"` // the provider's refund
	Attempts    int         `gorm:"column:attempts"`
	NextAt      time.Time   `gorm:"column:next_at"` // time of the next attempt, while pending
	LastError   string      `gorm:"column:last_error;serializer:zeronull"`
	CreatedAt   time.Time   `gorm:"column:created_at;autoCreateTime:false"`
	EndedAt     *time.Time  `gorm:"column:ended_at"`
}

// TableName implements [schema.Tabler].
func (refundRow) TableName() string { return "topup_refunds" }

type refundState string

const (
	refundPending refundState = "PENDING"
	refundSent    refundState = "SENT"
	refundFailed  refundState = "FAILED"
)

// lockPaid returns the client's paid sessions, last paid first, and locks them so that refunds of one client queue. It
// uses two statements, because the second must see the result of what the first waited for.
func lockPaid(ctx context.Context, tx postgres.Tx, clientID string) ([]topUp, error) {
	var locked []string
	err := tx.Gorm(ctx).Model(&sessionRow{}).Clauses(postgres.ForNoKeyUpdate).
		Where("client_id = ? AND status = ?", clientID, Paid).Order("id").Pluck("id", &locked).Error
	if err != nil {
		return nil, err
	}
	return paidTopUps(ctx, tx, clientID)
}

func paidTopUps(ctx context.Context, tx postgres.Tx, clientID string) ([]topUp, error) {
	refunded := tx.Gorm(ctx).Model(&refundRow{}).Select("coalesce(sum(topup_refunds.amount_cents), 0)::bigint").
		Where("topup_id = s.id")
	var list []topUp
	err := tx.Gorm(ctx).Table("topup_sessions s").Where("s.client_id = ? AND s.status = ?", clientID, Paid).
		Order("s.ended_at DESC, s.id DESC").
		Select("s.id, s.amount_cents AS amount, s.ended_at AS paid_at, s.reversed_cents + s.uncovered_cents + "+
			"(?) AS refunded", refunded).Find(&list).Error
	return list, err
}

func insertRefund(ctx context.Context, tx postgres.Tx, c RefundCommand, p RefundPart) error {
	return gorm.G[refundRow](tx.Gorm(ctx)).Create(ctx, &refundRow{
		ID: p.ID, TopUpID: p.TopUpID, ClientID: c.ClientID, AmountCents: p.Amount, State: refundPending,
		Reason: c.Reason, NextAt: tx.Now, CreatedAt: tx.Now,
	})
}

// dueRefund is a refund to request from its provider.
type dueRefund struct {
	ID          string
	TopUpID     string `gorm:"column:topup_id"`
	AmountCents money.Cents
	Attempts    int // includes the current one
	Provider    string
	PaymentRef  string
}

var claimRefundsSQL = postgres.SQL(postgres.Claim, `UPDATE topup_refunds r SET attempts = r.attempts + 1, next_at = $1
	FROM topup_sessions s
	WHERE s.id = r.topup_id AND r.id IN (SELECT id FROM topup_refunds WHERE state = 'PENDING' AND next_at <= $2 ORDER BY next_at LIMIT $3 FOR UPDATE SKIP LOCKED)
	RETURNING r.id, r.topup_id, r.amount_cents, r.attempts, s.provider, coalesce(s.payment_ref, '') AS payment_ref`)

// claimRefunds counts an attempt for each due refund and leases it, so that no other process takes it.
func claimRefunds(ctx context.Context, tx postgres.Tx, limit int, lease time.Duration) ([]dueRefund, error) {
	return postgres.Query[dueRefund](ctx, tx, claimRefundsSQL, tx.Now.Add(lease), tx.Now, limit)
}

func postponeRefund(ctx context.Context, tx postgres.Tx, refundID, why string, pause time.Duration) error {
	_, err := gorm.G[refundRow](tx.Gorm(ctx)).Where("id = ? AND state = ?", refundID, refundPending).
		Updates(ctx, refundRow{NextAt: tx.Now.Add(pause), LastError: why})
	if err != nil {
		return fmt.Errorf("postpone refund: %w", err)
	}
	return nil
}

// endRefund records the provider's response: ref if it accepted the refund, why if it refused it.
func endRefund(ctx context.Context, tx postgres.Tx, refundID string, to refundState, ref, why string) error {
	_, err := gorm.G[refundRow](tx.Gorm(ctx)).Where("id = ? AND state = ?", refundID, refundPending).
		Select("state", "provider_ref", "last_error", "ended_at").Updates(ctx, refundRow{State: to, ProviderRef: ref,
		LastError: why, EndedAt: &tx.Now})
	if err != nil {
		return fmt.Errorf("end refund: %w", err)
	}
	return nil
}

// ourRefund finds a refund of a top-up by our ID, or by the provider's reference if the provider lost our ID.
func ourRefund(ctx context.Context, tx postgres.Tx, sessionID, refundID, ref string) gorm.ChainInterface[refundRow] {
	return gorm.G[refundRow](tx.Gorm(ctx)).Where("topup_id = ? AND (id = ? OR provider_ref = ?)", sessionID,
		refundID, ref)
}

func isOurRefund(ctx context.Context, tx postgres.Tx, sessionID, refundID, ref string) (bool, error) {
	n, err := ourRefund(ctx, tx, sessionID, refundID, ref).Count(ctx, "id")
	return n > 0, err
}

// failRefund marks a refund of ours as failed after the provider had accepted it.
func failRefund(ctx context.Context, tx postgres.Tx, sessionID, refundID, ref string) error {
	_, err := ourRefund(ctx, tx, sessionID, refundID, ref).
		Updates(ctx, refundRow{State: refundFailed, EndedAt: &tx.Now, ProviderRef: ref,
			LastError: "it came to nothing at the provider"})
	if err != nil {
		return fmt.Errorf("end refund: %w", err)
	}
	return nil
}

func refundedBefore(ctx context.Context, tx postgres.Tx, sessionID string,
	before time.Time,
) (cents money.Cents, err error) {
	err = tx.Gorm(ctx).Model(&refundRow{}).Select("coalesce(sum(amount_cents), 0)::bigint").
		Where("topup_id = ? AND created_at <= ?", sessionID, before).Scan(&cents).Error
	return cents, err
}

func refundedInAll(ctx context.Context, tx postgres.Tx, sessionID string) (cents money.Cents, err error) {
	err = tx.Gorm(ctx).Model(&refundRow{}).Select("coalesce(sum(amount_cents), 0)::bigint").
		Where("topup_id = ?", sessionID).Scan(&cents).Error
	return cents, err
}

func returning(ctx context.Context, tx postgres.Tx, clientID string) ([]Return, error) {
	topUps := tx.Gorm(ctx).Model(&sessionRow{}).Select("id").Where("client_id = ?", clientID)
	rows, err := gorm.G[refundRow](tx.Gorm(ctx)).Where("topup_id IN (?) AND state <> ?", topUps, refundSent).
		Order("created_at DESC, id").Find(ctx)
	list := make([]Return, len(rows))
	for i, r := range rows {
		list[i] = Return{Amount: r.AmountCents, Failed: r.State == refundFailed, Since: r.CreatedAt}
	}
	return list, err
}

// countUnsent counts refunds that are retried after a failed attempt, and those that are permanently refused.
func countUnsent(ctx context.Context, tx postgres.Tx) (retrying, failed int64, err error) {
	retrying, err = gorm.G[refundRow](tx.Gorm(ctx)).Where("state = ? AND last_error <> ''", refundPending).
		Count(ctx, "id")
	if err == nil {
		failed, err = gorm.G[refundRow](tx.Gorm(ctx)).Where("state = ?", refundFailed).Count(ctx, "id")
	}
	return retrying, failed, err
}

func openRefunds(ctx context.Context, tx postgres.Tx, limit int) ([]RefundState, error) {
	rows, err := gorm.G[refundRow](tx.Gorm(ctx)).Where("state <> ?", refundSent).Order("created_at DESC").Limit(limit).
		Find(ctx)
	list := make([]RefundState, len(rows))
	for i, r := range rows {
		list[i] = RefundState{ID: r.ID, TopUpID: r.TopUpID, Amount: r.AmountCents, State: string(r.State),
			Attempts: r.Attempts, LastError: r.LastError, CreatedAt: r.CreatedAt}
	}
	return list, err
}
