package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Which rows are about an application's consultations, or their calls, for [Aging.Of].
const (
	ConsultationsOf = "consultation_id IN (SELECT c.id FROM consultations c WHERE c.application_id = ?)"
	CallsOf         = "call_id IN (SELECT k.id FROM calls k WHERE k." + ConsultationsOf + ")"
)

// Aging says what of a table becomes older with an application, when the clock of a sandbox is moved forward.
type Aging struct {
	Table   string
	Of      string   // which rows are the application's: a condition with its identifier as ?
	Instant []string // columns that are moved back
	Inside  string   // a column of JSON whose instant "at" is moved back, too; empty for none
	Amount  string   // a column that counts by how much, in microseconds; empty for none

	Timer string // the column of Instant at which something happens by itself; empty for none
	While string // the condition under which it will; empty for always
}

// Age makes everything of an application older by d, which is positive. It is one statement a table.
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

// Timers is a query of every instant at which something of an application happens by itself, in the column at.
// application is where the statement that has it takes the application's identifier from, like $1.
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

// Oldest is a query of the earliest instant of an application, NULL when it has nothing that ages; application as for
// [Timers].
func Oldest(application string, what ...Aging) string {
	list := make([]string, len(what))
	for i, a := range what {
		list[i] = fmt.Sprintf("SELECT least(min(%s)) AS at FROM %s WHERE %s", strings.Join(a.Instant, "), min("),
			a.Table, strings.ReplaceAll(a.Of, "?", application))
	}
	return "SELECT min(x.at) FROM (\n\t" + strings.Join(list, "\n\tUNION ALL\n\t") + ") x"
}
