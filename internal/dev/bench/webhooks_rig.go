package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// hookRig is a set of applications with endpoints, the receiver behind them, and consultations to report on.
type hookRig struct {
	db       *postgres.DB
	box      *seal.Box
	svc      *webhook.Service // writes, and delivers unless the scenario uses another service
	secrets  map[string]string
	apps     []string
	subjects []webhook.Subject

	received sync.Map     // consultation/sequence → time.Time of the first arrival
	arrived  atomic.Int64 // first arrivals
	wrong    atomic.Int64 // invalid signatures and duplicate events
	hung     map[string]bool
	down     atomic.Bool // makes the first application respond with 503
	sent     sync.Map    // consultation/sequence → time.Time of the commit

	closers []func()
}

const hookPatience = 3 * time.Minute

func newHookRig(ctx context.Context, e *Env, apps, consultations int, hung ...int) (*hookRig, error) {
	db, closeDB, err := e.Database(ctx, 24)
	if err != nil {
		return nil, err
	}
	r := &hookRig{db: db, secrets: map[string]string{}, hung: map[string]bool{}, closers: []func(){closeDB}}
	if err := r.fill(ctx, apps, consultations, hung); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *hookRig) close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
}

func (r *hookRig) fill(ctx context.Context, apps, consultations int, hung []int) error {
	key, err := seal.NewKey()
	if err != nil {
		return err
	}
	if r.box, err = seal.OpenBox(key); err != nil {
		return err
	}
	r.svc = webhook.New(r.db, r.box, webhook.Config{Sandbox: true, AllowLoopback: true})
	base, end, err := listen(http.HandlerFunc(r.receive))
	if err != nil {
		return err
	}
	r.closers = append(r.closers, end)
	for i := range apps {
		app := fmt.Sprintf("app_bench_%04d", i)
		err := r.db.InTx(ctx, func(tx postgres.Tx) error {
			if err := execute(ctx, r.db,
				`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at)
				VALUES ($1, 'Bench CRM', '{}', '{}', '\x00', now(), now())`, app); err != nil {
				return err
			}
			secret, err := r.svc.CreateEndpoint(ctx, tx, app, base+"/"+app)
			r.secrets[app] = secret
			return err
		})
		if err != nil {
			return fmt.Errorf("make application: %w", err)
		}
		r.apps = append(r.apps, app)
	}
	for _, i := range hung {
		r.hung[r.apps[i]] = true
	}
	return r.consultations(ctx, consultations)
}

// consultations spreads n consultations evenly over the applications.
func (r *hookRig) consultations(ctx context.Context, n int) error {
	err := execute(ctx, r.db, `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		VALUES ('cli_bench', 'bench@client.example', 'Bench Client', '', now(), now())`)
	if err != nil {
		return err
	}
	err = execute(ctx, r.db,
		`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
			recording_consent, price_cents, phone_sealed, created_at, updated_at, search_started_at)
		SELECT 'con_bench_' || to_char(n, 'FM0000000'), 'app_bench_' || to_char(n % $2, 'FM0000'), 'cli_bench', 'MATCHING', 'HOUSING', 'FR', '\x00', false, 2000, '\x00', now(), now(), now()
		FROM generate_series(0, $1 - 1) n`, n, len(r.apps))
	for i := range n {
		r.subjects = append(r.subjects, webhook.Subject{ApplicationID: r.apps[i%len(r.apps)],
			ConsultationID: fmt.Sprintf("con_bench_%07d", i), Competence: "HOUSING"})
	}
	return err
}

// receive responds for every endpoint, immediately or never.
func (r *hookRig) receive(w http.ResponseWriter, req *http.Request) {
	app := strings.TrimPrefix(req.URL.Path, "/")
	if r.hung[app] {
		_, _ = io.Copy(io.Discard, req.Body) // only then does the server see that the sender hangs up
		<-req.Context().Done()
		return
	}
	if r.down.Load() && app == r.apps[0] {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	n, err := takeNotice(req, r.secrets[app])
	if err != nil {
		r.wrong.Add(1)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, twice := r.received.LoadOrStore(n.id, n.at); twice {
		r.wrong.Add(1)
	} else {
		r.arrived.Add(1)
	}
	w.WriteHeader(http.StatusNoContent)
}

// deliver runs s until the rig is closed.
func (r *hookRig) deliver(ctx context.Context, s *webhook.Service) {
	running, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = s.Run(running) })
	all.Go(func() { _ = s.Lead(running) })
	r.closers = append(r.closers, func() { cancel(); all.Wait() })
}

func (r *hookRig) emit(ctx context.Context, s webhook.Subject) error {
	err := r.db.InTx(ctx, func(tx postgres.Tx) error {
		return r.svc.Emit(ctx, tx, s, 1, webhook.Event{Type: webhook.Matching, Status: "MATCHING"})
	})
	r.sent.Store(s.ConsultationID+"/1", time.Now())
	return err
}

// emitAll writes one event of each subject from many goroutines, as fast as possible.
func (r *hookRig) emitAll(ctx context.Context, workers int) error {
	var g errgroup.Group
	var next atomic.Int64
	for range workers {
		g.Go(func() error {
			for i := next.Add(1) - 1; int(i) < len(r.subjects); i = next.Add(1) - 1 {
				if err := r.emit(ctx, r.subjects[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// emitAt writes events at a rate per second for the duration load. choose returns the subject of the i-th event.
func (r *hookRig) emitAt(ctx context.Context, rate int, load time.Duration,
	choose func(i int) webhook.Subject,
) (int, error) {
	var g errgroup.Group
	g.SetLimit(64)
	total := min(int(load.Seconds()*float64(rate)), len(r.subjects))
	start := time.Now()
	for i := range total {
		if wait := time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))); wait > 0 {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(wait):
			}
		}
		s := choose(i)
		g.Go(func() error { return r.emit(ctx, s) })
	}
	return total, g.Wait()
}

// await waits until n events have arrived.
func (r *hookRig) await(ctx context.Context, n int) error {
	deadline := time.Now().Add(hookPatience)
	for r.arrived.Load() < int64(n) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("%d of %d events arrived within %v", r.arrived.Load(), n, hookPatience)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// settled waits until n deliveries are recorded, and checks that every arrival was correct. It queries the database
// only when all have arrived: counting takes a core that the program needs.
func (r *hookRig) settled(ctx context.Context, n int) error {
	if err := r.await(ctx, n); err != nil {
		return err
	}
	deadline := time.Now().Add(hookPatience)
	for {
		var recorded int
		if err := r.db.Pool().QueryRow(ctx, "SELECT count(*) FROM webhook_attempts a JOIN webhook_deliveries d ON d.id = a.delivery_id WHERE d.state = 'DELIVERED' AND d.consultation_id LIKE 'con\\_bench\\_%'").Scan(&recorded); err != nil {
			return err
		}
		if recorded >= n {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d deliveries were recorded", recorded, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if w := r.wrong.Load(); w > 0 {
		return fmt.Errorf("%d events came twice or with a wrong signature", w)
	}
	return nil
}

// latencies returns the times from commit to arrival of all events that arrived.
func (r *hookRig) latencies() *Latencies {
	l := &Latencies{}
	r.received.Range(func(id, at any) bool {
		if sent, ok := r.sent.Load(id); ok {
			l.Add(max(0, at.(time.Time).Sub(sent.(time.Time))))
		}
		return true
	})
	return l
}

func execute(ctx context.Context, db *postgres.DB, sql string, args ...any) error {
	if _, err := db.Pool().Exec(ctx, sql, args...); err != nil {
		return errors.Join(fmt.Errorf("%.60s…", sql), err)
	}
	return nil
}
