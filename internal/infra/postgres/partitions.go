package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// week is the range of a partition: from one Monday to the next, UTC.
const week = 7 * 24 * time.Hour

// PartitionsAhead is how many future weeks have a partition. Without any, rows go to the open last partition, and
// nothing fails.
const PartitionsAhead = 4

// Partition is one time range of a partitioned table.
type Partition struct {
	Table  string     `gorm:"column:parent"`
	Name   string     `gorm:"column:name"`
	Begins *time.Time `gorm:"column:begins"` // nil for the first partition, which has no lower bound
	Ends   *time.Time `gorm:"column:ends"`   // exclusive; nil for the last partition, which is open
	Filled bool       `gorm:"column:filled"` // whether rows were ever written to it
}

var partitionsSQL = SQL(Backend,
	`SELECT parent, name, begins, ends, filled FROM partitions() ORDER BY parent, begins NULLS FIRST`)

// Partitions returns the partitions of every partitioned table, ordered by table and time.
func Partitions(ctx context.Context, tx Tx) ([]Partition, error) {
	all, err := Query[Partition](ctx, tx, partitionsSQL)
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	return all, nil
}

// Ahead returns, for each table in all, how many bounded partitions begin after now.
func Ahead(all []Partition, now time.Time) map[string]int {
	ahead := map[string]int{}
	for _, p := range all {
		n := 0
		if p.Begins != nil && p.Begins.After(now) && p.Ends != nil {
			n = 1
		}
		ahead[p.Table] += n
	}
	return ahead
}

var (
	addPartitionSQL   = SQL(Backend, `SELECT add_partition($1, $2)`)
	dropPartitionsSQL = SQL(Backend, `SELECT drop_partitions($1, $2)`)
)

// KeepPartitions creates the partitions of the coming weeks and drops those in which every row is older than retention.
// It returns the number dropped. Each step is its own transaction and waits at most 2 s for other users of the table.
// Several processes may call it at the same time.
func KeepPartitions(ctx context.Context, db *DB, table string, retention time.Duration) (dropped int, err error) {
	tx := db.Read()
	added := addPartitions(ctx, tx, table)
	before := tx.Now.Add(-retention)
	if past, err := anyPast(ctx, tx, table, before); err != nil || !past {
		return 0, errors.Join(added, err)
	}
	if err := tx.QueryRow(ctx, dropPartitionsSQL, table, before).Scan(&dropped); err != nil {
		return 0, errors.Join(added, fmt.Errorf("drop partitions of %s: %w", table, err))
	}
	return dropped, added
}

func addPartitions(ctx context.Context, tx Tx, table string) error {
	all, err := Partitions(ctx, tx)
	if err != nil {
		return err
	}
	var open time.Time
	for _, p := range all {
		if p.Table == table && p.Ends == nil && p.Begins != nil {
			open = *p.Begins
		}
	}
	for _, begins := range boundaries(open, tx.Now) {
		if err := tx.QueryRow(ctx, addPartitionSQL, table, begins).Scan(new(bool)); err != nil {
			return fmt.Errorf("add the partition of %s that begins at %s: %w", table, begins.Format(time.DateOnly), err)
		}
	}
	return nil
}

// anyPast reports whether there is a partition to drop, without locking the table. An empty first partition does not
// count: dropping it would only recreate it.
func anyPast(ctx context.Context, tx Tx, table string, before time.Time) (bool, error) {
	all, err := Partitions(ctx, tx)
	if err != nil {
		return false, err
	}
	for _, p := range all {
		if p.Table == table && p.Ends != nil && !p.Ends.After(before) && (p.Begins != nil || p.Filled) {
			return true, nil
		}
	}
	return false, nil
}

// boundaries returns the Mondays at which partitions must begin so that [PartitionsAhead] are ready at now. open is
// where the open partition begins.
func boundaries(open, now time.Time) (all []time.Time) {
	monday := now.UTC().Truncate(week) // Truncate counts from the first day of year 1, which was a Monday
	for range PartitionsAhead + 1 {
		if monday = monday.Add(week); monday.After(open) {
			all = append(all, monday)
		}
	}
	return all
}
