package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
)

var errRefused = &problem.Error{Kind: problem.Conflict, Code: "REFUSED", Message: "No."}

func request(t *testing.T, key, body string) idempotency.Request {
	t.Helper()
	f, err := idempotency.Fingerprint("/x", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return idempotency.Request{ApplicationID: "app", ClientID: "cli", Endpoint: "op", Key: key, Fingerprint: f}
}

func newBox(t *testing.T) *seal.Box {
	t.Helper()
	return sealtest.Box(t)
}

func effect(runs *atomic.Int64) func(postgres.Tx) (int, any, error) {
	return func(postgres.Tx) (int, any, error) { return 201, map[string]int64{"run": runs.Add(1)}, nil }
}

func TestReplayReturnsTheStoredBytesAndRunsNothing(t *testing.T) {
	t.Parallel()
	s := idempotency.New(dbtest.New(t), newBox(t))
	var runs atomic.Int64
	first, err := s.Do(context.Background(), request(t, "k", `{"a":1,"b":2}`), effect(&runs))
	if err != nil || first.Replayed || first.Status != 201 {
		t.Fatalf("first: %+v %v", first, err)
	}
	again, err := s.Do(context.Background(), request(t, "k", `{ "b":2, "a":1 }`), effect(&runs))
	if err != nil || !again.Replayed || string(again.Body) != string(first.Body) || again.Status != 201 {
		t.Errorf("replay: %+v %v", again, err)
	}
	if _, err := s.Do(context.Background(), request(t, "k", `{"a":2}`),
		effect(&runs)); !errors.Is(err, idempotency.ErrConflict) {
		t.Errorf("other body: %v", err)
	}
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

// TestWhatIsKeptIsReadAndNotWritten checks that a stored response can be read whatever body was sent under its key, and
// that the row is not rewritten.
func TestWhatIsKeptIsReadAndNotWritten(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	s := idempotency.New(db, newBox(t))
	var runs atomic.Int64
	other := request(t, "k", `{"a":2}`)
	if got, err := s.Kept(t.Context(), other); got != nil || err != nil {
		t.Errorf("before the first: %+v %v", got, err)
	}
	first, err := s.Do(t.Context(), request(t, "k", `{"a":1}`), effect(&runs))
	if err != nil {
		t.Fatal(err)
	}
	written := func() (version string) {
		row := db.Pool().QueryRow(t.Context(),
			"SELECT ctid::text || ' ' || xmin::text || ' ' || xmax::text FROM idempotency_keys")
		if err := row.Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	before := written()
	got, err := s.Kept(t.Context(), other)
	if err != nil || got == nil || string(got.Body) != string(first.Body) || got.Status != first.Status {
		t.Errorf("kept: %+v %v", got, err)
	}
	if after := written(); after != before {
		t.Errorf("the row was %s and is %s", before, after)
	}
	_, err = s.Alone(t.Context(), request(t, "slow", `{}`), func(context.Context) (int, any, error) {
		if _, err := s.Kept(t.Context(), request(t, "slow", `{"a":2}`)); !errors.Is(err, idempotency.ErrInProgress) {
			t.Errorf("while it runs: %v", err)
		}
		return 201, nil, nil
	})
	if err != nil || runs.Load() != 1 {
		t.Errorf("%d runs, %v", runs.Load(), err)
	}
}

func TestScopesDoNotShareKeys(t *testing.T) {
	t.Parallel()
	s := idempotency.New(dbtest.New(t), newBox(t))
	var runs atomic.Int64
	base := request(t, "k", `{}`)
	others := []idempotency.Request{base, base, base, base, base}
	others[1].ApplicationID, others[2].ClientID, others[3].Endpoint, others[4].Key = "app2", "cli2", "op2", "k2"
	for i, r := range others {
		if got, err := s.Do(context.Background(), r, effect(&runs)); err != nil || got.Replayed {
			t.Errorf("%d: %+v %v", i, got, err)
		}
	}
}

func TestStoredResponsesAreSealed(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	s := idempotency.New(db, newBox(t))
	_, err := s.Do(context.Background(), request(t, "k", `{}`),
		func(postgres.Tx) (int, any, error) { return 201, "CANARY", nil })
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	if err := db.Pool().QueryRow(t.Context(), "SELECT body FROM idempotency_keys").Scan(&body); err != nil ||
		bytes.Contains(body, []byte("CANARY")) {
		t.Errorf("stored: %q %v", body, err)
	}
}

func TestParallelTwinsRunOnce(t *testing.T) {
	t.Parallel()
	s := idempotency.New(dbtest.New(t), newBox(t))
	var runs, fresh atomic.Int64
	var wg sync.WaitGroup
	bodies := make([]string, 50)
	for i := range bodies {
		wg.Go(func() {
			got, err := s.Do(context.Background(), request(t, "k", `{}`), effect(&runs))
			if err != nil {
				t.Errorf("twin %d: %v", i, err)
			}
			if !got.Replayed {
				fresh.Add(1)
			}
			bodies[i] = string(got.Body)
		})
	}
	wg.Wait()
	if runs.Load() != 1 || fresh.Load() != 1 {
		t.Errorf("%d runs, %d fresh answers", runs.Load(), fresh.Load())
	}
	for _, b := range bodies {
		if b != bodies[0] {
			t.Fatalf("bodies differ: %q %q", b, bodies[0])
		}
	}
}

func TestARefusalKeepsTheFingerprintOnly(t *testing.T) {
	t.Parallel()
	s := idempotency.New(dbtest.New(t), newBox(t))
	refuse := func(postgres.Tx) (int, any, error) { return 0, nil, errRefused }
	var runs atomic.Int64
	if _, err := s.Do(context.Background(), request(t, "k", `{"a":1}`), refuse); !errors.Is(err, errRefused) {
		t.Fatalf("refusal: %v", err)
	}
	if _, err := s.Do(context.Background(), request(t, "k", `{"a":2}`),
		effect(&runs)); !errors.Is(err, idempotency.ErrConflict) {
		t.Errorf("other body after a refusal: %v", err)
	}
	if got, err := s.Do(context.Background(), request(t, "k", `{"a":1}`), effect(&runs)); err != nil || got.Replayed {
		t.Errorf("same body after a refusal: %+v %v", got, err)
	}
	if _, err := s.Refuse(context.Background(), request(t, "k", `{"a":3}`),
		errRefused); !errors.Is(err, idempotency.ErrConflict) {
		t.Errorf("invalid other body: %v, want the conflict first (T5)", err)
	}
}

func TestATwinOfARunningRequestIsToldToWait(t *testing.T) {
	t.Parallel()
	s := idempotency.New(dbtest.New(t), newBox(t))
	running, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.Do(context.Background(), request(t, "k", `{}`), func(postgres.Tx) (int, any, error) {
			close(running)
			<-release
			return 201, "done", nil
		})
		if err != nil {
			t.Errorf("first: %v", err)
		}
	})
	<-running
	_, err := s.Do(context.Background(), request(t, "k", `{}`), effect(new(atomic.Int64)))
	if p, ok := problem.As(err); !ok || p.Code != "IDEMPOTENCY_IN_PROGRESS" || p.RetryAfter != time.Second {
		t.Errorf("twin after %s: %v", postgres.LockTimeout, err)
	}
	close(release)
	wg.Wait()
}

func TestKeysEndAfterTwentyFourHours(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := idempotency.New(dbtest.NewWithClock(t, clk), newBox(t))
	var runs atomic.Int64
	do := func() idempotency.Response {
		got, err := s.Do(context.Background(), request(t, "k", `{}`), effect(&runs))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	do()
	clk.Advance(idempotency.Retention - time.Minute)
	if !do().Replayed {
		t.Error("not replayed at 23:59")
	}
	clk.Advance(time.Minute)
	if do().Replayed {
		t.Error("replayed after 24:00, though not purged yet")
	}
	clk.Advance(idempotency.Retention)
	if n, err := s.Purge(context.Background()); n != 1 || err != nil {
		t.Errorf("purge: %d %v", n, err)
	}
}

func TestFingerprintIgnoresOrderAndSpaceOnly(t *testing.T) {
	t.Parallel()
	same := [][2]string{{`{"a":1,"b":[1,2]}`, ` {"b":[1,2], "a":1}`}, {`{"a":"é"}`, `{"a":"\u00e9"}`}}
	differ := [][2]string{{`{"a":1}`, `{"a":1.0}`}, {`{"a":[1,2]}`, `{"a":[2,1]}`},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`}, {`{"a":null}`, `{}`}}
	eq := func(p [2]string) bool {
		var f [2]id.Digest
		for i := range p {
			var err error
			if f[i], err = idempotency.Fingerprint("/x", []byte(p[i])); err != nil {
				t.Fatal(err)
			}
		}
		return f[0] == f[1]
	}
	for _, p := range same {
		if !eq(p) {
			t.Errorf("%v should be equal", p)
		}
	}
	for _, p := range differ {
		if eq(p) {
			t.Error(fmt.Sprint(p, " should differ"))
		}
	}
}
