package restore

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// markRow is a row of database_marks.
type markRow struct {
	Process  string    `gorm:"column:process;primaryKey"`
	Count    int64     `gorm:"column:count"`
	MarkedAt time.Time `gorm:"column:marked_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (markRow) TableName() string { return "database_marks" }

// lossRow is a row of database_losses.
type lossRow struct {
	Process   string    `gorm:"column:process;primaryKey"`
	Count     int64     `gorm:"column:count;primaryKey;autoIncrement:false"`
	LostFrom  time.Time `gorm:"column:lost_from"`
	LostUntil time.Time `gorm:"column:lost_until"`
	NoticedAt time.Time `gorm:"column:noticed_at;autoCreateTime:false"`
}

// TableName implements [schema.Tabler].
func (lossRow) TableName() string { return "database_losses" }

// markedSince returns when the database began to keep marks. Marks of another or an earlier database do not match it.
func markedSince(ctx context.Context, tx postgres.Tx) (time.Time, error) {
	m, err := readMarkOf(ctx, tx, "")
	return m.At, err
}

// readMarkOf returns the mark of a process, with a zero count if the database does not know the process.
func readMarkOf(ctx context.Context, tx postgres.Tx, process string) (m Mark, err error) {
	r, err := gorm.G[markRow](tx.Gorm(ctx)).Where("process = ?", process).Take(ctx)
	if err != nil && !postgres.IsNotFound(err) {
		return m, fmt.Errorf("read the mark of a process: %w", err)
	}
	return Mark{Process: process, Count: r.Count, At: r.MarkedAt}, nil
}

// newestMark returns the time of the latest mark up to before, or zero if there is none.
func newestMark(ctx context.Context, tx postgres.Tx, before time.Time) (at time.Time, err error) {
	r, err := gorm.G[markRow](tx.Gorm(ctx)).Where("marked_at <= ?", before).Order("marked_at DESC").Take(ctx)
	if err != nil && !postgres.IsNotFound(err) {
		return at, fmt.Errorf("read the newest mark: %w", err)
	}
	return r.MarkedAt, nil
}

func saveMark(ctx context.Context, tx postgres.Tx, m Mark) error {
	again := clause.OnConflict{Columns: []clause.Column{{Name: "process"}},
		DoUpdates: clause.AssignmentColumns([]string{"count", "marked_at"})}
	err := gorm.G[markRow](tx.Gorm(ctx), again).Create(ctx, &markRow{Process: m.Process,
		Count: m.Count, MarkedAt: m.At})
	if err != nil {
		return fmt.Errorf("mark how far the database came: %w", err)
	}
	return nil
}

func dropMarks(ctx context.Context, tx postgres.Tx, before time.Time) error {
	if _, err := gorm.G[markRow](tx.Gorm(ctx)).Where("process <> '' AND marked_at < ?", before).
		Delete(ctx); err != nil {
		return fmt.Errorf("drop marks of processes that ended: %w", err)
	}
	return nil
}

func recordLoss(ctx context.Context, tx postgres.Tx, l Loss) error {
	once := clause.OnConflict{DoNothing: true}
	err := gorm.G[lossRow](tx.Gorm(ctx), once).Create(ctx, &lossRow{Process: l.Process, Count: l.Count,
		LostFrom: l.From, LostUntil: l.Until, NoticedAt: tx.Now})
	if err != nil {
		return fmt.Errorf("record that the database went back: %w", err)
	}
	return nil
}

// lastSettled returns when a restored database was last settled, or zero if never.
func lastSettled(ctx context.Context, tx postgres.Tx) (time.Time, error) {
	return audit.Latest(ctx, tx, restored)
}

// Unsettled returns the losses that have not been settled, oldest first.
func Unsettled(ctx context.Context, tx postgres.Tx) ([]Loss, error) {
	rows, err := gorm.G[lossRow](tx.Gorm(ctx)).Order("noticed_at, process").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("look whether the database went back: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	settledAt, err := lastSettled(ctx, tx)
	var losses []Loss
	for _, r := range rows {
		if r.NoticedAt.After(settledAt) {
			losses = append(losses, Loss{r.Process, r.Count, r.LostFrom, r.LostUntil})
		}
	}
	return losses, err
}
