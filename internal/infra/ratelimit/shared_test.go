package ratelimit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"partnerd/internal/base/telemetry/telemetrytest"
	"partnerd/internal/infra/ratelimit/valkeytest"
)

const patience = time.Minute

// transcript is a log that can be read while it is written.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *transcript) count(words string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.buf.String(), words)
}

// limiterOf returns one process's limiter, which waits for responses as long as a busy machine needs. It connects if
// the server is available.
func limiterOf(t *testing.T, address string) (*Limiter, *transcript) {
	t.Helper()
	log := &transcript{}
	l, err := NewShared(address, []byte("a secret of the deployment"), slog.New(slog.NewTextHandler(log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	l.shared.within, l.shared.options.ConnWriteTimeout, l.shared.options.Dialer.Timeout = patience, patience, patience
	return l, log
}

// run keeps the limiter connected for the duration of the test.
func run(t *testing.T, l *Limiter) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

func awaitSharing(t *testing.T, l *Limiter, want bool) {
	t.Helper()
	for end := time.Now().Add(patience); l.Shared() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("sharing is not %t", want)
		}
	}
}

// sharing returns a limiter that counts at the server.
func sharing(t *testing.T, address string) (*Limiter, *transcript) {
	t.Helper()
	l, log := limiterOf(t, address)
	run(t, l)
	awaitSharing(t, l, true)
	return l, log
}

// TestProcessesAtOneServerCountTogether checks that three processes together allow exactly what one allows alone, even
// for two buckets in one request.
func TestProcessesAtOneServerCountTogether(t *testing.T) {
	t.Parallel()
	server := valkeytest.Start(t)
	var replicas []*Limiter
	for range 3 {
		l, _ := sharing(t, server.URL())
		replicas = append(replicas, l)
	}
	const clientQuota, allQuota = 300, 500
	var one, both [2]atomic.Int64 // by client
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			client := i % 2
			for range 150 {
				said := replicas[i%3].AllowEach(t.Context(), start, Bucket{fmt.Sprint("client ", client), clientQuota},
					Bucket{"all", allQuota})
				if said[0].Allowed {
					one[client].Add(1)
				}
				if len(said) == 2 && said[1].Allowed {
					both[client].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for client := range one {
		if n := one[client].Load(); n != clientQuota {
			t.Errorf("client %d was allowed %d, want %d", client, n, clientQuota)
		}
	}
	if n := both[0].Load() + both[1].Load(); n != allQuota {
		t.Errorf("%d allowed in all, want %d", n, allQuota)
	}
	for _, l := range replicas {
		if n := testutil.ToFloat64(l.shared.alone); n != 0 {
			t.Errorf("%v decisions were not the server's", n)
		}
	}
}

// TestTheServerDecidesAsAProcessDoes checks that for any sequence of requests the server and a single process decide
// the same.
func TestTheServerDecidesAsAProcessDoes(t *testing.T) {
	t.Parallel()
	server := valkeytest.Start(t)
	there, _ := sharing(t, server.URL())
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		here, now := New(), start
		buckets := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Bucket {
			return Bucket{fmt.Sprint("round ", round, " ", rapid.IntRange(0, 9).Draw(t, "key")),
				rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 1_000_000)).Draw(t, "per minute")}
		}), 1, 4, func(b Bucket) string { return b.Key }).Draw(t, "buckets")
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(time.Second)),
				rapid.Int64Range(0, int64(3*time.Minute))).Draw(t, "passed")))
			b := rapid.SampledFrom(buckets).Draw(t, "bucket")
			switch rapid.SampledFrom([]string{"allow", "all", "peek", "return"}).Draw(t, "what") {
			case "allow":
				same(t, []Decision{there.Allow(t.Context(), b.Key, b.PerMinute, now)},
					[]Decision{here.Allow(t.Context(), b.Key, b.PerMinute, now)})
			case "all":
				same(t, there.AllowEach(t.Context(), now, buckets...), here.AllowEach(t.Context(), now, buckets...))
			case "peek":
				same(t, []Decision{there.Peek(t.Context(), b.Key, b.PerMinute, now)},
					[]Decision{here.Peek(t.Context(), b.Key, b.PerMinute, now)})
			case "return":
				there.Return(t.Context(), b.Key, b.PerMinute)
				here.Return(t.Context(), b.Key, b.PerMinute)
			}
		}
	})
	if n := testutil.ToFloat64(there.shared.alone); n != 0 {
		t.Errorf("%v decisions were not the server's", n)
	}
}

func same(t *rapid.T, there, here []Decision) {
	if len(there) != len(here) {
		t.Fatalf("the server says %+v, the process %+v", there, here)
	}
	for i := range here {
		if !there[i].Reset.Equal(here[i].Reset) {
			t.Fatalf("the server says %+v, the process %+v", there, here)
		}
		there[i].Reset = here[i].Reset
		if there[i] != here[i] {
			t.Fatalf("the server says %+v, the process %+v", there, here)
		}
	}
}

// TestAServerThatDiesLosesNoRequest checks that every request is decided, by this process during the outage. Each
// switch is logged once.
func TestAServerThatDiesLosesNoRequest(t *testing.T) {
	t.Parallel()
	server := valkeytest.Start(t)
	l, log := sharing(t, server.URL())
	var decided atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				said := l.AllowEach(t.Context(), start, Bucket{"one", 1_000_000}, Bucket{"other", 1_000_000})
				if len(said) != 2 || said[0].Limit != 1_000_000 || said[1].Limit != 1_000_000 {
					t.Errorf("undecided: %+v", said)
					return
				}
				decided.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	goOn := func() {
		t.Helper()
		for before, end := decided.Load(), time.Now().Add(patience); decided.Load() < before+
			20; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing is decided")
			}
		}
	}
	goOn()
	server.Kill()
	awaitSharing(t, l, false)
	goOn()
	if n := log.count("counts requests for itself"); n != 1 {
		t.Errorf("the loss was logged %d times", n)
	}
	server.Restart(t)
	awaitSharing(t, l, true)
	goOn()
	stop()
	wg.Wait()
	if testutil.ToFloat64(l.shared.alone) == 0 || testutil.ToFloat64(l.shared.there) != 1 {
		t.Error("the metrics do not tell")
	}
	if d := l.Peek(t.Context(), "one", 1_000_000, start); d.Remaining >= 1_000_000 {
		t.Errorf("nothing is counted at the server that came back: %+v", d)
	}
	for end := time.Now().Add(patience); log.count("all processes together") != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the return is not logged")
		}
	}
}

// TestAHungServerIsNotAsked checks that a hung server delays a few requests per moment. After that nothing waits for it
// until it responds.
func TestAHungServerIsNotAsked(t *testing.T) {
	t.Parallel()
	server := valkeytest.Start(t)
	l, _ := limiterOf(t, server.URL())
	l.shared.within = answerWithin
	run(t, l)
	awaitSharing(t, l, true)
	server.Freeze()
	defer server.Thaw()
	asked := 0
	for end := time.Now().Add(patience); l.Shared(); asked++ {
		if time.Now().After(end) {
			t.Fatal("the server is still asked")
		}
		if d := l.Allow(t.Context(), "k", 100, start); !d.Allowed {
			t.Fatalf("request %d is refused", asked)
		}
	}
	if asked > lateAnswers {
		t.Errorf("%d requests waited", asked)
	}
	for range 100 {
		l.Allow(t.Context(), "more", 100, start) // must not wait, or the loop would not end here
	}
	server.Thaw()
	awaitSharing(t, l, true)
}

// TestTheServerKeepsNoNames checks that a reader of the server cannot tell whose the buckets are. Every bucket expires,
// and those of a deployment share one slot of a cluster.
func TestTheServerKeepsNoNames(t *testing.T) {
	t.Parallel()
	server := valkeytest.Start(t)
	l, _ := sharing(t, server.URL())
	l.AllowEach(t.Context(), start, Bucket{"login somebody@client.example", 5}, Bucket{"login address 192.0.2.7", 5})
	l.Return(t.Context(), "login address 192.0.2.7", 5)
	l.Return(t.Context(), "unknown", 5)
	l.Peek(t.Context(), "unknown too", 5, start)
	c := *l.shared.server.Load()
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil || len(keys) != 2 {
		t.Fatalf("%q (%v)", keys, err)
	}
	for _, key := range keys {
		ttl, err := c.Do(t.Context(), c.B().Pttl().Key(key).Build()).AsInt64()
		if err != nil || ttl <= 0 || ttl > (2*time.Minute).Milliseconds() {
			t.Errorf("%s expires in %d ms (%v)", key, ttl, err)
		}
		if strings.Contains(key, "login") || !strings.HasPrefix(key, l.shared.prefix) || strings.Count(key, "{") != 1 {
			t.Errorf("%s", key)
		}
	}
	other, err := NewShared(server.URL(), []byte("another deployment"), slog.New(slog.DiscardHandler), nil)
	if err != nil || other.shared.prefix == l.shared.prefix {
		t.Errorf("two deployments share %s (%v)", l.shared.prefix, err)
	}
	if c.Mode() != valkey.ClientModeStandalone {
		t.Errorf("the server is %s", c.Mode())
	}
}

// TestWithoutItsServerAProcessCounts checks that without a responding server a process starts and counts separately.
func TestWithoutItsServerAProcessCounts(t *testing.T) {
	t.Parallel()
	l, log := limiterOf(t, "valkey://127.0.0.1:1")
	if l.Connect(t.Context()); l.Shared() || log.count("counts requests for itself") != 1 {
		t.Error("it does not say that the server is not there")
	}
	if !l.Allow(t.Context(), "k", 1, start).Allowed || l.Allow(t.Context(), "k", 1, start).Allowed {
		t.Error("it does not count")
	}
	r := prometheus.NewRegistry()
	r.MustRegister(l.Collectors()...)
	if n := testutil.ToFloat64(l.shared.alone); n != 2 || testutil.ToFloat64(l.shared.there) != 0 {
		t.Errorf("%v decisions alone", n)
	}
}

// TestWhatTheServerIsAskedIsAStep checks the span of a command. It names the command and the server but no bucket, and
// a server that does not respond marks it as failed with a class. Without a trace there is no span.
func TestWhatTheServerIsAskedIsAStep(t *testing.T) {
	t.Parallel()
	server := valkeytest.Start(t)
	l, _ := sharing(t, server.URL())
	tracer, spans := telemetrytest.New(t)
	l.shared.tracer = tracer
	ctx, request := tracer.Start(t.Context(), "request")
	l.AllowEach(ctx, start, Bucket{"login somebody@client.example", 5}, Bucket{"login address 192.0.2.7", 5})
	l.Return(ctx, "login address 192.0.2.7", 5)
	l.Peek(ctx, "login address 192.0.2.7", 5, start)
	l.Allow(t.Context(), "apart", 5, start)
	scripts, reads := spans.Named("EVALSHA"), spans.Named("GET")
	if len(scripts) != 2 || len(reads) != 1 {
		t.Fatalf("%d scripts, %d reads", len(scripts), len(reads))
	}
	for _, s := range append(scripts, reads...) {
		if !s.Client || !s.Child || s.Failed || len(s.Attributes) != 4 || s.Attributes["db.system.name"] != "redis" ||
			s.Attributes["db.operation.name"] != s.Name || !strings.HasSuffix(server.URL(),
			s.Attributes["server.address"]+":"+s.Attributes["server.port"]) {
			t.Errorf("%+v", s)
		}
	}
	l.shared.within = 0 // no server responds that fast
	l.Peek(ctx, "login address 192.0.2.7", 5, start)
	request.End(nil)
	if reads = spans.Named("GET"); len(reads) != 2 || !reads[1].Failed ||
		reads[1].Attributes["error.type"] != "timeout" {
		t.Errorf("%+v", reads)
	}
	if told := spans.Told(); strings.Contains(told, "login") || strings.Contains(told, "192.0.2.7") ||
		strings.Contains(told, l.shared.prefix) {
		t.Error("a bucket is told")
	}
}

func TestAddressesOfServers(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ read, private bool }{
		"valkey://127.0.0.1:6379": {true, true}, "redis://localhost": {true, true},
		"valkeys://valkey.example:6379": {true, true}, "rediss://u:p@valkey.example": {true, true},
		"unix:///run/valkey.sock": {true, true}, "valkey://valkey.example:6379": {true, false},
		"redis://:secret@10.0.0.7": {true, false}, "http://valkey.example": {false, false},
		"valkey.example:6379": {false, false}, "": {false, false},
	} {
		_, err := NewShared(address, nil, slog.New(slog.DiscardHandler), nil)
		if private := CheckPrivate(address) == nil; (err == nil) != want.read || private != want.private {
			t.Errorf("%q: %v, private %t", address, err, private)
		}
		if err != nil && address != "" && strings.Contains(err.Error(), address) {
			t.Errorf("%v tells the address, which may hold a password", err)
		}
	}
}

func TestAServerIsLookedAt(t *testing.T) {
	t.Parallel()
	server := valkeytest.Start(t)
	if err := CheckServer(t.Context(), server.URL()); err != nil {
		t.Error(err)
	}
	server.Kill()
	if err := CheckServer(t.Context(), server.URL()); err == nil {
		t.Error("a server that is not there answers")
	}
}
