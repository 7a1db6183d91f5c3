package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

const (
	byWeek    = "api_requests"
	retention = 30 * 24 * time.Hour
	aWeek     = 7 * 24 * time.Hour
)

// later returns a database and its clock, set to the start of the open partition: no partition exists ahead yet.
func later(t *testing.T) (*postgres.DB, *clock.Manual) {
	t.Helper()
	c := clock.NewManual(time.Now().UTC())
	db := dbtest.NewWithClock(t, c)
	all := lying(t, db)
	c.Advance(all[len(all)-1].Begins.Sub(c.Now()))
	return db, c
}

// lying returns the partitions of the request log. It fails unless they cover all time without gaps.
func lying(t *testing.T, db *postgres.DB) []postgres.Partition {
	t.Helper()
	all, err := postgres.Partitions(t.Context(), db.Read())
	if err != nil || len(all) < 2 || all[0].Begins != nil || all[len(all)-1].Ends != nil {
		t.Fatalf("partitions %+v, %v", all, err)
	}
	for i, p := range all[1:] {
		if p.Table != byWeek || all[i].Ends == nil || p.Begins == nil || !p.Begins.Equal(*all[i].Ends) {
			t.Fatalf("%s follows on %s, which ends at %v", p.Name, all[i].Name, all[i].Ends)
		}
	}
	return all
}

func keep(t *testing.T, db *postgres.DB, wantDropped int) {
	t.Helper()
	if n, err := postgres.KeepPartitions(t.Context(), db, byWeek, retention); n != wantDropped || err != nil {
		t.Fatalf("dropped %d instead of %d, %v", n, wantDropped, err)
	}
}

const insertLine = `INSERT INTO api_requests (application_id, id, at, method, path, status, duration_us, keyed, replayed) VALUES ('app_1', $1, $2, 'GET', '/', 200, 1, false, false)`

func write(t *testing.T, db *postgres.DB, id string, at time.Time) {
	t.Helper()
	if _, err := db.Pool().Exec(t.Context(), insertLine, id, at); err != nil {
		t.Fatal(err)
	}
}

// where maps each log line to its partition.
func where(t *testing.T, db *postgres.DB) map[string]string {
	t.Helper()
	rows, err := db.Pool().Query(t.Context(), `SELECT id, tableoid::regclass::text FROM api_requests`)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]string{}
	var id, partition string
	if _, err := pgx.ForEachRow(rows, []any{&id, &partition},
		func() error { in[id] = partition; return nil }); err != nil {
		t.Fatal(err)
	}
	return in
}

// TestPartitionsAreMadeAhead uses the program's own role, which owns nothing.
func TestPartitionsAreMadeAhead(t *testing.T) {
	t.Parallel()
	db, c := later(t)
	if n := postgres.Ahead(lying(t, db), c.Now())[byWeek]; n != 0 {
		t.Fatalf("%d lie ahead before anything was done", n)
	}
	for range 3 {
		keep(t, db, 0)
		all := lying(t, db)
		if n := postgres.Ahead(all, c.Now())[byWeek]; n != postgres.PartitionsAhead {
			t.Errorf("%d lie ahead", n)
		}
		for _, p := range all[1:] {
			if p.Begins.UTC().Weekday() != time.Monday || p.Ends != nil && p.Ends.Sub(*p.Begins) != aWeek ||
				p.Name != byWeek+p.Begins.UTC().Format("_20060102") {
				t.Errorf("%+v", p)
			}
		}
		keep(t, db, 0)
		if again := lying(t, db); len(again) != len(all) {
			t.Errorf("%d partitions, then %d", len(all), len(again))
		}
		c.Advance(aWeek)
	}
}

func TestALineGoesToItsWeek(t *testing.T) {
	t.Parallel()
	db, _ := later(t)
	keep(t, db, 0)
	all := lying(t, db)
	write(t, db, "ancient", time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))
	write(t, db, "far", time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC))
	want := map[string]string{"ancient": all[0].Name, "far": all[len(all)-1].Name}
	for i, p := range all[1:] {
		write(t, db, p.Name+" begins", *p.Begins)
		write(t, db, p.Name+" before", p.Begins.Add(-time.Microsecond))
		want[p.Name+" begins"], want[p.Name+" before"] = p.Name, all[i].Name
	}
	if got := where(t, db); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	var twice string
	if err := db.Pool().QueryRow(t.Context(), `SELECT coalesce(string_agg(id, ','), '') FROM api_requests WHERE id LIKE '% begins' AND at < '2999-01-01' GROUP BY id HAVING count(*) > 1`).Scan(&twice); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("twice: %s, %v", twice, err)
	}
}

// TestNothingIsLostWhereNoPartitionWasMade covers months without new partitions. Lines gather in the open one; when
// partitions are next created it is closed and keeps all of them.
func TestNothingIsLostWhereNoPartitionWasMade(t *testing.T) {
	t.Parallel()
	db, c := later(t)
	for i := range 10 {
		write(t, db, fmt.Sprint("line ", i), c.Now())
		c.Advance(aWeek)
	}
	write(t, db, "too early", c.Now().Add(3*aWeek)) // as written by a clock that ran ahead
	before := lying(t, db)
	if len(before) != 2 {
		t.Fatalf("%+v", before)
	}
	keep(t, db, 0)
	in, all := where(t, db), lying(t, db)
	if len(in) != 11 || len(all) != 2+postgres.PartitionsAhead+1 ||
		postgres.Ahead(all, c.Now())[byWeek] != postgres.PartitionsAhead {
		t.Errorf("%v in %+v", in, all)
	}
	for i := range 10 {
		if got := in[fmt.Sprint("line ", i)]; got != before[1].Name {
			t.Errorf("line %d is in %s", i, got)
		}
	}
	for _, p := range all[1:] {
		if at := c.Now().Add(3 * aWeek); !p.Begins.After(at) && (p.Ends == nil || p.Ends.After(at)) &&
			in["too early"] != p.Name {
			t.Errorf("what came too early is in %s and not in %s", in["too early"], p.Name)
		}
	}
	c.Advance(aWeek + retention)
	keep(t, db, 1) // the wide partition, up to the end of the then current week
	if in := where(t, db); len(in) != 1 || in["too early"] == "" {
		t.Errorf("%v are left", in)
	}
}

// TestRetentionDropsWhatIsPastAndNothingElse checks that a week is dropped once its last timestamp is past the
// retention. It is not dropped a microsecond earlier, and later weeks stay whole.
func TestRetentionDropsWhatIsPastAndNothingElse(t *testing.T) {
	t.Parallel()
	db, c := later(t)
	keep(t, db, 0)
	all := lying(t, db)
	for _, p := range all[1:4] {
		write(t, db, p.Name+" first", *p.Begins)
		write(t, db, p.Name+" last", p.Ends.Add(-time.Microsecond))
	}
	write(t, db, "ancient", all[1].Begins.Add(-time.Microsecond))

	c.Advance(all[1].Begins.Add(retention).Sub(c.Now()) - time.Microsecond)
	keep(t, db, 0)
	if in := where(t, db); len(in) != 7 {
		t.Fatalf("%v", in)
	}
	c.Advance(time.Microsecond)
	keep(t, db, 1) // the first partition
	if in := where(t, db); len(in) != 6 || in["ancient"] != "" {
		t.Fatalf("%v", in)
	}
	c.Advance(aWeek - time.Microsecond)
	keep(t, db, 0)
	c.Advance(time.Microsecond)
	keep(t, db, 1)
	in := where(t, db)
	if len(in) != 4 || in[all[1].Name+" last"] != "" || in[all[2].Name+" first"] == "" {
		t.Fatalf("%v", in)
	}
	keep(t, db, 0)

	// A line older than everything kept still has a partition, and is dropped.
	write(t, db, "late", all[1].Begins.Add(time.Hour))
	if got := where(t, db)["late"]; got != byWeek+"_first" {
		t.Errorf("a late line is in %q", got)
	}
	keep(t, db, 1)
	if in := where(t, db); len(in) != 4 {
		t.Errorf("%v", in)
	}
	c.Advance(3 * aWeek)
	keep(t, db, 3)
	if in := where(t, db); len(in) != 0 {
		t.Errorf("%v", in)
	}
	lying(t, db)
}

// TestPartitionsAreKeptByManyAtOnce runs several processes at the same time, while others write, read and delete. Each
// step is done once, and no line is lost.
func TestPartitionsAreKeptByManyAtOnce(t *testing.T) {
	t.Parallel()
	db, c := later(t)
	keep(t, db, 0)
	old := lying(t, db)[1:4]
	for _, p := range old {
		write(t, db, p.Name, *p.Begins)
	}
	c.Advance(old[2].Ends.Add(retention).Sub(c.Now()))

	var users, keepers sync.WaitGroup
	var written, dropped atomic.Int64
	done := make(chan struct{})
	use := func(what string, do func(n int) error) {
		users.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if err := do(n); err != nil && !postgres.IsLockTimeout(err) { // tolerated on an overloaded machine
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	for w := range 2 {
		use("write", func(n int) error {
			at := c.Now().Add(time.Duration(n%7-1) * aWeek) // also into partitions that are just being created
			_, err := db.Pool().Exec(t.Context(), insertLine, fmt.Sprintf("new %d %d", w, n), at)
			if err == nil {
				written.Add(1)
			}
			return err
		})
	}
	use("read", func(int) error {
		_, err := db.Pool().Exec(t.Context(),
			`SELECT * FROM api_requests WHERE application_id = 'app_1' AND at >= $1 ORDER BY at DESC, id DESC LIMIT 20`, c.Now().Add(-retention))
		return err
	})
	use("delete", func(int) error { // as the previous release does
		_, err := db.Pool().Exec(t.Context(), `DELETE FROM api_requests WHERE at < $1`, c.Now().Add(-100*retention))
		return err
	})
	for range 4 {
		keepers.Go(func() {
			for range 5 {
				n, err := postgres.KeepPartitions(t.Context(), db, byWeek, retention)
				for deadline := time.Now().Add(time.Minute); postgres.IsLockTimeout(err) &&
					time.Now().Before(deadline); {
					n, err = postgres.KeepPartitions(t.Context(), db, byWeek, retention)
				}
				if err != nil {
					t.Error(err)
				}
				dropped.Add(int64(n))
			}
		})
	}
	keepers.Wait()
	close(done)
	users.Wait()
	if n := dropped.Load(); n != 3 {
		t.Errorf("%d partitions were dropped", n)
	}
	if in := where(t, db); len(in) != int(written.Load()) {
		t.Errorf("%d lines were written, %d are there", written.Load(), len(in))
	}
	if n := postgres.Ahead(lying(t, db), c.Now())[byWeek]; n != postgres.PartitionsAhead {
		t.Errorf("%d lie ahead", n)
	}
}

// TestPartitionsGiveWay checks that a long-held lock is respected: the step gives up and succeeds the next time.
func TestPartitionsGiveWay(t *testing.T) {
	t.Parallel()
	db, _ := later(t)
	holder, err := pgx.Connect(t.Context(), db.Pool().Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), `BEGIN; SELECT count(*) FROM api_requests`); err != nil {
		t.Fatal(err)
	}
	before := lying(t, db)
	if _, err := postgres.KeepPartitions(t.Context(), db, byWeek, retention); !postgres.IsLockTimeout(err) {
		t.Errorf("%v", err)
	}
	if after := lying(t, db); len(after) != len(before) {
		t.Errorf("%+v", after)
	}
	if _, err := holder.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	keep(t, db, 0)
}

// downTo migrates a test database down to version. It returns its migrations and a pool of the owner's connections.
func downTo(t *testing.T, url string, version int64) (postgres.Migrations, *pgxpool.Pool) {
	t.Helper()
	m := postgres.Migrations{URL: dbtest.OwnerURL(t, url)}
	for at := version + 1; at > version; {
		var err error
		if at, err = m.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	owner, err := pgxpool.New(t.Context(), m.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	return m, owner
}

// TestTheLogOfRequestsIsPartitionedUnderItsWriters checks that the existing table becomes the first partition
// unchanged. Meanwhile the previous release keeps writing, reading and deleting.
func TestTheLogOfRequestsIsPartitionedUnderItsWriters(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	m, owner := downTo(t, url, 57)
	file := func(table string) (node uint32) {
		if err := owner.QueryRow(t.Context(), `SELECT relfilenode FROM pg_class WHERE oid = $1::regclass`, table).
			Scan(&node); err != nil {
			t.Fatal(err)
		}
		return node
	}
	const rows = 20_000
	if _, err := owner.Exec(t.Context(),
		`INSERT INTO api_requests (application_id, id, at, method, path, status, duration_us, keyed, replayed)
		SELECT 'app_1', 'req_' || i, now() - i * interval '2 minutes', 'GET', '/', 200, 1, false, false FROM generate_series(1, $1::int) i`, rows); err != nil {
		t.Fatal(err)
	}
	before := file("api_requests")

	program, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	var writers sync.WaitGroup
	var written, migrated atomic.Int64
	done := make(chan struct{})
	for w := range 3 {
		writers.Go(func() {
			for n, stop := 0, false; !stop; n++ {
				select {
				case <-done:
					stop = true // after one last iteration on the new schema
				default:
				}
				_, err := program.Exec(t.Context(), `INSERT INTO api_requests (application_id, id, at, method, path, status, code, duration_us, keyed, replayed, refreshed, issues, body)
					SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[], $11::boolean[], $12::json[], $13::json[])
					ON CONFLICT DO NOTHING`, []string{"app_1"}, []string{fmt.Sprintf("req_new_%d_%d", w, n)},
					[]time.Time{time.Now()}, []string{"GET"}, []string{"/"}, []int{200}, []*string{nil}, []int64{1},
					[]bool{false}, []bool{false}, []bool{false}, []*string{nil}, []*string{nil})
				if err == nil {
					written.Add(1)
					var id string
					err = program.QueryRow(t.Context(), `SELECT id FROM api_requests WHERE application_id = 'app_1' AND id < 'req_new' ORDER BY id DESC LIMIT 1`).Scan(&id)
				}
				if err == nil {
					_, err = program.Exec(t.Context(), `DELETE FROM api_requests WHERE at < now() - interval '60 days'`)
				}
				if err != nil {
					t.Errorf("migrated %d: %v", migrated.Load(), err)
					return
				}
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); written.Load() < 20 && !t.Failed(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("nothing is written")
		}
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Error(err)
	}
	migrated.Store(1)
	close(done)
	writers.Wait()

	var lines, first int64
	if err := owner.QueryRow(t.Context(),
		`SELECT count(*), count(*) FILTER (WHERE tableoid = 'api_requests_first'::regclass) FROM api_requests`).
		Scan(&lines, &first); err != nil {
		t.Fatal(err)
	}
	if want := rows + written.Load(); lines != want || first != want {
		t.Errorf("%d lines, %d of them in the first partition, instead of %d", lines, first, want)
	}
	if file("api_requests_first") != before {
		t.Error("the table was written anew")
	}
	var left int
	if err := owner.QueryRow(t.Context(), `SELECT count(*) FROM pg_constraint WHERE conname = 'api_requests_until'`).
		Scan(&left); err != nil || left != 0 {
		t.Errorf("%d constraints are left, %v", left, err)
	}
}

// TestTheLogOfRequestsIsIndexedWeekByWeek checks that every week gets the indexes of the list, even if an earlier
// attempt was interrupted after any of its steps.
func TestTheLogOfRequestsIsIndexedWeekByWeek(t *testing.T) {
	t.Parallel()
	m, owner := downTo(t, dbtest.URL(t), 60)
	for _, sql := range []string{
		`SELECT add_partition('api_requests', date_trunc('week', now(), 'UTC') + n * interval '7 days') FROM generate_series(5, 8) n`,
		`INSERT INTO api_requests (application_id, id, at, method, path, status, duration_us, keyed, replayed)
			SELECT 'app_1', 'req_' || i, now() + i * interval '1 hour', 'GET', '/', 200 + 222 * (i % 2), 1, false, false FROM generate_series(0, 1400) i`,
		`CREATE INDEX api_requests_first_refused_list ON api_requests_first (application_id, at, id) WHERE status >= 400`,
		`CREATE INDEX api_requests_list ON api_requests (application_id, at, id)`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	var weeks, indexed, invalid int
	if err := owner.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM partitions()), (SELECT count(*) FROM pg_inherits WHERE inhparent IN ('api_requests_list'::regclass, 'api_requests_refused_list'::regclass)),
		(SELECT count(*) FROM pg_index WHERE NOT indisvalid)`).Scan(&weeks, &indexed, &invalid); err != nil {
		t.Fatal(err)
	}
	if weeks < 5 || indexed != 2*weeks || invalid != 0 {
		t.Errorf("%d weeks, %d indexes of them, %d that are not valid", weeks, indexed, invalid)
	}
}
