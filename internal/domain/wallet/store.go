package wallet

import (
	"context"
	"database/sql"
	"math"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// walletRow is a row of wallets.
type walletRow struct {
	ClientID       string      `gorm:"column:client_id;primaryKey"`
	AvailableCents money.Cents `gorm:"column:available_cents"`
	HeldCents      money.Cents `gorm:"column:held_cents"`
	EntrySeq       int64       `gorm:"column:entry_seq"` // number of the newest transaction; 0 before the first
	LastEntryAt    time.Time   `gorm:"column:last_entry_at"`
	EntryHash      []byte      `gorm:"column:entry_hash"` // hash of the newest transaction; empty before the first
}

// TableName implements [schema.Tabler].
func (walletRow) TableName() string { return "wallets" }

func (r walletRow) balance() Balance {
	return Balance{Balance: r.AvailableCents + r.HeldCents, Available: r.AvailableCents, Held: r.HeldCents}
}

// transactionRow is a row of ledger_transactions.
type transactionRow struct {
	ID                  string      `gorm:"column:id;primaryKey"`
	ClientID            string      `gorm:"column:client_id"`
	Seq                 int64       `gorm:"column:seq"` // 1, 2, 3 … within the wallet
	Type                Type        `gorm:"column:type"`
	AmountCents         money.Cents `gorm:"column:amount_cents"` // as shown: see the table in doc.go
	BalanceAfterCents   money.Cents `gorm:"column:balance_after_cents"`
	AvailableAfterCents money.Cents `gorm:"column:available_after_cents"`
	ApplicationID       string      `gorm:"column:application_id;serializer:zeronull"`
	ConsultationID      string      `gorm:"column:consultation_id;serializer:zeronull"`
	TopUpID             string      `gorm:"column:topup_id;serializer:zeronull"`
	Description         string      `gorm:"column:description"`
	CreatedAt           time.Time   `gorm:"column:created_at;autoCreateTime:false"`
	// over the wallet's previous transaction, this one and its postings
	Hash []byte `gorm:"column:hash"`
}

// TableName implements [schema.Tabler].
func (transactionRow) TableName() string { return "ledger_transactions" }

// postingRow is a row of postings.
type postingRow struct {
	TransactionID string `gorm:"column:transaction_id;primaryKey"`
	Account       string `gorm:"column:account;primaryKey"`
	// owner of the account; empty for accounts that are not a client's
	ClientID    string      `gorm:"column:client_id;serializer:zeronull"`
	AmountCents money.Cents `gorm:"column:amount_cents"` // those of a transaction sum to zero
}

// TableName implements [schema.Tabler].
func (postingRow) TableName() string { return "postings" }

// holdRow is a row of holds.
type holdRow struct {
	ID               string      `gorm:"column:id;primaryKey"`
	ClientID         string      `gorm:"column:client_id"`
	ApplicationID    string      `gorm:"column:application_id;serializer:zeronull"`
	ConsultationID   string      `gorm:"column:consultation_id"`
	AmountCents      money.Cents `gorm:"column:amount_cents"`
	LawyerFeeCents   money.Cents `gorm:"column:lawyer_fee_cents"` // the split, fixed at the reservation
	PlatformFeeCents money.Cents `gorm:"column:platform_fee_cents"`
	State            string      `gorm:"column:state"`                              // ACTIVE, CAPTURED or RELEASED
	RefundedCents    money.Cents `gorm:"column:refunded_cents;serializer:zeronull"` // once, after the capture
	CreatedAt        time.Time   `gorm:"column:created_at;autoCreateTime:false"`
	EndedAt          *time.Time  `gorm:"column:ended_at"`
}

// TableName implements [schema.Tabler].
func (holdRow) TableName() string { return "holds" }

func openWallet(ctx context.Context, tx postgres.Tx, clientID string) error {
	return gorm.G[walletRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}).Create(ctx,
		&walletRow{ClientID: clientID, LastEntryAt: tx.Now, EntryHash: []byte{}})
}

// lockWallet locks the wallet and creates it if it does not exist, so that there is a row to lock.
func lockWallet(ctx context.Context, tx postgres.Tx, clientID string) (walletRow, error) {
	row := walletRow{ClientID: clientID, LastEntryAt: tx.Now, EntryHash: []byte{}}
	same := clause.OnConflict{Columns: []clause.Column{{Name: "client_id"}},
		DoUpdates: clause.Assignments(map[string]any{"last_entry_at": gorm.Expr("wallets.last_entry_at")})}
	err := gorm.G[walletRow](tx.Gorm(ctx), same, clause.Returning{Columns: []clause.Column{{Name: "available_cents"},
		{Name: "held_cents"}}}).Create(ctx, &row)
	return row, err
}

var (
	balanceSQL = postgres.SQL(postgres.Hot, `SELECT available_cents, held_cents FROM wallets WHERE client_id = $1`)

	pageSQL = postgres.SQL(postgres.Hot,
		`SELECT id, type, seq, amount_cents, balance_after_cents, available_after_cents,
			coalesce(application_id, ''), coalesce(consultation_id, ''), description, created_at
		FROM ledger_transactions WHERE client_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3`)
)

func readBalance(ctx context.Context, tx postgres.Tx, clientID string) (Balance, error) {
	var row walletRow
	err := tx.QueryRow(ctx, balanceSQL, clientID).Scan((*int64)(&row.AvailableCents), (*int64)(&row.HeldCents))
	if postgres.IsNotFound(err) {
		return Balance{}, nil
	}
	return row.balance(), err
}

// listTransactions returns the newest transactions first.
func listTransactions(ctx context.Context, tx postgres.Tx, clientID string, beforeSeq int64,
	limit int,
) ([]Transaction, error) {
	items := make([]Transaction, 0, limit)
	err := tx.Rows(ctx, pageSQL, func(rows *sql.Rows) error {
		var t Transaction
		// database/sql converts our own types through text, so scan into the underlying types.
		err := rows.Scan(&t.ID, (*string)(&t.Type), &t.Seq, (*int64)(&t.Amount), (*int64)(&t.BalanceAfter),
			(*int64)(&t.AvailableAfter), &t.ApplicationID, &t.ConsultationID, &t.Description, &t.CreatedAt)
		items = append(items, t)
		return err
	}, clientID, before(beforeSeq), limit)
	return items, err
}

// before returns seq, or a number above all others if seq is 0.
func before(seq int64) int64 {
	if seq == 0 {
		return math.MaxInt64
	}
	return seq
}

// monthOf returns the oldest transactions first.
func monthOf(ctx context.Context, tx postgres.Tx, clientID string, from, to time.Time) ([]Transaction, error) {
	rows, err := gorm.G[transactionRow](tx.Gorm(ctx)).Where("client_id = ? AND created_at >= ? AND created_at < ?",
		clientID, from, to).Order("seq").Find(ctx)
	items := make([]Transaction, len(rows))
	for i, r := range rows {
		items[i] = Transaction{ID: r.ID, Type: r.Type, Seq: r.Seq, Amount: r.AmountCents,
			BalanceAfter: r.BalanceAfterCents, AvailableAfter: r.AvailableAfterCents, ApplicationID: r.ApplicationID,
			ConsultationID: r.ConsultationID, Description: r.Description, CreatedAt: r.CreatedAt}
	}
	return items, err
}

func balanceBefore(ctx context.Context, tx postgres.Tx, clientID string, instant time.Time) (money.Cents, error) {
	row, err := gorm.G[transactionRow](tx.Gorm(ctx)).Where("client_id = ? AND created_at < ?", clientID, instant).
		Order("seq DESC").Take(ctx)
	if postgres.IsNotFound(err) {
		return 0, nil
	}
	return row.BalanceAfterCents, err
}

// linesSQL adds up all movements of the wallet, because the charge and refund of a consultation change an earlier line.
// A charge does not change the available amount; the reservation did.
var linesSQL = postgres.SQL(postgres.Report, `WITH lines AS (
		SELECT min(seq) AS seq, (array_agg(type ORDER BY seq))[1] AS type,
			(array_agg(description ORDER BY seq))[1] AS description, min(created_at) AS created_at,
			CASE WHEN consultation_id IS NULL THEN 'BOOKED' WHEN bool_or(type = 'REFUND') THEN 'REFUNDED' WHEN bool_or(type = 'CAPTURE') THEN 'PAID'
				WHEN bool_or(type = 'RELEASE') THEN 'RELEASED' ELSE 'RESERVED' END AS state,
			coalesce(sum(amount_cents) FILTER (WHERE type <> 'CAPTURE'), 0)::bigint AS amount,
			coalesce(sum(amount_cents) FILTER (WHERE type = 'REFUND'), 0)::bigint AS refunded,
			coalesce(max(application_id), '') AS application_id, coalesce(consultation_id, '') AS consultation_id
		FROM ledger_transactions WHERE client_id = $1
		GROUP BY ledger_transactions.consultation_id, CASE WHEN ledger_transactions.consultation_id IS NULL THEN id END
	), added AS (SELECT *, (sum(amount) OVER (ORDER BY seq))::bigint AS available FROM lines)
	SELECT * FROM added WHERE seq < $2 ORDER BY seq DESC LIMIT $3`)

func listLines(ctx context.Context, tx postgres.Tx, clientID string, beforeSeq int64, limit int) ([]Line, error) {
	return postgres.Query[Line](ctx, tx, linesSQL, clientID, before(beforeSeq), limit)
}

func transactionsOf(ctx context.Context, tx postgres.Tx, consultationID string) ([]Transaction, error) {
	rows, err := gorm.G[transactionRow](tx.Gorm(ctx)).Where("consultation_id = ?", consultationID).Order("seq").
		Find(ctx)
	list := make([]Transaction, len(rows))
	for i, r := range rows {
		list[i] = Transaction{ID: r.ID, Type: r.Type, Seq: r.Seq, Amount: r.AmountCents,
			BalanceAfter: r.BalanceAfterCents, AvailableAfter: r.AvailableAfterCents, ApplicationID: r.ApplicationID,
			ConsultationID: r.ConsultationID, Description: r.Description, CreatedAt: r.CreatedAt}
	}
	return list, err
}
