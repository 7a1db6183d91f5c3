package sandbox

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/telephony"
)

// Completed is the default scenario, in which everything succeeds.
const Completed = "completed"

// scenario describes how a consultation goes. Zero fields are as in [Completed].
type scenario struct {
	name     string
	nobody   bool      // no lawyer gets an offer until act says otherwise
	offer    choreKind // what the first lawyer does with the offer
	assigned choreKind // what the first lawyer who accepts does next
	talk     choreKind // what ends the call
	after    choreKind // what the lawyer does after the call
	wait     time.Duration
	reason   consultation.Reason // for a call without use
	act      choreKind           // what else happens
	call     func(s *Script, first bool, attempt int)
	refund   money.Cents
	each     bool // offer and assigned apply to every lawyer
}

// noteLate is later than the last reminder of a missing note.
const noteLate = 25 * time.Hour

// scenarios are all that a partner can choose. The contract of the Sandbox API describes what the partner sees of each.
var scenarios = []scenario{
	{name: Completed},
	{name: "no_lawyer", nobody: true, act: open},
	{name: "callback_missed", nobody: true},
	{name: "callback_returned", nobody: true, act: open, assigned: withdraw},
	{name: "lawyer_declines", offer: decline},
	{name: "lawyer_ignores", offer: nothing},
	{name: "lawyer_withdraws", assigned: withdraw},
	{name: "lawyer_does_not_dial", assigned: nothing},
	{name: "lawyer_no_key", call: func(s *Script, first bool, _ int) {
		if first {
			s.LawyerPress = ""
		}
	}},
	{name: "client_cancels", nobody: true, act: cancel},
	{name: "client_no_answer", call: func(s *Script, _ bool, _ int) { s.Fails = telephony.NoAnswer }},
	{name: "client_busy", call: func(s *Script, _ bool, _ int) { s.Fails = telephony.Busy }},
	{name: "client_voicemail", call: func(s *Script, _ bool, _ int) { s.Voicemail = true }},
	{name: "client_no_key", call: func(s *Script, _ bool, _ int) { s.Press = "" }},
	{name: "client_answers_later", call: func(s *Script, _ bool, attempt int) {
		if attempt == 1 {
			s.Fails = telephony.NoAnswer
		}
	}},
	{name: "line_drops", call: func(s *Script, _ bool, _ int) { s.DropAt = dropAt }},
	{name: "line_lost", call: func(s *Script, _ bool, _ int) { s.DropAt, s.Restore = dropAt, false }},
	{name: "long_call", talk: nothing},
	{name: "short_call", after: useless, reason: consultation.TooShort},
	{name: "wrong_person", after: useless, reason: consultation.WrongPerson},
	{name: "technical_fault", after: useless, reason: consultation.TechnicalFault},
	{name: "note_late", wait: noteLate},
	{name: "note_missing", after: nothing},
	{name: "note_corrected", act: correct},
	{name: "refunded", act: refund, refund: consultation.Price},
	{name: "refunded_half", act: refund, refund: consultation.Price / 2},
}

// runs are the scenarios of consultations that are run to a status, by its name. The simulated people stop there.
var runs = []scenario{
	{name: string(consultation.Matching), assigned: withdraw, each: true},
	{name: string(consultation.PendingCallback), assigned: withdraw, each: true},
	{name: string(consultation.Assigned), assigned: nothing, each: true},
	{name: string(consultation.InCall), talk: nothing},
	{name: string(consultation.CallEnded), after: nothing},
	{name: string(consultation.Completed)},
	{name: string(consultation.Expired), after: useless, reason: consultation.TechnicalFault,
		call: func(s *Script, _ bool, _ int) { s.Fails = telephony.NoAnswer }},
}

// dropAt is when a dropping line drops.
const dropAt = 500 * time.Millisecond

// Scenarios lists the names of all scenarios, in the order of the contract.
func Scenarios() []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return names
}

func scenarioOf(name string) (scenario, bool) {
	all := slices.Concat(scenarios, runs)
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return scenarios[0], false
	}
	return all[i], true
}

// choice matches a scenario in an externalRef, such as scenario:no_lawyer. Any suffix may follow that does not start
// with a letter or an underscore.
var choice = regexp.MustCompile(`^scenario:([A-Za-z_]+)`)

// chosen returns the scenario named in an externalRef, or "" if there is none.
func chosen(externalRef string) string {
	if m := choice.FindStringSubmatch(externalRef); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}

// lateNoteScenarios lists the scenarios with a late note. Their lawyers do other work in the meantime.
func lateNoteScenarios() (names []string) {
	for _, s := range slices.Concat(scenarios, runs) {
		if s.wait > 0 || s.after == nothing {
			names = append(names, s.name)
		}
	}
	return names
}

// ways returns, for choresText, the scenarios whose lawyers act differently from [Completed].
func ways() string {
	type way struct {
		Scenario string    `json:"scenario"`
		Offer    choreKind `json:"offer,omitempty"`
		Assigned choreKind `json:"assigned,omitempty"`
		Talk     choreKind `json:"talk,omitempty"`
		After    choreKind `json:"after,omitempty"`
		Wait     float64   `json:"wait,omitempty"` // seconds from the end of the call to the note
		Each     bool      `json:"each,omitempty"`
	}
	var list []way
	for _, s := range slices.Concat(scenarios, runs) {
		if w := (way{s.name, s.offer, s.assigned, s.talk, s.after,
			s.wait.Seconds(), s.each}); w != (way{Scenario: s.name}) {
			list = append(list, w)
		}
	}
	raw, err := json.Marshal(list)
	if err != nil {
		panic(err) // cannot happen with strings and numbers
	}
	return string(raw)
}

// paymentsByCents defines the result of a top-up by its cents: 20.01 EUR is declined. Top-ups with other cents are paid
// immediately.
var paymentsByCents = map[money.Cents]struct {
	kind  payment.Kind
	after time.Duration
}{
	1: {payment.CheckoutFailed, 0},
	2: {payment.CheckoutPaid, 10 * time.Minute},   // pending
	3: {payment.CheckoutFailed, 10 * time.Minute}, // pending, then declined
	4: {payment.CheckoutPaid, 2 * payment.SessionLifetime},
}
