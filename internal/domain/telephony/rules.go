package telephony

import (
	"slices"
	"time"
)

// trigger is the part of an event that the state machine distinguishes.
type trigger string

const (
	lawyerAnswered    trigger = "lawyer_answered"
	lawyerMachine     trigger = "lawyer_machine"
	lawyerFailed      trigger = "lawyer_failed"
	lawyerConfirmed   trigger = "lawyer_confirmed" // the lawyer pressed 1
	lawyerUnconfirmed trigger = "lawyer_unconfirmed"
	clientAnswered    trigger = "client_answered"
	clientMachine     trigger = "client_machine"
	clientFailed      trigger = "client_failed"
	clientConfirmed   trigger = "client_confirmed"
	clientUnconfirmed trigger = "client_unconfirmed"
	line              trigger = "line" // joined or parted
	over              trigger = "over"
	nothing           trigger = "nothing" // LEG_RINGING, and events without effect in any state
)

// redialAfter is the pause before a leg that could not be restored is placed again. The caller ends the call if the
// line stays lost.
const redialAfter = 15 * time.Second

// order is a command to be queued.
type order struct {
	kind  commandKind
	args  commandArgs
	after time.Duration
}

// mark is one change of the line.
type mark struct {
	joined bool
	at     time.Time
}

// machine is one step of a call.
type machine struct {
	call     Call
	event    Event
	marks    []mark // all changes of the line so far, including this one
	orders   []order
	outcomes []Outcome
}

type step func(*machine)

// table is the complete state machine. A trigger that is missing in a state is ignored, because it came too late or
// does not concern that state.
//
// No event starts the paid call before both have pressed 1: there is no line trigger before BRIDGING. The client is not
// rung before the lawyer has pressed 1, because nothing else leads to CLIENT_RINGING. A machine detected after the key
// is ignored.
var table = map[State]map[trigger]step{
	LawyerRinging: {
		lawyerAnswered: (*machine).askLawyer,
		lawyerMachine:  (*machine).lawyerGone,
		lawyerFailed:   (*machine).lawyerGone,
		over:           (*machine).setupOver,
	},
	LawyerConfirming: {
		lawyerConfirmed:   (*machine).dialClient,
		lawyerUnconfirmed: (*machine).lawyerGone,
		lawyerMachine:     (*machine).lawyerGone, // machine detection may be slower than the recorded greeting
		lawyerFailed:      (*machine).lawyerGone,
		over:              (*machine).setupOver,
	},
	ClientRinging: {
		clientAnswered: (*machine).askToConfirm,
		clientMachine:  (*machine).clientGone,
		clientFailed:   (*machine).clientGone,
		lawyerFailed:   (*machine).lawyerGone,
		over:           (*machine).setupOver,
	},
	Confirming: {
		clientConfirmed:   (*machine).bridge,
		clientUnconfirmed: (*machine).clientGone,
		clientMachine:     (*machine).clientGone,
		clientFailed:      (*machine).clientGone,
		lawyerFailed:      (*machine).lawyerGone,
		over:              (*machine).setupOver,
	},
	Bridging: {
		line:         (*machine).lineChanged,
		clientFailed: (*machine).clientGone,
		lawyerFailed: (*machine).lawyerGone,
		over:         (*machine).bridgingOver,
	},
	Bridged: {
		line: (*machine).lineChanged,
		over: (*machine).talkOver,
	},
	Lost: {
		line:              (*machine).lineChanged,
		lawyerAnswered:    (*machine).askLawyer,
		lawyerConfirmed:   (*machine).rejoin,
		lawyerUnconfirmed: (*machine).redial,
		lawyerMachine:     (*machine).redial,
		lawyerFailed:      (*machine).redial,
		clientAnswered:    (*machine).rejoin,
		clientMachine:     (*machine).redial,
		clientFailed:      (*machine).redial,
		over:              (*machine).talkOver,
	},
	Ended: {},
}

func triggerOf(e Event) trigger {
	lawyer := e.Role == Lawyer
	switch e.Kind {
	case LegAnswered:
		if lawyer {
			return lawyerAnswered
		}
		return clientAnswered
	case LegMachine:
		if lawyer {
			return lawyerMachine
		}
		return clientMachine
	case LegFailed:
		if lawyer {
			return lawyerFailed
		}
		return clientFailed
	case LegDigits:
		switch pressed := e.Digits == "1"; {
		case lawyer && pressed:
			return lawyerConfirmed
		case lawyer:
			return lawyerUnconfirmed
		case pressed:
			return clientConfirmed
		default:
			return clientUnconfirmed
		}
	case LegsJoined, LegsParted:
		return line
	case CallOver:
		return over
	case LegRinging:
		return nothing
	}
	return nothing
}

// SaysNothing reports whether an event changes no call in any state.
func (e Event) SaysNothing() bool { return triggerOf(e) == nothing }

// apply processes one new event. marks are the earlier changes of the line, in any order. fits is false if the event
// has no meaning in the call's state.
func apply(c Call, e Event, marks []mark, now time.Time) (m machine, fits bool) {
	if e.At.After(now) { // the provider's clock is ahead
		e.At = now
	}
	if e.At.Before(c.StartedAt) {
		e.At = c.StartedAt
	}
	m = machine{call: c, event: e, marks: marks}
	m.call.LastEventAt = now
	do, fits := table[c.State][triggerOf(e)]
	if fits {
		do(&m)
	}
	return m, fits
}

// end ends a call from our side.
func end(c Call, reason string, now time.Time) machine {
	m := machine{call: c, event: Event{At: now}}
	switch {
	case c.JoinedAt != nil:
		m.finish(now, reason)
	case reason == Timeout && c.State.awaitsLawyer():
		m.close(LawyerNotReached, now, reason)
	case reason == Timeout:
		m.close(NotReached, now, reason)
	default:
		m.close(Aborted, now, reason)
	}
	m.hangUp(reason)
	return m
}

func (m *machine) order(kind commandKind, args commandArgs) {
	m.orders = append(m.orders, order{kind: kind, args: args})
}

func (m *machine) tell(o Outcome) { m.outcomes = append(m.outcomes, o) }

// awaitsLawyer reports whether the lawyer has not yet confirmed being on the line.
func (s State) awaitsLawyer() bool { return s == LawyerRinging || s == LawyerConfirming }

// askLawyer asks the lawyer to press 1, because voicemail or someone near the phone may have answered.
func (m *machine) askLawyer() {
	if m.call.State == LawyerRinging {
		m.call.State = LawyerConfirming
	}
	m.order(cmdPlay, commandArgs{Role: Lawyer, Prompt: PromptLawyer})
	m.order(cmdCollect, commandArgs{Role: Lawyer})
}

// dialClient sends the lawyer to wait at the meeting point, and only then rings the client.
func (m *machine) dialClient() {
	m.call.State = ClientRinging
	m.order(cmdBridge, commandArgs{Role: Lawyer, MaxDurationSec: int(MaxDuration / time.Second)})
	m.order(cmdPlaceLeg, commandArgs{Role: Client})
}

func (m *machine) askToConfirm() {
	m.call.State = Confirming
	m.order(cmdPlay, commandArgs{Role: Client, Prompt: PromptConfirm})
	m.order(cmdCollect, commandArgs{Role: Client})
}

func (m *machine) bridge() {
	m.call.State = Bridging
	m.order(cmdBridge, commandArgs{Role: Client, MaxDurationSec: int(MaxDuration / time.Second)})
}

// rejoin bridges again for the rest of the 20 minutes. The client need not press 1 again, because the call has begun.
func (m *machine) rejoin() {
	left := MaxDuration - m.call.Joined
	m.order(cmdBridge, commandArgs{Role: m.event.Role, MaxDurationSec: max(1, int(left/time.Second))})
}

func (m *machine) redial() {
	m.orders = append(m.orders, order{kind: cmdPlaceLeg, args: commandArgs{Role: m.event.Role}, after: redialAfter})
}

func (m *machine) clientGone() {
	m.close(NotReached, m.event.At, m.reason())
	m.hangUp(m.call.Reason)
}

func (m *machine) lawyerGone() {
	m.close(LawyerNotReached, m.event.At, m.reason())
	m.hangUp(m.call.Reason)
}

func (m *machine) reason() string {
	switch m.event.Kind {
	case LegMachine:
		return Voicemail
	case LegDigits:
		return NotConfirmed
	default:
		if m.event.Reason == "" {
			return Carrier
		}
		return m.event.Reason
	}
}

// setupOver handles a call that ends before both sides were joined. Which side ended it decides whether it counts as an
// attempt to reach the client.
func (m *machine) setupOver() {
	switch {
	case m.event.By == Lawyer, m.call.State.awaitsLawyer():
		m.close(LawyerNotReached, m.event.At, HungUp)
	case m.event.By == Client:
		m.close(NotReached, m.event.At, HungUp)
	default:
		m.close(NotReached, m.event.At, Carrier)
	}
}

// bridgingOver handles an end that arrives before the joined event. If the provider measured a duration, the whole
// conversation took place; otherwise the call ended before it.
func (m *machine) bridgingOver() {
	if m.event.DurationSec <= 0 {
		m.setupOver()
		return
	}
	from := m.event.At.Add(-time.Duration(m.event.DurationSec) * time.Second)
	if from.Before(m.call.StartedAt) {
		from = m.call.StartedAt
	}
	m.call.JoinedAt, m.call.BridgedAt = &from, &from
	m.tell(Outcome{Kind: Started, At: from})
	m.talkOver()
}

// talkOver ends the call and also tells the provider to hang up, so that no one stays on the line alone.
func (m *machine) talkOver() {
	m.finish(m.event.At, by(m.event.By))
	m.hangUp(m.call.Reason)
}

func by(r Role) string {
	switch r {
	case Lawyer:
		return byLawyer
	case Client:
		return byClient
	default:
		return byProvider
	}
}

// lineChanged computes the state of the line from all its changes, so their order of arrival does not matter.
func (m *machine) lineChanged() {
	m.marks = append(slices.Clone(m.marks), mark{joined: m.event.Kind == LegsJoined, at: m.event.At})
	was := m.call.State
	first, joined, since, up := talk(m.marks)
	m.call.JoinedAt, m.call.Joined, m.call.BridgedAt, m.call.LostAt = &first, joined, nil, nil
	if up {
		m.call.State, m.call.BridgedAt = Bridged, &since
	} else {
		m.call.State, m.call.LostAt = Lost, &since
	}
	if was == Bridging {
		m.tell(Outcome{Kind: Started, At: first})
	}
	switch {
	case !up && was != Lost:
		m.tell(Outcome{Kind: Dropped, At: since})
		m.order(cmdPlaceLeg, commandArgs{Role: m.missing()})
	case up && was == Lost:
		m.tell(Outcome{Kind: Restored, At: since})
	}
}

// missing returns the leg to place again: the client's, unless the provider says that it is the lawyer's.
func (m *machine) missing() Role {
	if m.event.Kind == LegsParted && m.event.By == Lawyer {
		return Lawyer
	}
	return Client
}

// talk adds up the periods in which both were joined. since is the time of the last change and up its result. A parting
// without an earlier joining stands for one that has not arrived yet, and has zero length.
func talk(marks []mark) (first time.Time, joined time.Duration, since time.Time, up bool) {
	slices.SortStableFunc(marks, func(a, b mark) int {
		if c := a.at.Compare(b.at); c != 0 || a.joined == b.joined {
			return c
		}
		if a.joined {
			return -1
		}
		return 1
	})
	first = marks[0].at
	since = first
	for _, k := range marks {
		switch {
		case k.joined && !up:
			since, up = k.at, true
		case !k.joined:
			if up {
				joined += k.at.Sub(since)
			}
			since, up = k.at, false
		}
	}
	return first, joined, since, up
}

func (m *machine) finish(at time.Time, reason string) {
	sec := m.call.DurationSec(at)
	if m.call.BridgedAt != nil && at.After(*m.call.BridgedAt) {
		m.call.Joined += at.Sub(*m.call.BridgedAt)
	}
	m.call.State, m.call.Outcome, m.call.Reason, m.call.EndedAt = Ended, Finished, reason, &at
	m.call.BridgedAt, m.call.LostAt = nil, nil
	m.tell(Outcome{Kind: Finished, At: at, DurationSec: sec, Reason: reason})
}

func (m *machine) close(kind OutcomeKind, at time.Time, reason string) {
	m.call.State, m.call.Outcome, m.call.Reason, m.call.EndedAt = Ended, kind, reason, &at
	m.tell(Outcome{Kind: kind, At: at, Reason: reason})
}

func (m *machine) hangUp(reason string) { m.order(cmdHangup, commandArgs{Reason: reason}) }

// DurationSec returns the joined time until now in whole seconds, 0 to 1200.
func (c Call) DurationSec(now time.Time) int {
	d := c.Joined
	if c.BridgedAt != nil && now.After(*c.BridgedAt) {
		d += now.Sub(*c.BridgedAt)
	}
	return int(min(d, MaxDuration) / time.Second)
}

// result returns the outcome of an ended call.
func (c Call) result() Outcome {
	o := Outcome{Kind: c.Outcome, At: *c.EndedAt, Reason: c.Reason}
	if c.Outcome == Finished {
		o.DurationSec = c.DurationSec(*c.EndedAt)
	}
	return o
}

// backoff returns the pause before the next attempt of a command, after tries attempts.
func backoff(tries int) time.Duration {
	return min(250*time.Millisecond<<min(tries, 10), 30*time.Second)
}

// maxTries limits the attempts of one command: about five minutes.
const maxTries = 16

// abandoned reports whether a failed command should not be retried.
func abandoned(kind commandKind, tries int, ended bool) bool {
	return tries >= maxTries || ended && kind != cmdHangup
}
