package twiliotest

import (
	"slices"
	"time"
)

// Seconds is a duration as written in JSON.
type Seconds float64

func (s Seconds) d() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Phone is the behaviour of a called person. The zero value answers immediately, presses nothing and, once joined,
// talks until the other side hangs up.
type Phone struct {
	AnswerAfter Seconds `json:"answerAfter"`
	// instead of answering: busy, no-answer or failed; or invalid, a number that the provider rejects
	Fails      string  `json:"fails"`
	Voicemail  bool    `json:"voicemail"` // a machine answers
	Press      string  `json:"press"`     // when digits are requested; empty: nothing
	PressAfter Seconds `json:"pressAfter"`

	HangUpAfter Seconds `json:"hangUpAfter"` // of conversation; 0: never
	DropAfter   Seconds `json:"dropAfter"`   // of conversation, after which the line fails, once; 0: never
	Restore     bool    `json:"restore"`     // answers when called again after that
	Mailbox     bool    `json:"mailbox"`     // a machine answers that call
}

// Script is the behaviour of the next calls.
type Script struct {
	Phones map[string]Phone `json:"phones"` // by number in E.164
	Others Phone            `json:"others"` // all other numbers

	Duplicate bool    `json:"duplicate"` // every callback is sent twice
	Reorder   bool    `json:"reorder"`   // every other callback is sent 1.5 s late, after those that follow it
	Late      Seconds `json:"late"`      // delay of every callback
	// callbacks that are not sent: initiated, ringing, answered, completed, machine, participant-join
	Lose []string `json:"lose"`

	// number of responses to the creation of a call that are lost, although the call is made
	LoseAnswers int     `json:"loseAnswers"`
	ListAfter   Seconds `json:"listAfter"` // delay until a call appears in the list
}

func (s Script) phone(number string) Phone {
	if p, ok := s.Phones[number]; ok {
		return p
	}
	return s.Others
}

func (s Script) loses(what string) bool { return slices.Contains(s.Lose, what) }
