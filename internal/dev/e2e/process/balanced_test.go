package process_test

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/poll"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit/valkeytest"
)

const (
	replicas     = 3
	refusedQuota = 60 // rejected tokens per minute
	// The balancer checks every quarter of a second. It counts as late only after this time, however busy the machine
	// is.
	drains = 10 * time.Second
)

// balanced simulates a deployment of several machines: a balancer in front of serving replicas, working processes, one
// database and one rate-limit server.
type balanced struct {
	*installation
	url      string // of the balancer
	stats    string // URL of the balancer's statistics
	served   []*process
	metrics  []string // addresses, by replica
	working  []*worker
	balancer *exec.Cmd
}

// balance starts everything. The balancer probes the readiness of each replica and sends nothing to one that is not
// ready.
func balance(t *testing.T) *balanced {
	t.Helper()
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/haproxy") // it is only in root's PATH
	}
	if err != nil {
		fmt.Printf("NOT CHECKED: %s needs haproxy\n", t.Name())
		t.Skip("NOT CHECKED: haproxy is not installed")
	}
	quotas := valkeytest.Start(t)
	front, stats := freeAddress(t), freeAddress(t)
	b := &balanced{url: "http://" + front, stats: "http://" + stats + "/;csv"}
	b.installation = install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+dbtest.URL(t),
		"PARTNERD_DATABASE_CONNS=6", "PARTNERD_BASE_URL="+b.url, "PARTNERD_VALKEY_URL="+quotas.URL(),
		fmt.Sprint("PARTNERD_RATE_UNAUTHORIZED=", refusedQuota), "PARTNERD_DRAIN_DELAY="+drains.String())
	var servers strings.Builder
	for i := range replicas {
		b.metrics = append(b.metrics, freeAddress(t))
		p := b.spawn(t, freeAddress(t), "PARTNERD_METRICS_ADDR="+b.metrics[i])
		b.served = append(b.served, p)
		fmt.Fprintf(&servers, "  server replica%d %s\n", i, p.addr)
	}
	for _, p := range b.served {
		p.awaitStatus(t, "/readyz", http.StatusOK)
	}
	for range 2 {
		b.working = append(b.working, b.work(t))
	}
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`global
  maxconn 1000
defaults
  mode http
  timeout connect 10s
  timeout client 2m
  timeout server 2m
  timeout check 10s
frontend front
  bind %s
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk GET /readyz
  default-server check inter 250ms fall 1 rise 1
%slisten stats
  bind %s
  stats enable
  stats uri /
`, front, servers.String(), stats)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.balancer = exec.Command(path, "-db", "-f", config)
	var said transcript
	b.balancer.Stdout, b.balancer.Stderr = &said, &said
	if err := b.balancer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = b.balancer.Process.Kill(), b.balancer.Wait()
		if t.Failed() {
			t.Logf("the balancer printed:\n%s", lastLines(said.String(), 40))
		}
	})
	b.awaitUp(t, replicas)
	return b
}

func (b *balanced) work(t *testing.T) *worker {
	t.Helper()
	w := &worker{cmd: b.command(context.Background(), "work")}
	w.cmd.Env = append(slices.Clone(b.env), "PARTNERD_LOG_LEVEL=info")
	w.cmd.Stderr = &w.output
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = w.cmd.Process.Kill(), w.cmd.Wait() })
	await(t, readyWithin, w.started, w.output.String)
	return w
}

// told returns the balancer's figures for each replica, and for all of them under the name BACKEND.
func (b *balanced) told(t *testing.T) map[string]map[string]string {
	t.Helper()
	resp, err := http.Get(b.stats)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	lines, err := csv.NewReader(resp.Body).ReadAll()
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v of the balancer: %v", lines, err)
	}
	all := map[string]map[string]string{}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		if row["# pxname"] == "replicas" {
			all[row["svname"]] = row
		}
	}
	return all
}

// awaitUp waits until the balancer sends to n replicas.
func (b *balanced) awaitUp(t *testing.T, n int) {
	t.Helper()
	var last string
	await(t, readyWithin, func() bool {
		last = b.told(t)["BACKEND"]["act"]
		return last == strconv.Itoa(n)
	}, func() string { return fmt.Sprintf("the balancer sends to %q replicas, not to %d", last, n) })
}

// alone returns the number of rate-limit decisions that a replica made without the others.
func (b *balanced) alone(t *testing.T) (n int) {
	t.Helper()
	for _, address := range b.metrics {
		x := get(t, "http://"+address+"/metrics", "")
		_, rest, ok := strings.Cut(string(x.body), "\npartnerd_rate_limit_alone_total ")
		count, _, _ := strings.Cut(rest, "\n")
		f, err := strconv.ParseFloat(count, 64)
		if !ok || err != nil {
			t.Fatalf("%d without the metric: %v", x.status, err)
		}
		n += int(f)
	}
	return n
}

// TestBalancedReplicasAreOneService is "make replicas". Whichever process responds, the response is the same. Each
// process is restarted in turn while partners keep calling, and no partner notices.
func TestBalancedReplicasAreOneService(t *testing.T) {
	if os.Getenv("PARTNERD_TEST_REPLICAS") == "" {
		t.Skip("make replicas")
	}
	t.Parallel()
	b := balance(t)
	crm := onboard(t, b.installation, b.url, 100_000_000)
	token := crm.link(t, b.url) // each page of sign-in and consent comes from another replica
	t.Run("tokens", func(t *testing.T) { b.tokens(t, crm) })
	t.Run("idempotency", func(t *testing.T) { b.idempotency(t, crm, token.AccessToken) })
	t.Run("quotas", b.quotas)
	desk, leave := b.desk(t)
	defer leave() // before the processes end
	t.Run("desk", func(t *testing.T) { b.streams(t, desk) })
	b.restartUnderLoad(t, crm, token.AccessToken)
	t.Run("desk after the restarts", func(t *testing.T) { b.streams(t, desk) })

	db := connect(t, b.databaseURL())
	b.settled(t, crm, db)
	for i, p := range b.served {
		if printed := p.output.String(); strings.Contains(printed, "panic") ||
			strings.Contains(printed, "level=ERROR") {
			t.Errorf("replica %d printed: %s", i, lastLines(printed, 20))
		}
	}
}

// tokens checks that a code works once, a revocation applies everywhere, and all replicas use one set of keys.
func (b *balanced) tokens(t *testing.T, p *partner) {
	verifier := oauth2.GenerateVerifier()
	config := p.config(b.url)
	back, err := crm.Consent(t.Context(), crm.NewBrowser(p.app.RedirectURI),
		config.AuthCodeURL(rand.Text(), oauth2.S256ChallengeOption(verifier)), p.email, password, "allow")
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")},
		"redirect_uri": {config.RedirectURL}, "code_verifier": {verifier}, "client_id": {p.app.ClientID},
		"client_secret": {p.app.ClientSecret}}
	oneSuccess(t, atOnce(t.Context(), b.served[0], b.served[1],
		func(ctx context.Context, _ string) answer { return post(ctx, b.url+"/api/oauth/token", form) }))

	token := p.link(t, b.url)
	var keys []string
	for _, one := range b.served {
		keys = append(keys, string(get(t, one.url+"/.well-known/jwks.json", "").body))
		if x := get(t, one.url+"/api/v1/me", token.AccessToken); x.status != http.StatusOK {
			t.Errorf("%s: %d %s", one.addr, x.status, x.body)
		}
	}
	if len(slices.Compact(keys)) != 1 || !strings.Contains(keys[0], `"kty"`) {
		t.Errorf("several sets of keys: %s", keys)
	}
	gone := url.Values{"token": {token.RefreshToken}, "client_id": {p.app.ClientID},
		"client_secret": {p.app.ClientSecret}}
	if x := post(t.Context(), b.url+"/api/oauth/revoke", gone); x.status != http.StatusOK {
		t.Fatalf("revoke: %d %s", x.status, x.body)
	}
	for _, one := range b.served {
		if x := get(t, one.url+"/api/v1/me", token.AccessToken); x.status != http.StatusUnauthorized {
			t.Errorf("revoked, but %s responds with %d", one.addr, x.status)
		}
	}
}

// idempotency checks that a key sent to all replicas concurrently creates one consultation, which simulated lawyers
// complete.
func (b *balanced) idempotency(t *testing.T, p *partner, token string) {
	q, ids := request{rand.Text(), "HOUSING", "FR"}, map[string]bool{}
	for _, x := range atOnce(t.Context(), b.served[0], b.served[1],
		func(ctx context.Context, _ string) answer { return create(ctx, b.url, token, q) }) {
		if x.status != http.StatusCreated {
			t.Fatalf("create: %d %s", x.status, x.body)
		}
		ids[x.consultation(t).ID] = true
	}
	if len(ids) != 1 {
		t.Fatalf("one key made %d consultations", len(ids))
	}
	for id := range ids {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		if _, err := p.received.Wait(ctx, id, "consultation.completed"); err != nil {
			t.Fatal(err)
		}
		if n := len(p.received.Events(id)); n != 8 {
			t.Errorf("%d events, want 8", n)
		}
	}
	for _, fault := range p.received.faults(false) {
		t.Error(fault)
	}
}

// quotas checks that all replicas together allow what one allows. Only decisions that a replica made alone, because the
// machine was too busy, may exceed it.
func (b *balanced) quotas(t *testing.T) {
	const asked = 5 * refusedQuota
	alone, begun := b.alone(t), time.Now()
	before := get(t, b.url+"/api/v1/me", "no token")
	left, err := strconv.Atoi(before.header.Get("X-RateLimit-Remaining"))
	if err != nil || before.status != http.StatusUnauthorized {
		t.Fatalf("%d, %v", before.status, err)
	}
	var refused, limited atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range asked / 10 {
				switch x := get(t, b.url+"/api/v1/me", "no token"); x.status {
				case http.StatusUnauthorized:
					refused.Add(1)
				case http.StatusTooManyRequests:
					limited.Add(1)
				default:
					t.Errorf("%d %s", x.status, x.body)
				}
			}
		})
	}
	all.Wait()
	returned := int(math.Ceil(time.Since(begun).Minutes()*refusedQuota)) + 1
	alone = b.alone(t) - alone
	n := int(refused.Load())
	t.Logf("%d of %d within the rate limit of %d, of which %d were left; at most %d refilled, %d decided alone",
		n, asked, refusedQuota, left, returned, alone)
	if n > left+returned+alone || n < left-alone {
		t.Errorf("%d were within the rate limit, of which %d were left", n, left)
	}
}

// desk is a lawyer's desk whose requests and streams go through the balancer until leave is called.
func (b *balanced) desk(t *testing.T) (r *remote, leave func()) {
	t.Helper()
	a, err := app.Open(t.Context(), config.Config{Env: "sandbox", Addr: "127.0.0.1:0", DataDir: b.dir,
		DatabaseURL: b.databaseURL(), DatabaseConns: 4, RateApplication: 1, RateClient: 1, RateUnauthorized: 1,
		RateTokenFailures: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	var id string
	err = a.DB.InTx(t.Context(), func(tx postgres.Tx) error {
		l, err := a.Lawyers.Create(t.Context(), tx, lawyer.NewLawyer{Email: "balanced@lawyer.example",
			Name: "Demo Lawyer", Phone: "+33639980002", Competences: []string{"TAX"}, Languages: []string{"FR"}})
		id = l.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r = &remote{chaos: &chaos{T: t, in: b.installation},
		crowd: &crowd{addresses: []string{strings.TrimPrefix(b.url, "http://")}}, token: dbtest.SignIn(t, a.DB, id)}
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { r.follow(ctx, mathrand.New(mathrand.NewPCG(1, 1))) })
	return r, func() {
		stop()
		following.Wait()
	}
}

// streams checks that changes made at any replica appear in a stream of another.
func (b *balanced) streams(t *testing.T, r *remote) {
	random := mathrand.New(mathrand.NewPCG(2, 2))
	for i := range 2 * replicas {
		path, want := "/duty/on", "AVAILABLE"
		if i%2 == 1 {
			path, want = "/duty/off", "OFFLINE"
		}
		r.post(t.Context(), path, nil, random)
		await(t, deadline, func() bool { return r.seen().Presence == want },
			func() string { return fmt.Sprintf("after %s the stream shows %+v", path, r.seen()) })
	}
}

// restartUnderLoad restarts every process in turn while partners call.
func (b *balanced) restartUnderLoad(t *testing.T, p *partner, token string) {
	t.Helper()
	const callers, creates = 4, 6 // simulated lawyers take their time
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var answered, made atomic.Int64
	check := func(x answer, want int) {
		if x.status != want {
			t.Errorf("responded with %d, not %d: %s", x.status, want, x.body)
		}
		answered.Add(1)
	}
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for i := range callers {
		load.Go(func() {
			for n := i; poll.Pause(ctx, 25*time.Millisecond); n++ {
				check(get(t, b.url+[]string{"/api/v1/wallet", "/api/v1/consultations", "/api/v1/me"}[n%3], token),
					http.StatusOK)
			}
		})
	}
	load.Go(func() {
		for made.Load() < creates && poll.Pause(ctx, 1500*time.Millisecond) {
			check(create(t.Context(), b.url, token, request{rand.Text(), "HOUSING", "FR"}), http.StatusCreated)
			made.Add(1)
		}
	})
	goOn := func() {
		t.Helper()
		before := answered.Load()
		await(t, deadline, func() bool { return answered.Load() >= before+100 },
			func() string { return "nobody answers" })
	}
	goOn()
	for i, old := range b.served {
		old.terminate(t)
		b.served[i] = b.installation.serve(t, old.addr, "PARTNERD_METRICS_ADDR="+b.metrics[i])
		b.awaitUp(t, replicas)
		goOn()
	}
	for i, old := range b.working {
		if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := old.cmd.Wait(); err != nil {
			t.Errorf("a process that works ended with %v: %s", err, lastLines(old.output.String(), 5))
		}
		b.working[i] = b.work(t)
		goOn()
	}
	stop()
	load.Wait()
	told := b.told(t)["BACKEND"]
	t.Logf("%d responses, %d consultations created; the balancer counts %s requests, %s failed connections, %s "+
		"failed answers, %s retries", answered.Load(), made.Load(), told["stot"], told["econ"], told["eresp"],
		told["wretr"])
	for _, what := range []string{"econ", "wretr", "wredis", "hrsp_5xx"} {
		if told[what] != "0" {
			t.Errorf("the balancer counts %s %s", told[what], what)
		}
	}
}
