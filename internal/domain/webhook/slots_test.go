package webhook

import (
	"testing"
	"time"
)

func messagesOf(application string, n int) []message {
	out := make([]message, n)
	for i := range out {
		out[i].applicationID = application
	}
	return out
}

func TestABacklogIsPacedWhileOthersHaveEvents(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC)
	s := newSlots(100, 10)
	s.clock = func() time.Time { return now }
	room := func(application string) int {
		_, rooms := s.plan(now)
		if n, limited := rooms[application]; limited {
			return n
		}
		return s.perEndpoint
	}
	done := func(application string, n int) bool {
		batch := make([]result, n)
		for i, m := range messagesOf(application, n) {
			batch[i].message = m
		}
		return s.free(batch, now)
	}

	if s.take(messagesOf("busy", 10), nil) {
		t.Error("an endpoint waits though it is alone")
	}
	if n := room("busy"); n != 0 {
		t.Errorf("room for %d more", n)
	}
	if !done("busy", 10) || room("busy") != 10 {
		t.Errorf("room for %d when nothing is under way", room("busy"))
	}

	now = now.Add(time.Millisecond)
	s.take(messagesOf("other", 1), nil)
	share := messagesOf("busy", 10)
	if !s.take(share, nil) {
		t.Error("a whole share was taken beside another endpoint, and nothing waits")
	}
	for i, m := range share {
		if want := time.Duration(i) * refill / 10; m.startIn != want {
			t.Errorf("attempt %d begins after %v, want %v", i, m.startIn, want)
		}
	}
	if done("busy", 4) || room("busy") != 0 {
		t.Errorf("room for %d before the refill", room("busy"))
	}
	if !done("other", 1) {
		t.Error("what the other's result lets go must be looked for at once")
	}
	now = now.Add(refill)
	if room("busy") != 4 || !done("busy", 6) || room("busy") != 10 {
		t.Errorf("room for %d after the refill", room("busy"))
	}

	part := messagesOf("busy", 9)
	if s.take(part, nil) || part[8].startIn != 0 {
		t.Error("an endpoint waits that has room")
	}
	done("busy", 9)
	now = now.Add(sharedTime)
	if s.take(messagesOf("busy", 10), nil) {
		t.Error("an endpoint waits though the others have been silent")
	}
	done("busy", 10)
	if limit, rooms := s.plan(now); limit != 100 || len(rooms) != 0 {
		t.Errorf("%d slots, rooms %v: something is left of attempts that are over", limit, rooms)
	}
}

func TestWhetherMessagesFillTheRoomOfAnEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		messages []message
		rooms    map[string]int
		want     bool
	}{
		{nil, nil, false},
		{messagesOf("a", 9), nil, false},
		{messagesOf("a", 10), nil, true},
		{append(messagesOf("a", 9), messagesOf("b", 9)...), nil, false},
		{messagesOf("a", 2), map[string]int{"a": 3, "b": 0}, false},
		{messagesOf("a", 3), map[string]int{"a": 3}, true},
	} {
		if got := fills(c.messages, c.rooms, 10); got != c.want {
			t.Errorf("%d messages in %v: %v", len(c.messages), c.rooms, got)
		}
	}
}
