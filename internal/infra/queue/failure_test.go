package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/telemetry"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// sink is a log that several goroutines write to.
type sink struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sink) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

// gathered returns the non-zero series of a metric as "job value".
func gathered(t *testing.T, q *queue.Queue, metric string) (list []string) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(q.Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue(); f.GetName() == metric && v != 0 {
				list = append(list, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", v))
			}
		}
	}
	slices.Sort(list)
	return list
}

// TestAJobThatFailsIsHeard checks that a failed job is counted, and logged at a level that is always on. The log has
// its name, the attempt and an error class, and none of its arguments. A job that cannot succeed is not retried; the
// last failed attempt is logged as an error.
func TestAJobThatFailsIsHeard(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	var log sink
	q, err := queue.New(db, slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	fails := func(err error) func(context.Context, string) error {
		return func(context.Context, string) error { return err }
	}
	queue.Handle(q, "again", fails(telemetry.WithClass(errors.New("CANARY is unknown"), "550")))
	queue.Handle(q, "never", fails(queue.Final(telemetry.WithClass(errors.New("CANARY is unknown"), "address"))))
	queue.Handle(q, "last", fails(context.DeadlineExceeded))
	q.Every("purge", time.Hour, func(context.Context) error { return errors.New("no such table") })
	err = db.InTx(t.Context(), func(tx postgres.Tx) error {
		for _, name := range []string{"again", "never", "last", "nobody's"} {
			if err := q.Insert(t.Context(), tx, name, "CANARY"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool().Exec(t.Context(),
		`UPDATE river.river_job SET max_attempts = 1 WHERE args->>'name' = 'last'`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	said := map[any]map[string]any{} // by job, its first line
	for deadline := time.Now().Add(30 * time.Second); len(said) < 5 &&
		time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		for _, l := range log.lines(t) {
			if said[l["job"]] == nil && l["job"] != nil {
				said[l["job"]] = l
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"again": "WARN 550 1", "never": "WARN address 1", "last": "ERROR timeout 1", "purge": "WARN _OTHER 1",
		"unknown": "WARN _OTHER 1",
	} {
		l := said[name]
		if got := fmt.Sprint(l["level"], " ", l["class"], " ", l["attempt"]); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if said["purge"]["error"] != "no such table" {
		t.Errorf("of a periodic job: %v", said["purge"])
	}
	if strings.Contains(log.text.String(), "CANARY") {
		t.Errorf("the log tells what a job was given: %s", log.text.String())
	}
	if got := gathered(t, q, "partnerd_jobs_given_up_total"); !slices.Equal(got, []string{"last 1"}) {
		t.Errorf("given up: %v", got)
	}
	failed := strings.Join(gathered(t, q, "partnerd_jobs_failed_total"), ", ") // some may have been retried by now
	for _, name := range []string{"again", "never 1", "last 1", "purge", "unknown"} {
		if !strings.Contains(failed, name) {
			t.Errorf("failed: %s", failed)
		}
	}
}

// TestJobsThatWaitForAnotherAttemptAreCounted checks that jobs waiting for a retry are counted from the database, in
// whichever process is scraped. Every other job is reported as 0.
func TestJobsThatWaitForAnotherAttemptAreCounted(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	q, err := queue.New(db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	queue.Handle(q, "mail", func(context.Context, string) error { return nil })
	for state, n := range map[string]int{"retryable": 3, "available": 2, "completed": 1, "discarded": 1} {
		_, err := db.Pool().Exec(t.Context(),
			`INSERT INTO river.river_job (state, attempt, max_attempts, args, kind, queue, scheduled_at, finalized_at)
			SELECT $1::river.river_job_state, 1, 25, jsonb_build_object('name', CASE n WHEN 3 THEN 'of a newer program' ELSE 'mail' END), 'partnerd', 'default',
				now(), CASE WHEN $1 IN ('completed', 'discarded') THEN now() END FROM generate_series(1, $2) n`,
			state, n)
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := gathered(t, q, "partnerd_jobs_retrying"); !slices.Equal(got, []string{"mail 2", "unknown 1"}) {
		t.Errorf("waiting: %v", got)
	}
}
