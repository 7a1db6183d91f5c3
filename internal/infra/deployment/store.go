package deployment

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// row is the only row of deployment.
type row struct {
	Single      bool      `gorm:"column:single;primaryKey"` // always true
	Environment string    `gorm:"column:environment"`
	BaseURL     string    `gorm:"column:base_url;serializer:zeronull"`
	CreatedAt   time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (row) TableName() string { return "deployment" }

var (
	lockSQL = postgres.SQL(postgres.Backend, `SELECT pg_advisory_xact_lock(hashtext('deployment'))`)

	tablesSQL = postgres.SQL(postgres.Backend, `SELECT to_regclass('deployment') IS NOT NULL,
		to_regclass('ledger_transactions') IS NOT NULL AND to_regclass('lawyers') IS NOT NULL`)

	dataSQL = postgres.SQL(postgres.Report, `SELECT EXISTS (SELECT FROM applications WHERE id LIKE 'app\_test\_%')
			OR EXISTS (SELECT FROM clients WHERE id LIKE 'cli\_test\_%') OR EXISTS (SELECT FROM lawyers WHERE simulated OR id LIKE 'law\_test\_%'),
		EXISTS (SELECT FROM applications WHERE id NOT LIKE 'app\_test\_%')
			OR EXISTS (SELECT FROM clients WHERE id NOT LIKE 'cli\_test\_%') OR EXISTS (SELECT FROM lawyers WHERE id NOT LIKE 'law\_test\_%')`)
)

// lock serialises callers that record, until they commit.
func lock(ctx context.Context, tx postgres.Tx) error {
	_, err := tx.Exec(ctx, lockSQL)
	return err
}

func read(ctx context.Context, tx postgres.Tx) (k Known, err error) {
	var table, filled bool
	if err := tx.QueryRow(ctx, tablesSQL).Scan(&table, &filled); err != nil {
		return k, err
	}
	if table {
		r, err := gorm.G[row](tx.Gorm(ctx)).Take(ctx)
		if !postgres.IsNotFound(err) {
			return Known{Environment: r.Environment, BaseURL: r.BaseURL, Recorded: err == nil}, err
		}
	}
	if !filled {
		return k, nil
	}
	var sandbox, live bool
	err = tx.QueryRow(ctx, dataSQL).Scan(&sandbox, &live)
	switch {
	case sandbox && live:
		k.Mixed = true
	case sandbox:
		k.Environment = Sandbox
	case live:
		k.Environment = Live
	}
	return k, err
}

// write keeps the environment of an existing row. An empty base URL means none.
func write(ctx context.Context, tx postgres.Tx, environment, baseURL string) error {
	keep := clause.OnConflict{Columns: []clause.Column{{Name: "single"}},
		DoUpdates: clause.AssignmentColumns([]string{"base_url"})}
	return gorm.G[row](tx.Gorm(ctx), keep).Create(ctx, &row{Single: true, Environment: environment, BaseURL: baseURL,
		CreatedAt: tx.Now})
}
