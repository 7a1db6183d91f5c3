package faults

import (
	"slices"
	"testing"
	"time"
)

var everything = map[Kind][]string{
	KillProcess: {"a", "b", "c"}, KillDatabase: {"db"}, Cut: {"a", "b"}, Latency: {"a", "b"}, Silence: {"a", "b"},
	Drop: {"c"}, DiskFull: {"db"}, ClockStep: {"d"}, Receiver: {"r"}, Payments: {"pay"}, Phone: {"phone"},
}

func TestASeedAlwaysDrawsTheSamePlan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		plan := Plan(seed, 2*time.Minute, everything)
		if !slices.Equal(plan, Plan(seed, 2*time.Minute, everything)) {
			t.Fatalf("seed %d draws two plans", seed)
		}
		if seed > 0 && slices.Equal(plan, Plan(seed-1, 2*time.Minute, everything)) {
			t.Fatalf("seeds %d and %d draw the same", seed-1, seed)
		}
	}
}

func TestAPlanKeepsToItsCastAndItsTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		plan, busy, kinds := Plan(seed, 2*time.Minute, everything), map[string]time.Duration{}, map[Kind]int{}
		for _, f := range plan {
			if f.At < busy[f.Subject] || f.End() > 2*time.Minute || !slices.Contains(everything[f.Kind], f.Subject) ||
				f.Size < 0 || f.Size >= 1000 {
				t.Errorf("seed %d: %+v, and %s is busy until %s", seed, f, f.Subject, busy[f.Subject])
			}
			busy[f.Subject] = f.End()
			kinds[f.Kind]++
		}
		// A kind whose turn came while its subject was busy may not occur.
		if len(plan) < 20 || len(kinds) < len(everything)-2 {
			t.Errorf("seed %d: %d faults of %d kinds: %v", seed, len(plan), len(kinds), kinds)
		}
	}
	if plan := Plan(1, time.Minute, map[Kind][]string{Cut: {"a"}, Drop: nil}); slices.ContainsFunc(plan,
		func(f Fault) bool { return f.Kind != Cut }) || len(plan) == 0 {
		t.Errorf("what cannot happen is planned: %v", plan)
	}
	if plan := Plan(1, time.Minute, nil); plan != nil {
		t.Errorf("nothing can happen, and %v is planned", plan)
	}
}
