package telephony

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func at(sec float64) time.Time { return t0.Add(time.Duration(sec * float64(time.Second))) }

func answered(r Role) Event         { return Event{Kind: LegAnswered, Role: r} }
func machineOn(r Role) Event        { return Event{Kind: LegMachine, Role: r} }
func failed(r Role, w string) Event { return Event{Kind: LegFailed, Role: r, Reason: w} }

var (
	keyed   = Event{Kind: LegDigits, Role: Lawyer, Digits: "1"}
	unkeyed = Event{Kind: LegDigits, Role: Lawyer}
)

func digits(d string) Event        { return Event{Kind: LegDigits, Role: Client, Digits: d} }
func ended(by Role, sec int) Event { return Event{Kind: CallOver, By: by, DurationSec: sec} }
func joinedAt(sec float64) Event   { return Event{Kind: LegsJoined, At: at(sec)} }
func lawyerLeft(sec float64) Event { return Event{Kind: LegsParted, By: Lawyer, At: at(sec)} }
func partedAt(sec float64) Event   { return Event{Kind: LegsParted, By: Client, At: at(sec)} }

// play applies events one second apart, unless they have their own time. It returns the call, the outcomes and the
// kinds of the commands.
func play(c Call, events ...Event) (Call, []Outcome, []commandKind) {
	var outcomes []Outcome
	var commands []commandKind
	var marks []mark
	for i, e := range events {
		now := at(float64(i + 1))
		if e.At.IsZero() {
			e.At = now
		}
		m, fits := apply(c, e, marks, latest(now, e.At))
		if fits && triggerOf(e) == line {
			marks = append(marks, mark{joined: e.Kind == LegsJoined, at: m.event.At})
		}
		c = m.call
		outcomes = append(outcomes, m.outcomes...)
		for _, o := range m.orders {
			commands = append(commands, o.kind)
		}
	}
	return c, outcomes, commands
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func newCall() Call { return Call{ID: "cal_1", State: LawyerRinging, StartedAt: t0} }

func kinds(o []Outcome) []OutcomeKind {
	k := make([]OutcomeKind, len(o))
	for i := range o {
		k[i] = o[i].Kind
	}
	return k
}

func TestCallsEndAsTheirEventsSay(t *testing.T) {
	t.Parallel()
	up := []Event{answered(Lawyer), keyed, answered(Client), digits("1")}
	with := func(more ...Event) []Event { return append(slices.Clone(up), more...) }
	tests := []struct {
		name     string
		events   []Event
		state    State
		outcomes []OutcomeKind
		reason   string
		sec      int
	}{
		{"the lawyer does not answer", []Event{failed(Lawyer, NoAnswer)}, Ended, []OutcomeKind{LawyerNotReached},
			NoAnswer, 0},
		{"the lawyer presses nothing", []Event{answered(Lawyer), unkeyed}, Ended, []OutcomeKind{LawyerNotReached},
			NotConfirmed, 0},
		{"the lawyer presses 7", []Event{answered(Lawyer), {Kind: LegDigits, Role: Lawyer, Digits: "7"}}, Ended,
			[]OutcomeKind{LawyerNotReached}, NotConfirmed, 0},
		{"the lawyer's voicemail, detected late", []Event{answered(Lawyer), machineOn(Lawyer)}, Ended,
			[]OutcomeKind{LawyerNotReached}, Voicemail, 0},
		{"the lawyer hangs up on the prompt", []Event{answered(Lawyer), failed(Lawyer, HungUp)}, Ended,
			[]OutcomeKind{LawyerNotReached}, HungUp, 0},
		{"the provider gives up on the lawyer's prompt", []Event{answered(Lawyer), ended("", 0)}, Ended,
			[]OutcomeKind{LawyerNotReached}, HungUp, 0},
		{"a lawyer who pressed 1 and is taken for a machine",
			[]Event{answered(Lawyer), keyed, machineOn(Lawyer), answered(Client)}, Confirming, nil, "", 0},
		{"the lawyer's voicemail", []Event{machineOn(Lawyer)}, Ended, []OutcomeKind{LawyerNotReached}, Voicemail, 0},
		{"the lawyer hangs up while the client is rung", []Event{answered(Lawyer), keyed, ended(Lawyer, 0)}, Ended,
			[]OutcomeKind{LawyerNotReached}, HungUp, 0},
		{"the client does not answer", []Event{answered(Lawyer), keyed, failed(Client, NoAnswer)}, Ended,
			[]OutcomeKind{NotReached}, NoAnswer, 0},
		{"the client is busy", []Event{answered(Lawyer), keyed, failed(Client, Busy)}, Ended,
			[]OutcomeKind{NotReached}, Busy, 0},
		{"the number is invalid", []Event{answered(Lawyer), keyed, failed(Client, Invalid)}, Ended,
			[]OutcomeKind{NotReached}, Invalid, 0},
		{"the carrier fails", []Event{answered(Lawyer), keyed, failed(Client, Carrier)}, Ended,
			[]OutcomeKind{NotReached}, Carrier, 0},
		{"voicemail", []Event{answered(Lawyer), keyed, machineOn(Client)}, Ended, []OutcomeKind{NotReached},
			Voicemail, 0},
		{"voicemail, detected late", []Event{answered(Lawyer), keyed, answered(Client), machineOn(Client)}, Ended,
			[]OutcomeKind{NotReached}, Voicemail, 0},
		{"the client presses nothing", []Event{answered(Lawyer), keyed, answered(Client), digits("")}, Ended,
			[]OutcomeKind{NotReached}, NotConfirmed, 0},
		{"the client presses 2", []Event{answered(Lawyer), keyed, answered(Client), digits("2")}, Ended,
			[]OutcomeKind{NotReached}, NotConfirmed, 0},
		{"the client hangs up on the prompt", []Event{answered(Lawyer), keyed, answered(Client), ended(Client, 0)},
			Ended, []OutcomeKind{NotReached}, HungUp, 0},
		{"the provider gives up on the prompt", []Event{answered(Lawyer), keyed, answered(Client), ended("", 0)}, Ended,
			[]OutcomeKind{NotReached}, Carrier, 0},
		{"the client is gone before both are joined", with(ended(Client, 0)), Ended, []OutcomeKind{NotReached},
			HungUp, 0},
		{"joined", with(joinedAt(4)), Bridged, []OutcomeKind{Started}, "", 0},
		{"a talk", with(joinedAt(4), Event{Kind: CallOver, By: Lawyer, At: at(94.9)}), Ended,
			[]OutcomeKind{Started, Finished}, "by_lawyer", 90},
		{"a talk of 25 minutes is capped", with(joinedAt(4), Event{Kind: CallOver, At: at(4 + 1500)}), Ended,
			[]OutcomeKind{Started, Finished}, "by_provider", 1200},
		{"a drop", with(joinedAt(4), partedAt(14)), Lost, []OutcomeKind{Started, Dropped}, "", 0},
		{"a drop and a restoration", with(joinedAt(4), partedAt(14.4), answered(Client), joinedAt(30),
			Event{Kind: CallOver, At: at(40.7)}),
			Ended, []OutcomeKind{Started, Dropped, Restored, Finished}, "by_provider", 21},
		{"a drop for good", with(joinedAt(4), partedAt(14), failed(Client, NoAnswer),
			Event{Kind: CallOver, At: at(100)}),
			Ended, []OutcomeKind{Started, Dropped, Finished}, "by_provider", 10},
		{"the drop overtakes the joining", with(partedAt(14), joinedAt(4)), Lost,
			[]OutcomeKind{Started, Dropped}, "", 0},
		{"the end overtakes the whole talk", with(Event{Kind: CallOver, By: Client, DurationSec: 90, At: at(100)},
			joinedAt(10)),
			Ended, []OutcomeKind{Started, Finished}, "by_client", 90},
		{"what comes after the end is ignored", with(joinedAt(4), Event{Kind: CallOver, At: at(14)}, partedAt(13),
			joinedAt(20), ended("", 3)),
			Ended, []OutcomeKind{Started, Finished}, "by_provider", 10},
		{"ringing after the answer", []Event{answered(Lawyer), keyed, {Kind: LegRinging, Role: Lawyer}}, ClientRinging,
			nil, "", 0},
		{"the lawyer's second key counts for nothing", []Event{answered(Lawyer), keyed, answered(Client), keyed},
			Confirming, nil, "", 0},
		{"the lawyer drops, and the line is restored with his key", with(joinedAt(4), lawyerLeft(14), answered(Lawyer),
			keyed, joinedAt(30), Event{Kind: CallOver, At: at(40.7)}),
			Ended, []OutcomeKind{Started, Dropped, Restored, Finished}, "by_provider", 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, outcomes, _ := play(newCall(), tt.events...)
			if c.State != tt.state || !slices.Equal(kinds(outcomes), tt.outcomes) {
				t.Fatalf("got %s %v, want %s %v", c.State, kinds(outcomes), tt.state, tt.outcomes)
			}
			if c.Reason != tt.reason {
				t.Errorf("reason %q, want %q", c.Reason, tt.reason)
			}
			if n := len(outcomes); n > 0 && outcomes[n-1].DurationSec != tt.sec {
				t.Errorf("duration %d s, want %d s", outcomes[n-1].DurationSec, tt.sec)
			}
			if c.State == Ended && c.result() != outcomes[len(outcomes)-1] {
				t.Errorf("the call remembers %+v, and told %+v", c.result(), outcomes[len(outcomes)-1])
			}
		})
	}
}

func TestCommandsFollowTheScriptOfACall(t *testing.T) {
	t.Parallel()
	up := []Event{answered(Lawyer), keyed, answered(Client), digits("1"), joinedAt(4)}
	setup := []commandKind{cmdPlay, cmdCollect, cmdBridge, cmdPlaceLeg, cmdPlay, cmdCollect, cmdBridge}
	if _, _, got := play(newCall(), up...); !slices.Equal(got, setup) {
		t.Errorf("got %v, want %v", got, setup)
	}
	_, _, got := play(newCall(), append(slices.Clone(up), partedAt(9), answered(Client))...)
	if want := append(slices.Clone(setup), cmdPlaceLeg, cmdBridge); !slices.Equal(got, want) {
		t.Errorf("after a drop got %v, want %v", got, want)
	}
	_, _, got = play(newCall(), append(slices.Clone(up), lawyerLeft(9), answered(Lawyer))...)
	if want := append(slices.Clone(setup), cmdPlaceLeg, cmdPlay, cmdCollect); !slices.Equal(got, want) {
		t.Errorf("a lawyer who dropped and answers: got %v, want %v", got, want)
	}
	_, _, got = play(newCall(), answered(Lawyer), keyed, machineOn(Client))
	if want := []commandKind{cmdPlay, cmdCollect, cmdBridge, cmdPlaceLeg, cmdHangup}; !slices.Equal(got, want) {
		t.Errorf("voicemail: got %v, want %v", got, want)
	}
}

// A trigger missing in the table is ignored: the call stays the same, except for the time of the last event.
func TestEveryStateDecidesEveryTrigger(t *testing.T) {
	t.Parallel()
	events := map[trigger]Event{
		lawyerAnswered: answered(Lawyer), lawyerMachine: machineOn(Lawyer), lawyerConfirmed: keyed,
		lawyerUnconfirmed: unkeyed, lawyerFailed: failed(Lawyer, Busy), clientAnswered: answered(Client),
		clientMachine: machineOn(Client), clientFailed: failed(Client, Busy), clientConfirmed: digits("1"),
		clientUnconfirmed: digits(""), line: joinedAt(50), over: ended(Client, 0),
		nothing: {Kind: LegRinging, Role: Client},
	}
	first := at(1)
	for _, s := range []State{LawyerRinging, LawyerConfirming, ClientRinging, Confirming, Bridging, Bridged,
		Lost, Ended} {
		if _, ok := table[s]; !ok {
			t.Fatalf("no row for %s", s)
		}
		for tr, e := range events {
			if got := triggerOf(e); got != tr {
				t.Fatalf("%+v is %s, want %s", e, got, tr)
			}
			c := newCall()
			c.State = s
			switch s {
			case Bridged:
				c.JoinedAt, c.BridgedAt = &first, &first
			case Lost:
				c.JoinedAt, c.LostAt = &first, &first
			case Ended:
				c.EndedAt, c.Outcome = &first, Aborted
			}
			_, want := table[s][tr]
			m, fits := apply(c, e, []mark{{true, first}}, at(60))
			if fits != want {
				t.Errorf("%s in %s: fits = %v, want %v", tr, s, fits, want)
			}
			c.LastEventAt = at(60)
			if !fits && (m.call != c || m.orders != nil || m.outcomes != nil) {
				t.Errorf("%s in %s does not fit and has an effect", tr, s)
			}
			if s == Ended && m.call.State != Ended {
				t.Errorf("%s leaves ENDED", tr)
			}
		}
	}
}

// A paid call starts only after both have pressed 1, and the client is rung only after the lawyer has, whatever the
// provider reports.
func TestNothingStartsBeforeBothPressed1(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, marks, pressed, keys := newCall(), []mark(nil), false, false
		for i := range rapid.IntRange(1, 12).Draw(t, "n") {
			e := rapid.SampledFrom([]Event{answered(Lawyer), keyed, keyed, unkeyed, machineOn(Lawyer), answered(Client),
				machineOn(Client), digits("1"), digits("3"), {Kind: LegsJoined}, {Kind: LegsParted, By: Client},
				{Kind: LegsParted, By: Lawyer}, ended(Client, 40), failed(Client, Busy),
				{Kind: LegRinging, Role: Client}}).Draw(t, "event")
			e.At = at(float64(i))
			before := c.State
			m, fits := apply(c, e, marks, at(float64(i)))
			if fits && triggerOf(e) == line {
				marks = append(marks, mark{joined: e.Kind == LegsJoined, at: e.At})
			}
			if triggerOf(e) == lawyerConfirmed && fits {
				keys = true
			}
			for _, o := range m.orders {
				if o.kind == cmdPlaceLeg && o.args.Role == Client && !keys {
					t.Fatalf("the client is rung by %+v in %s", e, before)
				}
				if o.kind == cmdBridge && o.args.Role == Lawyer && triggerOf(e) != lawyerConfirmed {
					t.Fatalf("the lawyer is let in by %+v in %s", e, before)
				}
			}
			pressed = pressed || before == Confirming && e.Kind == LegDigits && e.Digits == "1"
			for _, o := range m.outcomes {
				if o.Kind == Started && !(pressed && keys) {
					t.Fatalf("started by %+v in %s", e, before)
				}
			}
			if m.call.JoinedAt != nil && !pressed {
				t.Fatalf("joined by %+v in %s", e, before)
			}
			c = m.call
		}
	})
}

// The joined time does not depend on the order in which changes of the line arrive, once all have arrived.
func TestJoinedTimeDoesNotDependOnTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var marks []mark
		var want time.Duration
		now := t0
		for range rapid.IntRange(1, 4).Draw(t, "stretches") {
			now = now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "pause")) * time.Millisecond)
			marks = append(marks, mark{true, now})
			talk := time.Duration(rapid.IntRange(1, 60000).Draw(t, "talk")) * time.Millisecond
			now, want = now.Add(talk), want+talk
			marks = append(marks, mark{false, now})
		}
		first := marks[0].at
		shuffled := rapid.Permutation(marks).Draw(t, "arrival")
		gotFirst, got, since, up := talk(shuffled)
		if !gotFirst.Equal(first) || got != want || !since.Equal(now) || up {
			t.Fatalf("got %v from %v, line %v since %v; want %v from %v", got, gotFirst, up, since, want, first)
		}
	})
}

func TestEndFromOurSide(t *testing.T) {
	t.Parallel()
	joined, lost := at(10), at(20)
	tests := []struct {
		name   string
		call   Call
		reason string
		want   Outcome
	}{
		{"joined", Call{State: Bridged, JoinedAt: &joined, BridgedAt: &joined}, "cap",
			Outcome{Kind: Finished, DurationSec: 90, Reason: "cap"}},
		{"lost", Call{State: Lost, JoinedAt: &joined, LostAt: &lost, Joined: 10 * time.Second}, "line_lost",
			Outcome{Kind: Finished, DurationSec: 10, Reason: "line_lost"}},
		{"cancelled while ringing", Call{State: ClientRinging}, "cancelled",
			Outcome{Kind: Aborted, Reason: "cancelled"}},
		{"the lawyer's leg is silent", Call{State: LawyerRinging}, Timeout,
			Outcome{Kind: LawyerNotReached, Reason: Timeout}},
		{"the lawyer's key is silent", Call{State: LawyerConfirming}, Timeout,
			Outcome{Kind: LawyerNotReached, Reason: Timeout}},
		{"the client's leg is silent", Call{State: Confirming}, Timeout, Outcome{Kind: NotReached, Reason: Timeout}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := end(tt.call, tt.reason, at(100))
			tt.want.At = at(100)
			if m.outcomes[0] != tt.want || m.call.State != Ended || len(m.orders) != 1 ||
				m.orders[0].kind != cmdHangup {
				t.Errorf("got %+v with %+v, want %+v and one hang-up", m.outcomes, m.orders, tt.want)
			}
		})
	}
}

func TestTheProvidersClockDoesNotMoveACallOutOfItsTime(t *testing.T) {
	t.Parallel()
	c, _, _ := play(newCall(), answered(Lawyer), keyed, answered(Client), digits("1"))
	m, _ := apply(c, joinedAt(5000), nil, at(10))
	if !m.call.JoinedAt.Equal(at(10)) {
		t.Errorf("joined at %v, want now", m.call.JoinedAt)
	}
	m, _ = apply(c, joinedAt(-5000), nil, at(10))
	if !m.call.JoinedAt.Equal(t0) {
		t.Errorf("joined at %v, want the call's start", m.call.JoinedAt)
	}
}
