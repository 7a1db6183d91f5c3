package consultation

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/webhook"
)

var noon = time.Date(2030, 5, 6, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// ready returns a consultation in a status whose guards all pass at noon, except the guards about time, which the
// trigger selects.
func ready(s Status, t trigger) Consultation {
	c := Consultation{ID: "con_1", Status: s, Price: Price, CreatedAt: noon, SearchStartedAt: noon, LawyerID: "law_1",
		DialAttempts: 3, FirstDialAt: ptr(noon), LastDialAt: ptr(noon), AssignedAt: ptr(noon), DurationSec: ptr(30),
		EndReason: WrongPerson, CallbackDueAt: ptr(noon.Add(time.Hour)), CallableFrom: ptr(noon.Add(-time.Hour)),
		CallableUntil: ptr(noon.Add(2 * time.Hour))}
	switch t {
	case onSearchOver, onLawyerLostLate:
		c.SearchStartedAt = noon.Add(-SearchLimit)
	case onCallbackMissed:
		c.CallbackDueAt = ptr(noon)
	case onRefund:
		c.Refunded = Price
	case onSubmitNote:
		c.CallEndedAt = ptr(noon)
	case onNoteMissing:
		c.CallEndedAt = ptr(noon.Add(-NoteLimit))
	}
	return c
}

// allowed is the specification of the machine, written a second time: row, status, trigger, next status, money, events.
var allowed = []struct {
	row    string
	from   Status
	on     trigger
	to     Status
	money  movement
	events string
}{
	{"X1", none, onCreate, Draft, noMoney, "created"},
	{"X2", Draft, onAuthorize, Matching, holdMoney, "payment_authorized matching"},
	{"X3", Matching, onAccept, Assigned, noMoney, "assigned"},
	{"X4", Matching, onSearchOver, PendingCallback, noMoney, "pending_callback"},
	{"X5", PendingCallback, onAccept, Assigned, noMoney, "assigned"},
	{"X6", Assigned, onBridge, InCall, noMoney, "call_started"},
	{"X7", Assigned, onLawyerLost, Matching, noMoney, "matching"},
	{"X8", Assigned, onLawyerLostLate, PendingCallback, noMoney, "pending_callback"},
	{"X9", Assigned, onClientUnreached, Expired, releaseMoney, "expired refunded"},
	{"X9", Assigned, onPhoneLost, Expired, releaseMoney, "expired refunded"},
	{"X10", InCall, onCallOver, CallEnded, noMoney, "call_ended"},
	{"X11", CallEnded, onSubmitNote, Completed, captureMoney, "note_available completed"},
	{"X12", CallEnded, onNoUsefulCall, Expired, releaseMoney, "expired refunded"},
	{"X12", CallEnded, onNoteMissing, Expired, releaseMoney, "expired refunded"},
	{"X13", Matching, onCancel, Cancelled, releaseMoney, "cancelled refunded"},
	{"X13", PendingCallback, onCancel, Cancelled, releaseMoney, "cancelled refunded"},
	{"X13", Assigned, onCancel, Cancelled, releaseMoney, "cancelled refunded"},
	{"X14", PendingCallback, onCallbackMissed, Expired, releaseMoney, "expired refunded"},
	{"X15", Completed, onRefund, Completed, refundMoney, "refunded"},
	{"X16", Completed, onSubmitNote, Completed, noMoney, "note_available"},
}

// TestEveryPairOfStatusAndTriggerIsDecided checks the complete matrix: what is listed above happens, and nothing else.
func TestEveryPairOfStatusAndTriggerIsDecided(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range append(Statuses(), none) {
		for _, on := range triggers() {
			i := slices.IndexFunc(allowed, func(a struct {
				row    string
				from   Status
				on     trigger
				to     Status
				money  movement
				events string
			}) bool {
				return a.from == s && a.on == on
			})
			before := ready(s, on)
			after, st, err := advance(before, on, noon)
			if i < 0 {
				if !errors.Is(err, ErrForbidden) || after.Status != s {
					t.Errorf("%s in %q: want refused, got %q, %v", on, s, after.Status, err)
				}
				continue
			}
			seen++
			want := allowed[i]
			var events []string
			for _, e := range eventsOf(after, st) {
				if e.Status != string(want.to) {
					t.Errorf("%s: data.status %s, want %s", want.row, e.Status, want.to)
				}
				events = append(events, strings.TrimPrefix(string(e.Type), "consultation."))
			}
			if err != nil || after.Status != want.to || st.row != want.row || st.money != want.money ||
				strings.Join(events, " ") != want.events {
				t.Errorf("%s in %q: got %s %s %q %v (%v), want %+v", on, s, st.row, after.Status, st.money, events,
					err, want)
			}
			if after.UpdatedAt != noon {
				t.Errorf("%s: updatedAt %v", want.row, after.UpdatedAt)
			}
		}
	}
	if seen != len(allowed) {
		t.Errorf("the matrix has %d steps, want %d", seen, len(allowed))
	}
}

func TestEveryEventTypeIsReached(t *testing.T) {
	t.Parallel()
	reached := map[webhook.Type]bool{}
	for _, steps := range table {
		for _, st := range steps {
			for _, e := range st.events {
				reached[e] = true
			}
		}
	}
	for _, e := range webhook.Types {
		if !reached[e] {
			t.Errorf("no step emits %s", e)
		}
	}
}

// A step sends refunded exactly if money returns to the client (R127).
func TestMoneyReturnsExactlyWithRefunded(t *testing.T) {
	t.Parallel()
	for from, steps := range table {
		for on, st := range steps {
			back := st.money == releaseMoney || st.money == refundMoney
			if said := slices.Contains(st.events, webhook.Refunded); said != back {
				t.Errorf("%s in %s: money back %v, refunded said %v", on, from, back, said)
			}
			if after, _, err := advance(ready(from, on), on, noon); err != nil || (after.RefundedAt != nil) != back {
				t.Errorf("%s in %s: refundedAt %v (%v)", on, from, after.RefundedAt, err)
			}
		}
	}
}

func TestGuards(t *testing.T) {
	t.Parallel()
	late := func(d time.Duration) time.Time { return noon.Add(d) }
	for _, tc := range []struct {
		name   string
		change func(*Consultation)
		from   Status
		on     trigger
		at     time.Time
		ok     bool
	}{
		{"accept at 29:59", nil, Matching, onAccept, late(SearchLimit - time.Second), true},
		{"accept at 30:00", nil, Matching, onAccept, late(SearchLimit), false},
		{"search over at 29:59", nil, Matching, onSearchOver, late(SearchLimit - time.Second), false},
		{"search over at 30:00", nil, Matching, onSearchOver, late(SearchLimit), true},
		{"callback accepted just in time", nil, PendingCallback, onAccept, late(time.Hour - time.Microsecond), true},
		{"callback accepted too late", nil, PendingCallback, onAccept, late(time.Hour), false},
		{"callback missed early", nil, PendingCallback, onCallbackMissed, late(time.Hour - time.Microsecond), false},
		{"callback missed", nil, PendingCallback, onCallbackMissed, late(time.Hour), true},
		{"back to the search", nil, Assigned, onLawyerLost, late(SearchLimit - 1), true},
		{"back to the search too late", nil, Assigned, onLawyerLost, late(SearchLimit), false},
		{"unreached after two attempts", func(c *Consultation) { c.DialAttempts = 2 }, Assigned, onClientUnreached,
			noon, false},
		{"call over without a duration", func(c *Consultation) { c.DurationSec = nil }, InCall, onCallOver,
			noon, false},
		{"call of 1201 s", func(c *Consultation) { c.DurationSec = ptr(1201) }, InCall, onCallOver, noon, false},
		{"too short at 59 s", func(c *Consultation) { c.EndReason, c.DurationSec = TooShort, ptr(59) }, CallEnded,
			onNoUsefulCall, noon, true},
		{"too short at 60 s", func(c *Consultation) { c.EndReason, c.DurationSec = TooShort, ptr(60) }, CallEnded,
			onNoUsefulCall, noon, false},
		{"useless without a reason", func(c *Consultation) { c.EndReason = "" }, CallEnded, onNoUsefulCall,
			noon, false},
		{"note just in time", func(c *Consultation) { c.CallEndedAt = ptr(noon) }, CallEnded, onSubmitNote,
			late(NoteLimit - time.Microsecond), true},
		{"note after seven days", func(c *Consultation) { c.CallEndedAt = ptr(noon) }, CallEnded, onSubmitNote,
			late(NoteLimit), false},
		{"note given up early", func(c *Consultation) { c.CallEndedAt = ptr(noon) }, CallEnded, onNoteMissing,
			late(NoteLimit - time.Microsecond), false},
		{"note given up", func(c *Consultation) { c.CallEndedAt = ptr(noon) }, CallEnded, onNoteMissing,
			late(NoteLimit), true},
		{"refund of nothing", func(c *Consultation) { c.Refunded = 0 }, Completed, onRefund, noon, false},
		{"refund above the price", func(c *Consultation) { c.Refunded = Price + 1 }, Completed, onRefund, noon, false},
		{"second refund", func(c *Consultation) { c.RefundedAt = ptr(noon) }, Completed, onRefund, noon, false},
	} {
		c := ready(tc.from, onAccept)
		if tc.on == onRefund {
			c.Refunded = Price
		}
		if tc.change != nil {
			tc.change(&c)
		}
		if _, _, err := advance(c, tc.on, tc.at); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestCallbackDueIsKeptOverX8(t *testing.T) {
	t.Parallel()
	c := ready(Assigned, onLawyerLostLate)
	due := *c.CallbackDueAt
	if after, _, err := advance(c, onLawyerLostLate, noon); err != nil || !after.CallbackDueAt.Equal(due) {
		t.Errorf("due %v (%v), want %v", after.CallbackDueAt, err, due)
	}
	c.CallbackDueAt = nil
	after, _, err := advance(c, onLawyerLostLate, noon)
	if err != nil || !after.CallbackDueAt.Equal(noon.Add(CallbackGuarantee)) {
		t.Errorf("due %v (%v), want 24 h from now", after.CallbackDueAt, err)
	}
	if after.LawyerID != "" || after.AssignedAt != nil || after.DialAttempts != 0 {
		t.Errorf("the assignment is not cleared: %+v", after)
	}
}

// TestTheDiagramIsTheTable reads the diagram from doc.go.
func TestTheDiagramIsTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	arrow := regexp.MustCompile(`(?m)^//\t    (\S+) --> (\S+): (.+)$`)
	var drawn []string
	for _, m := range arrow.FindAllStringSubmatch(string(text), -1) {
		drawn = append(drawn, fmt.Sprintf("%s --> %s: %s", m[1], m[2], m[3]))
	}
	var want []string
	for from, steps := range table {
		for on, st := range steps {
			line := fmt.Sprintf("%s --> %s: %s %s", from, st.to, st.row, on)
			if from == none {
				line = fmt.Sprintf("[*] --> %s: %s %s", st.to, st.row, on)
			}
			if st.money != noMoney {
				line += ", " + string(st.money)
			}
			want = append(want, line)
		}
	}
	slices.Sort(drawn)
	slices.Sort(want)
	if !slices.Equal(drawn, want) {
		t.Errorf("drawn:\n%s\n\ntable:\n%s", strings.Join(drawn, "\n"), strings.Join(want, "\n"))
	}
}

// A consultation can reach exactly the statuses that the steps of the table lead to, one after the other. It reaches
// MATCHING again only within the search time.
func TestReachableIsWhatStepsLeadTo(t *testing.T) {
	t.Parallel()
	every := []Status{Matching, PendingCallback, Assigned, InCall, CallEnded, Completed, Cancelled, Expired}
	for _, tt := range []struct {
		from Status
		late bool
		want []Status
	}{
		{Matching, false, every},
		{Assigned, false, every},
		{Matching, true, every},
		{PendingCallback, true, every[1:]},
		{Assigned, true, every[1:]},
		{InCall, false, []Status{InCall, CallEnded, Completed, Expired}},
		{CallEnded, true, []Status{CallEnded, Completed, Expired}},
		{Completed, true, []Status{Completed}},
		{Cancelled, true, []Status{Cancelled}},
		{Expired, true, []Status{Expired}},
	} {
		now := noon
		if tt.late {
			now = noon.Add(SearchLimit)
		}
		if got := (Consultation{Status: tt.from, SearchStartedAt: noon}).Reachable(now); !slices.Equal(got, tt.want) {
			t.Errorf("from %s, late %v: %v, want %v", tt.from, tt.late, got, tt.want)
		}
	}
}
