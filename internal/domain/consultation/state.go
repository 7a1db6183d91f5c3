package consultation

import (
	"errors"
	"fmt"
	"time"

	"partnerd/internal/domain/webhook"
)

// trigger is something that happens to a consultation.
type trigger string

// The triggers of the state table.
const (
	onCreate          trigger = "create"           // a partner asks for a consultation
	onAuthorize       trigger = "authorize"        // the price is held, in the same transaction
	onAccept          trigger = "accept"           // a lawyer accepts the offer
	onSearchOver      trigger = "search_over"      // the search has lasted 30 minutes
	onCallbackMissed  trigger = "callback_missed"  // the promised callback did not happen in time
	onBridge          trigger = "bridge"           // the client has pressed 1 and both legs are joined
	onLawyerLost      trigger = "lawyer_lost"      // withdrawn, absent or not dialling, within the search time
	onLawyerLostLate  trigger = "lawyer_lost_late" // the same, after the search time
	onClientUnreached trigger = "client_unreached" // three attempts
	onPhoneLost       trigger = "phone_lost"       // the client's number is no longer verified (T40)
	onCallOver        trigger = "call_over"        // hang-up, cap, or the line was not restored
	onSubmitNote      trigger = "submit_note"      // note and preview, or their correction
	onNoUsefulCall    trigger = "no_useful_call"   // wrong person, too short, technical fault
	onNoteMissing     trigger = "note_missing"     // seven days after the call
	onCancel          trigger = "cancel"           // by the partner, the client or an operator
	onRefund          trigger = "refund"           // by an operator, after completion
)

// triggers lists all triggers.
func triggers() []trigger {
	return []trigger{onCreate, onAuthorize, onAccept, onSearchOver, onCallbackMissed, onBridge, onLawyerLost,
		onLawyerLostLate, onClientUnreached, onPhoneLost, onCallOver, onSubmitNote, onNoUsefulCall, onNoteMissing,
		onCancel, onRefund}
}

// movement is the effect of a step on the client's money.
type movement string

const (
	noMoney      movement = ""
	holdMoney    movement = "HOLD"
	releaseMoney movement = "RELEASE"
	captureMoney movement = "CAPTURE"
	refundMoney  movement = "REFUND"
)

// step is one row of the state table: the effect of a trigger.
type step struct {
	row    string // its number in the table, X1 to X16
	to     Status // also data.status of its events
	guard  func(c Consultation, now time.Time) bool
	set    func(c *Consultation, now time.Time)
	money  movement
	events []webhook.Type // in order
}

// none is the status before a consultation exists.
const none Status = ""

// table is the complete state machine. Everything that is not in it is forbidden.
var table = map[Status]map[trigger]step{
	none: {
		onCreate: {row: "X1", to: Draft, events: []webhook.Type{webhook.Created}},
	},
	Draft: {
		onAuthorize: {row: "X2", to: Matching, set: setSearching, money: holdMoney,
			events: []webhook.Type{webhook.PaymentAuthorized, webhook.Matching}},
	},
	Matching: {
		onAccept: {row: "X3", to: Assigned, guard: searchRunning, set: setAssigned,
			events: []webhook.Type{webhook.Assigned}},
		onSearchOver: {row: "X4", to: PendingCallback, guard: searchElapsed, set: setCallbackDue,
			events: []webhook.Type{webhook.PendingCallback}},
		onCancel: {row: "X13", to: Cancelled, set: setCancelled, money: releaseMoney,
			events: []webhook.Type{webhook.Cancelled, webhook.Refunded}},
	},
	PendingCallback: {
		onAccept: {row: "X5", to: Assigned, guard: callbackInTime, set: setAssigned,
			events: []webhook.Type{webhook.Assigned}},
		onCancel: {row: "X13", to: Cancelled, set: setCancelled, money: releaseMoney,
			events: []webhook.Type{webhook.Cancelled, webhook.Refunded}},
		onCallbackMissed: {row: "X14", to: Expired, guard: callbackDue, set: setExpired, money: releaseMoney,
			events: []webhook.Type{webhook.Expired, webhook.Refunded}},
	},
	Assigned: {
		onBridge: {row: "X6", to: InCall, set: setInCall, events: []webhook.Type{webhook.CallStarted}},
		onLawyerLost: {row: "X7", to: Matching, guard: searchRunning, set: setUnassigned,
			events: []webhook.Type{webhook.Matching}},
		onLawyerLostLate: {row: "X8", to: PendingCallback, guard: searchElapsed, set: setUnassignedLate,
			events: []webhook.Type{webhook.PendingCallback}},
		onClientUnreached: {row: "X9", to: Expired, guard: attemptsSpent, set: setExpired, money: releaseMoney,
			events: []webhook.Type{webhook.Expired, webhook.Refunded}},
		onPhoneLost: {row: "X9", to: Expired, set: setExpired, money: releaseMoney,
			events: []webhook.Type{webhook.Expired, webhook.Refunded}},
		onCancel: {row: "X13", to: Cancelled, set: setCancelled, money: releaseMoney,
			events: []webhook.Type{webhook.Cancelled, webhook.Refunded}},
	},
	InCall: {
		onCallOver: {row: "X10", to: CallEnded, guard: hasDuration, set: setCallEnded,
			events: []webhook.Type{webhook.CallEnded}},
	},
	CallEnded: {
		onSubmitNote: {row: "X11", to: Completed, guard: noteInTime, set: setCompleted, money: captureMoney,
			events: []webhook.Type{webhook.NoteAvailable, webhook.Completed}},
		onNoUsefulCall: {row: "X12", to: Expired, guard: uselessCall, set: setExpired, money: releaseMoney,
			events: []webhook.Type{webhook.Expired, webhook.Refunded}},
		onNoteMissing: {row: "X12", to: Expired, guard: noteOverdue, set: setExpired, money: releaseMoney,
			events: []webhook.Type{webhook.Expired, webhook.Refunded}},
	},
	Completed: {
		onRefund: {row: "X15", to: Completed, guard: refundable, set: setRefunded, money: refundMoney,
			events: []webhook.Type{webhook.Refunded}},
		onSubmitNote: {row: "X16", to: Completed, events: []webhook.Type{webhook.NoteAvailable}},
	},
	Cancelled: {},
	Expired:   {},
}

// Step is a row of the state table, for documentation.
type Step struct {
	From, To Status // From is empty for the creation
	Trigger  string
	Money    string // HOLD, RELEASE, CAPTURE or REFUND; empty for none
	Events   []webhook.Type
}

// Steps lists the rows of the state table, ordered by status and trigger.
func Steps() (all []Step) {
	for _, from := range append([]Status{none}, Statuses()...) {
		for _, t := range triggers() {
			if st, ok := table[from][t]; ok {
				all = append(all, Step{from, st.to, string(t), string(st.money), st.events})
			}
		}
	}
	return all
}

// Cancellable reports whether a consultation in this status can be cancelled: until its call begins.
func (s Status) Cancellable() bool {
	_, ok := table[s][onCancel]
	return ok
}

// ErrForbidden is wrapped if the table has no step for a trigger, or the step's guard fails.
var ErrForbidden = errors.New("transition not allowed")

// advance takes one step of the table. It is a pure function of the record and the time. The caller first sets on c
// what a step needs: the lawyer, the duration, the reason or the amount.
func advance(c Consultation, t trigger, now time.Time) (Consultation, step, error) {
	st, ok := table[c.Status][t]
	if !ok || st.guard != nil && !st.guard(c, now) {
		return c, step{}, fmt.Errorf("%w: %s in %s", ErrForbidden, t, c.Status)
	}
	c.Status, c.UpdatedAt = st.to, now
	if st.set != nil {
		st.set(&c, now)
	}
	return c, st, nil
}

func setSearching(c *Consultation, now time.Time) { c.CreatedAt, c.SearchStartedAt = now, now }

func setAssigned(c *Consultation, now time.Time) {
	c.AssignedAt, c.NextDialAt = &now, nil
	if c.FirstAssignedAt == nil {
		c.FirstAssignedAt = &now
	}
}

func setCallbackDue(c *Consultation, now time.Time) {
	if c.CallbackDueAt == nil {
		due := now.Add(CallbackGuarantee)
		c.CallbackDueAt = &due
	}
}

// setUnassigned keeps the attempts that the client did not answer: the next lawyer makes the remaining ones.
func setUnassigned(c *Consultation, now time.Time) {
	if c.NextDialAt == nil && c.DialAttempts > 0 {
		c.DialAttempts-- // it has not failed, it was aborted
	}
	c.LawyerID, c.AssignedAt, c.ChooseBy, c.NextDialAt = "", nil, nil, nil
	c.EarlierAttempts, c.DialAttempts = c.Attempts(), 0
	if next, ok := nextAttempt(*c, now); ok {
		c.NextDialAt = &next
	} else {
		c.FirstDialAt, c.LastDialAt = nil, nil
	}
}

func setUnassignedLate(c *Consultation, now time.Time) {
	setUnassigned(c, now)
	setCallbackDue(c, now)
}

func setInCall(c *Consultation, now time.Time) {
	limit := now.Add(CallLimit)
	c.CallStartedAt, c.CallCapAt, c.NextDialAt, c.ChooseBy = &now, &limit, nil, nil
}

func setCallEnded(c *Consultation, now time.Time) {
	c.CallEndedAt, c.CallCapAt, c.LineLostAt = &now, nil, nil
}

func setCompleted(c *Consultation, now time.Time) { c.CompletedAt = &now }

func setCancelled(c *Consultation, now time.Time) {
	c.CancelledAt, c.NextDialAt, c.ChooseBy = &now, nil, nil
	setReleased(c, now)
}

func setExpired(c *Consultation, now time.Time) {
	c.ExpiredAt, c.NextDialAt, c.ChooseBy = &now, nil, nil
	setReleased(c, now)
}

func setReleased(c *Consultation, now time.Time) { c.Refunded, c.RefundedAt = c.Price, &now }

func setRefunded(c *Consultation, now time.Time) { c.RefundedAt = &now }
