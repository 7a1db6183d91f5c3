package requestlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newLog(t *testing.T) (*Log, *clock.Manual) {
	t.Helper()
	l, c, _ := measured(t)
	return l, c
}

// measured returns a log, its clock, and a function that returns how many lines were dropped.
func measured(t *testing.T) (*Log, *clock.Manual, func() float64) {
	t.Helper()
	c, r := clock.NewManual(noon), prometheus.NewRegistry()
	return New(dbtest.NewWithClock(t, c), r), c, func() float64 {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return families[0].GetMetric()[0].GetCounter().GetValue()
	}
}

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, entryRow{})
}

// entry is the nth request of an application.
func entry(application string, n int) Entry {
	return Entry{ID: fmt.Sprintf("req_%03d", n), ApplicationID: application,
		At: noon.Add(time.Duration(n) * time.Second), Method: "GET",
		Path: "/api/v1/me", Status: 200, Duration: 1500 * time.Microsecond}
}

func flush(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAnApplicationReadsItsOwnRequestsNewestFirst(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t)
	for n := range 5 {
		l.Add(entry("app_a", n))
	}
	l.Add(entry("app_b", 9))
	refused := entry("app_a", 7)
	refused.Status, refused.Code, refused.Keyed, refused.Replayed = 422, "VALIDATION_ERROR", true, true
	refused.Issues = []problem.Issue{{Path: "a\x00b", Code: "required", Message: "Is required."}}
	refused.Body = map[string]any{"a\x00b": "(12 characters)", "n": json.Number("1e999"), "ok": true}
	l.Add(refused)
	flush(t, l)
	flush(t, l) // written lines are not written again

	page, more, err := l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 2})
	if err != nil || !more || len(page) != 2 || page[0].ID != "req_007" || page[1].ID != "req_004" {
		t.Fatalf("first page %+v, more %v, %v", page, more, err)
	}
	page, more, err = l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 4, Before: "req_004"})
	if err != nil || more || len(page) != 4 || !reflect.DeepEqual(page[3], entry("app_a", 0)) {
		t.Errorf("last page %+v, more %v, %v", page, more, err)
	}
	page, _, err = l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 9, From: noon.Add(time.Second),
		To: noon.Add(3 * time.Second)})
	if err != nil || len(page) != 2 {
		t.Errorf("range %+v, %v", page, err)
	}
	page, _, err = l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 9, Refused: true})
	if err != nil || len(page) != 1 || !reflect.DeepEqual(page[0].Issues, refused.Issues) ||
		page[0].Code != "VALIDATION_ERROR" || !page[0].Keyed || !page[0].Replayed {
		t.Errorf("refused %+v, %v", page, err)
	}
	if raw, err := json.Marshal(page[0].Body); err != nil ||
		string(raw) != `{"a\u0000b":"(12 characters)","n":1e999,"ok":true}` {
		t.Errorf("body %s, %v", raw, err)
	}
	if _, err := l.Get(t.Context(), l.db.Read(), "app_a", "req_009"); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("read a request of another application: %v", err)
	}
	if e, err := l.Get(t.Context(), l.db.Read(), "app_b", "req_009"); err != nil ||
		e.Duration != 1500*time.Microsecond {
		t.Errorf("got %+v, %v", e, err)
	}
}

// TestOldLinesGo checks that a line cannot be read after the retention, and is deleted with its week.
func TestOldLinesGo(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	l, c := newLog(t)
	monday := time.Date(2100, 3, 1, 0, 0, 0, 0, time.UTC)
	week := 7 * 24 * time.Hour
	c.Advance(monday.Sub(noon))
	purge := func(want int) {
		t.Helper()
		if n, err := l.Purge(t.Context()); n != want || err != nil {
			t.Fatalf("dropped %d weeks instead of %d, %v", n, want, err)
		}
	}
	purge(0)
	c.Advance(week)
	for n, at := range []time.Time{monday.Add(week), monday.Add(2*week - time.Microsecond), monday.Add(2 * week)} {
		e := entry("app_a", n)
		e.At = at
		e.Status, e.Replayed, e.Refreshed = 409, n < 2, n < 2
		l.Add(e)
	}
	flush(t, l)
	readable := func(want ...string) {
		t.Helper()
		list, _, err := l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 9})
		early, _, err2 := l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 9, Refused: true, From: noon})
		if err := errors.Join(err, err2); err != nil || len(list) != len(want) || len(early) != len(want) {
			t.Fatalf("%d and %d lines can be read instead of %d, %v", len(list), len(early), len(want), err)
		}
		for n := range 3 {
			id := fmt.Sprintf("req_%03d", n)
			if _, err := l.Get(t.Context(), l.db.Read(),
				"app_a", id); errors.Is(err, problem.ErrNotFound) == slices.Contains(want, id) {
				t.Errorf("%s: %v", id, err)
			}
		}
		replayed, err := l.Replayed(t.Context(), l.db.Read(), "app_a")
		refreshed, err2 := l.Refreshed(t.Context(), l.db.Read(), "app_a")
		if err := errors.Join(err, err2); err != nil || replayed != (len(want) > 1) || refreshed != (len(want) > 1) {
			t.Errorf("replayed %t, refreshed %t, %v", replayed, refreshed, err)
		}
	}
	there := func(want int) {
		t.Helper()
		var n int
		if err := l.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM api_requests").Scan(&n); err != nil ||
			n != want {
			t.Errorf("%d lines are there instead of %d, %v", n, want, err)
		}
	}
	readable("req_000", "req_001", "req_002")
	c.Advance(Retention)
	readable("req_000", "req_001", "req_002")
	c.Advance(time.Microsecond)
	readable("req_001", "req_002")
	purge(1) // the partition before the week of the lines
	there(3)
	c.Advance(week - 2*time.Microsecond)
	readable("req_001", "req_002")
	purge(0)
	c.Advance(time.Microsecond)
	readable("req_002")
	purge(1)
	there(1)
}

// TestLinesWaitForTheDatabaseUpToALimit checks that an unavailable database loses nothing until too many lines wait.
// Further lines are dropped and counted.
func TestLinesWaitForTheDatabaseUpToALimit(t *testing.T) {
	t.Parallel()
	l, _, dropped := measured(t)
	for n := range MaxPending + 3 {
		e := entry("app_a", n)
		e.ID = fmt.Sprintf("req_%06d", n)
		l.Add(e)
	}
	if got := dropped(); got != 3 {
		t.Errorf("dropped %v", got)
	}
	flush(t, l)
	page, _, err := l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 1})
	if err != nil || page[0].ID != fmt.Sprintf("req_%06d", MaxPending-1) {
		t.Errorf("got %+v, %v", page, err)
	}
}

// TestLinesWaitForTheTable checks the same for a table that is locked exclusively, for example during a migration.
func TestLinesWaitForTheTable(t *testing.T) {
	t.Parallel()
	l, _, dropped := measured(t)
	holder, err := pgx.Connect(t.Context(), dbtest.OwnerURL(t, l.db.Pool().Config().ConnString()))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE api_requests IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	l.Add(entry("app_a", 1))
	if err := l.Flush(t.Context()); !postgres.IsLockTimeout(err) {
		t.Errorf("%v", err)
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	flush(t, l)
	if page, _, err := l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 9}); err != nil || len(page) != 1 ||
		dropped() != 0 {
		t.Errorf("got %+v, %v, dropped %v", page, err, dropped())
	}
}

// TestALineThatCannotBeWrittenIsDropped checks that a rejected line does not block later ones.
func TestALineThatCannotBeWrittenIsDropped(t *testing.T) {
	t.Parallel()
	l, _, dropped := measured(t)
	bad := entry("app_a", 1)
	bad.Status = 7
	l.Add(bad)
	if err := l.Flush(t.Context()); err == nil {
		t.Fatal("a status of 7 was written")
	}
	l.Add(entry("app_a", 2))
	flush(t, l)
	if page, _, err := l.List(t.Context(), l.db.Read(), "app_a", Filter{Limit: 9}); err != nil || len(page) != 1 ||
		dropped() != 1 {
		t.Errorf("got %+v, %v", page, err)
	}
}

func TestRedactLeavesTheShape(t *testing.T) {
	t.Parallel()
	deep := any("words")
	for range 20 {
		deep = []any{deep}
	}
	got, err := json.Marshal(Redact(map[string]any{"s": "héllo", "n": 3, "none": json.Number("01.5"), "b": false,
		"z": nil, "l": []any{"x", 1}, "o": map[string]any{"k": "", "+33612345678": 1},
		"phone": json.Number("33612345678"), "seconds": json.Number("86400"), "deep": deep}))
	want := `{"b":false,"deep":[[[[[[[null]]]]]]],"l":["(1 characters)",1],"n":3,"none":null,"o":{"(12 characters)":1,"k":"(0 characters)"},` +
		`"phone":"(11 characters)","s":"(5 characters)","seconds":86400,"z":null}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}
