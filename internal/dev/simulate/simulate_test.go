package simulate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"partnerd/internal/domain/consultation"
)

// TestASmallDay simulates a small day and a small queue completely. Everything started ends, targets that do not need
// large numbers are met, and the report has its pictures.
func TestASmallDay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plan := DefaultPlan(30, 2, 60, 7)
	var out bytes.Buffer
	err := Run(t.Context(), Config{Dir: filepath.Join(dir, "cluster"), Report: dir, Day: plan,
		Single: []Single{{Lawyers: 2, Load: 0.8,
			Service: 5 * time.Minute, Patience: 4 * time.Minute, Arrivals: 30, Seeds: 2}}, Out: &out})
	if err != nil && !errors.Is(err, ErrMissed) { // forty are too few for the targets of a whole day
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || bytes.Count(page, []byte("<svg")) != 3 || !bytes.Contains(page, []byte("Erlang A: 2 lawyers")) {
		t.Errorf("report of %d bytes: %v\n%s", len(page), err, out.Bytes())
	}
	for _, want := range []string{"promised callbacks missed                                              0",
		"consultations still open at the end                                    0",
		"samples with an idle lawyer while a matching consultation waits        0 of",
		"problems found by the ledger check                                     0"} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("the summary lacks %q:\n%s", want, out.Bytes())
		}
	}
}

// TestABrokenPromiseIsSaid checks that no missed target is reported as met: a day that breaks a target misses it.
func TestABrokenPromiseIsSaid(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) *time.Time { x := monday.Add(d); return &x }
	estimate := 10
	fair := make([]Served, 40)
	for i := range fair {
		fair[i] = Served{Pairs: []int{0}, OnDuty: 3 * time.Hour, Assignments: 10}
	}
	base := func() *Day {
		return &Day{Plan: Plan{Pairs: 1}, People: fair, Samples: 1, All: []One{
			{CreatedAt: monday, Accepted: at(8 * time.Second), Estimate: &estimate, Ended: consultation.Completed},
			{CreatedAt: monday, Accepted: at(9 * time.Second), Estimate: &estimate, Ended: consultation.Completed},
			{CreatedAt: monday, Accepted: at(12 * time.Second), Estimate: &estimate, Ended: consultation.Completed},
		}}
	}
	late := 100
	for what, tc := range map[string]struct {
		change func(*Day)
		missed int
	}{
		"as promised": {func(*Day) {}, 0},
		"guarantee": {
			func(d *Day) { d.All[0].Ended, d.All[0].Reason = consultation.Expired, consultation.GuaranteeMissed }, 1,
		},
		"open":     {func(d *Day) { d.All[0].Ended = consultation.Matching }, 1},
		"stranded": {func(d *Day) { d.Stranded = 1 }, 1},
		"books":    {func(d *Day) { d.Findings = []string{"x"} }, 1},
		"far off":  {func(d *Day) { d.All[0].Accepted, d.All[1].Estimate = at(10*time.Minute), &late }, 2},
		"unfair": {func(d *Day) {
			d.People = append([]Served{{Pairs: []int{0}, OnDuty: 3 * time.Hour, Assignments: 400}}, fair...)
		}, 1},
		"not yet an hour": {func(d *Day) {
			d.People = append([]Served{{Pairs: []int{0}, OnDuty: time.Minute, Assignments: 400}}, fair...)
		}, 0},
	} {
		d := base()
		tc.change(d)
		missed := 0
		for _, f := range (played{day: d}).figures() {
			if !f.Kept {
				missed++
			}
		}
		if missed < tc.missed || tc.missed == 0 && missed > 0 {
			t.Errorf("%s: %d missed, want %d: %+v", what, missed, tc.missed, played{day: d}.figures())
		}
	}
	// No figure is near both; the first is near half of them.
	for told, kept := range map[int]bool{100: true, 300: false} {
		d := base()
		d.All = nil
		for range enough {
			for _, wait := range []time.Duration{61 * time.Second, 1000 * time.Second} {
				d.All = append(d.All, One{CreatedAt: monday, Accepted: at(wait), Estimate: &told,
					Ended: consultation.Completed})
			}
		}
		if c := d.calibration(); ratio(c.within, c.queued) >= c.target() != kept || c.target() != 0.45 {
			t.Errorf("told %d: %+v, to reach %v", told, c, c.target())
		}
	}
	for want, waits := range map[int][]float64{
		// None is over a minute.
		0: slices.Repeat([]float64{10}, 40),
		// 200 is near both.
		40: slices.Concat(slices.Repeat([]float64{100}, 20), slices.Repeat([]float64{400}, 20)),
		// No figure is near values farther apart.
		30: slices.Concat(slices.Repeat([]float64{100}, 30), slices.Repeat([]float64{401}, 29)),
		// The figure is at most 40, which meets 61 and 70.
		10: slices.Concat(slices.Repeat([]float64{40}, 100), slices.Repeat([]float64{61, 70, 900}, 5)),
	} {
		if got := bestFigure(waits); got != want {
			t.Errorf("the best figure is near to %d of %v, want %d", got, waits, want)
		}
	}
}
