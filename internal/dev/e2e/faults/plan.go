package faults

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	KillProcess  Kind = "process killed"          // SIGKILL, then restarted
	KillDatabase Kind = "database killed"         // SIGKILL of all its processes, then restarted
	Cut          Kind = "connections cut"         // reset, and refused until healed
	Latency      Kind = "latency"                 // between a process and the database
	Silence      Kind = "silence"                 // sent data is acknowledged and discarded
	Drop         Kind = "packets dropped"         // nothing is acknowledged, nothing refused
	DiskFull     Kind = "disk full"               // of the database
	ClockStep    Kind = "clock stepped"           // of one process's machine; not undone
	Receiver     Kind = "receiver lies"           // slow, failing, late, closing
	Payments     Kind = "payment notices damaged" // lost, duplicated, out of order
	Phone        Kind = "call notices damaged"
)

// draws holds the weight of each kind and how long it lasts.
var draws = map[Kind]struct {
	weight            int
	shortest, longest time.Duration
}{
	KillProcess:  {6, 200 * time.Millisecond, 3 * time.Second},
	KillDatabase: {2, 200 * time.Millisecond, 2 * time.Second},
	Cut:          {4, 100 * time.Millisecond, 2 * time.Second},
	Latency:      {3, 2 * time.Second, 8 * time.Second},
	Silence:      {3, 3 * time.Second, 12 * time.Second},
	Drop:         {3, 5 * time.Second, 40 * time.Second},
	DiskFull:     {2, 2 * time.Second, 6 * time.Second},
	ClockStep:    {3, 0, 0},
	Receiver:     {3, 3 * time.Second, 12 * time.Second},
	Payments:     {3, 5 * time.Second, 15 * time.Second},
	Phone:        {3, 5 * time.Second, 15 * time.Second},
}

// Fault is one planned fault.
type Fault struct {
	At, For time.Duration // since the start; For is 0 for faults that are not undone
	Kind    Kind
	Subject string // what it affects
	Size    int64  // drawn for the injection: size of a step or latency, choice of a lie; at least 0, less than 1000
}

// End returns the time at which the fault is over.
func (f Fault) End() time.Duration { return f.At + f.For }

// Plan draws the faults of a run of the given length. The same seed, length and cast give the same plan; cast names the
// subjects of each kind. Faults overlap, but never on the same subject, and all are over when the run ends. If the run
// is long enough, every kind of the cast occurs once before any occurs twice.
func Plan(seed uint64, length time.Duration, cast map[Kind][]string) []Fault {
	random := rand.New(rand.NewPCG(seed, 0))
	var bag []Kind // filled by weight
	for kind, subjects := range cast {
		for range draws[kind].weight * min(1, len(subjects)) {
			bag = append(bag, kind)
		}
	}
	slices.Sort(bag)
	first := slices.Compact(slices.Clone(bag))
	random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	var plan []Fault
	busy := map[string]time.Duration{} // end of the fault by subject
	for at := pause(random); at < length && len(bag) > 0; at += pause(random) {
		kind := bag[random.IntN(len(bag))]
		if len(first) > 0 {
			kind, first = first[0], first[1:]
		}
		d := draws[kind]
		f := Fault{At: at, For: d.shortest + time.Duration(random.Int64N(int64(d.longest-d.shortest+1))), Kind: kind,
			Subject: cast[kind][random.IntN(len(cast[kind]))], Size: random.Int64N(1000)}
		f.For = min(f.For, length-at).Truncate(time.Millisecond)
		if f.At < busy[f.Subject] {
			continue
		}
		busy[f.Subject] = f.End() + time.Second
		plan = append(plan, f)
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// pause is the time between two faults.
func pause(random *rand.Rand) time.Duration {
	return (500*time.Millisecond + time.Duration(random.Int64N(int64(3500*time.Millisecond)))).Truncate(
		time.Millisecond,
	)
}
