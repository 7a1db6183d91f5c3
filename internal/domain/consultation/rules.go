package consultation

import (
	"slices"
	"time"
	"unicode/utf8"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
)

// Durations of the state machine.
const (
	SearchLimit       = 30 * time.Minute   // from the first search; a lawyer who returns the work does not reset it
	CallbackGuarantee = 24 * time.Hour     // from the first PENDING_CALLBACK
	DialDeadline      = 2 * time.Minute    // from the assignment to the first dial
	DialLimit         = 3 * time.Minute    // for one attempt to be joined or to fail
	CallLimit         = 20 * time.Minute   // of joined time
	ChooseLimit       = time.Minute        // for the lawyer to choose whether to wait for the next attempt
	LineRestore       = 3 * time.Minute    // for a dropped line to be restored
	UsefulCall        = time.Minute        // a shorter call may be declared useless for that reason alone
	lineBusyRetry     = 10 * time.Second   // while the client is on the line with another lawyer
	NoteLimit         = 7 * 24 * time.Hour // from the end of the call; then it is closed and the money released
	// Retry-After where calls cannot be made: a telephony provider is added only by a restart
	retryUnserved  = 5 * time.Minute
	callbackBoost  = 12 * time.Hour  // before it is due, a callback begins to overtake
	callbackOnCall = 4 * time.Hour   // before it is due, lawyers on call are woken
	callbackAlarm  = 2 * time.Hour   // before it is due, operators are notified
	refusedBoost   = 5 * time.Minute // how far a consultation with a failed offer overtakes
)

// dialSchedule says when each attempt to reach the client begins, counted from the first.
var dialSchedule = []time.Duration{0, 5 * time.Minute, 15 * time.Minute}

// noteReminders says when reminders of a missing note are due, counted from the end of the call (decision H37). The
// last one goes to the operator, and the lawyer stops waiting for the note.
var noteReminders = []time.Duration{time.Hour, 12 * time.Hour, 24 * time.Hour}

// Lengths in Unicode code points (specification section 2.7, decision H45).
const (
	minSubject, maxSubject = 3, 200
	maxDescription         = 2000
	maxExternalRef         = 100
)

// Problems of this package, with their conditions (specification section 7).
var (
	ErrPhoneRequired = problem.Declare(problem.Conflict, "PHONE_REQUIRED",
		"The client has no verified phone number; verify one and try again.")
	ErrNotCancellable = problem.Declare(problem.Conflict, "NOT_CANCELLABLE",
		"The consultation can no longer be cancelled.")
	ErrNoteNotAvailable = problem.Declare(problem.NotFound, "NOTE_NOT_AVAILABLE", "The consultation has no note yet.")
)

func searchEnds(c Consultation) time.Time { return c.SearchStartedAt.Add(SearchLimit) }

// Deadline returns what the client may count on: the end of the search, or the time by which they are called back. It
// returns nil if neither runs.
func (c Consultation) Deadline() *time.Time {
	switch c.Status {
	case Matching:
		end := searchEnds(c)
		return &end
	case PendingCallback:
		return c.CallbackDueAt
	default:
		return nil
	}
}

// Guards: conditions of the state table. A consultation that has waited for a callback is past its search time, so the
// age alone tells X7 from X8.

func searchRunning(c Consultation, now time.Time) bool { return now.Before(searchEnds(c)) }
func searchElapsed(c Consultation, now time.Time) bool { return !searchRunning(c, now) }
func callbackDue(c Consultation, now time.Time) bool {
	return c.CallbackDueAt == nil || !now.Before(*c.CallbackDueAt)
}
func callbackInTime(c Consultation, now time.Time) bool {
	return !callbackDue(c, now) && !outsideCallHours(c, now)
}
func attemptsSpent(c Consultation, _ time.Time) bool { return c.Attempts() >= len(dialSchedule) }
func hasDuration(c Consultation, _ time.Time) bool {
	return c.DurationSec != nil && *c.DurationSec >= 0 && *c.DurationSec <= int(CallLimit/time.Second)
}
func noteInTime(c Consultation, now time.Time) bool {
	return c.CallEndedAt != nil && now.Before(c.NoteDueAt())
}
func noteOverdue(c Consultation, now time.Time) bool { return !noteInTime(c, now) }

// writing reports whether the note of c keeps its lawyer from other work.
func writing(c Consultation) bool { return c.Status == CallEnded && c.Reminders < len(noteReminders) }

// remindersDue counts the reminders that are due.
func remindersDue(c Consultation, now time.Time) int {
	n := 0
	for _, after := range noteReminders {
		if !now.Before(c.CallEndedAt.Add(after)) {
			n++
		}
	}
	return n
}
func uselessCall(c Consultation, _ time.Time) bool {
	switch c.EndReason {
	case WrongPerson, TechnicalFault, NoteMissing, WithdrawnFrom:
		return true
	case TooShort:
		return c.DurationSec != nil && *c.DurationSec < int(UsefulCall/time.Second)
	default:
		return false
	}
}
func refundable(c Consultation, _ time.Time) bool {
	return c.RefundedAt == nil && c.Refunded > 0 && c.Refunded <= c.Price
}

// WithdrawalRefund returns the refund for a client who withdrew while the call went on or its note was written. It is
// the price in proportion to the part of the 20 minutes that was not delivered, rounded up. The client owes no more
// than the rest.
func WithdrawalRefund(c Consultation, w Withdrawal) money.Cents {
	if c.Status != Completed || !w.Begun() || c.DurationSec == nil {
		return 0
	}
	whole := money.Cents(CallLimit / time.Second)
	return (c.Price*(whole-money.Cents(clampSec(*c.DurationSec))) + whole - 1) / whole
}

// dialDeadline returns when an assigned consultation goes back unless dialling has begun (X7, X8). This applies even if
// the client's line was busy all the time: any lawyer who is free by then may take the consultation.
func dialDeadline(c Consultation) time.Time { return c.AssignedAt.Add(DialDeadline) }

// lawyerLost returns the trigger for a lost lawyer: back to the search, or to the callback.
func lawyerLost(c Consultation, now time.Time) trigger {
	if searchRunning(c, now) {
		return onLawyerLost
	}
	return onLawyerLostLate
}

// nextTimer returns when the machine has to check c again, or nil if no automatic step is to come.
func nextTimer(c Consultation) *time.Time {
	at := func(t time.Time) *time.Time { return &t }
	switch c.Status {
	case Matching:
		return at(searchEnds(c))
	case PendingCallback:
		next := *c.CallbackDueAt
		if end := hoursEnd(c); end.Before(next) {
			next = end
		}
		if alarm := c.CallbackDueAt.Add(-callbackAlarm); c.AlarmedAt == nil && alarm.Before(next) {
			next = alarm
		}
		return at(next)
	case Assigned:
		switch {
		case c.DialAttempts == 0 && (c.NextDialAt == nil || dialDeadline(c).Before(*c.NextDialAt)):
			return at(dialDeadline(c))
		case c.ChooseBy != nil:
			return c.ChooseBy
		case c.NextDialAt != nil:
			return c.NextDialAt
		default:
			return at(c.LastDialAt.Add(DialLimit))
		}
	case InCall:
		if c.LineLostAt != nil {
			return at(c.LineLostAt.Add(LineRestore))
		}
		return c.CallCapAt
	case CallEnded:
		if c.Reminders < len(noteReminders) {
			return at(c.CallEndedAt.Add(noteReminders[c.Reminders]))
		}
		return at(c.NoteDueAt())
	case none, Draft, Completed, Cancelled, Expired:
		return nil
	}
	return nil
}

// task is what a due timer requires.
type task string

const (
	taskNone         task = ""
	taskSearchOver   task = "search_over"
	taskCallbackOver task = "callback_over"
	taskAlarm        task = "alarm"        // the callback is due soon and has no lawyer
	taskNextDay      task = "next_day"     // the hours for a callback are over until the next day
	taskNotDialled   task = "not_dialled"  // assigned, and dialling did not begin in time
	taskDial         task = "dial"         // the next attempt to reach the client
	taskNotChosen    task = "not_chosen"   // the lawyer did not choose to wait for the next attempt
	taskDialStuck    task = "dial_stuck"   // an attempt that neither joined nor failed
	taskLineLost     task = "line_lost"    // the line was not restored
	taskCallCap      task = "call_cap"     // 20 minutes are over
	taskRemind       task = "remind"       // the note is missing
	taskNoteMissing  task = "note_missing" // the note will not come
)

// dueTask returns the task that is due at now.
func dueTask(c Consultation, now time.Time) task {
	at := nextTimer(c)
	if at == nil || now.Before(*at) {
		return taskNone
	}
	switch c.Status {
	case Matching:
		return taskSearchOver
	case PendingCallback:
		if callbackDue(c, now) {
			return taskCallbackOver
		}
		if c.AlarmedAt == nil && !now.Before(c.CallbackDueAt.Add(-callbackAlarm)) {
			return taskAlarm
		}
		return taskNextDay
	case Assigned:
		switch {
		case c.DialAttempts == 0 && !now.Before(dialDeadline(c)):
			return taskNotDialled
		case c.ChooseBy != nil:
			return taskNotChosen
		case c.NextDialAt != nil:
			return taskDial
		default:
			return taskDialStuck
		}
	case InCall:
		if c.LineLostAt != nil {
			return taskLineLost
		}
		return taskCallCap
	case CallEnded:
		if noteOverdue(c, now) {
			return taskNoteMissing
		}
		return taskRemind
	case none, Draft, Completed, Cancelled, Expired:
		return taskNone
	}
	return taskNone
}

// nextAttempt returns when the client is called again after the attempts so far; ok is false if none is left.
func nextAttempt(c Consultation, now time.Time) (at time.Time, ok bool) {
	n := c.Attempts()
	if n == 0 || n >= len(dialSchedule) || c.FirstDialAt == nil {
		return time.Time{}, false
	}
	at = c.FirstDialAt.Add(dialSchedule[n])
	if c.LastDialAt != nil { // the previous one may have been late, or by another lawyer
		if gap := c.LastDialAt.Add(dialSchedule[n] - dialSchedule[n-1]); gap.After(at) {
			at = gap
		}
	}
	if at.Before(now) {
		at = now
	}
	return at, true
}

// joinedSec returns how long both sides have been joined until now, in seconds, from 0 to 1200. The cap moves when a
// line is restored, so the time left until the cap shows the time used.
func joinedSec(c Consultation, now time.Time) int {
	if c.CallCapAt == nil {
		return 0
	}
	if c.LineLostAt != nil {
		now = *c.LineLostAt
	}
	return clampSec(int((CallLimit - c.CallCapAt.Sub(now)) / time.Second))
}

func clampSec(sec int) int { return min(max(sec, 0), int(CallLimit/time.Second)) }

// effectiveAge orders waiting work, oldest first. A callback overtakes as its due time approaches, and a consultation
// with failed offers overtakes a little. There are no strict classes, in which the lower one would starve.
func effectiveAge(c searching, now time.Time) time.Duration {
	age := now.Sub(c.SearchStartedAt)
	if c.failures > 0 {
		age += refusedBoost
	}
	if c.Status == PendingCallback && c.CallbackDueAt != nil {
		if left := c.CallbackDueAt.Sub(now); left < callbackBoost {
			age += callbackBoost - left
		}
	}
	return age
}

func byAge(work []searching, now time.Time) {
	slices.SortStableFunc(work, func(a, b searching) int {
		return int(effectiveAge(b, now)/time.Microsecond - effectiveAge(a, now)/time.Microsecond)
	})
}

// checkTexts returns the issues of the texts of a new consultation.
func checkTexts(subject, description, externalRef string) []problem.Issue {
	var issues []problem.Issue
	add := func(path, code, message string) {
		issues = append(issues, problem.Issue{Path: path, Code: code, Message: message})
	}
	switch n := utf8.RuneCountInString(subject); {
	case n < minSubject:
		add("subject", problem.IssueTooShort, "The subject must have at least 3 characters.")
	case n > maxSubject:
		add("subject", problem.IssueTooLong, "The subject must have at most 200 characters.")
	}
	if utf8.RuneCountInString(description) > maxDescription {
		add("description", problem.IssueTooLong, "The description must have at most 2000 characters.")
	}
	if utf8.RuneCountInString(externalRef) > maxExternalRef {
		add("externalRef", problem.IssueTooLong, "The reference must have at most 100 characters.")
	}
	return issues
}
