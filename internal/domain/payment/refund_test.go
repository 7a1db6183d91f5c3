package payment

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// The oldest money counts as spent first, so the rest belongs to the newest top-ups.
func TestUnusedTopUps(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	top := func(id string, amount, refunded int64, paid time.Time) topUp {
		return topUp{ID: id, Amount: moneyOf(amount), Refunded: moneyOf(refunded), PaidAt: paid}
	}
	for name, c := range map[string]struct {
		topUps    []topUp
		available int64
		now       time.Time
		want      string
	}{
		"all there": {[]topUp{top("b", 2000, 0, day(1)), top("a", 3000, 0, day(0))}, 5000, day(2),
			"b 2000, a 3000"},
		"part of the older": {[]topUp{top("b", 2000, 0, day(1)), top("a", 3000, 0, day(0))}, 2500, day(2),
			"b 2000, a 500"},
		"only newer money": {[]topUp{top("b", 2000, 0, day(1)), top("a", 3000, 0, day(0))}, 1500,
			day(2), "b 1500"},
		"more than was paid": {[]topUp{top("a", 2000, 0, day(0))}, 9000, day(2), "a 2000"},
		"part is on its way": {[]topUp{top("a", 2000, 1500, day(0))}, 9000, day(2), "a 500"},
		"nothing available":  {[]topUp{top("a", 2000, 0, day(0))}, 0, day(2), ""},
		"last day": {[]topUp{top("a", 2000, 0, day(0))}, 2000,
			time.Date(2026, 3, 15, 23, 59, 59, 0, time.UTC), "a 2000"},
		"the day after": {[]topUp{top("a", 2000, 0, day(0))}, 2000,
			time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC), ""},
		"too old, behind a newer": {[]topUp{top("b", 2000, 0, day(20)), top("a", 2000, 0, day(0))}, 4000,
			day(21), "b 2000"},
	} {
		got := ""
		for i, p := range unused(c.topUps, moneyOf(c.available), c.now, false) {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprint(p.TopUpID, " ", int64(p.Amount))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestChooseRefund(t *testing.T) {
	t.Parallel()
	parts := []RefundPart{{TopUpID: "b", Amount: 2000}, {TopUpID: "a", Amount: 500}}
	for name, c := range map[string]struct {
		command RefundCommand
		want    string
	}{
		"all":               {RefundCommand{}, "[{ b 2000} { a 500}]"},
		"some":              {RefundCommand{Amount: 2200}, "[{ b 2000} { a 200}]"},
		"less than one":     {RefundCommand{Amount: 100}, "[{ b 100}]"},
		"of one":            {RefundCommand{TopUpID: "a"}, "[{ a 500}]"},
		"too much of one":   {RefundCommand{TopUpID: "a", Amount: 501}, ""},
		"too much":          {RefundCommand{Amount: 2501}, ""},
		"another":           {RefundCommand{TopUpID: "c"}, ""},
		"less than nothing": {RefundCommand{Amount: -1}, ""},
	} {
		got, err := choose(c.command, parts)
		if c.want == "" {
			if !errors.Is(err, ErrNothingToRefund) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		} else if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}
