package requestlog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// said records the last statement about the log.
type said struct {
	mu   sync.Mutex
	sql  string
	args []any
}

func (s *said) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if strings.Contains(d.SQL, Table) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sql, s.args = d.SQL, d.Args
	}
	return ctx
}

func (*said) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*said) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (*said) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*said) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// TestReadsGoByIndexInTheWeeksThatMatter checks that each read uses an index in every week that can contain its lines,
// and opens no other week. A page starts where the previous one ended, without reading the lines before it.
func TestReadsGoByIndexInTheWeeksThatMatter(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	const weeks, perWeek = 10, 4000
	monday := time.Date(2100, 3, 1, 0, 0, 0, 0, time.UTC)
	c, seen := clock.NewManual(monday), &said{}
	db, err := postgres.Open(t.Context(), dbtest.URL(t), postgres.Options{MaxConns: 2, Clock: c,
		Test: true, Tracer: seen})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range weeks {
		if _, err := postgres.KeepPartitions(t.Context(), db, Table, 100*365*24*time.Hour); err != nil {
			t.Fatal(err)
		}
		c.Advance(7 * 24 * time.Hour)
	}
	owner := dbtest.Owner(t, db)
	if _, err := owner.Pool().Exec(t.Context(), `INSERT INTO api_requests (application_id, id, at, method, path, status, duration_us, keyed, replayed, refreshed)
		SELECT 'app_' || i % 4, to_char(i, '"req_"FM0000000'), $1::timestamptz + i * interval '1 week' / $2, 'GET', '/', CASE WHEN i % 40 < 4 THEN 422 ELSE 200 END, 1, false, i % 100 = 1, i % 100 = 2
		FROM generate_series(0, $3::int - 1) i`, monday, float64(perWeek), weeks*perWeek); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Pool().Exec(t.Context(), "ANALYZE api_requests"); err != nil {
		t.Fatal(err)
	}
	c.Advance(-time.Hour) // still in the last week
	l := New(db, prometheus.NewRegistry())
	read := func(f Filter) func() error {
		return func() error {
			f.Limit = 20
			list, more, err := l.List(t.Context(), db.Read(), "app_1", f)
			if err == nil && (!more || len(list) != 20) {
				err = fmt.Errorf("%d lines", len(list))
			}
			return err
		}
	}
	now := c.Now()
	// reads of so few lines that they may be sorted
	few := map[string]bool{"refused, between": true, "refused, between, later page": true}
	oldest := Table + now.Add(-Retention).Truncate(7*24*time.Hour).Format("_20060102")
	for name, x := range map[string]struct {
		do   func() error
		most int // lines read, of the application's 10000
	}{
		"newest":     {read(Filter{}), 60},
		"later page": {read(Filter{Before: fmt.Sprintf("req_%07d", (weeks-2)*perWeek+1)}), 60},
		"refused":    {read(Filter{Refused: true}), 60},
		"between":    {read(Filter{From: now.Add(-12 * 24 * time.Hour), To: now.Add(-11 * 24 * time.Hour)}), 60},
		"refused, between": {read(Filter{Refused: true, From: now.Add(-13 * 24 * time.Hour),
			To: now.Add(-11 * 24 * time.Hour)}), 60},
		"refused, between, later page": {read(Filter{Refused: true, From: now.Add(-21 * 24 * time.Hour),
			To: now.Add(-11 * 24 * time.Hour), Before: fmt.Sprintf("req_%07d", (weeks-2)*perWeek+1)}),
			perWeek / 40 * 2},
		"one": {func() error {
			_, err := l.Get(t.Context(), db.Read(), "app_1", fmt.Sprintf("req_%07d", (weeks-2)*perWeek+1))
			return err
		}, 10},
		"replayed": {func() error { _, err := l.Replayed(t.Context(), db.Read(), "app_1"); return err }, perWeek / 10},
	} {
		if err := x.do(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var raw []byte
		if err := db.Pool().QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+seen.sql, seen.args...).
			Scan(&raw); err != nil {
			t.Fatal(err)
		}
		var plan []struct{ Plan node }
		if err := json.Unmarshal(raw, &plan); err != nil {
			t.Fatal(err)
		}
		looked := 0.0
		for _, n := range plan[0].Plan.all() {
			looked += n.Loops * (n.Rows + n.Removed)
			if n.Type == "Seq Scan" && n.Loops*(n.Rows+n.Removed) > 0 || n.Type == "Sort" && !few[name] ||
				n.Relation != "" && n.Relation < oldest {
				t.Errorf("%s: %s %s", name, n.Type, n.Relation)
			}
		}
		if looked > 3*float64(x.most) || t.Failed() { // each line is counted by its scan, the append and the limit
			t.Errorf("%s looks at %.0f lines:\n%s", name, looked, raw)
		}
	}
}

// node is a node of an executed plan.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []node
}

func (n node) all() []node {
	list := []node{n}
	for _, p := range n.Plans {
		list = append(list, p.all()...)
	}
	return list
}
