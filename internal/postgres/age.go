package postgres

import (
	"context"
	"fmt"
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
			set[a.Inside] = gorm.Expr(`jsonb_set(?, '{at}', to_jsonb((? ->> 'at')::timestamptz - make_interval(secs => ?)))`, at, at, d.Seconds())
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

// NextOf is when the first timer of an application after the given instant falls due; nil for none.
func (tx Tx) NextOf(ctx context.Context, applicationID string, after time.Time, what ...Aging) (next *time.Time, err error) {
	for _, a := range what {
		if a.Timer == "" {
			continue
		}
		var at *time.Time
		q := tx.Gorm(ctx).Table(a.Table).Select("min(?)", clause.Column{Name: a.Timer}).Where(a.Of, applicationID).Where("? > ?", clause.Column{Name: a.Timer}, after)
		if a.While != "" {
			q = q.Where(a.While)
		}
		if err := q.Row().Scan(&at); err != nil {
			return nil, fmt.Errorf("look for timers of %s: %w", a.Table, err)
		}
		if at != nil && (next == nil || at.Before(*next)) {
			next = at
		}
	}
	return next, nil
}
