package faults

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Action is an operation on a wallet.
type Action string

// The actions of a history.
const (
	Read    Action = "read"    // the figures
	TopUp   Action = "top up"  // by an amount
	Reserve Action = "reserve" // the price, for a consultation that is created
	Release Action = "release" // the hold: the consultation is cancelled, or ends without a call
	Capture Action = "capture" // the hold: the consultation is completed
)

// Outcome is what is known of an action.
type Outcome string

// The outcomes of an action.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown" // no response: it may have happened, happen later, or never happen
)

// Asked is the input of an operation.
type Asked struct {
	Wallet string
	Action Action
	Hold   int   // number of the wallet's consultation, from 0; not for [Read] and [TopUp]
	Cents  int64 // for [TopUp]
}

// Answered is the output of an operation.
type Answered struct {
	Outcome         Outcome
	Available, Held int64 // cents, for [Read]
}

// figures are the state of the model: the available money and the state of each hold.
type figures struct {
	available int64
	holds     string // by number: never created, open, released, captured
}

const (
	never    = '-'
	open     = 'O'
	released = 'R'
	captured = 'C'
)

func (f figures) hold(n int) byte {
	if n >= len(f.holds) {
		return never
	}
	return f.holds[n]
}

// with sets a hold to a state, which moves money between the two balances of the wallet or out of it.
func (f figures) with(n int, state byte, available int64) figures {
	holds := []byte(f.holds)
	for n >= len(holds) {
		holds = append(holds, never)
	}
	holds[n] = state
	return figures{f.available + available, string(holds)}
}

// Model returns the behaviour of one wallet whose requests happen one after another. Each happens at one moment between
// its start and its end. price is the price of a consultation and balances are the initial balances of the wallets, in
// cents.
func Model(price int64, balances map[string]int64) porcupine.Model {
	begun := func(f figures, wallet string) figures {
		if f.holds == "" && f.available == math.MinInt64 {
			f.available = balances[wallet]
		}
		return f
	}
	return porcupine.Model{
		Partition: byWallet,
		// The first action names the wallet.
		Init: func() any { return figures{available: math.MinInt64} },
		Step: func(state, input, output any) (bool, any) {
			q, a := input.(Asked), output.(Answered)
			return step(begun(state.(figures), q.Wallet), q, a, price)
		},
		DescribeOperation: describe,
		DescribeState: func(state any) string {
			f := state.(figures)
			return fmt.Sprintf("available %d, holds %s", f.available, f.holds)
		},
	}
}

func step(f figures, q Asked, a Answered, price int64) (bool, figures) {
	switch is := f.hold(q.Hold); q.Action {
	case Read:
		return f.available == a.Available && int64(strings.Count(f.holds, string(open)))*price == a.Held, f
	case TopUp:
		if a.Outcome == Refused {
			return true, f
		}
		return true, figures{f.available + q.Cents, f.holds}
	case Reserve:
		enough := f.available >= price
		switch {
		case a.Outcome == Refused:
			return !enough, f
		case enough && is == never:
			return true, f.with(q.Hold, open, -price)
		}
		return a.Outcome == Unknown, f
	case Release:
		switch {
		case a.Outcome == Refused: // it is too late, or the call has begun
			return is != never, f
		case is == open:
			return true, f.with(q.Hold, released, price)
		}
		return a.Outcome == Unknown || is == released, f // a second cancellation is 200 too
	case Capture:
		return is == open, f.with(q.Hold, captured, 0)
	}
	return false, f
}

func describe(input, output any) string {
	q, a := input.(Asked), output.(Answered)
	what := string(q.Action)
	switch q.Action {
	case Read:
		return fmt.Sprintf("%s: %d and %d held", what, a.Available, a.Held)
	case TopUp:
		what += " " + strconv.FormatInt(q.Cents, 10)
	default:
		what += " " + strconv.Itoa(q.Hold)
	}
	if a.Outcome != Done {
		what += ": " + string(a.Outcome)
	}
	return what
}

func byWallet(all []porcupine.Operation) (parts [][]porcupine.Operation) {
	place := map[string]int{}
	for _, op := range all {
		wallet := op.Input.(Asked).Wallet
		i, known := place[wallet]
		if !known {
			i = len(parts)
			place[wallet], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

// History records operations on wallets and their times. It is safe for concurrent use.
type History struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// NewHistory returns an empty history that starts now.
func NewHistory() *History { return &History{began: time.Now()} }

// Now returns the current moment of the history.
func (h *History) Now() int64 { return h.At(time.Now()) }

// At converts a time to a moment of the history.
func (h *History) At(t time.Time) int64 { return int64(t.Sub(h.began)) }

// Add records an operation that was sent at a moment and answered just now. An operation without a response stays open
// until the end of the history.
func (h *History) Add(who int, q Asked, asked int64, a Answered) {
	until := h.Now()
	if a.Outcome == Unknown {
		until = math.MaxInt64
	}
	h.AddUntil(who, q, asked, until, a)
}

// AddUntil records an operation between two moments.
func (h *History) AddUntil(who int, q Asked, asked, until int64, a Answered) {
	op := porcupine.Operation{ClientId: who, Input: q, Call: asked, Output: a, Return: until}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Len returns the number of operations.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// Check looks for an order of all operations that the model allows and that agrees with their times. It returns "Ok",
// "Illegal", or "Unknown" if the time was not enough. page is Porcupine's visualisation.
func (h *History) Check(m porcupine.Model,
	within time.Duration,
) (verdict porcupine.CheckResult, page []byte, err error) {
	h.mu.Lock()
	ops := append([]porcupine.Operation(nil), h.ops...)
	h.mu.Unlock()
	end := h.Now()
	for i := range ops { // otherwise the page would be endlessly wide
		if ops[i].Return == math.MaxInt64 {
			ops[i].Return = end
		}
	}
	verdict, info := porcupine.CheckOperationsVerbose(m, ops, within)
	var out bytes.Buffer
	if err := porcupine.Visualize(m, info, &out); err != nil {
		return verdict, nil, fmt.Errorf("draw the history: %w", err)
	}
	return verdict, out.Bytes(), nil
}
