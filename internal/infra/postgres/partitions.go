package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// week is what a partition holds: from a Monday to the next, UTC.
const week = 7 * 24 * time.Hour

// PartitionsAhead is how many weeks ahead there are partitions. Without any, rows gather in the last one, which is
// open, and nothing fails.
const PartitionsAhead = 4

// Partition is a part of a table whose rows lie by time.
type Partition struct {
	Table  string     `gorm:"column:parent"`
	Name   string     `gorm:"column:name"`
	Begins *time.Time `gorm:"column:begins"` // nil for the first, which reaches back without end
	Ends   *time.Time `gorm:"column:ends"`   // exclusive; nil for the last, which is open
	Filled bool       `gorm:"column:filled"` // something was written to it
}

var partitionsSQL = SQL(Backend,
	`SELECT parent, name, begins, ends, filled FROM partitions() ORDER BY parent, begins NULLS FIRST`)

// Partitions returns those of every table that has some, by table and time.
func Partitions(ctx context.Context, tx Tx) ([]Partition, error) {
	all, err := Query[Partition](ctx, tx, partitionsSQL)
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	return all, nil
}

// Ahead tells of every table among the partitions how many of them begin after now and are not open.
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

// KeepPartitions makes the partitions of the coming weeks and drops those whose every row is older than retention. It
// returns how many it dropped. Each step waits 2 s at most for others who use the table, and is a transaction of its
// own; several processes may call it at once.
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

// anyPast tells whether there is something to drop, without keeping others from the table. An empty first partition
// would only be made anew.
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

// boundaries are the Mondays that partitions have to begin at, so that [PartitionsAhead] are ready at now, when the
// open one begins at open.
func boundaries(open, now time.Time) (all []time.Time) {
	monday := now.UTC().Truncate(week) // the first day of year 1, from which it counts, was one
	for range PartitionsAhead + 1 {
		if monday = monday.Add(week); monday.After(open) {
			all = append(all, monday)
		}
	}
	return all
}
