package ratelimit

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// bucketRow is a row of rate_buckets.
type bucketRow struct {
	Key    string    `gorm:"column:key;primaryKey"`
	FullAt time.Time `gorm:"column:full_at"` // when the bucket is full again
}

// TableName implements [schema.Tabler].
func (bucketRow) TableName() string { return "rate_buckets" }

// Take takes one request from the bucket of key, as [Limiter.Allow] does, for all processes of the database. It counts
// once tx has committed; until then others who need the same bucket wait.
func Take(ctx context.Context, tx postgres.Tx, key string, q Quota) (Decision, error) {
	row := bucketRow{Key: key, FullAt: tx.Now}
	// An update without a change locks the row.
	same := clause.OnConflict{Columns: []clause.Column{{Name: "key"}},
		DoUpdates: clause.Assignments(map[string]any{"full_at": gorm.Expr("rate_buckets.full_at")})}
	if err := gorm.G[bucketRow](tx.Gorm(ctx), same, clause.Returning{Columns: []clause.Column{{Name: "full_at"}}}).
		Create(ctx, &row); err != nil {
		return Decision{}, fmt.Errorf("read rate bucket: %w", err)
	}
	d, full := decide(row.FullAt, tx.Now, q)
	if !d.Allowed {
		return d, nil
	}
	if _, err := gorm.G[bucketRow](tx.Gorm(ctx)).Where("key = ?", key).Update(ctx, "full_at", full); err != nil {
		return Decision{}, fmt.Errorf("count against rate bucket: %w", err)
	}
	return d, nil
}

// PutBack gives one request back to the bucket of key, as [Limiter.Return] does.
func PutBack(ctx context.Context, tx postgres.Tx, key string, q Quota) error {
	_, err := gorm.G[bucketRow](tx.Gorm(ctx)).Where("key = ?", key).
		Update(ctx, "full_at", gorm.Expr("full_at - make_interval(secs => ?)", q.Interval.Seconds()))
	if err != nil {
		return fmt.Errorf("put back into rate bucket: %w", err)
	}
	return nil
}

// Purge deletes full buckets, which are equivalent to absent ones, and returns how many.
func Purge(ctx context.Context, tx postgres.Tx) (int, error) {
	n, err := gorm.G[bucketRow](tx.Gorm(ctx)).Where("full_at <= ?", tx.Now).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge rate buckets: %w", err)
	}
	return n, nil
}
