package simulate

import (
	"math"
	"testing"
)

// TestErlangAgreesWithPublishedFigures uses published examples, such as 0.2 calls/s of 240 s with 55 agents (Erlang C).
// It also checks the bounds of Erlang A: without patience it is the loss of Erlang B, with endless patience Erlang C.
func TestErlangAgreesWithPublishedFigures(t *testing.T) {
	t.Parallel()
	if q := ErlangA(0.2, 1.0/240, 0, 55); math.Abs(q.Waits-0.2387) > 0.0001 || math.Abs(q.Mean-8.18) > 0.01 ||
		q.Leaves != 0 {
		t.Errorf("Erlang C: %+v", q)
	}
	if q := ErlangA(0.2, 1.0/240, 1e-9, 55); math.Abs(q.Mean-8.18) > 0.01 {
		t.Errorf("endless patience: %+v", q)
	}
	b := 1.0 // Erlang B by its recursion
	for n := 1; n <= 10; n++ {
		b = 8 * b / (float64(n) + 8*b)
	}
	if q := ErlangA(8, 1, 1e9, 10); math.Abs(q.Leaves-b) > 1e-6 {
		t.Errorf("no patience: %+v, Erlang B %v", q, b)
	}
	// Overload: work beyond capacity leaves.
	if q := ErlangA(300, 1, 0.5, 200); math.Abs(q.Leaves-1.0/3) > 0.01 || math.IsNaN(q.Mean) {
		t.Errorf("overload: %+v", q)
	}
}
