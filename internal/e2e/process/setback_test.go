package process_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFailoverThatLosesCommitsIsNoticed is a part of "make failover": an asynchronous standby misses commits and is promoted. The process
// says so, the doctor fails, and "partnerd restored" without an instant settles it. The processes go on.
func TestFailoverThatLosesCommitsIsNoticed(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_FAILOVER") == "" {
		t.Skip("make failover")
	}
	t.Parallel()
	p := newPair(t)
	p[0].exec(t, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	front := freeAddress(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+p.both("program"), "PARTNERD_DATABASE_OWNER_URL="+p.both("owner"),
		"PARTNERD_DATABASE_CONNS=6", "PARTNERD_BASE_URL=http://"+front)
	serving := in.serve(t, front)
	token := onboard(t, in, serving.url, 100_000_000).link(t, serving.url).AccessToken
	primary, standby := connect(t, p[0].url("owner", "partnerd")), connect(t, p[1].url("owner", "partnerd"))
	const marks = "SELECT coalesce(max(count), 0)::text FROM database_marks"
	const replayed = "SELECT pg_last_wal_replay_lsn()::text"
	await(t, deadline, func() bool { return query(t, standby, marks)[0] != "0" }, func() string { return "nothing is marked" })
	p[1].exec(t, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	await(t, deadline, func() bool { return len(query(t, primary, "SELECT pid::text FROM pg_stat_replication")) == 0 },
		func() string { return "the standby still follows" })
	at, lastOfStandby := query(t, standby, replayed)[0], query(t, standby, marks)[0]

	ctx, stop := context.WithCancel(t.Context())
	load := &patientCallers{token: token}
	load.call(ctx, t, func() *process { return serving })
	load.more(t, 3)
	await(t, deadline, func() bool { return query(t, primary, marks)[0] > lastOfStandby }, func() string { return "nothing more is marked" })
	stop()
	load.all.Wait()
	if now := query(t, standby, replayed)[0]; now != at {
		t.Fatalf("the standby went on: %s, was %s", now, at)
	}
	p[0].kill()
	p.promote(t)

	await(t, deadline, func() bool { return strings.Contains(serving.output.String(), "the database went back") }, serving.output.String)
	doctor := func() finding {
		r := in.cli(t, "doctor", "--json")
		var d diagnosis
		if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		i := slices.IndexFunc(d.Findings, func(f finding) bool { return f.Check == "restore" })
		if i < 0 {
			return finding{}
		}
		return d.Findings[i]
	}
	if f := doctor(); f.Level != "fail" || !strings.Contains(f.Do, "partnerd restored") {
		t.Errorf("the doctor: %+v", f)
	}
	var report struct {
		To           time.Time
		Applications int `json:"applicationsMovedOn"`
	}
	in.ask(t, &report, "restored", "--json", "--reason", "The standby missed commits.")
	if report.To.IsZero() || report.Applications == 0 {
		t.Errorf("restored: %+v", report)
	}
	if f := doctor(); f != (finding{}) {
		t.Errorf("the doctor, settled: %+v", f)
	}
	again := &patientCallers{token: token}
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	again.call(ctx, t, func() *process { return serving })
	again.more(t, 3)
	stop()
	again.all.Wait()
	again.lost(t, connect(t, p[1].url("owner", "partnerd")))
	if n := strings.Count(serving.output.String(), "the database went back"); n != 1 {
		t.Errorf("said %d times", n)
	}
}
