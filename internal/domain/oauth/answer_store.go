package oauth

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

// answerRow is a row of oauth_token_answers.
type answerRow struct {
	ApplicationID string    `gorm:"column:application_id;primaryKey"`
	KeyHash       id.Digest `gorm:"column:key_hash;primaryKey"` // of the Idempotency-Key
	Fingerprint   id.Digest `gorm:"column:fingerprint"`         // of the form without the secret
	Sealed        []byte    `gorm:"column:answer_sealed"`       // nil while its transaction is creating the response
	ExpiresAt     time.Time `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (answerRow) TableName() string { return "oauth_token_answers" }

// claimAnswer claims the row of a key and locks it until the transaction ends. It creates the row, or resets it if it
// has expired. A concurrent duplicate waits here.
func claimAnswer(ctx context.Context, tx postgres.Tx, applicationID string,
	key, fingerprint id.Digest,
) (answerRow, error) {
	ifOver := func(column string) clause.Assignment {
		return clause.Assignment{Column: clause.Column{Name: column},
			Value: gorm.Expr("CASE WHEN oauth_token_answers.expires_at <= "+
				"? THEN excluded."+column+" ELSE oauth_token_answers."+column+" END", tx.Now)}
	}
	claim := clause.OnConflict{Columns: []clause.Column{{Name: "application_id"}, {Name: "key_hash"}},
		DoUpdates: clause.Set{ifOver("fingerprint"), ifOver("answer_sealed")}}
	r := answerRow{ApplicationID: applicationID, KeyHash: key, Fingerprint: fingerprint,
		ExpiresAt: tx.Now.Add(AnswerRetention)}
	if err := gorm.G[answerRow](tx.Gorm(ctx), claim, postgres.Returning[answerRow]()).Create(ctx, &r); err != nil {
		return answerRow{}, fmt.Errorf("claim idempotency key: %w", err)
	}
	return r, nil
}

func storeAnswer(ctx context.Context, tx postgres.Tx, applicationID string, key id.Digest, sealed []byte) error {
	_, err := gorm.G[answerRow](tx.Gorm(ctx)).Where("application_id = ? AND key_hash = ?", applicationID, key).
		Updates(ctx, answerRow{Sealed: sealed, ExpiresAt: tx.Now.Add(AnswerRetention)})
	if err != nil {
		return fmt.Errorf("store token answer: %w", err)
	}
	return nil
}

func deleteAnswers(ctx context.Context, tx postgres.Tx, limit int) (int, error) {
	n, err := postgres.Purge[answerRow](ctx, tx, limit, "expires_at", "expires_at <= ?", tx.Now)
	if err != nil {
		return 0, fmt.Errorf("delete token answers: %w", err)
	}
	return n, nil
}
