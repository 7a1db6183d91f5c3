package faults

import (
	"strings"
	"testing"
	"time"
)

func TestTheReportTellsWhatIsBroken(t *testing.T) {
	t.Parallel()
	r := Run{Seed: 7, Length: 10 * time.Second, Command: "make chaos SEED=7", HistoryPage: "seed-7-wallets.html",
		Faults: []Happened{{Fault{At: time.Second, For: 2 * time.Second, Kind: Cut, Subject: "a"}, "and more"},
			{Fault{At: 4 * time.Second, Kind: ClockStep, Subject: "b"}, ""}},
		Invariants: []Invariant{{"the books agree", 1, nil}, {"nothing is lost", 12, []string{"<con_1> is"}}},
		Figures:    []Figure{{"requests", "12"}}, NotChecked: []string{"disk full: not root"},
		Answers: []Answer{{time.Second, time.Millisecond, 201}, {2 * time.Second, time.Second, 0},
			{9 * time.Second, 2 * time.Second, 503}}}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"make chaos SEED=7", "seed-7-wallets.html", "&lt;con_1&gt; is", "<td>none</td>",
		"disk full: not root", "connections cut", "and more", "<svg"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report says nothing of %q", want)
		}
	}
	if n := strings.Count(string(page), "<svg"); n != 3 {
		t.Errorf("%d pictures", n)
	}
	if _, err := (Run{}).HTML(); err != nil {
		t.Errorf("an empty run has no report: %v", err)
	}
}

func TestLongestGap(t *testing.T) {
	t.Parallel()
	all := []Answer{{At: time.Second, Status: 200}, {At: 3 * time.Second, Status: 503},
		{At: 6 * time.Second, Status: 201}, {At: 20 * time.Second, Status: 200}}
	for until, want := range map[time.Duration]time.Duration{
		8 * time.Second: 5 * time.Second, 20 * time.Second: 14 * time.Second, 0: 0,
	} {
		if got := LongestGap(all, until); got != want {
			t.Errorf("until %s: %s, want %s", until, got, want)
		}
	}
}
