package webhook

import (
	"maps"
	"sync"
	"time"

	"partnerd/internal/base/clock"
)

// While several endpoints have events, an endpoint that uses its whole share gets more only every refill. Its attempts
// are spread over that time, which leaves the machine to the others. If it is the only one with events, it is served as
// fast as it responds.
const (
	refill     = 5 * time.Millisecond
	sharedTime = time.Second // since the last claim of another endpoint
)

// slots distributes the concurrent attempts of a process. It is safe for concurrent use.
type slots struct {
	total       int              // concurrent attempts
	perEndpoint int              // how many of these at one endpoint
	clock       func() time.Time // real time

	mu       sync.Mutex
	used     int
	lanes    map[string]lane // by application; a missing one is idle and healthy
	last     string          // application of the last claim
	switched time.Time       // when the application of a claim last changed
}

// lane is the state of one endpoint.
type lane struct {
	inFlight int
	refillAt time.Time // when it may claim again after using its whole share; real time
	breaker  breaker
}

func newSlots(total, perEndpoint int) *slots {
	return &slots{total: total, perEndpoint: perEndpoint, clock: clock.System{}.Now, lanes: map[string]lane{}}
}

// plan returns how many attempts may start in total, and at each endpoint that may not start perEndpoint.
func (s *slots) plan(now time.Time) (limit int, rooms map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	crowded := 2*s.used > s.total
	rooms = make(map[string]int, len(s.lanes))
	for application, l := range s.lanes {
		waits := s.clock().Before(l.refillAt)
		if l.inFlight == 0 && l.breaker == (breaker{}) && !waits {
			delete(s.lanes, application)
			continue
		}
		if rooms[application] = l.breaker.room(s.perEndpoint, l.inFlight, crowded, now); waits {
			rooms[application] = 0
		}
	}
	return s.total - s.used, rooms
}

// take occupies the slots of what was claimed after plan returned rooms. If other endpoints need the machine, an
// endpoint that used its whole share must wait for its refill, and its messages are spaced. waits reports whether some
// do.
func (s *slots) take(messages []message, rooms map[string]int) (waits bool) {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := map[string]int{}
	for _, m := range messages {
		taken[m.applicationID]++
		if s.last != "" && s.last != m.applicationID {
			s.switched = now
		}
		s.last = m.applicationID
	}
	s.used += len(messages)
	paced := map[string]time.Duration{} // from one attempt to the next
	for application, n := range taken {
		room, limited := rooms[application]
		if !limited {
			room = s.perEndpoint
		}
		l := s.lanes[application]
		l.inFlight += n
		if n >= room && now.Sub(s.switched) < sharedTime {
			l.refillAt, paced[application] = now.Add(refill), refill/time.Duration(n)
		}
		s.lanes[application] = l
	}
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		taken[m.applicationID]--
		m.startIn = paced[m.applicationID] * time.Duration(taken[m.applicationID])
	}
	return len(paced) > 0
}

// fills reports whether messages use the whole share of an endpoint, which is in rooms or otherwise room.
func fills(messages []message, rooms map[string]int, room int) bool {
	left := make(map[string]int, len(rooms))
	maps.Copy(left, rooms)
	for _, m := range messages {
		n, limited := left[m.applicationID]
		if !limited {
			n = room
		}
		if n <= 1 {
			return true
		}
		left[m.applicationID] = n - 1
	}
	return false
}

// free releases the slots of a batch, and reports whether one of its endpoints is not waiting for a refill.
func (s *slots) free(batch []result, now time.Time) (ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= len(batch)
	for _, r := range batch {
		l := s.lanes[r.applicationID]
		l.inFlight--
		l.breaker = l.breaker.after(r.outcome, now)
		s.lanes[r.applicationID] = l
		ready = ready || !s.clock().Before(l.refillAt)
	}
	return ready
}

// onlyInFlight reports whether exactly n attempts are in progress.
func (s *slots) onlyInFlight(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used == n
}
