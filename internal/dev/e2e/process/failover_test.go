package process_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/poll"
)

// standbyPair is a primary and its synchronous standby. Every acknowledged commit is on the disks of both.
type standbyPair []*dbServer

func newPair(t *testing.T, settings ...string) standbyPair {
	t.Helper()
	_, servers := newServers(t, 2)
	p := standbyPair(servers)
	primary, standby := p[0], p[1]
	primary.start(t, settings...)
	primary.exec(t, "CREATE ROLE program LOGIN", "CREATE DATABASE partnerd")
	standby.run(t, "pg_basebackup", "-D", standby.data, "-h", "127.0.0.1", "-p", primary.port, "-U", "owner", "-R",
		"-c", "fast", "-X", "stream")
	standby.start(t)
	primary.exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	db := connect(t, primary.url("owner", "postgres"))
	await(t, deadline, func() bool {
		return slices.Equal(query(t, db, "SELECT sync_state FROM pg_stat_replication"), []string{"sync"})
	}, func() string { return "the standby does not follow" })
	return p
}

// both returns an address that reaches whichever server accepts writes.
func (p standbyPair) both(role string) string {
	return p[0].urlAt(p[0].address()+","+p[1].address(), role, "partnerd") +
		"&target_session_attrs=read-write&connect_timeout=2"
}

// promote makes the standby the primary, without a standby of its own.
func (p standbyPair) promote(t *testing.T) {
	t.Helper()
	p[1].exec(t, "SELECT pg_promote()", "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
}

// TestFailoverLosesNothing is "make failover". The primary dies, or hangs until it is fenced, while partners call. The
// standby is promoted, and everything acknowledged is there exactly once.
func TestFailoverLosesNothing(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_FAILOVER") == "" {
		t.Skip("make failover")
	}
	t.Parallel()
	for name, lose := range map[string]func(standbyPair){
		"killed": func(p standbyPair) { p[0].kill() },
		"hung":   func(p standbyPair) { p[0].freeze() },
	} {
		t.Run(name, func(t *testing.T) { failover(t, lose) })
	}
}

func failover(t *testing.T, lose func(standbyPair)) {
	p := newPair(t)
	front := freeAddress(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+p.both("program"),
		"PARTNERD_DATABASE_OWNER_URL="+p.both("owner"), "PARTNERD_DATABASE_CONNS=6",
		"PARTNERD_BASE_URL=http://"+front)
	first := in.serve(t, front)
	second := in.serve(t, freeAddress(t))
	crm := onboard(t, in, first.url, 100_000_000)
	token := crm.link(t, first.url).AccessToken

	const callers, before, after, fencedAfter = 6, 60, 60, 3 * time.Second
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// In nanoseconds; longest is the longest time from a request to its response, including retries.
	var lostAt, longest atomic.Int64
	load := &patientCallers{token: token, answered: func(took time.Duration) {
		for was := longest.Load(); lostAt.Load() > 0 && int64(took) > was &&
			!longest.CompareAndSwap(was, int64(took)); was = longest.Load() {
		}
	}}
	for i := range callers {
		load.call(ctx, t, func() *process { return []*process{first, second}[i%2] })
	}
	load.more(t, before)
	// The lawyer calls the client of this one while the primary is lost.
	whole := create(t.Context(), first.url, token, request{rand.Text(), "HOUSING", "FR"})
	if whole.status != http.StatusCreated {
		t.Fatalf("create: %d %s", whole.status, whole.body)
	}
	if _, err := crm.received.Wait(t.Context(), whole.consultation(t).ID, "consultation.assigned"); err != nil {
		t.Fatal(err)
	}
	lose(p)
	lostAt.Store(time.Now().UnixNano())
	p.promote(t)
	promoted := time.Now()
	poll.Pause(t.Context(), fencedAfter)
	p[0].kill() // otherwise two servers would accept writes
	load.more(t, after)
	stop()
	load.all.Wait()

	db := connect(t, p[1].url("owner", "partnerd"))
	count, lost := load.lost(t, db)
	within, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if _, err := crm.received.Wait(within, whole.consultation(t).ID, "consultation.completed"); err != nil {
		t.Errorf("the consultation that was assigned is not completed: %v", err)
	}
	in.settled(t, crm, db)
	if losses := query(t, db, "SELECT process FROM database_losses"); len(losses) > 0 {
		t.Errorf("nothing is lost, and %d processes say so", len(losses))
	}
	t.Logf("%d consultations acknowledged, %d lost, %d requests repeated; the standby took writes after %s, and "+
		"nobody waited longer than %s for an answer",
		count, lost, load.repeated.Load(), promoted.Sub(time.Unix(0, lostAt.Load())).Round(time.Millisecond),
		time.Duration(longest.Load()).Round(time.Millisecond))
}
