package access

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// countRow is a row of access_counts.
type countRow struct {
	ClientID      string    `gorm:"column:client_id;primaryKey"`
	ApplicationID string    `gorm:"column:application_id;primaryKey"`
	Category      Category  `gorm:"column:category;primaryKey"`
	Day           time.Time `gorm:"column:day;primaryKey"` // start of the day, UTC
	Uses          int64     `gorm:"column:uses"`
	LastAt        time.Time `gorm:"column:last_at"`
}

// TableName implements [schema.Tabler].
func (countRow) TableName() string { return "access_counts" }

// row is an increment of a count.
type row struct {
	key
	tally
}

// addSQL locks the clients first, in the order of rows. A concurrent erasure is either seen here or deletes what is
// added.
var addSQL = postgres.SQL(postgres.Batch, `WITH living AS (
		SELECT id FROM clients WHERE id = ANY ($1::text[]) AND erased_at IS NULL ORDER BY id FOR KEY SHARE
	)
	INSERT INTO access_counts AS a (client_id, application_id, category, day, uses, last_at)
	SELECT n.client_id, n.application_id, n.category, n.day, n.uses, n.last_at
		FROM unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::bigint[], $6::timestamptz[]) AS n (client_id, application_id, category, day, uses, last_at)
		JOIN living ON living.id = n.client_id
		ORDER BY n.client_id, n.application_id, n.category, n.day
	ON CONFLICT (client_id, application_id, category, day) DO UPDATE
		SET uses = a.uses + excluded.uses, last_at = greatest(a.last_at, excluded.last_at)`)

func add(ctx context.Context, tx postgres.Tx, rows []row) error {
	n := len(rows)
	clients, applications, categories := make([]string, n), make([]string, n), make([]string, n)
	days, uses, lasts := make([]string, n), make([]int64, n), make([]time.Time, n)
	for i, r := range rows {
		clients[i], applications[i], categories[i] = r.clientID, r.applicationID, string(r.category)
		days[i], uses[i], lasts[i] = time.Unix(r.day*86400, 0).UTC().Format(time.DateOnly), r.uses, r.lastAt
	}
	if _, err := tx.Exec(ctx, addSQL, clients, applications, categories, days, uses, lasts); err != nil {
		return fmt.Errorf("add to the log of uses: %w", err)
	}
	return nil
}

func counts(ctx context.Context, tx postgres.Tx, clientID string, since time.Time) (list []Count, err error) {
	err = gorm.G[countRow](tx.Gorm(ctx)).Where("client_id = ? AND day >= ?", clientID, since.UTC()).
		Order("day DESC, application_id, category").Scan(ctx, &list)
	if err != nil {
		return nil, fmt.Errorf("read the log of uses: %w", err)
	}
	return list, nil
}

func deleteOf(ctx context.Context, tx postgres.Tx, clientID string) error {
	if _, err := gorm.G[countRow](tx.Gorm(ctx)).Where("client_id = ?", clientID).Delete(ctx); err != nil {
		return fmt.Errorf("delete the log of uses: %w", err)
	}
	return nil
}

func deleteBefore(ctx context.Context, tx postgres.Tx, day time.Time) (int, error) {
	n, err := gorm.G[countRow](tx.Gorm(ctx)).Where("day < ?", day).Delete(ctx)
	if err != nil {
		return 0, fmt.Errorf("purge the log of uses: %w", err)
	}
	return n, nil
}
