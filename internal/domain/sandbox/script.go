package sandbox

import (
	"time"

	"partnerd/internal/domain/telephony"
)

// Script is the behaviour of the people and the line in one call. A zero field means that something does not happen, or
// happens immediately.
type Script struct {
	LawyerAnswerAfter time.Duration
	// reason of LEG_FAILED: the lawyer does not answer (telephony.NoAnswer, Busy, Invalid, Carrier)
	LawyerFails      string
	LawyerVoicemail  bool   // a machine answers instead of the lawyer
	LawyerPress      string // keys that the lawyer presses; empty: none
	LawyerPressAfter time.Duration

	AnswerAfter time.Duration // for the client
	Fails       string        // reason of LEG_FAILED: the client does not answer, is busy, or the carrier fails
	Voicemail   bool          // a machine answers instead of the client
	Press       string        // keys that the client presses; empty: none
	PressAfter  time.Duration

	DropAt         time.Duration // joined time after which the client's line drops, once
	LawyerDropAt   time.Duration // the same for the lawyer's line
	Restore        bool          // the dropped side answers when its leg is placed again
	Mailbox        bool          // the dropped side's voicemail answers instead
	LawyerHangUpAt time.Duration // joined time after which the lawyer hangs up
	ClientHangUpAt time.Duration // the same for the client

	Duplicate bool // every event is delivered twice
	Reorder   bool // events within 5 s of each other are delivered in reverse order
}

// DefaultScript returns a successful call that someone has to end.
func DefaultScript(string) Script {
	return Script{
		LawyerAnswerAfter: 400 * time.Millisecond,
		LawyerPress:       "1",
		LawyerPressAfter:  300 * time.Millisecond,
		AnswerAfter:       1200 * time.Millisecond,
		Press:             "1",
		PressAfter:        500 * time.Millisecond,
		Restore:           true,
	}
}

// failAfter returns how long it takes until a leg fails for a reason.
func failAfter(reason string, timeout time.Duration) time.Duration {
	if reason == telephony.NoAnswer {
		return timeout
	}
	return 300 * time.Millisecond
}

// planned is an event that will happen some time after the command that causes it.
type planned struct {
	after time.Duration
	event telephony.Event
}

// legPlan returns what dialling leads to. again means that both sides were joined before and this leg was lost.
func (s Script) legPlan(role telephony.Role, timeout time.Duration, again bool) []planned {
	answer, fails, machine := s.AnswerAfter, s.Fails, s.Voicemail
	switch {
	case role == telephony.Lawyer:
		answer, fails, machine = s.LawyerAnswerAfter, s.LawyerFails, s.LawyerVoicemail
	}
	switch {
	case again && s.Mailbox:
		machine = true
	case again && !s.Restore:
		fails = telephony.NoAnswer
	}
	ringing := planned{event: telephony.Event{Kind: telephony.LegRinging, Role: role}}
	switch {
	case fails == telephony.Invalid || fails == telephony.Carrier:
		return []planned{{after: failAfter(fails, timeout), event: telephony.Event{Kind: telephony.LegFailed,
			Role: role, Reason: fails}}}
	case fails != "":
		return []planned{ringing, {after: failAfter(fails, timeout), event: telephony.Event{Kind: telephony.LegFailed,
			Role: role, Reason: fails}}}
	case machine:
		return []planned{ringing, {after: answer, event: telephony.Event{Kind: telephony.LegMachine, Role: role}}}
	default:
		return []planned{ringing, {after: answer, event: telephony.Event{Kind: telephony.LegAnswered, Role: role}}}
	}
}

func (s Script) collectPlan(role telephony.Role, timeout time.Duration) []planned {
	press, after := s.Press, s.PressAfter
	if role == telephony.Lawyer {
		press, after = s.LawyerPress, s.LawyerPressAfter
	}
	if press == "" {
		after = timeout
	}
	return []planned{{after: after, event: telephony.Event{Kind: telephony.LegDigits, Role: role, Digits: press}}}
}

// bridgePlan returns what joining leads to: the conversation, until someone hangs up, the line drops or the maximum
// duration is reached. again means that the line has already dropped, which happens once.
func (s Script) bridgePlan(limit time.Duration, again bool) []planned {
	plan := []planned{{event: telephony.Event{Kind: telephony.LegsJoined}}}
	if s.DropAt > 0 && !again {
		return append(plan, planned{after: s.DropAt, event: telephony.Event{Kind: telephony.LegsParted,
			By: telephony.Client}})
	}
	if s.LawyerDropAt > 0 && !again {
		return append(plan, planned{after: s.LawyerDropAt, event: telephony.Event{Kind: telephony.LegsParted,
			By: telephony.Lawyer}})
	}
	at, by := limit, telephony.Role("")
	if s.LawyerHangUpAt > 0 && s.LawyerHangUpAt < at {
		at, by = s.LawyerHangUpAt, telephony.Lawyer
	}
	if s.ClientHangUpAt > 0 && s.ClientHangUpAt < at {
		at, by = s.ClientHangUpAt, telephony.Client
	}
	return append(plan, planned{after: at, event: telephony.Event{Kind: telephony.CallOver, By: by,
		DurationSec: int(at / time.Second)}})
}

const reorderWithin = 5 * time.Second

// delays returns when each planned event is delivered: when it happens, unless the script reorders.
func (s Script) delays(plan []planned) []time.Duration {
	d := make([]time.Duration, len(plan))
	for i, p := range plan {
		d[i] = p.after
	}
	if s.Reorder {
		for i := 0; i+1 < len(plan); i += 2 {
			if plan[i+1].after-plan[i].after <= reorderWithin {
				d[i] = plan[i+1].after + 50*time.Millisecond
			}
		}
	}
	return d
}
