package process_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"partnerd/internal/dev/dbtest"
)

// TestPoolerDatabaseAndProcessComeAndGo: behind PgBouncer in transaction mode, what was acknowledged stays. The pooler,
// the database behind it, or a process goes away while partners call. Callers are told to retry, and get no other
// error.
func TestPoolerDatabaseAndProcessComeAndGo(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_POOLER") == "" {
		t.Skip("make pgbouncer")
	}
	t.Parallel()
	_, servers := newServers(t, 1)
	server := servers[0]
	server.start(t)
	server.exec(t, "CREATE ROLE program LOGIN", "CREATE DATABASE partnerd")
	direct := server.url("program", "partnerd")
	pooler := dbtest.NewPooler(t, direct)
	addr := freeAddress(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+direct,
		"PARTNERD_DATABASE_OWNER_URL="+server.url("owner", "partnerd"), "PARTNERD_DATABASE_POOLER_URL="+pooler.URL,
		"PARTNERD_DATABASE_CONNS=6", "PARTNERD_BASE_URL=http://"+addr)
	first, second := in.serve(t, addr), in.serve(t, freeAddress(t))
	crm := onboard(t, in, first.url, 100_000_000)

	var restarted atomic.Pointer[process]
	restarted.Store(second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	load := &patientCallers{token: crm.link(t, first.url).AccessToken}
	for i := range 4 {
		load.call(ctx, t, func() *process {
			if i%2 == 0 {
				return first
			}
			return restarted.Load()
		})
	}
	load.more(t, 20)

	t.Log("the pooler goes away")
	pooler.Kill()
	first.awaitStatus(t, "/readyz", http.StatusServiceUnavailable)
	pooler.Start(t)
	first.awaitStatus(t, "/readyz", http.StatusOK)
	load.more(t, 20)

	t.Log("the database behind it goes away")
	server.kill()
	first.awaitStatus(t, "/readyz", http.StatusServiceUnavailable)
	server.start(t)
	first.awaitStatus(t, "/readyz", http.StatusOK)
	load.more(t, 20)

	t.Log("a process is restarted")
	second.terminate(t)
	restarted.Store(in.serve(t, second.addr))
	load.more(t, 20)
	whole := create(t.Context(), first.url, load.token, request{rand.Text(), "HOUSING", "FR"}) // a lawyer serves it
	if whole.status != http.StatusCreated {
		t.Fatalf("create: %d %s", whole.status, whole.body)
	}
	within, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if _, err := crm.received.Wait(within, whole.consultation(t).ID, "consultation.completed"); err != nil {
		t.Errorf("a consultation is not completed: %v", err)
	}
	stop()
	load.all.Wait()

	db := connect(t, server.url("owner", "partnerd"))
	count, lost := load.lost(t, db)
	// The migration creates none of these.
	const made = "SELECT name FROM partitions() WHERE begins > now() AND ends IS NOT NULL"
	await(t, deadline, func() bool { return len(query(t, db, made)) > 0 },
		func() string { return "no week is made ready" })
	in.settled(t, crm, db)
	t.Logf("%d consultations acknowledged, %d lost, %d requests repeated", count, lost, load.repeated.Load())
}
