package desk

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/poll"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

const (
	beatEvery     = 10 * time.Second
	beatBatch     = 250              // leases renewed per statement
	idleEvery     = 15 * time.Second // on a stream without events
	streamLife    = 2 * time.Minute
	streamsAtOnce = 4 // per lawyer, in this process
	busyFor       = 10 * time.Second
)

// ErrSignedOut ends a stream whose session has ended.
var ErrSignedOut = errors.New("the session has ended")

// channel notifies other processes of the desks that have changed.
const channel = "partnerd_desks"

// Deps are the dependencies of a [Service].
type Deps struct {
	DB            *postgres.DB
	Staff         *staff.Service
	Lawyers       *lawyer.Service
	Consultations *consultation.Service
	Notes         *note.Service
	Logger        *slog.Logger
}

// Service manages the lawyers' desks. Safe for concurrent use.
type Service struct {
	deps   Deps
	others *postgres.Channel
	open   prometheus.Gauge

	mu      sync.Mutex
	streams map[string][]*stream // by lawyer ID
	closed  bool                 // no stream begins or continues
}

// stream is an open stream.
type stream struct {
	notify chan struct{} // signals that something may have changed
	end    chan struct{} // closed when the process ends the stream
	lease  lawyer.Lease  // lease to renew; zero unless its connection is the current one. Guarded by the service's mu
}

// New creates the service and registers it for changes to lawyers in this process.
func New(d Deps) *Service {
	s := &Service{deps: d, others: d.DB.Channel(channel, d.Logger), streams: map[string][]*stream{},
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "partnerd_desk_streams",
			Help: "Open event streams of lawyers' desks in this process."})}
	d.Lawyers.Watch(func(lawyerID string) {
		s.notify(lawyerID)
		s.others.Send(lawyerID)
	})
	return s
}

// Collector exposes the number of open streams.
func (s *Service) Collector() prometheus.Collector { return s.open }

// Announce sends other processes the changes of this one, until ctx ends. Every process must run it.
func (s *Service) Announce(ctx context.Context) error {
	s.others.Tell(ctx)
	return nil
}

// Run receives changes of other processes and renews the leases of this process's streams. When ctx ends, it ends the
// streams. It is for processes that serve requests.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.closed = false
	s.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { s.others.Listen(ctx, s.receive) })
	_ = poll.Loop{Name: "desk heartbeats", Every: beatEvery, Log: s.deps.Logger}.Run(ctx,
		func(ctx context.Context) (bool, error) { return false, s.beatAll(ctx) })
	s.mu.Lock()
	s.closed = true
	for _, list := range s.streams {
		for _, st := range list {
			close(st.end)
		}
	}
	clear(s.streams)
	s.mu.Unlock()
	running.Wait()
	return nil
}

// receive makes the streams of a lawyer look again; without a name, all streams.
func (s *Service) receive(lawyerID string) {
	if lawyerID != "" {
		s.notify(lawyerID)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.streams {
		notifyAll(list)
	}
}

func (s *Service) notify(lawyerID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notifyAll(s.streams[lawyerID])
}

func notifyAll(list []*stream) {
	for _, st := range list {
		select {
		case st.notify <- struct{}{}:
		default:
		}
	}
}

func (s *Service) beatAll(ctx context.Context) error {
	s.mu.Lock()
	var leases []lawyer.Lease
	for _, list := range s.streams {
		for _, st := range list {
			if st.lease.LawyerID != "" {
				leases = append(leases, st.lease)
			}
		}
	}
	s.mu.Unlock()
	for some := range slices.Chunk(leases, beatBatch) {
		lost, err := s.deps.Lawyers.BeatAll(ctx, s.deps.DB.Read(), some...)
		if err != nil {
			return err
		}
		for _, l := range lost {
			s.notify(l.LawyerID)
		}
	}
	return nil
}

// begin registers a stream. Problems: RATE_LIMITED beyond [streamsAtOnce], UNAVAILABLE while the process shuts down.
func (s *Service) begin(lawyerID string) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, problem.ErrUnavailable
	case len(s.streams[lawyerID]) >= streamsAtOnce:
		return nil, problem.ErrRateLimited.Because("This lawyer has too many open streams. Close one, or retry later.").
			After(busyFor)
	}
	st := &stream{notify: make(chan struct{}, 1), end: make(chan struct{})}
	s.streams[lawyerID] = append(s.streams[lawyerID], st)
	s.open.Inc()
	return st, nil
}

func (s *Service) finish(lawyerID string, st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Dec()
	rest := slices.DeleteFunc(s.streams[lawyerID], func(other *stream) bool { return other == st })
	if len(rest) == 0 {
		delete(s.streams, lawyerID)
		return
	}
	s.streams[lawyerID] = rest
}

func (s *Service) keep(st *stream, lease lawyer.Lease) {
	s.mu.Lock()
	st.lease = lease
	s.mu.Unlock()
}

// Stream is the output of [Service.Follow].
type Stream interface {
	State(st State) error // a state that the other side does not have
	Idle() error          // nothing happened for a while
}

// Follow writes the states of a session's desk to out. It begins with the current state, unless the other side has that
// version. While it runs and the session is the current connection, the lawyer counts as present.
//
// It returns nil when ctx, the process or the stream's time ends, [ErrSignedOut] when the session ends, or the error of
// out. begun is called once the stream is registered. Before that, it may return the problems RATE_LIMITED and
// UNAVAILABLE.
func (s *Service) Follow(ctx context.Context, token string, session staff.Session, version string, out Stream,
	begun func(),
) error {
	lawyerID := session.Person.LawyerID
	st, err := s.begin(lawyerID)
	if err != nil {
		return err
	}
	defer s.finish(lawyerID, st)
	begun()
	// spread, so that streams opened at the same time do not reconnect at the same time
	life := time.NewTimer(streamLife - rand.N(streamLife/8))
	defer life.Stop()
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	for {
		state, err := s.look(ctx, token, st)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if state.Version != version {
			if err := out.State(state); err != nil {
				return err
			}
			version = state.Version
			idle.Reset(idleEvery)
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case <-st.end:
				return nil
			case <-life.C:
				return nil
			case <-idle.C:
				if err := out.Idle(); err != nil {
					return err
				}
				if again, err = s.otherWaiting(ctx, state); err != nil && ctx.Err() == nil {
					return err
				}
			case <-st.notify:
				again = true
			}
		}
	}
}

// look reads the session again, because it may have ended, or the lawyer may have gone on duty in the meantime.
func (s *Service) look(ctx context.Context, token string, st *stream) (State, error) {
	session, err := s.deps.Staff.Session(ctx, s.deps.DB.Read(), token)
	if errors.Is(err, staff.ErrNoSession) {
		return State{}, ErrSignedOut
	}
	if err != nil {
		return State{}, err
	}
	if err := s.Admit(ctx, session, "streamEvents"); errors.Is(err, ErrOut) {
		return State{}, ErrSignedOut
	} else if err != nil {
		return State{}, err
	}
	state, err := s.State(ctx, s.deps.DB.Read(), session)
	if err != nil {
		return State{}, err
	}
	lease := lawyer.Lease{}
	if state.Connection == Here {
		lease = leaseOf(session)
	}
	s.keep(st, lease)
	return state, nil
}
