package process_test

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// TestUpgradeBesideTheProgramBefore is "make upgrade". Two processes of another build serve, and are replaced one by
// one while partners call. In between, old and new processes serve on one schema, whose migrations ran under load.
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

	const callers, each, stages = 4, 40, 6
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var serving atomic.Pointer[[]*process]
	serve := func(list ...*process) { serving.Store(&list) }
	serve(old...)
	load := &patientCallers{token: token}
	for range callers {
		load.call(ctx, t, func() *process {
			at := *serving.Load()
			return at[mathrand.IntN(len(at))]
		})
	}
	var callable []string // tokens of clients
	for range stages {
		callable = append(callable, crm.another(t, &before, 100_000).link(t, old[0].url).AccessToken)
	}
	var served []string
	more := func() {
		t.Helper()
		x := create(t.Context(), (*serving.Load())[0].url, callable[len(served)], request{rand.Text(), "HOUSING", "FR"})
		if x.status != http.StatusCreated {
			t.Fatalf("create: %d %s", x.status, x.body)
		}
		served = append(served, x.consultation(t).ID)
		load.more(t, each)
	}
	more()
	first := in.serve(t, freeAddress(t)) // migrates while both old processes serve
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
	load.all.Wait()

	db := in.database(t)
	count, lost := load.lost(t, db)
	within, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	for _, id := range served {
		if _, err := crm.received.Wait(within, id, "consultation.completed"); err != nil {
			t.Errorf("%s is not completed: %v", id, err)
		}
	}
	in.settled(t, crm, db)
	for _, p := range append(old, first, second) {
		for line := range strings.Lines(p.output.String()) {
			if strings.Contains(line, "level=ERROR") {
				t.Errorf("%s: %s", p.addr, line)
			}
		}
	}
	t.Logf("%d consultations acknowledged, %d lost, %d requests repeated; %d more were served",
		count, lost, load.repeated.Load(), len(served))
}
