package lawyer

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// hoursRow is a row of lawyer_hours.
type hoursRow struct {
	LawyerID    string `gorm:"column:lawyer_id;primaryKey"`
	Weekday     int    `gorm:"column:weekday;primaryKey;autoIncrement:false"`     // 1 to 7, from Monday
	FromMinute  int    `gorm:"column:from_minute;primaryKey;autoIncrement:false"` // of the day
	UntilMinute int    `gorm:"column:until_minute"`
}

// TableName implements [schema.Tabler].
func (hoursRow) TableName() string { return "lawyer_hours" }

var zoneSQL = postgres.SQL(postgres.Report, "SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = $1)")

// zoneIsKnown asks the database, because a search over many lawyers computes with the zone. A zone unknown to the
// database would make that search fail.
func zoneIsKnown(ctx context.Context, tx postgres.Tx, name string) (known bool, err error) {
	if err := tx.QueryRow(ctx, zoneSQL, name).Scan(&known); err != nil {
		return false, fmt.Errorf("look for the time zone: %w", err)
	}
	return known, nil
}

func replaceHours(ctx context.Context, tx postgres.Tx, lawyerID string, hours []Hours) error {
	if _, err := gorm.G[hoursRow](tx.Gorm(ctx)).Where("lawyer_id = ?", lawyerID).Delete(ctx); err != nil {
		return fmt.Errorf("delete the lawyer's hours: %w", err)
	}
	if len(hours) == 0 {
		return nil
	}
	rows := make([]hoursRow, len(hours))
	for i, h := range hours {
		rows[i] = hoursRow{LawyerID: lawyerID, Weekday: isoDay(h.Weekday), FromMinute: h.From, UntilMinute: h.Until}
	}
	if err := gorm.G[hoursRow](tx.Gorm(ctx)).CreateInBatches(ctx, &rows, len(rows)); err != nil {
		return fmt.Errorf("insert the lawyer's hours: %w", err)
	}
	return nil
}

func duty(ctx context.Context, tx postgres.Tx, lawyerID string) (Duty, error) {
	l, err := gorm.G[lawyerRow](tx.Gorm(ctx)).Select("time_zone", "on_call").Where("id = ?", lawyerID).Take(ctx)
	if postgres.IsNotFound(err) {
		return Duty{}, ErrNotFound
	}
	if err != nil {
		return Duty{}, fmt.Errorf("read when the lawyer may be woken: %w", err)
	}
	rows, err := gorm.G[hoursRow](tx.Gorm(ctx)).Where("lawyer_id = ?", lawyerID).Order("weekday, from_minute").Find(ctx)
	if err != nil {
		return Duty{}, fmt.Errorf("read the lawyer's hours: %w", err)
	}
	d := Duty{TimeZone: l.TimeZone, OnCall: l.OnCall}
	for _, r := range rows {
		d.Hours = append(d.Hours, Hours{Weekday: time.Weekday(r.Weekday % 7), From: r.FromMinute, Until: r.UntilMinute})
	}
	return d, nil
}
