package desk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// process is a process that serves desks, on a shared database.
type process struct {
	*Service
	db      *postgres.DB
	lawyers *lawyer.Service
	staff   *staff.Service
}

func newProcess(t *testing.T, db *postgres.DB, box *seal.Box) *process {
	t.Helper()
	public, _, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	drop, err := seal.OpenDrop(public)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	jobs, err := queue.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	people, err := staff.New(staff.Deps{DB: db, Box: box, Queue: jobs, Mail: mail.New(jobs, box, nil),
		BaseURL: "http://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	lawyers := lawyer.New(box)
	consultations := consultation.New(consultation.Deps{DB: db, Box: box, Accounts: account.New(box),
		Applications: application.New(), Catalog: catalog.New(), Wallet: wallet.New(), Matching: matching.New(lawyers),
		Lawyers: lawyers, Webhooks: webhook.New(db, box, webhook.Config{Sandbox: true}),
		Notes: note.New(box, drop), Telephony: telephony.New(db, nil, nil, nil)})
	return &process{New(Deps{DB: db, Staff: people, Lawyers: lawyers, Consultations: consultations, Logger: log}), db,
		lawyers, people}
}

// run makes the process receive, announce and send heartbeats until the test or stop ends it.
func (p *process) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	running.Go(func() { _ = p.Announce(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

func (p *process) session(t *testing.T, token string) staff.Session {
	t.Helper()
	s, err := p.staff.Session(t.Context(), p.db.Read(), token)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// received collects the events of a stream: a state's connection and presence, or "idle".
type received struct {
	said     chan string
	versions chan string
}

func (r received) State(st State) error {
	r.versions <- st.Version
	r.said <- fmt.Sprint(st.Connection, " ", st.Presence)
	return nil
}

func (r received) Idle() error { r.said <- "idle"; return nil }

// follow opens a stream; ended receives how it ends.
func (p *process) follow(t *testing.T, token, version string) (r received, leave func(), ended <-chan error) {
	t.Helper()
	r = received{make(chan string, 50), make(chan string, 50)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	session, done, begun := p.session(t, token), make(chan error, 1), make(chan struct{})
	go func() { done <- p.Follow(ctx, token, session, version, r, func() { close(begun) }) }()
	select {
	case <-begun:
	case err := <-done:
		done <- err
	}
	return r, cancel, done
}

func (r received) expect(t *testing.T, want string) (version string) {
	t.Helper()
	for deadline := time.After(20 * time.Second); ; {
		select {
		case got := <-r.said:
			version = <-r.versions
			if got == want {
				return version
			}
		case <-deadline:
			t.Fatalf("no state %q came", want)
		}
	}
}

func newLawyer(t *testing.T, p *process) (id, token string) {
	t.Helper()
	err := p.db.InTx(t.Context(), func(tx postgres.Tx) error {
		l, err := p.lawyers.Create(t.Context(), tx, lawyer.NewLawyer{Email: "l@bar.example", Name: "Lawyer",
			Phone: "+33199000000", Competences: []string{"FAMILY"}, Languages: []string{"FR"}})
		id = l.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id, dbtest.SignIn(t, p.db, id)
}

// What is done through one process is seen at the other. A client that reconnects there with the last version misses
// nothing and gets nothing twice. The end of a process ends its streams.
func TestADeskIsLiveOverTwoProcesses(t *testing.T) {
	t.Parallel()
	db, box := dbtest.New(t), sealtest.Box(t)
	second, err := postgres.Open(t.Context(), db.Pool().Config().ConnString(),
		postgres.Options{MaxConns: 4, Test: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	a, b := newProcess(t, db, box), newProcess(t, second, box)
	stopA := a.run(t)
	b.run(t)
	id, token := newLawyer(t, a)
	seen, _, ended := a.follow(t, token, "")
	seen.expect(t, "NONE OFFLINE")
	if _, err := b.GoOnDuty(t.Context(), b.session(t, token)); err != nil {
		t.Fatal(err)
	}
	seen.expect(t, "HERE AVAILABLE")
	if err := b.Pause(t.Context(), b.session(t, token)); err != nil {
		t.Fatal(err)
	}
	last := seen.expect(t, "HERE AWAY")
	stopA()
	if err := <-ended; err != nil {
		t.Errorf("the stream of the process that ended: %v", err)
	}
	if _, _, refused := a.follow(t, token, last); !errors.Is(<-refused, problem.ErrUnavailable) {
		t.Error("a process that has ended takes a stream")
	}

	again, leave, ended := b.follow(t, token, last)
	if _, err := b.GoOnDuty(t.Context(), b.session(t, token)); err != nil {
		t.Fatal(err)
	}
	again.expect(t, "HERE AVAILABLE") // and nothing before it
	leave()
	if err := <-ended; err != nil {
		t.Errorf("the other side left: %v", err)
	}
	missed, _, ended := b.follow(t, token, last)
	missed.expect(t, "HERE AVAILABLE")

	other := dbtest.SignIn(t, db, id)
	if _, err := b.GoOnDuty(t.Context(), b.session(t, other)); err != nil {
		t.Fatal(err)
	}
	missed.expect(t, "ELSEWHERE AVAILABLE")
	if err := b.Pause(t.Context(), b.session(t, token)); !errors.Is(err, ErrElsewhere) {
		t.Errorf("the older connection acts: %v", err)
	}
	if err := b.staff.SignOut(t.Context(), db.Read(), token); err != nil {
		t.Fatal(err)
	}
	if err := b.Pause(t.Context(), b.session(t, other)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrSignedOut) {
		t.Errorf("after the session has ended: %v", err)
	}
}

// An open stream is a heartbeat of its own connection, and of no older one. The number of streams per lawyer is
// limited.
func TestAnOpenStreamRenewsThePresence(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	p := newProcess(t, db, sealtest.Box(t))
	id, token := newLawyer(t, p)
	if _, err := p.GoOnDuty(t.Context(), p.session(t, token)); err != nil {
		t.Fatal(err)
	}
	beat := func() (fresh bool) {
		t.Helper()
		if err := dbtest.Exec(t.Context(), db.Read(),
			"UPDATE lawyer_presence SET heartbeat_at = heartbeat_at - interval '20 seconds'"); err != nil {
			t.Fatal(err)
		}
		if err := p.beatAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		l, err := p.lawyers.Get(t.Context(), db.Read(), id)
		if err != nil {
			t.Fatal(err)
		}
		return l.HeartbeatAt.After(db.Read().Now.Add(-10 * time.Second))
	}
	if beat() {
		t.Error("without a stream somebody beats")
	}
	seen, leave, ended := p.follow(t, token, "")
	seen.expect(t, "HERE AVAILABLE")
	if !beat() {
		t.Error("the stream does not beat")
	}
	if _, err := p.GoOnDuty(t.Context(), p.session(t, dbtest.SignIn(t, db, id))); err != nil {
		t.Fatal(err)
	}
	seen.expect(t, "ELSEWHERE AVAILABLE")
	if beat() {
		t.Error("the stream of an older connection beats")
	}
	for range streamsAtOnce - 1 {
		p.follow(t, token, "")
	}
	if _, _, refused := p.follow(t, token, ""); !errors.Is(<-refused, problem.ErrRateLimited) {
		t.Error("there are streams without end")
	}
	leave()
	<-ended
	r, _, _ := p.follow(t, token, "")
	r.expect(t, "ELSEWHERE AVAILABLE")
}

// Errors that the rules define become problems of the desk, and other errors stay internal.
func TestFaultsAreProblemsOfTheDesk(t *testing.T) {
	t.Parallel()
	for _, f := range problems {
		if got, ok := problem.As(asProblem(fmt.Errorf("wrapped: %w", f.is))); !ok || got.Code != f.as.Code {
			t.Errorf("%v is %v", f.is, got)
		}
	}
	if _, ok := problem.As(asProblem(errors.New("disk"))); ok || asProblem(nil) != nil {
		t.Error("other errors are not passed on")
	}
	secret := asProblem(fmt.Errorf("%w: the preview has 501 characters", note.ErrInvalid))
	if got, ok := problem.As(secret); !ok || got.Code != "VALIDATION_ERROR" || !strings.Contains(got.Message, "501") {
		t.Errorf("a note that is refused: %v", secret)
	}
}
