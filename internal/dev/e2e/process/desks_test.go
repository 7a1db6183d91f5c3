package process_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/poll"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// inHandSQL lists open work of lawyers, open offers, and work that waits for a lawyer who was never asked.
const inHandSQL = `SELECT format('%s %s', id, status) FROM consultations WHERE status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED')
	UNION ALL SELECT format('offer %s', id) FROM offers WHERE state = 'OPEN' UNION ALL ` + idleSQL

// doubleSQL lists acceptances that did not assign exactly once, and lawyers with two consultations at the same time.
const doubleSQL = `
SELECT format('%s: %s acceptances, %s assignments', c.id, accepted, assigned) FROM consultations c,
	LATERAL (SELECT count(*) AS accepted FROM offers WHERE consultation_id = c.id AND state = 'ACCEPTED') o,
	LATERAL (SELECT count(*) AS assigned FROM webhook_events WHERE consultation_id = c.id AND type = 'consultation.assigned') e
WHERE accepted <> assigned
UNION ALL
SELECT format('calls %s and %s of %s overlap', a.id, b.id, a.consultation_id) FROM calls a JOIN calls b
ON a.consultation_id = b.consultation_id AND a.id < b.id AND a.started_at < coalesce(b.ended_at, 'infinity') AND b.started_at < coalesce(a.ended_at, 'infinity')`

// deskState is the part of the desk's stream that these desks use.
type deskState struct {
	Version, Connection, Presence string
	InHand                        bool
	Offer                         *struct{ ID string }
	Consultation                  *struct {
		ID, Status, Call string
		Attempts         int
		NextAttemptAt    string
		ChooseBy         string
	}
	Notes []struct{ ID string }
}

// remote is a lawyer's desk that uses only the program's API.
type remote struct {
	*chaos
	token string
	crowd *crowd

	mu   sync.Mutex
	last deskState
	id   string // of the last event of the stream
}

// crowd is the processes that desks connect to, and what the desks saw.
type crowd struct {
	addresses           []string
	reconnects, resumed atomic.Int64
}

func (r *remote) request(ctx context.Context, method, path string, body any,
	random *rand.Rand,
) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	q, err := http.NewRequestWithContext(ctx, method,
		"http://"+r.crowd.addresses[random.IntN(len(r.crowd.addresses))]+"/api/desk/v1"+path, content)
	if err != nil {
		return nil, err
	}
	q.AddCookie(&http.Cookie{Name: staff.CookieName(false), Value: r.token})
	q.Header.Set("X-CSRF-Token", staff.FormToken(r.token))
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	return http.DefaultClient.Do(q)
}

// post sends an action. A killed process does not respond; the desk's next state shows whether the action took effect.
func (r *remote) post(ctx context.Context, path string, body any, random *rand.Rand) {
	res, err := r.request(ctx, http.MethodPost, path, body, random)
	if err != nil {
		return
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(res.Body)
	switch res.StatusCode {
	case http.StatusOK, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable:
	default:
		r.Errorf("POST %s: %d %s", path, res.StatusCode, said)
	}
}

// follow keeps a stream open at any of the processes. When it is cut off, it reconnects to another.
func (r *remote) follow(ctx context.Context, random *rand.Rand) {
	for first := true; ctx.Err() == nil; first = false {
		if !first {
			poll.Pause(ctx, 50*time.Millisecond)
		}
		r.listen(ctx, random, first)
	}
}

func (r *remote) listen(ctx context.Context, random *rand.Rand, first bool) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+r.crowd.addresses[random.IntN(len(r.crowd.addresses))]+"/api/desk/v1/events", nil)
	if err != nil {
		r.Error(err)
		return
	}
	q.AddCookie(&http.Cookie{Name: staff.CookieName(false), Value: r.token})
	r.mu.Lock()
	if r.id != "" {
		q.Header.Set("Last-Event-ID", r.id)
	}
	r.mu.Unlock()
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return // not restarted yet
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		if res.StatusCode != http.StatusServiceUnavailable {
			r.Errorf("the stream responds with %d", res.StatusCode)
		}
		return
	}
	if !first {
		r.crowd.reconnects.Add(1)
		if q.Header.Get("Last-Event-ID") != "" {
			r.crowd.resumed.Add(1)
		}
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	var id, kind string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			var st deskState
			if kind != "state" {
				continue
			}
			if err := json.Unmarshal([]byte(value), &st); err != nil {
				r.Error(err)
				return
			}
			r.mu.Lock()
			r.last, r.id = st, id
			r.mu.Unlock()
		}
	}
}

func (r *remote) seen() deskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// work does what the stream shows as the next step.
func (r *remote) work(ctx context.Context, random *rand.Rand) {
	for poll.Pause(ctx, time.Duration(80+random.IntN(160))*time.Millisecond) {
		st := r.seen()
		con := st.Consultation
		switch {
		case st.Connection != "HERE", st.Presence == "AWAY", st.Presence == "OFFLINE":
			r.post(ctx, "/duty/on", nil, random)
		case st.Offer != nil && random.IntN(8) == 0:
			r.post(ctx, "/offers/"+st.Offer.ID+"/decline", map[string]string{"reason": "conflict_of_interest"}, random)
		case st.Offer != nil:
			r.post(ctx, "/offers/"+st.Offer.ID+"/accept", nil, random)
		case con != nil && con.Status == "IN_CALL":
			r.post(ctx, "/consultations/"+con.ID+"/end-call", nil, random)
		case con != nil && con.ChooseBy != "":
			r.post(ctx, "/consultations/"+con.ID+"/choice", map[string]bool{"wait": false}, random)
		case con != nil && con.Call == "" && con.NextAttemptAt == "":
			r.post(ctx, "/consultations/"+con.ID+"/call", nil, random)
		case len(st.Notes) > 0:
			r.post(ctx, "/consultations/"+st.Notes[0].ID+"/note",
				map[string]any{"note": "note", "preview": "preview", "containsNothingSecret": true}, random)
		default:
			r.post(ctx, "/heartbeat", nil, random)
		}
	}
}

// TestChaosWithDesksConnected has lawyers accept, decline, call, end calls and write notes over the API. At the same
// time, the processes that serve them, and one that only works, are killed and restarted. The streams continue at
// another process. Every consultation ends exactly once, and each stream shows the final state.
func TestChaosWithDesksConnected(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	crowd := &crowd{addresses: []string{freeAddress(t), freeAddress(t)}}
	live := []*process{c.in.serve(t, crowd.addresses[0]), c.in.serve(t, crowd.addresses[1])}
	c.sendSimulatedLawyersHome()

	ctx, stop := context.WithTimeout(t.Context(), time.Duration(rounds(3, 15))*time.Minute)
	defer stop()
	var crew sync.WaitGroup
	defer crew.Wait()
	defer stop()
	var desks []*remote
	for i := range 6 {
		r := &remote{chaos: c, crowd: crowd, token: dbtest.SignIn(t, c.desk.DB, c.lawyer(i))}
		desks = append(desks, r)
		crew.Go(func() { r.follow(ctx, rand.New(rand.NewPCG(c.seed, uint64(100+i)))) })
		crew.Go(func() { r.work(ctx, rand.New(rand.NewPCG(c.seed, uint64(200+i)))) })
	}
	crew.Go(func() {
		db, told := connect(t, c.in.databaseURL()), map[string]bool{}
		for poll.Pause(ctx, 200*time.Millisecond) {
			for _, fault := range c.look(ctx, db, snapshotSQL) {
				if !told[fault] {
					told[fault] = true
					t.Error(fault)
				}
			}
		}
	})

	work := func() *exec.Cmd {
		cmd := c.in.command(context.Background(), "work")
		if err := cmd.Start(); err != nil {
			t.Error(err)
		}
		return cmd
	}
	worker := work()
	defer func() { _, _ = worker.Process.Kill(), worker.Wait() }()
	calm, kills := make(chan struct{}), 0
	var breaking sync.WaitGroup
	breaking.Go(func() {
		random := rand.New(rand.NewPCG(c.seed, 3_000))
		for {
			select {
			case <-calm:
				return
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(300+random.IntN(900)) * time.Millisecond):
			}
			kills++
			i := random.IntN(len(live) + 1)
			if i == len(live) {
				_, _ = worker.Process.Kill(), worker.Wait()
				worker = work()
				continue
			}
			live[i].kill()
			if printed := live[i].output.String(); strings.Contains(printed, "panic") ||
				strings.Contains(printed, "level=ERROR") {
				t.Errorf("%s printed: %s", live[i].addr, lastLines(printed, 20))
			}
			live[i] = c.in.spawn(t, crowd.addresses[i])
		}
	})
	begun := time.Now()
	made := c.createAndCancel(ctx, rounds(24, 400))
	close(calm)
	breaking.Wait()
	for _, p := range live {
		p.awaitStatus(t, "/readyz", http.StatusOK)
	}

	db := connect(t, c.in.databaseURL())
	await(t, time.Duration(rounds(100, 200))*time.Second, func() bool { return len(query(t, db, inHandSQL)) == 0 },
		func() string {
			return fmt.Sprint("stranded: ", query(t, db, inHandSQL),
				query(t, db, "SELECT format('%s %s', id, state) FROM lawyers WHERE NOT simulated"))
		})
	c.cancelAll(query(t, db, "SELECT id FROM consultations WHERE status = 'MATCHING'")) // declined by every lawyer
	for i, r := range desks {
		await(t, 20*time.Second, func() bool {
			res, err := r.request(ctx, http.MethodGet, "/state", nil, rand.New(rand.NewPCG(c.seed, 4_000)))
			if err != nil {
				return false
			}
			defer res.Body.Close()
			var there deskState
			seen := r.seen()
			return json.NewDecoder(res.Body).Decode(&there) == nil && there.Version == seen.Version && !seen.InHand &&
				seen.Offer == nil
		}, func() string { return fmt.Sprintf("desk %d has seen %+v last", i, r.seen()) })
	}
	stop()
	crew.Wait()
	for _, fault := range append(query(t, db, brokenSQL), query(t, db, doubleSQL)...) {
		t.Error(fault)
	}
	ended := query(t, db, "SELECT format('%s %s', count(*), status) FROM consultations GROUP BY status ORDER BY status")
	if !slices.ContainsFunc(ended, func(s string) bool { return strings.HasSuffix(s, " COMPLETED") }) {
		t.Error("nothing was completed")
	}
	if kills == 0 || crowd.resumed.Load() == 0 {
		t.Error("nothing was killed, or no stream continued elsewhere")
	}
	c.in.booksAgree(t)
	t.Logf("seed %d: %d kills, %d consultations ended as %v, %d streams with %d reconnections, %d of them from an "+
		"event on, in %v", c.seed, kills, made, ended,
		len(desks), crowd.reconnects.Load(), crowd.resumed.Load(), time.Since(begun).Round(time.Second))
}

// sendSimulatedLawyersHome leaves the work to the lawyers at the desks.
func (c *chaos) sendSimulatedLawyersHome() {
	db := connect(c.T, c.in.databaseURL())
	for _, id := range query(c.T, db, "SELECT id FROM lawyers WHERE simulated") {
		if err := c.desk.DB.InTx(c.Context(), func(tx postgres.Tx) error {
			return c.desk.Lawyers.Suspend(c.Context(), tx, id, lawyer.BySuspension, false)
		}); err != nil {
			c.Fatal(err)
		}
	}
}
