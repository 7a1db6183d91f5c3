package conformance

import (
	"context"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
)

// Result is the result of a check.
type Result struct {
	Name   string        `json:"name"`
	Title  string        `json:"title"`
	Advice bool          `json:"advice"`
	Passed bool          `json:"passed"`
	Fault  string        `json:"fault,omitempty"` // what was wrong
	Why    string        `json:"why,omitempty"`   // consequence of the fault; set with Fault
	Took   time.Duration `json:"took"`
}

// Report is the result of one run of the checks.
type Report struct {
	At      time.Time `json:"at"`
	Passed  bool      `json:"passed"` // whether every required check passed
	Results []Result  `json:"results"`
}

// Faults lists the required checks that failed.
func (r Report) Faults() (names []string) {
	for _, x := range r.Results {
		if !x.Passed && !x.Advice {
			names = append(names, x.Name)
		}
	}
	return names
}

func (r *Report) add(x Result) {
	r.Results = append(r.Results, x)
	r.Passed = r.Passed && (x.Passed || x.Advice)
}

// Why a check did not run.
const (
	nothingTaken = "not run, because the signed event was not accepted"
	tooLong      = "not run, because the checks before it took too long"
)

// Examine runs every check with secret, which the endpoint must know. If the first check fails, the others do not run,
// nor do checks that are left when ctx ends.
func Examine(ctx context.Context, post Poster, secret string) Report {
	now := clock.System{}.Now
	ids := id.Minter{Test: true}
	r := &run{post: post, secret: secret, now: now, ids: ids, consultation: ids.New(id.Consultation)}
	report := Report{At: now(), Passed: true}
	for i, c := range Checks {
		x := Result{Name: c.Name, Title: c.Title, Advice: c.Advice, Fault: nothingTaken}
		switch {
		case ctx.Err() != nil:
			x.Fault = tooLong
		case i == 0 || report.Results[0].Passed:
			began := now()
			x.Fault = c.run(ctx, r)
			x.Took = now().Sub(began)
		}
		if x.Passed = x.Fault == ""; !x.Passed {
			x.Why = c.Why
		}
		report.add(x)
	}
	return report
}
