package faults

import (
	"bytes"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const price = 2000

// one is an operation between two moments.
type one struct {
	from, to int64
	Asked
	Answered
}

func read(from, to, available, held int64) one {
	return one{from, to, Asked{Action: Read}, Answered{Done, available, held}}
}

func reserve(from, to int64, hold int, o Outcome) one {
	return one{from, to, Asked{Action: Reserve, Hold: hold}, Answered{Outcome: o}}
}

func release(from, to int64, hold int, o Outcome) one {
	return one{from, to, Asked{Action: Release, Hold: hold}, Answered{Outcome: o}}
}

func capture(from, to int64, hold int) one {
	return one{from, to, Asked{Action: Capture, Hold: hold}, Answered{Outcome: Done}}
}

func topUp(from, to, cents int64, o Outcome) one {
	return one{from, to, Asked{Action: TopUp, Cents: cents}, Answered{Outcome: o}}
}

// TestTheCheckerRefusesWhatAWalletCannotDo: the checker rejects exactly the histories that a wallet cannot have. A
// checker that rejects nothing would be useless.
func TestTheCheckerRefusesWhatAWalletCannotDo(t *testing.T) {
	t.Parallel()
	const end = 1000
	for name, tt := range map[string]struct {
		want porcupine.CheckResult
		ops  []one
	}{
		"one after another": {porcupine.Ok, []one{read(0, 1, 5000, 0), reserve(2, 3, 0, Done), read(4, 5, 3000, 2000),
			reserve(6, 7, 1, Done), reserve(8, 9, 2, Refused), release(10, 11, 0, Done), read(12, 13, 3000, 2000),
			capture(14, 15, 1), read(16, 17, 3000, 0), topUp(18, 19, 1500, Done), read(20, 21, 4500, 0)}},
		"a stale read": {porcupine.Illegal,
			[]one{reserve(0, 1, 0, Done), read(2, 3, 5000, 0)}},
		"a read beside a reservation": {porcupine.Ok, []one{reserve(0, 4, 0, Done),
			read(1, 2, 5000, 0), read(3, 5, 3000, 2000)}},
		"reads that go back": {porcupine.Illegal, []one{reserve(0, 9, 0, Done),
			read(1, 2, 3000, 2000), read(3, 4, 5000, 0)}},
		"an acknowledged reservation is lost": {porcupine.Illegal, []one{reserve(0, 1, 0, Done),
			read(2, 3, 3000, 2000), read(4, 5, 5000, 0)}},
		"one reservation holds twice": {porcupine.Illegal,
			[]one{reserve(0, 1, 0, Done), read(2, 3, 1000, 4000)}},
		"more is spent than there is": {porcupine.Illegal, []one{reserve(0, 9, 0, Done),
			reserve(0, 9, 1, Done), reserve(0, 9, 2, Done)}},
		"refused with money": {porcupine.Illegal, []one{reserve(0, 1, 0, Refused)}},
		"an unknown reservation that happened": {porcupine.Ok, []one{reserve(0, end, 0, Unknown),
			read(2, 3, 3000, 2000)}},
		"an unknown reservation that did not": {porcupine.Ok, []one{reserve(0, end, 0, Unknown),
			read(2, 3, 5000, 0)}},
		"an unknown reservation that happens late": {porcupine.Ok, []one{reserve(0, end, 0, Unknown),
			read(2, 3, 5000, 0), read(4, 5, 3000, 2000)}},
		"an unknown reservation that comes and goes": {porcupine.Illegal, []one{reserve(0, end, 0, Unknown),
			read(2, 3, 3000, 2000), read(4, 5, 5000, 0)}},
		"an unknown release that happened": {porcupine.Ok, []one{reserve(0, 1, 0, Done),
			release(2, end, 0, Unknown), read(4, 5, 5000, 0)}},
		"released twice gives back once": {porcupine.Ok, []one{reserve(0, 1, 0, Done),
			release(2, 3, 0, Done), release(4, 5, 0, Done), read(6, 7, 5000, 0)}},
		"released twice gives back twice": {porcupine.Illegal, []one{reserve(0, 1, 0, Done),
			release(2, 3, 0, Done), release(4, 5, 0, Done), read(6, 7, 7000, 0)}},
		"captured twice": {porcupine.Illegal, []one{reserve(0, 1, 0, Done),
			capture(2, 9, 0), capture(2, 9, 0)}},
		"captured and released": {porcupine.Illegal, []one{reserve(0, 1, 0, Done),
			capture(2, 9, 0), release(2, 9, 0, Done)}},
		"a credit that is unknown and came": {porcupine.Ok, []one{topUp(0, end, 700, Unknown),
			read(2, 3, 5700, 0)}},
		"a credit that came twice": {porcupine.Illegal,
			[]one{topUp(0, end, 700, Done), read(2, 3, 6400, 0)}},
		"a credit that is acknowledged and never came": {porcupine.Illegal,
			[]one{topUp(0, 1, 700, Done), read(2, 3, 5000, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := NewHistory()
			for _, o := range tt.ops {
				o.Wallet = "w"
				h.ops = append(h.ops, porcupine.Operation{Input: o.Asked, Output: o.Answered,
					Call: o.from, Return: o.to})
			}
			// Another wallet does not affect the result.
			h.ops = append(h.ops, porcupine.Operation{Input: Asked{Wallet: "other", Action: Read},
				Output: Answered{Done, 1, 0}, Call: 0, Return: 1})
			got, page, err := h.Check(Model(price, map[string]int64{"w": 5000, "other": 1}), time.Minute)
			if err != nil || got != tt.want || !bytes.Contains(page, []byte("<html")) {
				t.Errorf("%s, want %s; %d bytes of a page, %v", got, tt.want, len(page), err)
			}
		})
	}
}

// TestWhoWasNeverAnsweredWaitsUntilTheEnd: an operation without a response may take effect after all others.
func TestWhoWasNeverAnsweredWaitsUntilTheEnd(t *testing.T) {
	t.Parallel()
	h := NewHistory()
	asked := h.Now()
	h.Add(1, Asked{Wallet: "w", Action: Reserve}, asked, Answered{Outcome: Unknown})
	for _, available := range []int64{5000, 3000} {
		asked = h.Now()
		h.Add(2, Asked{Wallet: "w", Action: Read}, asked, Answered{Done, available, 5000 - available})
	}
	if got, _, err := h.Check(Model(price, map[string]int64{"w": 5000}), time.Minute); got != porcupine.Ok ||
		err != nil || h.Len() != 3 {
		t.Errorf("%s, %v", got, err)
	}
}
