package process_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/poll"
)

// TestUpgradeBesideTheProgramBefore is "make upgrade": two processes of another build serve, and are replaced one by one while
// partners call. In between old and new serve on one schema, whose migrations ran under load.
func TestUpgradeBesideTheProgramBefore(t *testing.T) {
	program := os.Getenv("PARTNERD_TEST_BEFORE")
	if program == "" {
		t.Skip("make upgrade")
	}
	front := freeAddress(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_BASE_URL=http://"+front)
	before := *in
	before.program = program
	old := []*process{before.serve(t, front)}
	old = append(old, before.serve(t, freeAddress(t)))
	crm := onboard(t, &before, old[0].url, 100_000_000)
	token := crm.link(t, old[0].url).AccessToken

	const callers, each = 4, 40
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var serving atomic.Pointer[[]*process]
	serve := func(list ...*process) { serving.Store(&list) }
	serve(old...)
	var made sync.Map // key -> consultation
	var acknowledged, repeated atomic.Int64
	var load sync.WaitGroup
	for range callers {
		load.Go(func() {
			for poll.Pause(ctx, 100*time.Millisecond) {
				q := request{rand.Text(), "TAX", "PT"} // nobody serves it
				for ctx.Err() == nil {
					at := *serving.Load()
					x := create(ctx, at[mathrand.IntN(len(at))].url, token, q)
					if x.status == http.StatusCreated {
						made.Store(q.key, x.consultation(t).ID)
						acknowledged.Add(1)
						break
					}
					if ctx.Err() == nil && x.status != 0 && x.status != http.StatusServiceUnavailable && x.status != http.StatusConflict {
						t.Errorf("create: %d %s", x.status, x.body)
					}
					repeated.Add(1)
					poll.Pause(ctx, 100*time.Millisecond)
				}
			}
		})
	}
	var served []string // one after the other: he has one phone
	more := func() {
		t.Helper()
		x := create(t.Context(), (*serving.Load())[0].url, token, request{rand.Text(), "HOUSING", "FR"})
		if x.status != http.StatusCreated {
			t.Fatalf("create: %d %s", x.status, x.body)
		}
		served = append(served, x.consultation(t).ID)
		n := acknowledged.Load() + each
		await(t, deadline, func() bool { return acknowledged.Load() >= n }, func() string { return fmt.Sprintf("%d of %d consultations are made", acknowledged.Load(), n) })
	}
	more()
	first := in.serve(t, freeAddress(t)) // migrates while both of the old serve
	serve(first, old[0], old[1])
	more()
	serve(first, old[1])
	more()
	old[0].terminate(t)
	second := in.serve(t, front)
	serve(first, second, old[1])
	more()
	serve(first, second)
	more()
	old[1].terminate(t)
	more()
	stop()
	load.Wait()

	db := in.database(t)
	count := 0
	made.Range(func(key, id any) bool {
		count++
		if there := query(t, db, "SELECT id FROM consultations WHERE external_ref = $1", key); !slices.Equal(there, []string{id.(string)}) {
			t.Errorf("%s made %v, and %v is there", key, id, there)
		}
		return true
	})
	within, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	for _, id := range served {
		if _, err := crm.received.Wait(within, id, "consultation.completed"); err != nil {
			t.Errorf("%s is not completed: %v", id, err)
		}
	}
	for _, fault := range append(query(t, db, brokenSQL), query(t, db, doubleSQL)...) {
		t.Error(fault)
	}
	await(t, deadline, func() bool {
		return len(query(t, db, "SELECT id FROM webhook_deliveries WHERE ended_at IS NULL LIMIT 1")) == 0
	}, func() string { return "events are still to be sent" })
	crm.everyEventArrived(t, db)
	in.booksAgree(t)
	for _, p := range append(old, first, second) {
		for line := range strings.Lines(p.output.String()) {
			if strings.Contains(line, "level=ERROR") {
				t.Errorf("%s: %s", p.addr, line)
			}
		}
	}
	t.Logf("%d consultations acknowledged, %d of them completed, none lost or made twice; %d requests repeated", count, len(served), repeated.Load())
}
