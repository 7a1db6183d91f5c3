package webhook

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// patience limits every wait for something that must happen.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-deadline:
			t.Fatalf("did not happen within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// world is a database with one service.
type world struct {
	t   *testing.T
	db  *postgres.DB
	box *seal.Box
	svc *Service
	log *syncBuffer
}

func newWorld(t *testing.T, clk clock.Clock, cfg Config) *world {
	t.Helper()
	box := sealtest.Box(t)
	w := &world{t: t, db: dbtest.NewWithClock(t, clk), box: box, log: &syncBuffer{}}
	w.svc = w.service(cfg)
	return w
}

func sandbox() Config { return Config{Sandbox: true, AllowLoopback: true, Poll: 20 * time.Millisecond} }

func (w *world) service(cfg Config) *Service {
	cfg.Logger = slog.New(slog.NewJSONHandler(w.log, nil))
	return New(w.db, w.box, cfg)
}

// run delivers and leads until the test ends or stop is called; stop waits for the end.
func (w *world) run(s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{s.Run, s.Lead} {
		all.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Errorf("run: %v", err)
			}
		})
	}
	stop = func() { cancel(); all.Wait() }
	w.t.Cleanup(stop)
	return stop
}

// dispatcher returns a dispatcher that does nothing by itself.
func (w *world) dispatcher() *dispatcher {
	w.t.Helper()
	d, err := newDispatcher(w.t.Context(), w.svc)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(d.queue.Close)
	return d
}

func (w *world) tx(f func(tx postgres.Tx) error) {
	w.t.Helper()
	if err := w.db.InTx(w.t.Context(), f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Pool().Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// application creates an application with an endpoint at url.
func (w *world) application(url string) (id, secret string) {
	w.t.Helper()
	id = w.db.Read().NewID("app")
	w.exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at)
		VALUES ($1, 'Demo CRM', '{}', '{}', '\x00', now(), now())`, id)
	w.tx(func(tx postgres.Tx) (err error) {
		secret, err = w.svc.CreateEndpoint(w.t.Context(), tx, id, url)
		return err
	})
	return id, secret
}

// consultation creates a consultation that is being matched.
func (w *world) consultation(applicationID string) Subject {
	w.t.Helper()
	client, id := w.db.Read().NewID("cli"), w.db.Read().NewID("con")
	w.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		VALUES ($1, $1 || '@client.example', 'Demo Client', '', now(), now())`, client)
	w.exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
			recording_consent, external_ref, price_cents, phone_sealed, created_at, updated_at, search_started_at)
		VALUES ($1, $2, $3, 'MATCHING', 'HOUSING', 'FR', '\x00', false, 'case-7', 2000, '\x00', now(), now(), now())`,
		id, applicationID, client)
	return Subject{ApplicationID: applicationID, ConsultationID: id, Competence: "HOUSING", ExternalRef: "case-7"}
}

func (w *world) emit(s Subject, first int64, events ...Event) {
	w.t.Helper()
	w.tx(func(tx postgres.Tx) error { return w.svc.Emit(w.t.Context(), tx, s, first, events...) })
}

var creation = []Event{{Type: Created, Status: "DRAFT"}, {Type: PaymentAuthorized, Status: "MATCHING"},
	{Type: Matching, Status: "MATCHING"}}

// deliveries lists the application's deliveries, oldest first.
func (w *world) deliveries(applicationID string) []Delivery {
	w.t.Helper()
	items, more, err := w.svc.Deliveries(w.t.Context(), w.db.Read(), applicationID, DeliveryFilter{Limit: 100})
	if err != nil || more {
		w.t.Fatalf("deliveries: more %v, %v", more, err)
	}
	slices.SortFunc(items, func(a, b Delivery) int { return int(a.Sequence - b.Sequence) })
	return items
}

func (w *world) attempts(d Delivery, applicationID string) []Attempt {
	w.t.Helper()
	items, err := w.svc.Attempts(w.t.Context(), w.db.Read(), applicationID, d.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return items
}

// settled waits until every delivery of the application has n recorded attempts.
func (w *world) settled(applicationID string, n int) []Delivery {
	w.t.Helper()
	var items []Delivery
	eventually(w.t, "attempts recorded", func() bool {
		items = w.deliveries(applicationID)
		return !slices.ContainsFunc(items, func(d Delivery) bool { return d.Attempts < n })
	})
	return items
}

// post is a request as the endpoint saw it.
type post struct {
	header http.Header
	method string
	body   []byte
	at     time.Time
}

// receiver is an endpoint that records requests and lets answer respond; n counts from 1.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	posts []post
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		r.mu.Lock()
		r.posts = append(r.posts, post{req.Header.Clone(), req.Method, body, clock.System{}.Now()})
		n := len(r.posts)
		r.mu.Unlock()
		answer(n, w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func (r *receiver) seen() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts)
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
