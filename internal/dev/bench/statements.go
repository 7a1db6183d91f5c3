package bench

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// recorder records the statements that the program sends while it is on, and the number of round trips. pgx prepares
// all of them.
type recorder struct {
	on         atomic.Bool
	mu         sync.Mutex
	statements []statement
	trips      int
}

type statement struct {
	sql  string
	args []any
}

// TraceQueryStart implements pgx.QueryTracer.
func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if r.on.Load() {
		args := d.Args
		for len(args) > 0 && isOption(args[0]) {
			args = args[1:]
		}
		r.note(1, statement{d.SQL, args})
	}
	return ctx
}

// TraceBatchStart implements pgx.BatchTracer.
func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	if r.on.Load() {
		var list []statement
		for _, q := range d.Batch.QueuedQueries {
			list = append(list, statement{q.SQL, q.Arguments})
		}
		r.note(1, list...)
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*recorder) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (r *recorder) note(trips int, list ...statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, list...)
	r.trips += trips
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func isOption(v any) bool {
	switch v.(type) {
	case pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryExecMode:
		return true
	}
	return false
}

// record returns the statements of one request on a warm program, and their round trips. It takes the fewest of a few
// tries, because the program reloads what it caches for a second (the catalog) now and then.
func (r *walletRig) record(ctx context.Context, next request, want int) (least []statement, trips int, err error) {
	if _, err := r.load(ctx, 300*time.Millisecond, 8, benchWallets, next, want); err != nil {
		return nil, 0, err
	}
	for range 5 {
		r.recorder.begin()
		if err := r.once(ctx, next, want); err != nil {
			return nil, 0, err
		}
		if seen, n := r.recorder.end(); least == nil || len(seen) < len(least) {
			least, trips = seen, n
		}
	}
	return least, trips, nil
}

func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements, r.trips = nil, 0
	r.on.Store(true)
}

func (r *recorder) end() (statements []statement, trips int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on.Store(false)
	return r.statements, r.trips
}

var (
	fresh    = regexp.MustCompile(`^(con|txn|evt|dlv|hld|req)_test_|^6e1f2a4c-`)
	argument = regexp.MustCompile(`\$[0-9]+`)
)

// script writes statements for pgbench. Values that are new in each request are new in each transaction, and the client
// is chosen at random.
func (r *walletRig) script(statements []statement) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\\set r random(1, 9000000000000000000)\n\\set c random(0, %d)\n", benchWallets-1)
	for _, s := range statements {
		sql := argument.ReplaceAllStringFunc(s.sql, func(at string) string {
			n, _ := strconv.Atoi(at[1:])
			return r.literal(s.args[n-1])
		})
		b.WriteString(strings.Join(strings.Fields(sql), " ") + ";\n")
	}
	return b.String()
}

func (r *walletRig) literal(v any) string {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer {
		if p.IsNil() {
			return "NULL"
		}
		return r.literal(p.Elem().Interface())
	}
	if valuer, ok := v.(driver.Valuer); ok {
		if plain, err := valuer.Value(); err == nil {
			return r.literal(plain)
		}
	}
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		quoted := "'" + strings.ReplaceAll(v, "'", "''") + "'"
		switch {
		case v == r.clients[0]:
			return "('" + benchClient + "' || CAST(:c AS text))"
		case fresh.MatchString(v):
			return "(" + quoted + " || CAST(:r AS text))"
		}
		return quoted
	case []byte:
		return `CAST('\x` + hex.EncodeToString(v) + `' AS bytea)`
	case time.Time:
		return "CAST('" + v.Format(time.RFC3339Nano) + "' AS timestamptz)"
	case bool, int, int16, int32, int64:
		return fmt.Sprint(v)
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		items := make([]string, list.Len())
		for i := range items {
			items[i] = r.literal(list.Index(i).Interface())
		}
		return "ARRAY[" + strings.Join(items, ", ") + "]"
	}
	return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
}

// pgbench returns the transactions/s and the latency of a script with that many clients on the same database.
// Statements are prepared and sent one by one.
func (r *walletRig) pgbench(ctx context.Context, script string, clients int, d time.Duration) (float64, error) {
	program, err := pgbenchProgram()
	if err != nil {
		return 0, err
	}
	f, err := os.CreateTemp("", "partnerd-bench-*.sql")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(script); err != nil {
		return 0, err
	}
	f.Close()
	out, err := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-f", f.Name(), "-c", strconv.Itoa(clients),
		"-j", "2", "-T", strconv.Itoa(max(2, int(d.Seconds()))),
		strings.Replace(r.url, "&require_auth=scram-sha-256", "", 1)).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run pgbench: %w: %.400s", err, out)
	}
	m := tpsLine.FindSubmatch(out)
	if m == nil || strings.Contains(string(out), "aborted") {
		return 0, fmt.Errorf("read pgbench: %s", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
