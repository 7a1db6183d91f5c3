package payment

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// reversalRow is a row of payment_reversals: what is known of one dispute, refund or charge of a payment. Its values
// only increase.
type reversalRow struct {
	Provider    string       `gorm:"column:provider;primaryKey"`
	Ref         string       `gorm:"column:ref;primaryKey"` // the provider's dispute, refund or charge
	PaymentRef  string       `gorm:"column:payment_ref"`    // the provider's payment; its session may follow later
	Kind        reversalKind `gorm:"column:kind"`
	AmountCents money.Cents  `gorm:"column:amount_cents"`
	Gone        bool         `gorm:"column:gone"`
	Back        bool         `gorm:"column:back"`
}

// TableName implements [schema.Tabler].
func (reversalRow) TableName() string { return "payment_reversals" }

// lockPayment makes notices about one payment queue, even before its session is known. Notices without a payment are
// not locked.
func lockPayment(ctx context.Context, tx postgres.Tx, provider, paymentRef string) error {
	if paymentRef == "" {
		return nil
	}
	return tx.Lock(ctx, "payment "+provider+" "+paymentRef)
}

// keepReversal merges a notice into what is known of the dispute, refund or charge.
func keepReversal(ctx context.Context, tx postgres.Tx, provider string, n Notice, amount money.Cents) error {
	kind := map[Kind]reversalKind{PaymentDisputed: reversalDispute, PaymentRefunded: reversalRefund,
		PaymentRefundSum: reversalRefunded}[n.Type]
	more := clause.OnConflict{Columns: []clause.Column{{Name: "provider"}, {Name: "ref"}},
		DoUpdates: clause.Assignments(map[string]any{
			"amount_cents": gorm.Expr("greatest(payment_reversals.amount_cents, excluded.amount_cents)"),
			"gone":         gorm.Expr("payment_reversals.gone OR excluded.gone"),
			"back":         gorm.Expr("payment_reversals.back OR excluded.back"),
		})}
	return gorm.G[reversalRow](tx.Gorm(ctx), more).Create(ctx, &reversalRow{
		Provider: provider, Ref: n.Reversal.Ref, PaymentRef: n.PaymentRef, Kind: kind, AmountCents: amount,
		Gone: n.Reversal.Gone, Back: n.Reversal.Back,
	})
}

func reversalsOf(ctx context.Context, tx postgres.Tx, provider, paymentRef string) ([]reversalRow, error) {
	return gorm.G[reversalRow](tx.Gorm(ctx)).Where("provider = ? AND payment_ref = ?", provider, paymentRef).Find(ctx)
}
