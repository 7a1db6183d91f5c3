package status

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/postgres"
)

// dayRow is a row of status_days.
type dayRow struct {
	Day         time.Time  `gorm:"column:day;primaryKey"`
	Minutes     int        `gorm:"column:minutes"`      // counted minutes, 0 to 1440
	FirstMinute *time.Time `gorm:"column:first_minute"` // nil if no minute was counted
	LastMinute  *time.Time `gorm:"column:last_minute"`
	CountedAt   *time.Time `gorm:"column:counted_at"` // when the fields below were summed up; nil: not yet
	Asked       *int       `gorm:"column:asked"`
	Within30m   *int       `gorm:"column:within_30m"`
	Within24h   *int       `gorm:"column:within_24h"`
	Breaches    *int       `gorm:"column:breaches"`
	Events      *int       `gorm:"column:events"`
	LagMedianMS *float64   `gorm:"column:lag_median_ms"`
	Lag95thMS   *float64   `gorm:"column:lag_95th_ms"`
}

// TableName implements schema.Tabler.
func (dayRow) TableName() string { return "status_days" }

// promises returns the promises of a summed-up day. It panics on any other.
func (r dayRow) promises() Promises {
	return Promises{*r.Asked, *r.Within30m, *r.Within24h, *r.Breaches, *r.Events, r.LagMedianMS, r.Lag95thMS}
}

// count counts a minute unless it was already counted.
func count(ctx context.Context, tx postgres.Tx, minute time.Time) error {
	once := clause.OnConflict{Columns: []clause.Column{{Name: "day"}},
		Where: clause.Where{Exprs: []clause.Expression{
			gorm.Expr("status_days.last_minute IS NULL OR status_days.last_minute < excluded.last_minute"),
		}},
		DoUpdates: clause.Set{
			{Column: clause.Column{Name: "minutes"}, Value: gorm.Expr("status_days.minutes + 1")},
			{Column: clause.Column{Name: "first_minute"},
				Value: gorm.Expr("coalesce(status_days.first_minute, excluded.first_minute)")},
			{Column: clause.Column{Name: "last_minute"}, Value: gorm.Expr("excluded.last_minute")},
		}}
	row := dayRow{Day: dayOf(minute), Minutes: 1, FirstMinute: &minute, LastMinute: &minute}
	if err := gorm.G[dayRow](tx.Gorm(ctx), once).Create(ctx, &row); err != nil {
		return fmt.Errorf("count a minute: %w", err)
	}
	return nil
}

// sumSQL sums up the period from $1 (inclusive) to $2 (exclusive).
var sumSQL = postgres.SQL(postgres.Report,
	`SELECT c.asked, c.within_30m, c.within_24h, c.breaches, e.events, e.lag_median_ms, e.lag_95th_ms FROM
	(SELECT count(*) AS asked, count(*) FILTER (WHERE call_started_at <= created_at + interval '30 minutes') AS within_30m,
		count(*) FILTER (WHERE call_started_at <= created_at + interval '24 hours') AS within_24h, count(*) FILTER (WHERE end_reason = 'GUARANTEE_MISSED') AS breaches
		FROM consultations WHERE created_at >= $1 AND created_at < $2) c,
	(SELECT count(*) AS events, percentile_cont(0.5) WITHIN GROUP (ORDER BY lag) AS lag_median_ms, percentile_cont(0.95) WITHIN GROUP (ORDER BY lag) AS lag_95th_ms
		FROM (SELECT greatest(0, extract(epoch FROM a.started_at - d.created_at) * 1000)::float8 AS lag
			FROM webhook_deliveries d JOIN webhook_attempts a ON a.delivery_id = d.id AND a.attempt = 1
			WHERE d.created_at >= $1 AND d.created_at < $2) lags) e`)

// sum stores the promises of a day, unless they are already stored.
func sum(ctx context.Context, tx postgres.Tx, day time.Time) error {
	known, err := gorm.G[dayRow](tx.Gorm(ctx)).Where("day = ? AND counted_at IS NOT NULL", day).Count(ctx, "*")
	if err != nil || known > 0 {
		return err
	}
	rows, err := postgres.Query[dayRow](ctx, tx, sumSQL, day, day.AddDate(0, 0, 1))
	if err != nil {
		return fmt.Errorf("sum up a day: %w", err)
	}
	row := rows[0]
	row.Day, row.CountedAt = day, &tx.Now
	once := clause.OnConflict{Columns: []clause.Column{{Name: "day"}},
		DoUpdates: clause.AssignmentColumns([]string{"counted_at", "asked", "within_30m", "within_24h", "breaches",
			"events", "lag_median_ms", "lag_95th_ms"}),
		Where: clause.Where{Exprs: []clause.Expression{gorm.Expr("status_days.counted_at IS NULL")}}}
	if err := gorm.G[dayRow](tx.Gorm(ctx), once).Create(ctx, &row); err != nil {
		return fmt.Errorf("write a day: %w", err)
	}
	return nil
}

// read returns the rows of all days since from, by day.
func read(ctx context.Context, tx postgres.Tx, from time.Time) (map[time.Time]dayRow, error) {
	list, err := gorm.G[dayRow](tx.Gorm(ctx)).Where("day >= ?", from).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read days: %w", err)
	}
	all := map[time.Time]dayRow{}
	for _, r := range list {
		all[dayOf(r.Day)] = r
	}
	return all, nil
}

// measured returns the first and the last minute ever counted, or nil if there is none.
func measured(ctx context.Context, tx postgres.Tx) (first, last *time.Time, err error) {
	var span struct{ First, Last *time.Time }
	err = tx.Gorm(ctx).Model(&dayRow{}).Select("min(first_minute) AS first, max(last_minute) AS last").Scan(&span).Error
	if err != nil {
		return nil, nil, fmt.Errorf("read what was measured: %w", err)
	}
	return span.First, span.Last, nil
}
