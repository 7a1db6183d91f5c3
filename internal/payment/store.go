package payment

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/clock"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

type sessionRow struct {
	ID                            string
	ClientID                      string
	ApplicationID                 *string
	AmountCents                   int64
	ReturnURL                     string
	CheckoutURL                   string
	Provider                      string
	ProviderRef                   *string
	PaymentRef                    *string
	Status                        string
	ReversedCents, UncoveredCents int64
	CreatedAt                     time.Time
	ExpiresAt                     time.Time
}

func (r sessionRow) session(now time.Time) Session {
	s := Session{
		ID: r.ID, ClientID: r.ClientID, Amount: money.Cents(r.AmountCents), ReturnURL: r.ReturnURL, CheckoutURL: r.CheckoutURL,
		Provider: r.Provider, Status: statusAt(Status(r.Status), r.ExpiresAt, now), CreatedAt: clock.Truncate(r.CreatedAt), ExpiresAt: clock.Truncate(r.ExpiresAt),
	}
	s.Reversed = Reversed{Taken: money.Cents(r.ReversedCents), Uncovered: money.Cents(r.UncoveredCents)}
	s.ApplicationID, s.ProviderRef, s.PaymentRef = orEmpty(r.ApplicationID), orEmpty(r.ProviderRef), orEmpty(r.PaymentRef)
	return s
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

const sessionColumns = `id, client_id, application_id, amount_cents, return_url, checkout_url, provider, provider_ref, payment_ref, status, reversed_cents, uncovered_cents, created_at, expires_at`

func insertSession(ctx context.Context, tx postgres.Tx, s Session) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO topup_sessions (id, client_id, application_id, amount_cents, return_url, checkout_url, provider, status, created_at, expires_at)
		VALUES (?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?)`,
		s.ID, s.ClientID, s.ApplicationID, s.Amount, s.ReturnURL, s.CheckoutURL, s.Provider, s.Status, s.CreatedAt, s.ExpiresAt).Error
}

func readSession(ctx context.Context, tx postgres.Tx, sessionID string) (sessionRow, error) {
	var row sessionRow
	err := tx.Gorm(ctx).Raw(`SELECT `+sessionColumns+` FROM topup_sessions WHERE id = ?`, sessionID).Take(&row).Error
	return row, err
}

// lockSession returns nil when the provider has no such session. The lock lets foreign keys refer to the row.
func lockSession(ctx context.Context, tx postgres.Tx, provider, sessionID string) (*Session, error) {
	var row sessionRow
	err := tx.Gorm(ctx).Raw(`SELECT `+sessionColumns+` FROM topup_sessions WHERE id = ? AND provider = ? FOR NO KEY UPDATE`,
		sessionID, provider).Take(&row).Error
	if postgres.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := row.session(tx.Now)
	return &s, nil
}

// endSession records the decision. A cancelled session can still turn out to be paid; a paid one stays paid.
func endSession(ctx context.Context, tx postgres.Tx, sessionID string, to Status, paymentRef string) error {
	res := tx.Gorm(ctx).Exec(`UPDATE topup_sessions SET status = ?, ended_at = ?, payment_ref = nullif(?, '') WHERE id = ? AND status <> 'PAID'`,
		to, tx.Now, paymentRef, sessionID)
	if res.Error != nil {
		return fmt.Errorf("end top-up session: %w", res.Error)
	}
	if res.RowsAffected != 1 {
		return fmt.Errorf("end top-up session %s: it is paid or gone", sessionID)
	}
	return nil
}

// insertNotice tells whether the notice is new. A twin under way is waited for.
func insertNotice(ctx context.Context, tx postgres.Tx, provider string, n Notice, o Outcome) (bool, error) {
	res := tx.Gorm(ctx).Exec(`INSERT INTO payment_notices (provider, notice_id, kind, topup_id, payment_ref, amount_cents, currency, outcome, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		provider, n.ID, n.Type, n.SessionID, n.PaymentRef, n.AmountCents, n.Currency, o, tx.Now)
	return res.RowsAffected == 1, res.Error
}
