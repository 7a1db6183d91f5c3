package operator

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// proposalRow is a row of operator_proposals.
type proposalRow struct {
	ID          string        `gorm:"column:id;primaryKey"`
	Kind        Kind          `gorm:"column:kind"`
	Subject     string        `gorm:"column:subject"`
	AmountCents money.Cents   `gorm:"column:amount_cents"`
	ProposedBy  string        `gorm:"column:proposed_by"`
	Reason      string        `gorm:"column:reason"`
	CloseReason string        `gorm:"column:close_reason"` // of a consultation that is to be closed
	State       ProposalState `gorm:"column:state"`        // can stay OPEN for a while after it expired
	CreatedAt   time.Time     `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt   time.Time     `gorm:"column:expires_at"`
	DecidedBy   string        `gorm:"column:decided_by;serializer:zeronull"`
	DecidedAt   *time.Time    `gorm:"column:decided_at"`
}

// TableName implements [schema.Tabler].
func (proposalRow) TableName() string { return "operator_proposals" }

func fromRow(r proposalRow) Proposal {
	return Proposal{ID: r.ID, Kind: r.Kind, Subject: r.Subject, Amount: r.AmountCents, By: r.ProposedBy,
		Reason: r.Reason, Close: consultation.Reason(r.CloseReason), State: r.State,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, DecidedBy: r.DecidedBy, DecidedAt: r.DecidedAt}
}

func insertProposal(ctx context.Context, tx postgres.Tx, p Proposal) error {
	err := gorm.G[proposalRow](tx.Gorm(ctx)).Create(ctx, &proposalRow{ID: p.ID, Kind: p.Kind, Subject: p.Subject,
		AmountCents: p.Amount, ProposedBy: p.By, Reason: p.Reason, CloseReason: string(p.Close), State: p.State,
		CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt})
	if postgres.IsUnique(err, "operator_proposals_open") {
		return ErrProposed
	}
	if err != nil {
		return fmt.Errorf("insert proposal: %w", err)
	}
	return nil
}

// endOverdue ends an expired proposal, to make room for a new one.
func endOverdue(ctx context.Context, tx postgres.Tx, kind Kind, subject string) error {
	_, err := gorm.G[proposalRow](tx.Gorm(ctx)).
		Where("kind = ? AND subject = ? AND state = ? AND expires_at <= ?", kind, subject, Open, tx.Now).
		Update(ctx, "state", RanOut)
	if err != nil {
		return fmt.Errorf("end proposals that ran out: %w", err)
	}
	return nil
}

func proposalByID(ctx context.Context, tx postgres.Tx, proposalID string, lock ...clause.Expression) (Proposal, error) {
	r, err := gorm.G[proposalRow](tx.Gorm(ctx), lock...).Where("id = ?", proposalID).Take(ctx)
	if postgres.IsNotFound(err) {
		return Proposal{}, ErrNoProposal
	}
	if err != nil {
		return Proposal{}, fmt.Errorf("read proposal: %w", err)
	}
	return fromRow(r), nil
}

func lockProposal(ctx context.Context, tx postgres.Tx, proposalID string) (Proposal, error) {
	return proposalByID(ctx, tx, proposalID, postgres.ForUpdate)
}

func endProposal(ctx context.Context, tx postgres.Tx, p Proposal) error {
	n, err := gorm.G[proposalRow](tx.Gorm(ctx)).Where("id = ? AND state = ?", p.ID, Open).
		Updates(ctx, proposalRow{State: p.State, DecidedBy: p.DecidedBy, DecidedAt: p.DecidedAt})
	if err != nil {
		return fmt.Errorf("end proposal: %w", err)
	}
	if n == 0 {
		return ErrDecided
	}
	return nil
}

func openProposals(ctx context.Context, tx postgres.Tx) ([]Proposal, error) {
	return proposals(ctx, gorm.G[proposalRow](tx.Gorm(ctx)).Where("state = ? AND expires_at > ?", Open, tx.Now))
}

func proposalsFor(ctx context.Context, tx postgres.Tx, subject string) ([]Proposal, error) {
	return proposals(ctx, gorm.G[proposalRow](tx.Gorm(ctx)).Where("subject = ?", subject).Limit(100))
}

// lockProposalsOf lists and locks the open proposals of a person that have not expired.
func lockProposalsOf(ctx context.Context, tx postgres.Tx, staffID string) ([]Proposal, error) {
	return proposals(ctx, gorm.G[proposalRow](tx.Gorm(ctx), postgres.ForUpdate).
		Where("proposed_by = ? AND state = ? AND expires_at > ?", staffID, Open, tx.Now))
}

// endEarly expires a locked proposal now: [Proposal.EndedEarly].
func endEarly(ctx context.Context, tx postgres.Tx, p Proposal) error {
	_, err := gorm.G[proposalRow](tx.Gorm(ctx)).Where("id = ?", p.ID).
		Updates(ctx, proposalRow{State: RanOut, ExpiresAt: tx.Now})
	if err != nil {
		return fmt.Errorf("end proposal %s: %w", p.ID, err)
	}
	return nil
}

func proposals(ctx context.Context, q gorm.ChainInterface[proposalRow]) ([]Proposal, error) {
	rows, err := q.Order("id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list proposals: %w", err)
	}
	list := make([]Proposal, len(rows))
	for i, r := range rows {
		list[i] = fromRow(r)
	}
	return list, nil
}

// amountRow is a row of operator_amounts.
type amountRow struct {
	EntryID     string      `gorm:"column:entry_id;primaryKey"`
	OperatorID  string      `gorm:"column:operator_id"`
	ClientID    string      `gorm:"column:client_id"`
	AmountCents money.Cents `gorm:"column:amount_cents"` // always positive
	MovedAt     time.Time   `gorm:"column:moved_at"`
}

// TableName implements [schema.Tabler].
func (amountRow) TableName() string { return "operator_amounts" }

// amountsSince lists the amounts that were moved for a client, or by a person, after since.
func amountsSince(ctx context.Context, tx postgres.Tx, since time.Time,
	operatorID, clientID string,
) ([]amountRow, error) {
	rows, err := gorm.G[amountRow](tx.Gorm(ctx)).Where("(operator_id = ? OR client_id = ?) AND moved_at > ?",
		operatorID, clientID, since).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read amounts: %w", err)
	}
	return rows, nil
}

// insertAmount stores an amount. It also deletes the person's amounts that are too old to count.
func insertAmount(ctx context.Context, tx postgres.Tx, r amountRow, since time.Time) error {
	if _, err := gorm.G[amountRow](tx.Gorm(ctx)).Where("operator_id = ? AND moved_at <= ?", r.OperatorID, since).
		Delete(ctx); err != nil {
		return fmt.Errorf("delete amounts: %w", err)
	}
	err := gorm.G[amountRow](tx.Gorm(ctx)).Create(ctx, &r)
	if postgres.IsUnique(err, "operator_amounts_pkey") {
		return audit.ErrRepeated
	}
	if err != nil {
		return fmt.Errorf("insert amount: %w", err)
	}
	return nil
}
