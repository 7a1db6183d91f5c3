package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// watch records the statements that the program sends while it is on, with their durations.
type watch struct {
	mu   sync.Mutex
	on   bool
	seen []seenStatement
}

type seenStatement struct {
	sql     string
	args    []any
	byIndex bool // sent over a connection of [postgres.DB.ByIndex]
	took    time.Duration
}

type watched struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (w *watch) TraceQueryStart(ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return start(ctx, seen(conn, d.SQL, d.Args))
}

func seen(conn *pgx.Conn, sql string, args []any) seenStatement {
	for len(args) > 0 && isOption(args[0]) {
		args = args[1:]
	}
	return seenStatement{sql: sql, args: args, byIndex: conn.Config().RuntimeParams["enable_seqscan"] == "off"}
}

type started struct {
	statements []seenStatement
	at         time.Time
}

func start(ctx context.Context, list ...seenStatement) context.Context {
	return context.WithValue(ctx, watched{}, &started{list, time.Now()})
}

// TraceQueryEnd implements pgx.QueryTracer.
func (w *watch) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	w.ended(ctx)
}

// TraceBatchStart implements pgx.BatchTracer.
func (w *watch) TraceBatchStart(ctx context.Context, conn *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	var list []seenStatement
	for _, q := range d.Batch.QueuedQueries {
		list = append(list, seen(conn, q.SQL, q.Arguments))
	}
	return start(ctx, list...)
}

// TraceBatchQuery implements pgx.BatchTracer. It is called when the result of one statement of a batch has arrived.
func (w *watch) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchQueryData) {
	w.ended(ctx)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (*watch) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// ended records the first of the statements started with ctx that has not ended. The next one starts now.
func (w *watch) ended(ctx context.Context) {
	s, ok := ctx.Value(watched{}).(*started)
	if !ok || len(s.statements) == 0 {
		return
	}
	first, now := s.statements[0], time.Now()
	first.took = now.Sub(s.at)
	s.statements, s.at = s.statements[1:], now
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on && planned.MatchString(first.sql) {
		w.seen = append(w.seen, first)
	}
}

// planned matches statements that have a plan. Plans of INSERT … VALUES read no table.
var planned = regexp.MustCompile(`(?i)^\s*(SELECT|WITH|UPDATE|DELETE|INSERT)\b`)

func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on, w.seen = true, nil
}

func (w *watch) end() []seenStatement {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = false
	return w.seen
}

// node is a part of a plan in the output of EXPLAIN.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Cost     float64 `json:"Total Cost"`
	Plans    []node
}

// ofPartition matches the suffix that a partition adds to its table's name. Future partitions are empty, and reading
// them whole takes no time.
var ofPartition = regexp.MustCompile(`_first$`)

// scanned lists the growing tables that a plan scans sequentially.
func (n node) scanned() (tables []string) {
	if table := ofPartition.ReplaceAllString(n.Relation, ""); n.Type == "Seq Scan" &&
		slices.Contains(pastTables, table) {
		tables = append(tables, table)
	}
	for _, p := range n.Plans {
		tables = append(tables, p.scanned()...)
	}
	return tables
}

// scans explains every statement and reports those that scan a growing table sequentially. It checks the plan that the
// database would choose: the one for the given values or the generic one. Asks that read whole tables by design are
// left out.
func (r *largeRig) scans(ctx context.Context, measured map[string][]taken, rows int) (found []string, err error) {
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	whole := map[string]bool{}
	for _, a := range r.asks(past{1, rows}) {
		whole[a.name] = a.whole
	}
	r.explained = 0
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		if whole[name] {
			continue
		}
		for _, t := range measured[name] {
			tables, err := scannedBy(ctx, conn, t.statement)
			if err != nil {
				return nil, fmt.Errorf("explain %s: %w", short(t.statement.sql), err)
			}
			r.explained++
			if len(tables) > 0 {
				found = append(found, fmt.Sprintf("%s reads all %s: %s", name, strings.Join(tables, ", "),
					short(t.statement.sql)))
			}
		}
	}
	return found, nil
}

func scannedBy(ctx context.Context, conn *pgx.Conn, s seenStatement) ([]string, error) {
	settings := "RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET " +
		"enable_sort; RESET enable_material; SET jit = off"
	if s.byIndex {
		settings = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off; SET enable_material = off"
	}
	if _, err := conn.Exec(ctx, settings+"; SET plan_cache_mode = force_generic_plan; DEALLOCATE ALL"); err != nil {
		return nil, err
	}
	if err := conn.DeallocateAll(ctx); err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "PREPARE any_values AS "+s.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, err
	}
	execute := "EXPLAIN (FORMAT JSON) EXECUTE any_values"
	if len(s.args) > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", len(s.args)), ", ") + ")"
	}
	generic, err := explain(ctx, conn, execute)
	if err != nil || s.byIndex {
		return generic.scanned(), err
	}
	custom, err := explain(ctx, conn, "EXPLAIN (FORMAT JSON) "+s.sql, s.args...)
	if err != nil {
		return nil, err
	}
	if tables := custom.scanned(); len(tables) > 0 || generic.Cost > custom.Cost {
		return tables, nil
	}
	return generic.scanned(), nil
}

func explain(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (node, error) {
	var text []byte
	if err := conn.QueryRow(ctx, sql, args...).Scan(&text); err != nil {
		return node{}, err
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) == 0 {
		return node{}, fmt.Errorf("read a plan: %w", err)
	}
	return plans[0].Plan, nil
}
