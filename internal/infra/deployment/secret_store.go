package deployment

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/seal"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/reseal"
)

// secretRow is a row of deployment_secrets.
type secretRow struct {
	Purpose      string    `gorm:"column:purpose;primaryKey"`
	SecretSealed []byte    `gorm:"column:secret_sealed"` // by the master key
	CreatedAt    time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (secretRow) TableName() string { return "deployment_secrets" }

// Sealed returns the columns that the master key seals.
func Sealed() []reseal.Column {
	return []reseal.Column{{Table: secretRow{}.TableName(), ID: "purpose", Name: "secret_sealed", Place: secretPlace}}
}

// Secret returns the deployment's secret for a purpose. The first call of any process stores the secret that it
// proposes.
func Secret(ctx context.Context, tx postgres.Tx, box *seal.Box, purpose string, proposed []byte) ([]byte, error) {
	r, err := gorm.G[secretRow](tx.Gorm(ctx)).Where("purpose = ?", purpose).Take(ctx)
	if postgres.IsNotFound(err) {
		sealed, sealErr := box.Seal(secretPlace(purpose), proposed)
		if sealErr != nil {
			return nil, sealErr
		}
		err = gorm.G[secretRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}).Create(ctx,
			&secretRow{Purpose: purpose, SecretSealed: sealed, CreatedAt: tx.Now})
		if err == nil {
			r, err = gorm.G[secretRow](tx.Gorm(ctx)).Where("purpose = ?", purpose).Take(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("secret of %s: %w", purpose, err)
	}
	return box.Open(secretPlace(purpose), r.SecretSealed)
}

func secretPlace(purpose string) string { return "deployment_secrets.secret:" + purpose }
