package ratelimit

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/postgres"
)

// Take takes one request out of the bucket of key, as [Limiter.Allow] does, for all processes on the database. What is
// taken counts once tx has committed; until then others who want the same bucket wait.
func Take(ctx context.Context, tx postgres.Tx, key string, q Quota) (Decision, error) {
	var full time.Time
	// The update that changes nothing locks the row.
	err := tx.Gorm(ctx).Raw(`INSERT INTO rate_buckets (key, full_at) VALUES (?, ?)
		ON CONFLICT (key) DO UPDATE SET full_at = rate_buckets.full_at RETURNING full_at`, key, tx.Now).Row().Scan(&full)
	if err != nil {
		return Decision{}, fmt.Errorf("read rate bucket: %w", err)
	}
	d, full := decide(full, tx.Now, q)
	if !d.Allowed {
		return d, nil
	}
	if err := tx.Gorm(ctx).Exec("UPDATE rate_buckets SET full_at = ? WHERE key = ?", full, key).Error; err != nil {
		return Decision{}, fmt.Errorf("count against rate bucket: %w", err)
	}
	return d, nil
}

// PutBack puts one request back into the bucket of key, as [Limiter.Return] does.
func PutBack(ctx context.Context, tx postgres.Tx, key string, q Quota) error {
	err := tx.Gorm(ctx).Exec("UPDATE rate_buckets SET full_at = full_at - make_interval(secs => ?) WHERE key = ?", q.Interval.Seconds(), key).Error
	if err != nil {
		return fmt.Errorf("put back into rate bucket: %w", err)
	}
	return nil
}

// Purge forgets the buckets that are full again, which is what no bucket is, and returns how many.
func Purge(ctx context.Context, tx postgres.Tx) (int, error) {
	r := tx.Gorm(ctx).Exec("DELETE FROM rate_buckets WHERE full_at <= ?", tx.Now)
	if r.Error != nil {
		return 0, fmt.Errorf("purge rate buckets: %w", r.Error)
	}
	return int(r.RowsAffected), nil
}
