package process_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/gen/partner/models"
)

// brokenSQL lists what a kill could have torn apart; each row is a violation.
const brokenSQL = `
SELECT format('consultation %s has no hold', c.id) FROM consultations c LEFT JOIN holds h ON h.consultation_id = c.id WHERE h.id IS NULL
UNION ALL
SELECT format('hold %s has no consultation', h.id) FROM holds h LEFT JOIN consultations c ON c.id = h.consultation_id WHERE c.id IS NULL
UNION ALL
SELECT format('consultation %s is %s, its hold %s', c.id, c.status, h.state) FROM consultations c JOIN holds h ON h.consultation_id = c.id
WHERE h.state <> CASE c.status WHEN 'COMPLETED' THEN 'CAPTURED' WHEN 'CANCELLED' THEN 'RELEASED' WHEN 'EXPIRED' THEN 'RELEASED' ELSE 'ACTIVE' END
UNION ALL
SELECT format('consultation %s has no evidence of the waiver', c.id) FROM consultations c
LEFT JOIN consultation_evidence e ON e.consultation_id = c.id WHERE e.consultation_id IS NULL
UNION ALL
SELECT format('consultation %s has %s events, numbered %s to %s, and counts %s', c.id, count(e.id), min(e.sequence), max(e.sequence), c.event_seq)
FROM consultations c LEFT JOIN webhook_events e ON e.consultation_id = c.id GROUP BY c.id
HAVING count(e.id) < 3 OR count(e.id) <> c.event_seq OR min(e.sequence) <> 1 OR max(e.sequence) <> c.event_seq
UNION ALL
SELECT format('event %s has %s deliveries', e.id, count(d.id)) FROM webhook_events e LEFT JOIN webhook_deliveries d ON d.event_id = e.id
GROUP BY e.id HAVING count(d.id) <> 1
UNION ALL
SELECT format('reference %s belongs to %s consultations', external_ref, count(*)) FROM consultations GROUP BY external_ref HAVING count(*) > 1`

func TestNothingIsTornWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	const rounds, senders = 5, 6
	in, addr := install(t), freeAddress(t)
	base := "PARTNERD_BASE_URL=http://" + addr
	server := in.serve(t, addr, base)
	crm := onboard(t, in, server.url, 100_000_000)
	token := crm.link(t, server.url).AccessToken
	sent := map[request]answer{}
	for round := range rounds {
		for q, a := range createUntilKilled(t, server, token, senders, 10+15*round, round%2 == 0) {
			sent[q] = a
		}
		server = in.serve(t, addr, base)
	}
	unanswered := retryAll(t, server.url, token, sent)
	if unanswered == 0 {
		t.Error("no request was cut off by a kill: the test proves less than it says")
	}
	db := in.database(t)
	if n := query(t, db, "SELECT count(*)::text FROM consultations"); n[0] != fmt.Sprint(len(sent)) {
		t.Errorf("%s consultations of %d requests", n[0], len(sent))
	}
	in.settled(t, crm, db)
	t.Logf("%d creates, %d of them cut off", len(sent), unanswered)
	server.terminate(t)
}

// createUntilKilled sends creations over several connections and kills the server after the given number of responses.
// With served, a lawyer takes the first one. The calls of one client follow each other, so few consultations are
// served.
func createUntilKilled(t *testing.T, server *process, token string, senders, answers int,
	served bool,
) map[request]answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	sent, succeeded := map[request]answer{}, 0
	enough := make(chan struct{})
	for i := range senders {
		wg.Go(func() {
			for n := 0; ; n++ {
				q := request{rand.Text(), "IP", "PT"} // no lawyer takes these
				if served && i == 0 && n == 0 {
					q.competence, q.language = "HOUSING", "FR"
				}
				a := create(ctx, server.url, token, q)
				mu.Lock()
				sent[q] = a
				if a.status == http.StatusCreated {
					if succeeded++; succeeded == answers {
						close(enough)
					}
				}
				mu.Unlock()
				if a.status != http.StatusCreated {
					return
				}
			}
		})
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Error("too few creates succeeded")
	}
	server.kill()
	wg.Wait()
	return sent
}

// retryAll retries every request with its key, like a partner without a response. It returns how many had none.
func retryAll(t *testing.T, base, token string, sent map[request]answer) (unanswered int) {
	t.Helper()
	for q, before := range sent {
		after := create(t.Context(), base, token, q)
		switch {
		case after.status != http.StatusCreated:
			t.Fatalf("retry of %s: %d %s", q.key, after.status, after.body)
		case before.status == 0:
			unanswered++
		case before.status != http.StatusCreated:
			t.Errorf("the response to %s was %d %s", q.key, before.status, before.body)
		case string(before.body) != string(after.body) || after.header.Get("Idempotent-Replayed") != "true":
			t.Errorf("retry of %s differs:\n%s\n%s", q.key, before.body, after.body)
		}
	}
	return unanswered
}

// awaitQuiet waits until the consultations that lawyers take are over and no delivery is due.
func awaitQuiet(t *testing.T, db *pgx.Conn) {
	t.Helper()
	const sql = `SELECT format('%s %s', status, count(*)) FROM consultations WHERE competence = 'HOUSING' AND status <> 'COMPLETED' GROUP BY status
		UNION ALL SELECT format('%s deliveries %s', count(*), state) FROM webhook_deliveries WHERE state <> 'DELIVERED' GROUP BY state`
	var open []string
	await(t, deadline, func() bool {
		open = query(t, db, sql)
		return len(open) == 0
	}, func() string { return fmt.Sprint("still open: ", open) })
}

// settled waits until all is quiet. It asserts that every record is complete, every event was received, and the ledger
// balances.
func (in *installation) settled(t *testing.T, crm *partner, db *pgx.Conn) {
	t.Helper()
	awaitQuiet(t, db)
	for _, fault := range append(query(t, db, brokenSQL), query(t, db, doubleSQL)...) {
		t.Error(fault)
	}
	crm.everyEventArrived(t, db)
	in.booksAgree(t)
}

// everyEventArrived compares what the partner received with what happened according to the database.
func (p *partner) everyEventArrived(t *testing.T, db *pgx.Conn) {
	t.Helper()
	for _, fault := range p.received.faults(true) {
		t.Error(fault)
	}
	for _, id := range query(t, db, "SELECT id FROM consultations") {
		var got []string
		for _, e := range p.received.Events(id) {
			got = append(got, fmt.Sprint(e.Sequence, " ", e.ID, " ", e.Delivery, " ", e.Type))
		}
		want := query(t, db, `SELECT format('%s %s %s %s', e.sequence, e.id, d.id, e.type) FROM webhook_events e
			JOIN webhook_deliveries d ON d.event_id = e.id WHERE e.consultation_id = $1 ORDER BY e.sequence`, id)
		if !slices.Equal(got, want) {
			t.Errorf("%s: received %v, happened %v", id, got, want)
		}
	}
}

func TestServerSurvivesTheEndOfItsDatabase(t *testing.T) {
	t.Parallel()
	in, addr := install(t), freeAddress(t)
	base := "PARTNERD_BASE_URL=http://" + addr
	server := in.serve(t, addr, base)
	crm := onboard(t, in, server.url, 100_000)
	token := crm.link(t, server.url).AccessToken
	before := create(t.Context(), server.url, token, request{rand.Text(), "IP", "PT"})
	if before.status != http.StatusCreated {
		t.Fatalf("create: %d %s", before.status, before.body)
	}

	release := holdStart(t, in)
	killDatabase(t, in)
	server.awaitStatus(t, "/readyz", http.StatusServiceUnavailable)
	server.awaitStatus(t, "/healthz", http.StatusOK)
	lost := request{rand.Text(), "IP", "PT"}
	wantUnavailable(t, func() answer { return create(t.Context(), server.url, token, lost) })
	wantUnavailable(t, func() answer { return get(t, server.url+"/api/v1/wallet", token) })

	t.Log("the server brings its database back, while the create is sent again and again")
	const senders = 4
	var sending sync.WaitGroup
	var made [senders]string
	for i := range made {
		sending.Go(func() { made[i] = createUntilMade(t, server, token, lost) })
	}
	release()
	sending.Wait()
	server.awaitStatus(t, "/readyz", http.StatusOK)
	if again := create(t.Context(), server.url, token, lost); again.status != http.StatusCreated ||
		again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("once more: %d %v %s", again.status, again.header, again.body)
	}
	all := query(t, in.database(t), `SELECT id FROM consultations WHERE external_ref = $1`, lost.key)
	if len(all) != 1 || slices.ContainsFunc(made[:], func(id string) bool { return id != all[0] }) {
		t.Errorf("one key created %v, and the responses name %v", all, made)
	}

	killDatabase(t, in)
	server.terminate(t)
	server = in.serve(t, addr, base)
	if a := get(t, server.url+"/api/v1/consultations/"+before.consultation(t).ID, token); a.status != http.StatusOK {
		t.Errorf("get after the restart: %d %s", a.status, a.body)
	}
	db := in.database(t)
	in.settled(t, crm, db)
}

// holdStart prevents any start of the private database until release is called.
func holdStart(t *testing.T, in *installation) (release func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(in.cluster().Dir, "start.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// wantUnavailable calls ask until it gets an error response. Connections outlive the main process of the database until
// they notice.
func wantUnavailable(t *testing.T, ask func() answer) {
	t.Helper()
	a := ask()
	for deadline := time.Now().Add(20 * time.Second); a.status < 300 && time.Now().Before(deadline); a = ask() {
		<-time.After(20 * time.Millisecond)
	}
	wantRefusal(t, a, http.StatusServiceUnavailable, "UNAVAILABLE")
}

// wantRefusal asserts that a response is a problem with Retry-After.
func wantRefusal(t *testing.T, a answer, status int, code string) {
	t.Helper()
	var problem models.APIError
	err := json.Unmarshal(a.body, &problem)
	after, _ := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || a.status != status || string(problem.Code) != code ||
		a.header.Get("Content-Type") != "application/json" || after < 1 ||
		!strings.HasPrefix(a.header.Get("X-Request-Id"), "req_") {
		t.Errorf("%d %v %s, want %d %s", a.status, a.header, a.body, status, code)
	}
}

// createUntilMade sends one creation until it succeeds, and returns the consultation. Every other response must be a
// rejection that asks for a retry: the database is down or starting, or a duplicate is in progress.
func createUntilMade(t *testing.T, server *process, token string, q request) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		switch a := create(t.Context(), server.url, token, q); a.status {
		case http.StatusCreated:
			return a.consultation(t).ID
		case http.StatusConflict:
			wantRefusal(t, a, a.status, "IDEMPOTENCY_IN_PROGRESS")
		default:
			wantRefusal(t, a, http.StatusServiceUnavailable, "UNAVAILABLE")
		}
	}
	t.Error("nothing was made within a minute")
	return ""
}

// killDatabase kills the main process of the private database immediately; the others end when they notice.
func killDatabase(t *testing.T, in *installation) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(in.cluster().Dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || pid < 2 {
		t.Fatalf("postmaster.pid holds %q", first)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
