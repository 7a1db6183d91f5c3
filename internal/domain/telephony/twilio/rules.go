package twilio

import (
	"slices"
	"time"

	"partnerd/internal/domain/telephony"
)

// Statuses of a call resource at the provider.
const (
	statusRinging    = "ringing"
	statusInProgress = "in-progress"
	statusCompleted  = "completed" // answered, then hung up
	statusBusy       = "busy"
	statusNoAnswer   = "no-answer"
	statusFailed     = "failed"
	statusCanceled   = "canceled"

	statusInvalid = "invalid" // ours: the provider rejected the number, so there is no call
)

// failures maps the final statuses of a leg that was not joined, or did not end by hanging up, to reasons.
var failures = map[string]string{
	statusCompleted: telephony.HungUp, // before both were joined
	statusBusy:      telephony.Busy,
	statusNoAnswer:  telephony.NoAnswer,
	statusFailed:    telephony.Carrier,
	statusCanceled:  telephony.HungUp,
	statusInvalid:   telephony.Invalid,
}

// final reports whether a call resource with this status never changes again.
func final(status string) bool { return failures[status] != "" }

// ref returns the name under which the events of a leg are identified.
func (l leg) ref() string {
	if l.SID == "" {
		return l.CommandID
	}
	return l.SID
}

// enteredAt returns when a leg entered the conference. A lawyer counts as entered once sent there, so that the callback
// may be missing. An earlier version of the program sent lawyers there on answer, without a prompt.
func (l leg) enteredAt() *time.Time {
	switch {
	case l.Role != telephony.Lawyer || l.JoinedAt != nil:
		return l.JoinedAt
	case l.Prompt == "":
		return l.AnsweredAt
	default:
		return l.BridgedAt
	}
}

// uncertain reports whether a leg may have been in the conference without any report of it.
func (l leg) uncertain() bool {
	return l.Role == telephony.Client && l.BridgedAt != nil && l.JoinedAt == nil
}

// talks reports whether a leg is in the conference with the other side.
func talks(legs []leg, l leg) bool {
	return slices.ContainsFunc(stretches(legs),
		func(s stretch) bool { return s.to == nil && (s.lawyer == l || s.client == l) })
}

// stretch is a period in which a lawyer's leg and a client's leg were in the conference together.
type stretch struct {
	lawyer, client leg
	from           time.Time
	to             *time.Time // nil while it lasts
}

func stretches(legs []leg) (list []stretch) {
	for _, l := range legs {
		for _, c := range legs {
			if l.Role != telephony.Lawyer || c.Role != telephony.Client || l.enteredAt() == nil ||
				c.enteredAt() == nil {
				continue
			}
			s := stretch{lawyer: l, client: c, from: later(*l.enteredAt(), *c.enteredAt()),
				to: earlier(l.EndedAt, c.EndedAt)}
			if s.to == nil || !s.to.Before(s.from) {
				list = append(list, s)
			}
		}
	}
	slices.SortFunc(list, func(a, b stretch) int { return a.from.Compare(b.from) })
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// capSlack allows for the times in callbacks, which are whole seconds.
const capSlack = 2 * time.Second

// endedBy returns the leg that ended a stretch. by is empty if the provider ended it at the time limit.
func (s stretch) endedBy() (l leg, by telephony.Role) {
	if s.client.EndedAt == nil || s.lawyer.EndedAt != nil && s.lawyer.EndedAt.Before(*s.client.EndedAt) {
		return s.lawyer, telephony.Lawyer
	}
	limit := time.Duration(s.client.LimitSec) * time.Second
	if limit > 0 && s.client.Status == statusCompleted && s.to.Sub(*s.client.enteredAt()) >= limit-capSlack {
		return s.client, ""
	}
	return s.client, telephony.Client
}

// events returns all events that the legs of a call mean, in the order in which they happened. Facts arrive in any
// order, but an event keeps its ID once it exists. So nothing is reported twice, and no report has a deadline.
//
// The ends of legs are held back while it is unknown whether a client's leg was joined: see [leg.uncertain].
func events(callID string, legs []leg) []telephony.Event {
	var all []telephony.Event
	add := func(ref, what string, at *time.Time, e telephony.Event) {
		if at != nil {
			e.ID, e.CallID, e.At = ref+":"+what, callID, *at
			all = append(all, e)
		}
	}
	doubtful := slices.ContainsFunc(legs, leg.uncertain)
	met := map[string]bool{}
	told := map[string]bool{} // legs whose end is the end of a stretch
	var talked time.Duration
	for _, s := range stretches(legs) {
		ref := s.lawyer.ref() + "+" + s.client.ref()
		met[s.lawyer.ref()], met[s.client.ref()] = true, true
		add(ref, "joined", &s.from, telephony.Event{Kind: telephony.LegsJoined})
		if s.to == nil {
			continue
		}
		talked += s.to.Sub(s.from)
		gone, by := s.endedBy()
		told[gone.ref()] = true
		if gone.Status == statusCompleted {
			add(ref, "over", s.to, telephony.Event{Kind: telephony.CallOver, By: by,
				DurationSec: int(talked / time.Second)})
		} else {
			add(ref, "parted", s.to, telephony.Event{Kind: telephony.LegsParted, By: by})
		}
	}
	for i, l := range legs {
		ref := l.ref()
		add(ref, "ringing", l.RangAt, telephony.Event{Kind: telephony.LegRinging, Role: l.Role})
		if l.EndedAt == nil || met[ref] {
			add(ref, "answered", l.AnsweredAt, telephony.Event{Kind: telephony.LegAnswered, Role: l.Role})
		}
		if l.HangUp && replaced(legs[i+1:], l.Role) { // replaced: its later events are ignored
			continue
		}
		add(ref, "machine", l.MachineAt, telephony.Event{Kind: telephony.LegMachine, Role: l.Role})
		add(ref, "digits", l.PressedAt, telephony.Event{Kind: telephony.LegDigits, Role: l.Role, Digits: l.Pressed})
		switch {
		case l.EndedAt == nil, told[ref], doubtful:
		case met[ref] && l.Status == statusCompleted: // the remaining side hung up after the other's line dropped
			add(ref, "over", l.EndedAt, telephony.Event{Kind: telephony.CallOver, By: l.Role,
				DurationSec: int(talked / time.Second)})
		default:
			add(ref, "failed", l.EndedAt, telephony.Event{Kind: telephony.LegFailed, Role: l.Role,
				Reason: failures[l.Status]})
		}
	}
	slices.SortStableFunc(all, func(a, b telephony.Event) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return rank[a.Kind] - rank[b.Kind]
	})
	return all
}

func replaced(later []leg, role telephony.Role) bool {
	return slices.ContainsFunc(later, func(l leg) bool { return l.Role == role })
}

// rank orders events of the same second.
var rank = map[telephony.EventKind]int{telephony.LegRinging: 1, telephony.LegAnswered: 2, telephony.LegMachine: 3,
	telephony.LegDigits: 4, telephony.LegsJoined: 5, telephony.LegsParted: 6, telephony.LegFailed: 7,
	telephony.CallOver: 8}

// fresh returns the events in now that are missing from before.
func fresh(before, now []telephony.Event) []telephony.Event {
	old := map[string]bool{}
	for _, e := range before {
		old[e.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(now), func(e telephony.Event) bool { return old[e.ID] })
}

// fact is one report of the provider about a leg. A zero field says nothing.
type fact struct {
	status     string
	at         time.Time // of the status and of the fields below
	startedAt  *time.Time
	answeredBy string // from machine detection
	digits     *string
	joined     bool
	apart      bool // sent into the conference but never entered it
}

// learn stores a fact. Known facts stay unchanged, so a repetition has no effect.
func (l *leg) learn(f fact) {
	set := func(at **time.Time, when bool) {
		if when && *at == nil {
			*at = &f.at
		}
	}
	set(&l.RangAt, f.status == statusRinging)
	if f.startedAt != nil && l.AnsweredAt == nil {
		l.AnsweredAt = f.startedAt
	}
	set(&l.AnsweredAt, f.status == statusInProgress)
	if isMachine(f.answeredBy) {
		set(&l.MachineAt, true)
	}
	if f.digits != nil && l.PressedAt == nil {
		l.PressedAt, l.Pressed = &f.at, *f.digits
	}
	set(&l.JoinedAt, f.joined)
	if f.apart && l.JoinedAt == nil {
		l.BridgedAt = nil
	}
	if final(f.status) && l.EndedAt == nil {
		l.EndedAt, l.Status = &f.at, f.status
	}
}

// isMachine interprets AnsweredBy. Human and unknown count as a person, who has to press 1 anyway.
func isMachine(answeredBy string) bool {
	switch answeredBy {
	case "machine_start", "machine_end_beep", "machine_end_silence", "machine_end_other", "fax":
		return true
	}
	return false
}
