package twiliotest

import (
	"slices"
	"time"
)

// Seconds is a duration, as it is written in JSON.
type Seconds float64

func (s Seconds) d() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Phone is how who is called behaves. The zero value answers at once, presses nothing and, once joined, talks until the
// other hangs up.
type Phone struct {
	AnswerAfter Seconds `json:"answerAfter"`
	// instead: busy, no-answer or failed; or invalid, a number that the provider refuses
	Fails      string  `json:"fails"`
	Voicemail  bool    `json:"voicemail"` // a machine answers
	Press      string  `json:"press"`     // when digits are asked for; empty: nothing
	PressAfter Seconds `json:"pressAfter"`

	HangUpAfter Seconds `json:"hangUpAfter"` // of talk; 0: never
	DropAfter   Seconds `json:"dropAfter"`   // of talk, after which the line fails, once; 0: never
	Restore     bool    `json:"restore"`     // answers when called again after that
	Mailbox     bool    `json:"mailbox"`     // a machine does
}

// Script is how the next calls go.
type Script struct {
	Phones map[string]Phone `json:"phones"` // by number in E.164
	Others Phone            `json:"others"` // all other numbers

	Duplicate bool    `json:"duplicate"` // every notice is posted twice
	Reorder   bool    `json:"reorder"`   // every other notice is posted 1.5 s late, behind those that follow it
	Late      Seconds `json:"late"`      // every notice is posted so much later
	// notices that are not posted: initiated, ringing, answered, completed, machine, participant-join
	Lose []string `json:"lose"`

	// so many answers to the creation of a call are lost, although the call is made
	LoseAnswers int     `json:"loseAnswers"`
	ListAfter   Seconds `json:"listAfter"` // a call appears in the list only after that time
}

func (s Script) phone(number string) Phone {
	if p, ok := s.Phones[number]; ok {
		return p
	}
	return s.Others
}

func (s Script) loses(what string) bool { return slices.Contains(s.Lose, what) }
