package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Conditions for [Aging.Of] that select the rows of an application's consultations, or of their calls.
const (
	ConsultationsOf = "consultation_id IN (SELECT c.id FROM consultations c WHERE c.application_id = ?)"
	CallsOf         = "call_id IN (SELECT k.id FROM calls k WHERE k." + ConsultationsOf + ")"
)

// Aging describes how the rows of a table age with an application when a sandbox's clock is advanced.
type Aging struct {
	Table   string
	Of      string   // condition that selects the application's rows; ? is the application's ID
	Instant []string // timestamp columns that are moved back
	Inside  string   // JSON column whose "at" timestamp is moved back as well; empty for none
	Amount  string   // column that accumulates the shift, in microseconds; empty for none

	Timer string // column of Instant at whose time an automatic transition happens; empty for none
	While string // condition under which that transition is pending; empty for always
}

// Age moves the rows of an application back by d, which must be positive. It runs one statement per table.
func (tx Tx) Age(ctx context.Context, applicationID string, d time.Duration, what ...Aging) error {
	for _, a := range what {
		set := map[string]any{}
		for _, c := range a.Instant {
			set[c] = gorm.Expr("? - make_interval(secs => ?)", clause.Column{Name: c}, d.Seconds())
		}
		if a.Inside != "" {
			at := clause.Column{Name: a.Inside}
			set[a.Inside] = gorm.Expr(
				`jsonb_set(?, '{at}', to_jsonb((? ->> 'at')::timestamptz - make_interval(secs => ?)))`, at, at,
				d.Seconds(),
			)
		}
		if a.Amount != "" {
			set[a.Amount] = gorm.Expr("? + ?", clause.Column{Name: a.Amount}, d.Microseconds())
		}
		if err := tx.Gorm(ctx).Table(a.Table).Where(a.Of, applicationID).Updates(set).Error; err != nil {
			return fmt.Errorf("age %s: %w", a.Table, err)
		}
	}
	return nil
}

// Timers returns a query for every time at which an automatic transition of an application is due, in the column at.
// application is the expression for the application's ID in the surrounding statement, such as $1.
func Timers(application string, what ...Aging) string {
	var list []string
	for _, a := range what {
		if a.Timer == "" {
			continue
		}
		q := fmt.Sprintf("SELECT %s AS at FROM %s WHERE %s", a.Timer, a.Table,
			strings.ReplaceAll(a.Of, "?", application))
		if a.While != "" {
			q += " AND " + a.While
		}
		list = append(list, q)
	}
	return strings.Join(list, "\n\tUNION ALL\n\t")
}

// Oldest returns a query for the earliest timestamp of an application, or NULL if it has no rows that age. application
// has the same meaning as in [Timers].
func Oldest(application string, what ...Aging) string {
	list := make([]string, len(what))
	for i, a := range what {
		list[i] = fmt.Sprintf("SELECT least(min(%s)) AS at FROM %s WHERE %s", strings.Join(a.Instant, "), min("),
			a.Table, strings.ReplaceAll(a.Of, "?", application))
	}
	return "SELECT min(x.at) FROM (\n\t" + strings.Join(list, "\n\tUNION ALL\n\t") + ") x"
}
