package wallet

import (
	"context"
	"time"

	"partnerd/internal/clock"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

// movement holds what the statements below name with @.
type movement struct {
	ID, Client, Application, Consultation, TopUp, Hold, Description string
	Amount, LawyerFee, PlatformFee                                  money.Cents
	Now                                                             time.Time
}

// statement composes a movement. guard is a list of common table expressions that ends with "moved": the wallet as it
// is afterwards with what the movement concerns, or no row when the movement is refused. Everything else follows from
// "moved". All parts see the database as of the statement's start, but a row that another transaction has locked is
// waited for and examined again, so guards that look at the row they update decide on what is committed.
func statement(kind Type, guard, amount, description, postings string) string {
	return `WITH ` + guard + `, entry AS (
	INSERT INTO ledger_transactions (id, client_id, seq, type, amount_cents, balance_after_cents, available_after_cents,
		application_id, consultation_id, topup_id, description, created_at)
	SELECT CAST(@ID AS text), m.client_id, m.entry_seq, '` + string(kind) + `', ` + amount + `, m.available_cents + m.held_cents, m.available_cents,
		m.application_id, m.consultation_id, m.topup_id, ` + description + `, m.last_entry_at
	FROM moved m
), posted AS (
	INSERT INTO postings (transaction_id, account, client_id, amount_cents)
	SELECT CAST(@ID AS text), p.account, CASE WHEN p.account IN ('client_available', 'client_held') THEN m.client_id END, p.cents
	FROM moved m, LATERAL (VALUES ` + postings + `) AS p (account, cents)
)
SELECT count(*) FROM moved`
}

// Parts of guards.
const (
	// touch numbers the entry. Clocks of several replicas differ a little; a wallet's history never goes back.
	touch  = `entry_seq = w.entry_seq + 1, last_entry_at = greatest(w.last_entry_at, CAST(@Now AS timestamptz))`
	result = `w.client_id, w.entry_seq, w.last_entry_at, w.available_cents, w.held_cents`
	given  = result + `, CAST(@Amount AS bigint) AS amount_cents, nullif(CAST(@Application AS text), '') AS application_id,
		nullif(CAST(@Consultation AS text), '') AS consultation_id, nullif(CAST(@TopUp AS text), '') AS topup_id`
)

var (
	holdSQL = statement(Hold, `moved AS (
	UPDATE wallets w SET available_cents = w.available_cents - CAST(@Amount AS bigint), held_cents = w.held_cents + CAST(@Amount AS bigint), `+touch+`
	WHERE w.client_id = @Client AND w.available_cents >= CAST(@Amount AS bigint)
	RETURNING `+given+`
), hold AS (
	INSERT INTO holds (id, client_id, application_id, consultation_id, amount_cents, lawyer_fee_cents, platform_fee_cents, state, created_at)
	SELECT CAST(@Hold AS text), m.client_id, m.application_id, m.consultation_id, m.amount_cents,
		CAST(@LawyerFee AS bigint), CAST(@PlatformFee AS bigint), 'ACTIVE', CAST(@Now AS timestamptz) FROM moved m
)`, `-m.amount_cents`, `'Consultation reserved'`, `('client_available', -m.amount_cents), ('client_held', m.amount_cents)`)

	releaseSQL = statement(Release, ended(`state = 'RELEASED', ended_at = @Now`, `state = 'ACTIVE'`)+
		moved(`available_cents = w.available_cents + h.cents, held_cents = w.held_cents - h.cents`),
		`m.amount_cents`, `'Reservation released'`, `('client_held', -m.amount_cents), ('client_available', m.amount_cents)`)

	captureSQL = statement(Capture, ended(`state = 'CAPTURED', ended_at = @Now`, `state = 'ACTIVE'`)+
		moved(`held_cents = w.held_cents - h.cents`),
		`-m.amount_cents`, `'Consultation'`,
		`('client_held', -m.amount_cents), ('lawyer_fee', m.lawyer_fee_cents), ('platform_fee', m.platform_fee_cents)`)

	refundSQL = statement(Refund, ended(`refunded_cents = CAST(@Amount AS bigint)`,
		`state = 'CAPTURED' AND refunded_cents IS NULL AND amount_cents >= CAST(@Amount AS bigint)`)+
		moved(`available_cents = w.available_cents + h.cents`),
		`m.amount_cents`, `'Refund'`, `('refunds', -m.amount_cents), ('client_available', m.amount_cents)`)

	// The wallet is locked when this runs, so it sees an earlier credit.
	topUpSQL = statement(TopUp, `moved AS (
	UPDATE wallets w SET available_cents = w.available_cents + CAST(@Amount AS bigint), `+touch+`
	WHERE w.client_id = @Client
		AND NOT EXISTS (SELECT FROM ledger_transactions t WHERE t.type = 'TOPUP' AND t.topup_id = CAST(@TopUp AS text))
	RETURNING `+given+`
)`, `m.amount_cents`, `'Top-up'`, `('payment_clearing', -m.amount_cents), ('client_available', m.amount_cents)`)

	adjustSQL = statement(Adjustment, `moved AS (
	UPDATE wallets w SET available_cents = w.available_cents + CAST(@Amount AS bigint), `+touch+`
	WHERE w.client_id = @Client AND w.available_cents + CAST(@Amount AS bigint) >= 0
	RETURNING `+given+`
)`, `m.amount_cents`, `CAST(@Description AS text)`, `('adjustments', -m.amount_cents), ('client_available', m.amount_cents)`)
)

// ended changes the hold of a consultation: at most one of two concurrent attempts finds it in the wanted condition.
func ended(set, condition string) string {
	return `ended AS (
	UPDATE holds SET ` + set + ` WHERE consultation_id = @Consultation AND ` + condition + `
	RETURNING client_id, application_id, consultation_id, coalesce(refunded_cents, amount_cents) AS cents, lawyer_fee_cents, platform_fee_cents
), `
}

func moved(set string) string {
	return `moved AS (
	UPDATE wallets w SET ` + set + `, ` + touch + `
	FROM ended h WHERE w.client_id = h.client_id
	RETURNING ` + result + `, h.cents AS amount_cents, h.lawyer_fee_cents, h.platform_fee_cents, h.application_id, h.consultation_id, CAST(NULL AS text) AS topup_id
)`
}

// move runs a movement and tells whether its guard let it.
func move(ctx context.Context, tx postgres.Tx, sql string, m movement) (bool, error) {
	var n int
	err := tx.Gorm(ctx).Raw(sql, m).Scan(&n).Error
	return n == 1, err
}

func openWallet(ctx context.Context, tx postgres.Tx, clientID string) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO wallets (client_id, last_entry_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, clientID, tx.Now).Error
}

// lockWallet also makes the wallet when there is none, so that there is a row to lock.
func lockWallet(ctx context.Context, tx postgres.Tx, clientID string) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO wallets (client_id, last_entry_at) VALUES (?, ?)
		ON CONFLICT (client_id) DO UPDATE SET last_entry_at = wallets.last_entry_at`, clientID, tx.Now).Error
}

func readBalance(ctx context.Context, tx postgres.Tx, clientID string) (Balance, error) {
	var row struct{ AvailableCents, HeldCents int64 }
	err := tx.Gorm(ctx).Raw(`SELECT available_cents, held_cents FROM wallets WHERE client_id = ?`, clientID).Take(&row).Error
	if err != nil && !postgres.IsNotFound(err) {
		return Balance{}, err
	}
	available, held := money.Cents(row.AvailableCents), money.Cents(row.HeldCents)
	return Balance{Balance: available + held, Available: available, Held: held}, nil
}

type transactionRow struct {
	ID                  string
	Type                string
	Seq                 int64
	AmountCents         int64
	BalanceAfterCents   int64
	AvailableAfterCents int64
	ApplicationID       string
	ConsultationID      string
	Description         string
	CreatedAt           time.Time
}

func (r transactionRow) transaction() Transaction {
	return Transaction{
		ID: r.ID, Type: Type(r.Type), Seq: r.Seq, Amount: money.Cents(r.AmountCents), BalanceAfter: money.Cents(r.BalanceAfterCents),
		AvailableAfter: money.Cents(r.AvailableAfterCents), ApplicationID: r.ApplicationID, ConsultationID: r.ConsultationID,
		Description: r.Description, CreatedAt: clock.Truncate(r.CreatedAt),
	}
}

func listTransactions(ctx context.Context, tx postgres.Tx, clientID string, beforeSeq int64, limit int) ([]Transaction, error) {
	if beforeSeq == 0 {
		beforeSeq = 1<<63 - 1
	}
	var rows []transactionRow
	err := tx.Gorm(ctx).Raw(`SELECT id, type, seq, amount_cents, balance_after_cents, available_after_cents,
			coalesce(application_id, '') AS application_id, coalesce(consultation_id, '') AS consultation_id, description, created_at
		FROM ledger_transactions WHERE client_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?`, clientID, beforeSeq, limit).Scan(&rows).Error
	items := make([]Transaction, len(rows))
	for i, r := range rows {
		items[i] = r.transaction()
	}
	return items, err
}
