package process_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/poll"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// snapshotSQL lists states that must never be visible; each row is a violation. One statement sees one snapshot.
const snapshotSQL = `
SELECT format('lawyer %s is %s with consultation %s', l.id, l.state, c.id) FROM lawyers l
JOIN consultations c ON c.lawyer_id = l.id AND c.status IN ('ASSIGNED', 'IN_CALL') WHERE l.state IN ('AVAILABLE', 'OFFERED')
UNION ALL
SELECT format('lawyer %s is %s with an open offer', l.id, l.state) FROM lawyers l
JOIN offers o ON o.lawyer_id = l.id AND o.state = 'OPEN' WHERE l.state <> 'OFFERED'
UNION ALL
SELECT format('lawyer %s is OFFERED nothing', l.id) FROM lawyers l
WHERE l.state = 'OFFERED' AND NOT EXISTS (SELECT FROM offers o WHERE o.lawyer_id = l.id AND o.state = 'OPEN')
UNION ALL
SELECT format('lawyer %s has %s consultations', lawyer_id, count(*)) FROM consultations WHERE status IN ('ASSIGNED', 'IN_CALL')
GROUP BY lawyer_id HAVING count(*) > 1`

// idleSQL lists idle lawyers beside waiting consultations that they were never offered and whose client is free.
const idleSQL = `
SELECT format('%s beside %s', l.id, c.id) FROM consultations c JOIN lawyer_pairs p USING (competence, language)
JOIN lawyers l ON l.id = p.lawyer_id AND l.state = 'AVAILABLE' AND l.suspended_at IS NULL
JOIN lawyer_presence h ON h.lawyer_id = l.id AND h.heartbeat_at > clock_timestamp() - interval '30 seconds'
WHERE c.status = 'MATCHING' AND NOT EXISTS (SELECT FROM offers o WHERE o.consultation_id = c.id AND o.lawyer_id = l.id)
	AND NOT EXISTS (SELECT FROM offers o WHERE o.client_id = c.client_id AND o.state = 'OPEN')
	AND NOT EXISTS (SELECT FROM consultations e WHERE e.client_id = c.client_id AND e.status IN ('ASSIGNED', 'IN_CALL'))`

// sweepersSQL counts the processes that sweep, each of which listens.
const sweepersSQL = `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN "partnerd_searches"'`

// chaosSQL lists what must not have happened when everything is over.
const chaosSQL = brokenSQL + `
UNION ALL
SELECT format('calls %s and %s of lawyer %s overlap', a.id, b.id, a.lawyer_id) FROM calls a JOIN calls b
ON a.lawyer_id = b.lawyer_id AND a.id < b.id AND a.started_at < coalesce(b.ended_at, 'infinity') AND b.started_at < coalesce(a.ended_at, 'infinity')
UNION ALL
SELECT format('offer %s expired %s early', id, expires_at - at) FROM chaos_ended JOIN offers USING (id) WHERE at < expires_at
UNION ALL
SELECT format('search of %s ended %s early', id, search_started_at + interval '30 minutes' - at) FROM chaos_ended JOIN consultations USING (id)
WHERE at < search_started_at + interval '30 minutes'
UNION ALL
SELECT format('search of %s has not ended', id) FROM consultations WHERE client_id LIKE 'cli\_over\_%' AND status = 'MATCHING'
UNION ALL
SELECT format('%s events of %s for %s', count(*), type, consultation_id) FROM webhook_events
WHERE type IN ('consultation.created', 'consultation.completed', 'consultation.cancelled') GROUP BY type, consultation_id HAVING count(*) > 1
UNION ALL
SELECT format('%s is %s with a live call', c.id, c.status) FROM calls k JOIN consultations c ON c.id = k.consultation_id
WHERE k.state <> 'ENDED' AND c.status IN ('COMPLETED', 'CANCELLED', 'EXPIRED')`

// chaos is a set of working processes that are killed, and people who act as they like.
type chaos struct {
	*testing.T
	in          *installation
	desk        *app.App // people act through it; it does no work itself
	fast        *app.App // works with a clock that is ahead
	application string
	seed        uint64
	lawyers     []string
	long        bool
}

// TestChaosLeavesNothingTorn kills working processes. At the same time lawyers decline, miss, withdraw and vanish,
// partners cancel, and searches end. One more process has a clock that is ahead.
func TestChaosLeavesNothingTorn(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	t.Logf("seed %d", c.seed)
	for i := range 8 {
		c.lawyers = append(c.lawyers, c.lawyer(i))
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(rounds(3, 10))*time.Minute)
	defer stop()
	var crew sync.WaitGroup
	defer crew.Wait()
	defer stop()
	crew.Go(func() {
		if err := c.fast.Run(ctx, false, true, func() {}); err != nil {
			t.Error(err)
		}
	})
	for i, id := range c.lawyers {
		crew.Go(func() { c.work(ctx, id, rand.New(rand.NewPCG(c.seed, uint64(i)))) })
	}
	watched := connect(t, c.in.databaseURL())
	crew.Go(func() { c.watch(ctx, watched) })
	calm := make(chan struct{})
	crew.Go(func() { c.breakProcesses(ctx, calm) })

	c.searchesEnd(ctx, 20, 6*time.Second)
	made := c.createAndCancel(ctx, rounds(24, 400))
	close(calm)
	db := connect(t, c.in.databaseURL())
	open := func() []string {
		return query(t, db, `SELECT format('%s %s', id, status) FROM consultations WHERE status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED')
			OR status = 'MATCHING' AND client_id LIKE 'cli\_over\_%' UNION ALL SELECT format('offer %s', id) FROM offers WHERE state = 'OPEN' UNION ALL `+idleSQL)
	}
	await(t, time.Duration(rounds(2, 5))*time.Minute, func() bool { return len(open()) == 0 }, func() string {
		return fmt.Sprint("still open: ", open(), query(t, db, "SELECT format('%s %s', id, state) FROM lawyers"),
			query(t, db, "SELECT format('%s of %s to %s %s %s', id, consultation_id, lawyer_id, state, created_at) "+
				"FROM offers ORDER BY id"))
	})
	c.cancelAll(query(t, db, "SELECT id FROM consultations WHERE status = 'MATCHING'")) // declined by every lawyer
	stop()
	crew.Wait()
	for _, fault := range query(t, db, chaosSQL) {
		t.Error(fault)
	}
	ended := query(t, db, "SELECT format('%s %s', count(*), status) FROM consultations GROUP BY status ORDER BY status")
	t.Logf("%d made, ended as %v", made, ended)
	if !slices.ContainsFunc(ended, func(s string) bool { return strings.HasSuffix(s, " COMPLETED") }) {
		t.Error("nothing was completed")
	}
	c.in.booksAgree(t)
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	url := dbtest.URL(t)
	in := install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+url, "PARTNERD_DATABASE_CONNS=6",
		"PARTNERD_BASE_URL=http://localhost")
	c := &chaos{T: t, in: in, seed: rand.Uint64(), long: rounds(0, 1) == 1}
	in.cli(t, "migrate") // creates the keys that all share
	open := func(machine func() time.Time) *app.App {
		a, err := app.Open(t.Context(), config.Config{Env: "sandbox", Addr: "127.0.0.1:0", BaseURL: "http://localhost",
			DataDir: in.dir, DatabaseURL: url, DatabaseConns: 8, RateApplication: 1, RateClient: 1, RateUnauthorized: 1,
			RateTokenFailures: 1, Machine: machine}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		return a
	}
	c.desk = open(nil)
	c.fast = open(func() time.Time { return time.Now().Add(15 * time.Second) })
	made, err := c.desk.CreateApplication(t.Context(), application.NewApplication{Name: "Demo CRM",
		RedirectURIs: []string{"http://localhost/callback"}, Scopes: application.AllScopes}, "")
	if err != nil {
		t.Fatal(err)
	}
	c.application = made.ClientID
	_, err = dbtest.Owner(t, c.desk.DB).Pool().Exec(t.Context(), `
		CREATE TABLE chaos_ended (id text PRIMARY KEY, at timestamptz NOT NULL);
		GRANT SELECT ON chaos_ended TO PUBLIC;
		CREATE FUNCTION chaos_end() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			INSERT INTO chaos_ended VALUES (new.id, clock_timestamp()) ON CONFLICT DO NOTHING; RETURN NULL; END $$;
		CREATE TRIGGER chaos_end AFTER UPDATE OF state ON offers FOR EACH ROW WHEN (new.state = 'EXPIRED') EXECUTE FUNCTION chaos_end();
		CREATE TRIGGER chaos_end AFTER UPDATE OF status ON consultations FOR EACH ROW
			WHEN (old.status = 'MATCHING' AND new.status = 'PENDING_CALLBACK') EXECUTE FUNCTION chaos_end()`)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (in *installation) databaseURL() string {
	for _, e := range in.env {
		if url, ok := strings.CutPrefix(e, "PARTNERD_DATABASE_URL="); ok {
			return url
		}
	}
	return ""
}

func (c *chaos) lawyer(i int) (id string) {
	err := c.desk.DB.InTx(c.Context(), func(tx postgres.Tx) error {
		l, err := c.desk.Lawyers.Create(c.Context(), tx,
			lawyer.NewLawyer{Email: fmt.Sprintf("chaos-%d@lawyer.example", i), Name: "Demo Lawyer",
				Phone: "+33639980002", Competences: []string{"HOUSING", "TAX"}, Languages: []string{"FR"}})
		id = l.ID
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return id
}

// create creates a consultation, and its client if they do not exist.
func (c *chaos) create(ctx context.Context,
	client, ref, competence, language string,
) (con consultation.Consultation, err error) {
	err = c.desk.DB.InTx(ctx, func(tx postgres.Tx) error {
		made, err := tx.Exec(ctx, postgres.SQL(postgres.Batch,
			`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
			VALUES ($1, $1 || '@client.example', 'Demo Client', '', $2, $2) ON CONFLICT DO NOTHING`), client, tx.Now)
		if err != nil {
			return err
		}
		if made == 1 {
			if err := c.desk.Accounts.SetPhone(ctx, tx, client, "+33639980001", true); err != nil {
				return err
			}
		}
		if err := c.desk.Wallet.Adjust(ctx, tx, client, consultation.Price, "Opening balance"); err != nil {
			return err
		}
		con, err = c.desk.Consultations.Create(ctx, tx,
			consultation.CreateCommand{Request: consultation.Request{ApplicationID: c.application, ClientID: client,
				Competence: competence, Language: language, Subject: "Test", ExternalRef: ref},
				Evidence: consultation.Evidence{RequestID: "req_1", IdempotencyKey: ref, Address: "192.0.2.1",
					UserAgent: "crm/1"}})
		return err
	})
	return con, err
}

// searchesEnd creates n consultations that no lawyer serves. Their searches reach 30 minutes when left is over.
func (c *chaos) searchesEnd(ctx context.Context, n int, left time.Duration) {
	for i := range n {
		client := fmt.Sprint("cli_over_", i)
		if _, err := c.create(ctx, client, client, "IP", "PT"); err != nil {
			c.Error(err)
			return
		}
	}
	_, err := c.desk.DB.Pool().Exec(ctx,
		`UPDATE consultations SET search_started_at = clock_timestamp() + $1 - interval '30 minutes',
		timer_at = clock_timestamp() + $1 WHERE client_id LIKE 'cli\_over\_%'`, left)
	if err != nil {
		c.Error(err)
	}
}

// createAndCancel creates n consultations, two for each client, and cancels some of them.
func (c *chaos) createAndCancel(ctx context.Context, n int) (made int) {
	random := rand.New(rand.NewPCG(c.seed, 1_000))
	for i := range n {
		client := fmt.Sprint("cli_chaos_", i/2)
		con, err := c.create(ctx, client, fmt.Sprint(client, "_", i), []string{"HOUSING", "TAX"}[i%2], "FR")
		if err != nil {
			c.Error(err)
			return i
		}
		if random.IntN(10) == 0 {
			poll.Pause(ctx, time.Duration(random.IntN(2000))*time.Millisecond)
			err := c.desk.DB.InTx(ctx, func(tx postgres.Tx) error {
				_, err := c.desk.Consultations.Cancel(ctx, tx, c.application, client, con.ID)
				return err
			})
			if err != nil && !errors.Is(err, consultation.ErrNotCancellable) {
				c.Error(err)
			}
		}
		if !poll.Pause(ctx, time.Duration(50+random.IntN(300))*time.Millisecond) {
			return i
		}
	}
	return n
}

func (c *chaos) cancelAll(ids []string) {
	for _, id := range ids {
		err := c.desk.DB.InTx(c.Context(), func(tx postgres.Tx) error {
			var client string
			err := tx.QueryRow(c.Context(),
				postgres.SQL(postgres.Report, "SELECT client_id FROM consultations WHERE id = $1"), id).Scan(&client)
			if err == nil {
				_, err = c.desk.Consultations.Cancel(c.Context(), tx, c.application, client, id)
			}
			return err
		})
		if err != nil {
			c.Error(err)
		}
	}
}

// work simulates the day of one lawyer. Other lawyers may be faster, so rejections are not failures.
func (c *chaos) work(ctx context.Context, id string, random *rand.Rand) {
	say := func(err error) {
		for _, fine := range []error{
			nil, matching.ErrOfferGone, consultation.ErrNotYours, consultation.ErrForbidden, consultation.ErrTooEarly,
			telephony.ErrLineBusy, telephony.ErrNoCall, lawyer.ErrState, lawyer.ErrLeaseLost,
		} {
			if errors.Is(err, fine) {
				return
			}
		}
		if ctx.Err() == nil {
			c.Error(err)
		}
	}
	missed := map[string]bool{}
	var lease lawyer.Lease
	for ctx.Err() == nil {
		if c.long && random.IntN(400) == 0 { // vanishes, and returns once the lease is lost
			poll.Pause(ctx, lawyer.LeaseLost+10*time.Second)
		}
		read := c.desk.DB.Read()
		if err := c.desk.Lawyers.Beat(ctx, read, lease); err != nil { // signed off, or not yet on
			lease, err = c.desk.Lawyers.GoOnline(ctx, read, id)
			say(err)
		}
		if l, err := c.desk.Lawyers.Get(ctx, read, id); err != nil || l.State == lawyer.Away {
			say(err)
			lease, err = c.desk.Lawyers.GoOnline(ctx, read, id)
			say(err)
		}
		o, ok, err := c.desk.Matching.OpenFor(ctx, read, id)
		if say(err); ok && !missed[o.ID] {
			switch random.IntN(20) {
			case 0, 1:
				say(c.desk.Consultations.DeclineOffer(ctx, lease, o.ID, matching.ReasonConflict))
			case 2:
				missed[o.ID] = true
				_, err := c.desk.DB.Pool().Exec(ctx,
					"UPDATE offers SET expires_at = expires_at - interval '25 seconds' WHERE id = $1 "+
						"AND state = 'OPEN'", o.ID)
				say(err)
			default:
				say(c.desk.Consultations.AcceptOffer(ctx, lease, o.ID))
			}
		}
		jobs, err := c.desk.Consultations.InHands(ctx, read, id)
		say(err)
		for _, job := range jobs {
			switch job.Status {
			case consultation.Assigned:
				if random.IntN(15) == 0 {
					say(c.desk.Consultations.Withdraw(ctx, lease, job.ID, consultation.ConflictOfInterest))
				} else if !job.Dialling() && job.NextDialAt == nil {
					say(c.desk.Consultations.StartCall(ctx, lease, job.ID))
				}
			case consultation.InCall:
				say(c.desk.Consultations.EndCall(ctx, lease, job.ID))
			case consultation.CallEnded:
				say(c.desk.Consultations.SubmitNote(ctx, lease, job.ID, "note", "preview"))
			}
		}
		poll.Pause(ctx, time.Duration(100+random.IntN(200))*time.Millisecond)
	}
}

// worker is a running "partnerd work".
type worker struct {
	cmd    *exec.Cmd
	output transcript
}

func (w *worker) started() bool { return strings.Contains(w.output.String(), "started") }

// breakProcesses keeps four processes at work until calm is closed. It repeatedly starts another one and kills the
// oldest, which is mostly the one that sweeps.
func (c *chaos) breakProcesses(ctx context.Context, calm <-chan struct{}) {
	var live []*worker
	start := func() {
		w := &worker{cmd: c.in.command(context.Background(), "work")}
		w.cmd.Env = append(slices.Clone(c.in.env), "PARTNERD_LOG_LEVEL=info")
		w.cmd.Stderr = &w.output
		if err := w.cmd.Start(); err != nil {
			c.Error(err)
			return
		}
		live = append(live, w)
	}
	kill := func() {
		_ = live[0].cmd.Process.Kill()
		_ = live[0].cmd.Wait()
		if printed := live[0].output.String(); strings.Contains(printed, "panic") {
			c.Error(printed)
		}
		live = live[1:]
	}
	for range 4 {
		start()
	}
	random, kills := rand.New(rand.NewPCG(c.seed, 2_000)), 0
	for disturbed := true; disturbed; {
		select {
		case <-calm:
			disturbed = false
		case <-ctx.Done():
			disturbed = false
		case <-time.After(time.Duration(500+random.IntN(2500)) * time.Millisecond):
			if slices.IndexFunc(live[1:], (*worker).started) >= 0 {
				kill()
				start()
				kills++
			}
		}
	}
	if c.Logf("%d kills", kills); kills == 0 {
		c.Error("nothing was killed")
	}
	<-ctx.Done()
	for len(live) > 0 {
		kill()
	}
}

// longestIdle is how long a lawyer may be idle beside work for them, in addition to the time that the query takes.
const longestIdle = 2 * time.Second

// watch repeatedly checks for states that must never be visible.
func (c *chaos) watch(ctx context.Context, db *pgx.Conn) {
	idle, told := map[string]time.Time{}, map[string]bool{}
	last, stall, longest := time.Now(), time.Duration(0), time.Duration(0)
	var several time.Time // since when more than one process has been sweeping
	for poll.Pause(ctx, 200*time.Millisecond) {
		now := time.Now()
		stall, last = max(stall, now.Sub(last)), now
		for _, fault := range c.look(ctx, db, snapshotSQL) {
			if !told[fault] {
				told[fault] = true
				c.Error(fault)
			}
		}
		switch n := c.look(ctx, db, sweepersSQL); {
		case len(n) == 0 || n[0] == "0" || n[0] == "1":
			several = time.Time{}
		case several.IsZero():
			several = now
		case now.Sub(several) > longestIdle+2*stall && !told["several"]:
			told["several"] = true
			c.Errorf("%s processes sweep for %v", n[0], now.Sub(several))
		}
		seen := c.look(ctx, db, idleSQL)
		for pair := range idle {
			if !slices.Contains(seen, pair) {
				delete(idle, pair)
			}
		}
		for _, pair := range seen {
			if _, known := idle[pair]; !known {
				idle[pair] = now
			}
			longest = max(longest, now.Sub(idle[pair]))
			if now.Sub(idle[pair]) > longestIdle+2*stall && !told["idle"] {
				told["idle"] = true
				c.Errorf("idle for %v: %s (two looks were %v apart at most)", now.Sub(idle[pair]), pair, stall)
			}
		}
	}
	c.Logf("an idle lawyer stood beside work for %v at most", longest.Round(time.Millisecond))
}

func (c *chaos) look(ctx context.Context, db *pgx.Conn, sql string) []string {
	rows, err := db.Query(ctx, sql)
	var found []string
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil && ctx.Err() == nil {
		c.Error(err)
	}
	return found
}
