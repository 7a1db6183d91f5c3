package process_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"partnerd/cmd/democrm/crm"
	"partnerd/internal/base/poll"
	"partnerd/internal/dev/e2e/faults"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// overdueSQL lists timers that a process should have handled.
const overdueSQL = `
SELECT format('timer of consultation %s (%s) was due at %s', id, status, timer_at) FROM consultations
WHERE timer_at < clock_timestamp() - interval '30 seconds' AND status NOT IN ('COMPLETED', 'CANCELLED', 'EXPIRED')
UNION ALL
SELECT format('offer %s expired at %s and is open', id, expires_at) FROM offers WHERE state = 'OPEN' AND expires_at < clock_timestamp() - interval '30 seconds'
UNION ALL
SELECT format('command %s of call %s was due at %s', id, call_id, due_at) FROM call_commands WHERE done_at IS NULL AND due_at < clock_timestamp() - interval '30 seconds'
UNION ALL
SELECT format('notice %s of the payment provider was due at %s', id, due_at) FROM sandbox_payment_notices WHERE delivered_at IS NULL AND due_at < clock_timestamp() - interval '90 seconds'`

// engagedSQL lists lawyers with two calls at the same time, and calls that outlived their consultation.
const engagedSQL = `
SELECT format('calls %s and %s of lawyer %s overlap', a.id, b.id, a.lawyer_id) FROM calls a JOIN calls b
ON a.lawyer_id = b.lawyer_id AND a.id < b.id AND a.started_at < coalesce(b.ended_at, 'infinity') AND b.started_at < coalesce(a.ended_at, 'infinity')
UNION ALL
SELECT format('%s is %s with a live call', c.id, c.status) FROM calls k JOIN consultations c ON c.id = k.consultation_id
WHERE k.state <> 'ENDED' AND c.status IN ('COMPLETED', 'CANCELLED', 'EXPIRED')`

// grantsSQL lists grants whose refresh tokens do not form a chain in order, each used once.
const grantsSQL = `
SELECT format('grant %s has %s tokens that nobody has used', grant_id, count(*)) FROM oauth_refresh_tokens WHERE used_at IS NULL GROUP BY grant_id HAVING count(*) > 1
UNION ALL
SELECT format('grant %s: a token was made at %s and the one before used at %s', grant_id, created_at, before) FROM
	(SELECT grant_id, created_at, lag(used_at) OVER (PARTITION BY grant_id ORDER BY created_at, used_at) AS before, row_number() OVER (PARTITION BY grant_id ORDER BY created_at, used_at) AS n
	FROM oauth_refresh_tokens) t WHERE n > 1 AND before IS DISTINCT FROM created_at`

// capturesSQL lists consultations captured or released more than once, or both.
const capturesSQL = `SELECT format('%s has %s', consultation_id, string_agg(type, ', ')) FROM ledger_transactions
WHERE consultation_id IS NOT NULL AND type IN ('CAPTURE', 'RELEASE') GROUP BY consultation_id HAVING count(*) > 1
UNION ALL
SELECT format('payment %s was credited %s times', topup_id, count(*)) FROM ledger_transactions WHERE type = 'TOPUP' GROUP BY topup_id HAVING count(*) > 1`

// openSQL lists consultations that have not ended.
const openSQL = `SELECT format('%s of %s is %s', id, client_id, status) FROM consultations WHERE status NOT IN ('COMPLETED', 'CANCELLED', 'EXPIRED')`

// faultsOf returns the requested seed and length; by default the run is short.
func faultsOf(t *testing.T) (seed uint64, length time.Duration) {
	t.Helper()
	seed, length = rand.Uint64()%1_000_000, 25*time.Second
	if os.Getenv("PARTNERD_TEST_CHAOS") == "" && os.Getenv("PARTNERD_TEST_LONG") == "" {
		t.Skip("make chaos")
	}
	var err error
	if s := os.Getenv("SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("FOR"); s != "" {
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	return seed, length
}

// TestFaultsLeaveNothingBroken is "make chaos". Faults are injected repeatedly while partners call. Then everything is
// healed and the invariants are checked.
func TestFaultsLeaveNothingBroken(t *testing.T) {
	seed, length := faultsOf(t)
	t.Parallel()
	s := newStage(t)
	c := gather(t, s)
	plan := faults.Plan(seed, length, s.cast())
	t.Logf("seed %d: %d faults in %s", seed, len(plan), length)
	c.answers = faults.NewAnswers()
	r := &trial{stage: s, callers: c, length: length}
	r.play(seed, plan)
	r.settle()
	r.judge()
	r.report(seed)
}

// trial is one run of a plan.
type trial struct {
	*stage
	callers *callers
	length  time.Duration

	mu         sync.Mutex
	happened   []faults.Happened
	snapshots  int
	seen       []string // snapshots that violated an invariant
	invariants []faults.Invariant
	calm       time.Duration // from the last fault to the end of everything
	verdict    porcupine.CheckResult
	picture    []byte
}

// play lets partners call while faults happen. It returns when the last fault is healed.
func (r *trial) play(seed uint64, plan []faults.Fault) {
	ctx, stop := context.WithCancel(r.Context())
	var living, breaking, watching sync.WaitGroup
	for _, u := range r.callers.customers {
		for i := range 2 {
			who := 2*u.number + i
			living.Go(func() { u.live(ctx, who, rand.New(rand.NewPCG(seed, uint64(1+who)))) })
		}
	}
	watching.Go(func() { r.watch(ctx) })
	began := time.Now()
	for _, f := range plan {
		breaking.Go(func() {
			if !poll.Pause(ctx, time.Until(began.Add(f.At))) {
				return
			}
			heal, note, err := r.do(f, r.lie)
			r.mu.Lock()
			r.happened = append(r.happened, faults.Happened{Fault: f, Note: note})
			r.mu.Unlock()
			poll.Pause(ctx, time.Until(began.Add(f.End())))
			if heal != nil {
				err = errors.Join(err, heal())
			}
			if err != nil {
				r.Errorf("%s at %s: %v", f.Kind, f.Subject, err)
			}
		})
	}
	breaking.Wait()
	poll.Pause(ctx, time.Until(began.Add(r.length)))
	stop()
	living.Wait()
	watching.Wait()
	slices.SortFunc(r.happened, func(a, b faults.Happened) int { return cmp.Compare(a.Fault.At, b.Fault.At) })
}

func (r *trial) lie(way int) {
	for _, a := range r.callers.apps {
		if !a.honest && !a.deaf {
			a.lies.Store(int32(way))
		}
	}
}

// watch repeatedly checks for states that must never be visible.
func (r *trial) watch(ctx context.Context) {
	var db *pgx.Conn
	defer func() {
		if db != nil {
			db.Close(context.Background())
		}
	}()
	for poll.Pause(ctx, 300*time.Millisecond) {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		var err error
		if db == nil || db.IsClosed() {
			db, err = pgx.Connect(asking, r.db.url("owner", "partnerd"))
		}
		if err == nil {
			var rows pgx.Rows
			if rows, err = db.Query(asking, snapshotSQL); err == nil {
				var found []string
				if found, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
					r.snapshots++
					r.seen = append(r.seen, found...)
				}
			}
		}
		if cancel(); err != nil && db != nil && ctx.Err() == nil {
			db.Close(context.Background())
			db = nil
		}
	}
}

// settle waits until everything has ended.
func (r *trial) settle() {
	began := time.Now()
	for _, addr := range r.served {
		await(r.T, deadline, func() bool {
			resp, err := http.Get("http://" + addr + "/readyz")
			if err == nil {
				resp.Body.Close()
			}
			return err == nil && resp.StatusCode == http.StatusOK
		}, func() string { return addr + " is not ready again" })
	}
	db := connect(r.T, r.db.url("owner", "partnerd"))
	there := map[string]string{}
	for _, row := range query(r.T, db,
		"SELECT external_ref || ' ' || id FROM consultations WHERE external_ref IS NOT NULL") {
		key, id, _ := strings.Cut(row, " ")
		there[key] = id
	}
	var settling sync.WaitGroup
	for _, u := range r.callers.customers {
		settling.Go(func() { u.settle(r.Context(), there) })
	}
	settling.Wait()
	waitUpTo(r.Context(), 5*time.Minute, func() bool { return len(query(r.T, db, openSQL)) == 0 })
	for i, u := range r.callers.customers {
		u.read(r.Context(), 2*i) // the final state
	}
	deaf := r.deaf()
	// Receivers that failed have minutes to wait until the next attempt. This shortens the wait.
	waitUpTo(r.Context(), deadline, func() bool {
		_, err := db.Exec(r.Context(),
			`UPDATE webhook_deliveries SET next_at = clock_timestamp() WHERE state = 'PENDING' AND application_id <> $1
			AND lease_token IS NULL AND next_at > clock_timestamp() + interval '1 second'`, deaf)
		if err != nil {
			r.Fatal(err)
		}
		poll.Pause(r.Context(), time.Second)
		return len(query(r.T, db,
			"SELECT id FROM webhook_deliveries WHERE state = 'PENDING' AND application_id <> $1 LIMIT 1", deaf)) == 0
	})
	waitUpTo(r.Context(), deadline, func() bool { return len(query(r.T, db, overdueSQL)) == 0 })
	r.calm = time.Since(began)
}

// waitUpTo waits until holds returns true or limit has passed. The result is judged later, with all other invariants.
func waitUpTo(ctx context.Context, limit time.Duration, holds func() bool) {
	for end := time.Now().Add(limit); time.Now().Before(end) && !holds() && poll.Pause(ctx, 200*time.Millisecond); {
	}
}

func (r *trial) deaf() string {
	for _, a := range r.callers.apps {
		if a.deaf {
			return a.app.ClientID
		}
	}
	return ""
}

// judge checks the invariants.
func (r *trial) judge() {
	db, c := connect(r.T, r.db.url("owner", "partnerd")), r.callers
	count := func(sql string) int {
		n, _ := strconv.Atoi(query(r.T, db, "SELECT count(*)::text FROM "+sql)[0])
		return n
	}
	holds := func(what string, looked int, broken ...string) {
		r.invariants = append(r.invariants, faults.Invariant{What: what, Looked: looked, Broken: broken})
	}
	var books struct {
		OK       bool
		Findings []string
	}
	r.ask(r.T, &books, "ledger", "verify", "--full", "--json")
	if !books.OK && len(books.Findings) == 0 {
		books.Findings = []string{"the ledger check reports an error without findings"}
	}
	holds("the whole ledger balances", count("ledger_transactions"), books.Findings...)
	holds("each consultation has its hold in the right state, its evidence, events numbered without a gap, "+
		"each with its delivery, and its own reference", count("consultations"), query(r.T, db, brokenSQL)...)
	holds("every consultation has ended", count("consultations"), query(r.T, db, openSQL)...)
	holds("nothing is captured or released twice, and no payment credited twice", count("ledger_transactions"),
		query(r.T, db, capturesSQL)...)

	there := map[string][]string{}
	for _, row := range query(r.T, db,
		"SELECT external_ref || ' ' || id FROM consultations WHERE external_ref IS NOT NULL") {
		key, id, _ := strings.Cut(row, " ")
		there[key] = append(there[key], id)
	}
	var lost []string
	made := c.acknowledged()
	for key, id := range made {
		if !slices.Equal(there[key], []string{id}) {
			lost = append(lost, fmt.Sprintf("%s was created as %s, but the database has %v", key, id, there[key]))
		}
	}
	holds("every acknowledged consultation exists exactly once", len(made), lost...)

	var order []string
	told := map[string][]webhook.Type{}
	for _, row := range query(r.T, db,
		"SELECT consultation_id || ' ' || type FROM webhook_events WHERE consultation_id IS NOT NULL "+
			"ORDER BY consultation_id, sequence") {
		id, kind, _ := strings.Cut(row, " ")
		told[id] = append(told[id], webhook.Type(kind))
	}
	for id, types := range told {
		if err := faults.Order(types); err != nil {
			order = append(order, id+": "+err.Error())
		}
	}
	holds("events of a consultation are in a legal order", count("webhook_events"), order...)
	holds("each arrived at its endpoint, signed, with the bytes of the first attempt", count("webhook_events"),
		r.arrived(db)...)
	holds("no timer is overdue", 1, query(r.T, db, overdueSQL)...)
	holds("no lawyer has two consultations, offers or calls at the same time", r.snapshots,
		append(slices.Compact(r.seen), append(query(r.T, db, engagedSQL), query(r.T, db, doubleSQL)...)...)...)
	holds("refresh tokens are a chain of one use each", count("oauth_refresh_tokens"), query(r.T, db, grantsSQL)...)
	holds("a spent refresh token is rejected", len(c.customers), r.replays()...)
	holds("no caller gets a 5xx other than 503, or a rejection without a reason", len(c.answers.All()),
		c.unexpected...)
	holds("no process panics", len(r.actors), r.panics()...)
	r.complaints()

	status := map[string]string{}
	for _, row := range query(r.T, db, "SELECT id || ' ' || status FROM consultations") {
		id, s, _ := strings.Cut(row, " ")
		status[id] = s
	}
	for _, u := range c.customers {
		u.ends(status)
	}
	var err error
	if r.verdict, r.picture, err = c.history.Check(faults.Model(c.price, c.wallets()), 2*time.Minute); err != nil {
		r.Fatal(err)
	}
	var wrong []string
	if r.verdict != porcupine.Ok {
		wrong = []string{"Porcupine says: " + string(r.verdict)}
	}
	holds("wallets are linearizable", c.history.Len(), wrong...)
	for _, i := range r.invariants {
		for _, b := range i.Broken {
			r.Errorf("%s: %s", i.What, b)
		}
	}
}

// arrived compares what receivers have with what happened.
func (r *trial) arrived(db *pgx.Conn) (broken []string) {
	for _, a := range r.callers.apps {
		for _, fault := range a.received.faults(true) {
			broken = append(broken, a.app.ClientID+" "+fault)
		}
		if a.deaf {
			continue
		}
		for _, row := range query(r.T, db,
			`SELECT format('%s %s %s %s', consultation_id, sequence, id, type) FROM webhook_events
			WHERE application_id = $1 AND consultation_id IS NOT NULL`, a.app.ClientID) {
			id, event, _ := strings.Cut(row, " ")
			if !slices.ContainsFunc(a.received.Events(id),
				func(e crm.Event) bool { return fmt.Sprint(e.Sequence, " ", e.ID, " ", e.Type) == event }) {
				broken = append(broken, "never arrived: "+row)
			}
		}
	}
	return broken
}

// replays reuses spent refresh tokens. That ends their grants, as it does for a thief's.
func (r *trial) replays() (broken []string) {
	for _, u := range r.callers.customers {
		if u.used == "" {
			continue
		}
		form := "grant_type=refresh_token&refresh_token=" + u.used + "&client_id=" + u.of.app.ClientID +
			"&client_secret=" + u.of.app.ClientSecret
		x := r.callers.do(r.Context(), http.MethodPost, "/api/oauth/token", "",
			map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, []byte(form))
		if x.status != http.StatusBadRequest || !strings.Contains(string(x.body), "invalid_grant") {
			broken = append(broken, fmt.Sprintf("client %d: %d %s", u.number, x.status, x.body))
		}
	}
	return broken
}

func (r *trial) panics() (broken []string) {
	for _, a := range r.actors {
		if said := a.said(); strings.Contains(said, "panic") {
			broken = append(broken, a.name+": "+lastLines(said, 30))
		}
	}
	return broken
}

// complaints prints the errors that processes logged, the most frequent first.
func (r *trial) complaints() {
	counts := map[string]int{}
	for _, a := range r.actors {
		for line := range strings.Lines(a.said()) {
			if _, said, ok := strings.Cut(line, "level=ERROR "); ok {
				counts[requestName.ReplaceAllString(strings.TrimSpace(said), "")]++
			}
		}
	}
	often := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for _, said := range often[:min(12, len(often))] {
		r.Logf("%4d × %s", counts[said], said)
	}
}

var requestName = regexp.MustCompile(
	`requestId=\S+ |(con|cli|del|evt|cal|cmd|hld|off)_test_\w+|[0-9.]+:[0-9]+( \([0-9.]+\))?|base/[0-9/]+`,
)

// report writes the pages.
func (r *trial) report(seed uint64) {
	c := r.callers
	dir := cmp.Or(os.Getenv("CHAOS_DIR"), r.TempDir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.Fatal(err)
	}
	all, made := c.answers.All(), c.acknowledged()
	outcomes := map[string]int{}
	for _, a := range all {
		switch {
		case a.Status == 0:
			outcomes["no response"]++
		case faults.Succeeded(a.Status):
			outcomes["succeeded"]++
		case a.Status == http.StatusServiceUnavailable:
			outcomes["unavailable"]++
		default:
			outcomes["refused"]++
		}
	}
	gap := faults.LongestGap(all, r.length).Round(10 * time.Millisecond)
	db := connect(r.T, r.db.url("owner", "partnerd"))
	ended := query(r.T, db,
		"SELECT format('%s %s', count(*), status) FROM consultations GROUP BY status ORDER BY status")
	figure := func(what, format string, args ...any) faults.Figure {
		return faults.Figure{What: what, Value: fmt.Sprintf(format, args...)}
	}
	page := faults.Run{Seed: seed, Length: r.length, Command: fmt.Sprintf("make chaos SEED=%d FOR=%s", seed, r.length),
		Faults: r.happened, Invariants: r.invariants, NotChecked: r.notChecked,
		HistoryPage: fmt.Sprintf("seed-%d-wallets.html", seed), Answers: all,
		Figures: []faults.Figure{
			figure("requests", "%d: %d succeeded, %d unavailable, %d without a response, %d rejected",
				len(all), outcomes["succeeded"], outcomes["unavailable"], outcomes["no response"], outcomes["refused"]),
			figure("consultations acknowledged; how all ended", "%d; %s", len(made), strings.Join(ended, ", ")),
			figure("longest time without a successful request", "%s", gap),
			figure("top-ups, refreshes, clients linked again", "%d, %d, %d", c.topUps, c.refreshes, c.relinked),
			figure("wallet operations compared with the model", "%d: %s", c.history.Len(), r.verdict),
			figure("time from the last fault until everything had ended", "%s", r.calm.Round(time.Second)),
			figure("time until silently dropped connections end", "%s at most", postgres.LostWithin),
		}}
	html, err := page.HTML()
	if err != nil {
		r.Fatal(err)
	}
	file := filepath.Join(dir, fmt.Sprintf("seed-%d.html", seed))
	if err := errors.Join(os.WriteFile(file, html, 0o600), os.WriteFile(filepath.Join(dir, page.HistoryPage),
		r.picture, 0o600)); err != nil {
		r.Fatal(err)
	}
	for _, f := range page.Figures {
		r.Logf("%s: %s", f.What, f.Value)
	}
	r.Logf("%s", file)
}
