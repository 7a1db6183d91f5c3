package postgres

import (
	"slices"
	"testing"
	"time"
)

func TestPartitionsBeginOnMondays(t *testing.T) {
	t.Parallel()
	// 2 March 2026 is a Monday
	day := func(day int) time.Time { return time.Date(2026, time.March, day, 0, 0, 0, 0, time.UTC) }
	for _, x := range []struct {
		open, now time.Time
		want      []time.Time
	}{
		{time.Time{}, day(2), []time.Time{day(9), day(16), day(23), day(30), day(37)}},
		{time.Time{}, day(9).Add(-1), []time.Time{day(9), day(16), day(23), day(30), day(37)}},
		{time.Time{}, day(8).In(time.FixedZone("", 14*3600)), []time.Time{day(9), day(16), day(23), day(30), day(37)}},
		{day(30), day(2), []time.Time{day(37)}},
		{day(31), day(2), []time.Time{day(37)}},
		{day(37), day(2), nil},
		{day(1000), day(2), nil},
	} {
		if got := boundaries(x.open, x.now); !slices.Equal(got, x.want) {
			t.Errorf("open from %s, at %s: %v", x.open, x.now, got)
		}
	}
}

func TestPartitionsAheadAreThoseThatAreYetToBegin(t *testing.T) {
	t.Parallel()
	at := func(hour int) *time.Time { t := time.Date(2026, 3, 2, hour, 0, 0, 0, time.UTC); return &t }
	all := []Partition{{Table: "a", Ends: at(1)}, {Table: "a", Begins: at(1), Ends: at(2)},
		{Table: "a", Begins: at(2), Ends: at(3)}, {Table: "a", Begins: at(3), Ends: at(4)},
		{Table: "a", Begins: at(4)}, {Table: "b", Ends: at(1)}, {Table: "b", Begins: at(1)}}
	for hour, want := range map[int]int{1: 2, 2: 1, 3: 0, 9: 0} {
		if got := Ahead(all, *at(hour)); got["a"] != want || len(got) != 2 || got["b"] != 0 {
			t.Errorf("at %d: %v", hour, got)
		}
	}
}
