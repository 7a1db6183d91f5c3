package payment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// sessionRow is a row of topup_sessions: a session, with the columns that are only stored.
type sessionRow struct {
	Session
	ProviderURL string `gorm:"column:provider_url;serializer:zeronull"` // the page of the provider's session
	// when the client was about to pay; part of the idempotency key at the provider
	OpenedAt *time.Time `gorm:"column:opened_at"`
	EndedAt  *time.Time `gorm:"column:ended_at"`
}

// TableName implements [schema.Tabler].
func (sessionRow) TableName() string { return "topup_sessions" }

func (r sessionRow) session(now time.Time) Session {
	r.Status = statusAt(r.Status, r.ExpiresAt, now)
	return r.Session
}

// noticeRow is a row of payment_notices: a provider's notice and its outcome.
type noticeRow struct {
	Provider    string      `gorm:"column:provider;primaryKey"`
	NoticeID    string      `gorm:"column:notice_id;primaryKey"`
	Kind        Kind        `gorm:"column:kind"`
	TopUpID     string      `gorm:"column:topup_id"` // as sent by the provider; may not exist
	AmountCents money.Cents `gorm:"column:amount_cents"`
	Currency    string      `gorm:"column:currency"`
	Outcome     Outcome     `gorm:"column:outcome"`
	ReceivedAt  time.Time   `gorm:"column:received_at"`
	PaymentRef  string      `gorm:"column:payment_ref"` // may be empty
}

// TableName implements [schema.Tabler].
func (noticeRow) TableName() string { return "payment_notices" }

func insertSession(ctx context.Context, tx postgres.Tx, s Session) error {
	return gorm.G[sessionRow](tx.Gorm(ctx)).Create(ctx, &sessionRow{Session: s})
}

func readSession(ctx context.Context, tx postgres.Tx, sessionID string) (sessionRow, error) {
	return gorm.G[sessionRow](tx.Gorm(ctx)).Where("id = ?", sessionID).Take(ctx)
}

// lockSession locks the one session selected by where, or returns nil if there is none. The lock does not block foreign
// keys to the row.
func lockSession(ctx context.Context, tx postgres.Tx, where string, args ...any) (*Session, error) {
	row, err := gorm.G[sessionRow](tx.Gorm(ctx), postgres.ForNoKeyUpdate).Where(where, args...).Take(ctx)
	if postgres.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock top-up session: %w", err)
	}
	s := row.session(tx.Now)
	return &s, nil
}

// openSession marks, once, that the client is about to pay. The sandbox is then told to take the money, or a provider
// is asked for its session. It keeps the row locked.
func openSession(ctx context.Context, tx postgres.Tx, sessionID string) (row sessionRow, err error) {
	var rows []sessionRow
	err = tx.Gorm(ctx).Model(&rows).Clauses(postgres.Returning[sessionRow]()).Where("id = ?", sessionID).
		Updates(map[string]any{"opened_at": gorm.Expr("coalesce(opened_at, ?)", tx.Now)}).Error
	if err == nil && len(rows) == 0 {
		err = gorm.ErrRecordNotFound
	}
	if err != nil {
		return row, fmt.Errorf("open checkout: %w", err)
	}
	return rows[0], nil
}

// reopenSession resets an attempt that the provider refused, unless another visit has already done so.
func reopenSession(ctx context.Context, tx postgres.Tx, sessionID string, openedAt time.Time) error {
	_, err := gorm.G[sessionRow](tx.Gorm(ctx)).
		Where("id = ? AND opened_at = ? AND provider_ref IS NULL", sessionID, openedAt).
		Select("opened_at").Updates(ctx, sessionRow{})
	return err
}

func storeCheckout(ctx context.Context, tx postgres.Tx, sessionID string, c Checkout) error {
	_, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("id = ? AND provider_ref IS NULL", sessionID).Updates(ctx,
		sessionRow{Session: Session{ProviderRef: c.Ref}, ProviderURL: c.URL})
	return err
}

// cancelOpenSession cancels a session unless a notice has already decided it.
func cancelOpenSession(ctx context.Context, tx postgres.Tx, sessionID string) error {
	_, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("id = ? AND status = ?", sessionID, Open).Updates(ctx,
		sessionRow{Session: Session{Status: Cancelled}, EndedAt: &tx.Now})
	if err != nil {
		return fmt.Errorf("cancel checkout: %w", err)
	}
	return nil
}

// endSession records the decision. A cancelled session may still become paid; a paid one stays paid.
func endSession(ctx context.Context, tx postgres.Tx, sessionID string, to Status, paymentRef string) error {
	n, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("id = ? AND status <> ?", sessionID, Paid).
		Select("status", "ended_at", "payment_ref").Updates(ctx,
		sessionRow{Session: Session{Status: to, PaymentRef: paymentRef}, EndedAt: &tx.Now})
	if err != nil {
		return fmt.Errorf("end top-up session: %w", err)
	}
	if n != 1 {
		return fmt.Errorf("end top-up session %s: it is paid or gone", sessionID)
	}
	return nil
}

func updateReversed(ctx context.Context, tx postgres.Tx, sessionID string, r Reversed) error {
	_, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("id = ?", sessionID).
		Select("reversed_cents", "uncovered_cents").Updates(ctx, sessionRow{Session: Session{Reversed: r}})
	return err
}

func eraseReturnURLs(ctx context.Context, tx postgres.Tx, clientID string) error {
	_, err := gorm.G[sessionRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Select("return_url").
		Updates(ctx, sessionRow{})
	return err
}

// mayBePaid selects undecided sessions that may still be paid. That is until they expire, while the provider's page
// accepts payment, and while their money is on its way. A sandbox session always gets paid once the sandbox was told
// to.
func mayBePaid(ctx context.Context, tx postgres.Tx) *gorm.DB {
	payable := tx.Gorm(ctx).Where("expires_at > ? OR opened_at > ?", tx.Now, tx.Now.Add(-minCheckout)).
		Or(onItsWay(ctx, tx))
	return tx.Gorm(ctx).Where("status = ?", Open).Where(payable)
}

// openTopUps lists the client's open top-ups and marks those whose money is on its way.
func openTopUps(ctx context.Context, tx postgres.Tx, clientID string) ([]OpenTopUp, error) {
	ofClient := func() *gorm.DB {
		return tx.Gorm(ctx).Model(&sessionRow{}).Where("client_id = ?", clientID).Where(mayBePaid(ctx, tx))
	}
	var rows []sessionRow
	if err := ofClient().Order("created_at DESC, id").Find(&rows).Error; err != nil {
		return nil, err
	}
	var pending []string
	err := ofClient().Where(onItsWay(ctx, tx)).Pluck("id", &pending).Error
	list := make([]OpenTopUp, len(rows))
	for i, r := range rows {
		list[i] = OpenTopUp{r.session(tx.Now), slices.Contains(pending, r.ID)}
	}
	return list, err
}

// underWay reports whether one of the client's sessions may still be paid or a refund has not reached its source.
func underWay(ctx context.Context, tx postgres.Tx, clientID string) (bool, error) {
	refunding := tx.Gorm(ctx).Model(&refundRow{}).Select("1").
		Where("topup_refunds.topup_id = topup_sessions.id AND state = ?", refundPending)
	var some []string
	err := tx.Gorm(ctx).Model(&sessionRow{}).Where("client_id = ?", clientID).
		Where(mayBePaid(ctx, tx).Or("EXISTS (?)", refunding)).Limit(1).Pluck("id", &some).Error
	return len(some) > 0, err
}

// otherBegunAmount adds up the client's other sessions that were begun and may still be paid.
func otherBegunAmount(ctx context.Context, tx postgres.Tx, session Session) (cents money.Cents, err error) {
	err = tx.Gorm(ctx).Model(&sessionRow{}).Select("coalesce(sum(amount_cents), 0)::bigint").
		Where("client_id = ? AND id <> ? AND opened_at IS NOT NULL", session.ClientID, session.ID).
		Where(mayBePaid(ctx, tx)).Scan(&cents).Error
	return cents, err
}

// onItsWay selects sessions that were paid but whose money has not arrived: the provider said so, or the sandbox was
// told to take it.
func onItsWay(ctx context.Context, tx postgres.Tx) *gorm.DB {
	return tx.Gorm(ctx).Where(`opened_at IS NOT NULL AND provider = ?
		OR EXISTS (SELECT FROM payment_notices n WHERE n.topup_id = topup_sessions.id AND n.outcome = ?)`,
		SandboxProvider, Awaited)
}

func isPending(ctx context.Context, tx postgres.Tx, sessionID string) (bool, error) {
	var n int64
	err := tx.Gorm(ctx).Model(&sessionRow{}).Where("id = ? AND status = ?", sessionID, Open).Where(onItsWay(ctx, tx)).
		Count(&n).Error
	return n > 0, err
}

// insertNotice stores a notice and reports whether it is new. It waits for a concurrent duplicate.
func insertNotice(ctx context.Context, tx postgres.Tx, provider string, n Notice, o Outcome) (bool, error) {
	inserted := gorm.WithResult()
	err := gorm.G[noticeRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}, inserted).Create(ctx, &noticeRow{
		Provider: provider, NoticeID: n.ID, Kind: n.Type, TopUpID: n.SessionID, AmountCents: n.AmountCents,
		Currency: n.Currency, Outcome: o, ReceivedAt: tx.Now, PaymentRef: n.PaymentRef,
	})
	return err == nil && inserted.RowsAffected == 1, err
}

func incidents(ctx context.Context, tx postgres.Tx, limit int) (list []Incident, err error) {
	err = tx.Gorm(ctx).Table("payment_notices n").Joins("LEFT JOIN topup_sessions s ON s.id = n.topup_id").
		Select(`n.provider, n.notice_id, n.topup_id AS session_id, n.payment_ref, n.amount_cents AS amount, n.currency, n.outcome,
			coalesce(s.reversed_cents, 0) AS taken, coalesce(s.uncovered_cents, 0) AS uncovered, n.received_at`).
		Where("n.outcome IN ?", incidentOutcomes).Order("n.received_at DESC").Limit(limit).Find(&list).Error
	return list, err
}

type incidentCount struct {
	Outcome Outcome
	Count   int64
}

func countIncidents(ctx context.Context, tx postgres.Tx) (counts []incidentCount, err error) {
	err = tx.Gorm(ctx).Model(&noticeRow{}).Select("outcome, count(*) AS count").Where("outcome IN ?", incidentOutcomes).
		Group("outcome").Find(&counts).Error
	return counts, err
}
