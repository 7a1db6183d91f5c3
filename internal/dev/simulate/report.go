package simulate

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"

	"partnerd/internal/dev/picture"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/report"
)

// Targets of the report.
const (
	fairGini = 0.15 // of assignments per hour on duty, within a pair
	// Share of waits over a minute, of those who queued, for which the estimate must be right within a factor of two.
	withinTwo  = 0.8
	ofTheBest  = 0.9 // or this share of what the best figure per state of the queue would have met, if lower
	leastAbove = 0.5 // lowest share of waits that were not longer than the estimate
	mostAbove  = 0.8 // highest share
	giniServed = 200 // assignments of a pair below which chance dominates
)

//go:embed report.html
var page string

// played is everything that was simulated.
type played struct {
	theory []Compared
	day    *Day
}

// Figure is one line of the summary.
type Figure struct {
	What, Value, Target string
	Kept                bool
}

func (r played) figures() (list []Figure) {
	for _, t := range r.theory {
		list = append(list, Figure{fmt.Sprintf("Erlang A: %d lawyers at %.2f of capacity, mean wait",
			t.Lawyers, t.Load),
			fmt.Sprintf("%.1f ± %.1f s", t.Simulated.Mean, t.Error.Mean), fmt.Sprintf("%.1f s", t.Theory.Mean),
			t.Agrees()})
	}
	if r.day == nil {
		return list
	}
	d := r.day
	completed, cancelled, late, open, broken := 0, 0, 0, 0, 0
	for _, o := range d.All {
		switch {
		case o.Ended == consultation.Completed:
			completed++
		case o.Ended == consultation.Cancelled:
			cancelled++
		case !o.Ended.Terminal():
			open++
		case o.Reason == consultation.GuaranteeMissed:
			broken++
		}
		if o.Callback != nil {
			late++
		}
	}
	n := len(d.All)
	cal := d.calibration()
	gini, worst := d.fairness()
	add := func(what, value, target string, kept bool) { list = append(list, Figure{what, value, target, kept}) }
	add("consultations, completed, cancelled by the client", fmt.Sprintf("%d, %d, %d", n, completed, cancelled),
		"", true)
	add("wait until a lawyer accepted, p50 and p90", fmt.Sprintf("%s, %s", d.wait(0.5), d.wait(0.9)), "", true)
	add("no lawyer within 30 minutes, callback promised", fmt.Sprintf("%d (%.1f %%)", late, share(late, n)),
		"", true)
	add("promised callbacks missed", fmt.Sprint(broken), "0", broken == 0)
	add("consultations still open at the end", fmt.Sprint(open), "0", open == 0)
	add("samples with an idle lawyer while a matching consultation waits",
		fmt.Sprintf("%d of %d", d.Stranded, d.Samples), "0", d.Stranded == 0)
	add(fmt.Sprintf("estimates within a factor of two, for %d waits over a minute in the queue", cal.queued),
		fmt.Sprintf("%.2f", ratio(cal.within, cal.queued)), fmt.Sprintf("≥ %.2f", cal.target()),
		cal.queued == 0 || ratio(cal.within, cal.queued) >= cal.target())
	add("the same with the best estimate per queue state, chosen afterwards",
		fmt.Sprintf("%.2f", ratio(cal.best, cal.queued)), "", true)
	add("waits over a minute with a lawyer idle; share including them",
		fmt.Sprintf("%d of %d, %.2f", cal.unlucky, cal.idle, ratio(cal.within, cal.queued+cal.unlucky)), "", true)
	above := ratio(cal.above, cal.estimated)
	add("waits not longer than their estimate", fmt.Sprintf("%.2f", above),
		fmt.Sprintf("%.2f to %.2f", leastAbove, mostAbove), cal.queued == 0 ||
			above >= leastAbove && above <= mostAbove)
	add("Gini of assignments per hour on duty within a pair, mean and worst", fmt.Sprintf("%.3f, %.3f", gini, worst),
		fmt.Sprintf("< %.2f", fairGini), gini < fairGini)
	add("problems found by the ledger check", fmt.Sprint(len(d.Findings)), "0", len(d.Findings) == 0)
	return list
}

func share(part, of int) float64 { return 100 * float64(part) / float64(max(1, of)) }

// waits returns the waits of all consultations that a lawyer accepted within the search, shortest first.
func (d *Day) waits(of func(One) bool) (list []time.Duration) {
	for _, o := range d.All {
		if w, ok := o.Wait(); ok && of(o) {
			list = append(list, w)
		}
	}
	slices.Sort(list)
	return list
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func (d *Day) wait(q float64) time.Duration {
	return quantile(d.waits(func(One) bool { return true }), q).Round(time.Second)
}

// calibration compares estimates with actual waits. It counts consultations that a lawyer accepted within the search.
type calibration struct {
	estimated, above int // with an estimate, and those of them who waited no longer
	// Estimated while a lawyer was idle, and those of them who waited over a minute all the same. A figure that most
	// waits do not exceed cannot fit the latter.
	idle, unlucky int
	// Estimated while no lawyer was idle with a wait over a minute, and those of them whose estimate was right within a
	// factor of two.
	queued, within int
	// The number of queued for which the best figure per state of the queue, chosen afterwards, would have been right.
	best int
}

func ratio(part, of int) float64 { return float64(part) / float64(max(1, of)) }

// state is the approximate state of a queue: the consultations ahead, and the estimate, which reflects how many wait
// for each lawyer.
type state struct{ ahead, estimate int }

func (d *Day) calibration() (c calibration) {
	waits := map[state][]float64{}
	met := map[state]int{}
	for _, o := range d.All {
		wait, ok := o.Wait()
		if !ok || o.Estimate == nil || o.Callback != nil {
			continue
		}
		w, e := wait.Seconds(), float64(*o.Estimate)
		c.estimated++
		if w <= e {
			c.above++
		}
		long := w > 60
		if o.Idle {
			c.idle++
			if long {
				c.unlucky++
			}
			continue
		}
		s := state{int(math.Log2(float64(o.Ahead + 1))), int(math.Log(e) / math.Log(1.5))}
		waits[s] = append(waits[s], w)
		if long {
			c.queued++
			if near(e, w) {
				met[s]++
			}
		}
	}
	var rare []float64
	rareMet := 0
	for s, list := range waits {
		c.within += met[s]
		if len(list) < enough {
			rare, rareMet = append(rare, list...), rareMet+met[s]
		} else {
			c.best += max(met[s], bestFigure(list))
		}
	}
	c.best += max(rareMet, bestFigure(rare))
	return c
}

// enough is the number of waits in a state of the queue, or in total, needed to determine the best figure.
const enough = 30

// target is the share of queued that the estimates must meet. In short queues most waits are under a minute, so longer
// waits are bad luck. A figure that fits those is too long for most waits. So no estimate can meet as many as in long
// queues.
func (c calibration) target() float64 {
	if c.queued < enough {
		return withinTwo
	}
	return min(withinTwo, ofTheBest*ratio(c.best, c.queued))
}

// near reports whether an estimate is right within a factor of two.
func near(estimate, wait float64) bool { return estimate >= wait/2 && estimate <= 2*wait }

// bestFigure returns how many of the waits over a minute the best single figure is near to. Figures too long for
// [mostAbove] of all waits are excluded.
func bestFigure(waits []float64) (best int) {
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	most := waits[int(mostAbove*float64(len(waits)-1))]
	first, _ := slices.BinarySearch(waits, math.Nextafter(60, 61))
	for i := first; i < len(waits); i++ {
		figure := min(2*waits[i], most) // the best figure is twice a wait, unless capped
		from, _ := slices.BinarySearch(waits[first:], figure/2)
		until, _ := slices.BinarySearch(waits[first:], math.Nextafter(2*figure, math.Inf(1)))
		best = max(best, until-from)
	}
	return best
}

// fairness returns the Gini coefficient of assignments per hour on duty among lawyers with the same first pair. It
// covers the pairs with enough assignments.
func (d *Day) fairness() (mean, worst float64) {
	ginis := d.ginis()
	if len(ginis) == 0 {
		return 0, 0
	}
	for _, g := range ginis {
		mean += g.Y / float64(len(ginis))
		worst = max(worst, g.Y)
	}
	return mean, worst
}

func (d *Day) ginis() (list plotter.XYs) {
	for pair := range d.Plan.Pairs {
		var rates []float64
		served := 0
		for _, p := range d.People {
			if len(p.Pairs) == 1 && p.Pairs[0] == pair && p.OnDuty > time.Hour {
				rates = append(rates, float64(p.Assignments)/p.OnDuty.Hours())
				served += p.Assignments
			}
		}
		if served >= giniServed {
			list = append(list, plotter.XY{X: float64(pair), Y: *report.Gini(rates)})
		}
	}
	return list
}

func (r played) html() ([]byte, error) {
	data := struct {
		Theory   []Compared
		Day      *Day
		Figures  []Figure
		Pictures []picture.Picture
	}{r.theory, r.day, r.figures(), nil}
	if r.day != nil {
		for _, draw := range []func() (picture.Picture, error){r.day.byHour, r.day.scatter, r.day.fairnessBars} {
			p, err := draw()
			if err != nil {
				return nil, err
			}
			data.Pictures = append(data.Pictures, p)
		}
	}
	t, err := template.New("report").Parse(page)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, data)
	return out.Bytes(), err
}

func (d *Day) byHour() (picture.Picture, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "hour of arrival", "wait, minutes"
	var lines []any
	for _, q := range []float64{0.5, 0.9, 0.99} {
		var xy plotter.XYs
		for h := range 24 {
			from := monday.Add(time.Duration(h) * time.Hour)
			list := d.waits(func(o One) bool {
				return o.Callback == nil && !o.CreatedAt.Before(from) && o.CreatedAt.Before(from.Add(time.Hour))
			})
			if len(list) >= 20 {
				xy = append(xy, plotter.XY{X: float64(h) + 0.5, Y: quantile(list, q).Minutes()})
			}
		}
		lines = append(lines, fmt.Sprintf("p%.0f", q*100), xy)
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return picture.Picture{}, err
	}
	return picture.Render(p, "Wait by hour of arrival",
		"Time until a lawyer accepted, for consultations accepted within the 30-minute search.")
}

func (d *Day) scatter() (picture.Picture, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "estimate, seconds (log)", "wait, seconds (log)"
	var xy plotter.XYs
	for _, o := range d.All {
		if w, ok := o.Wait(); ok && o.Estimate != nil && o.Callback == nil && w > time.Second {
			xy = append(xy, plotter.XY{X: math.Log10(float64(*o.Estimate)), Y: math.Log10(w.Seconds())})
		}
	}
	if step := len(xy) / 3000; step > 1 { // enough points for the plot
		for i := range len(xy) / step {
			xy[i] = xy[i*step]
		}
		xy = xy[:len(xy)/step]
	}
	s, err := plotter.NewScatter(xy)
	if err != nil {
		return picture.Picture{}, err
	}
	s.Radius = 1
	same := plotter.NewFunction(func(x float64) float64 { return x })
	p.Add(s, same)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 3.5, 0, 3.5
	return picture.Render(p, "Estimated and actual wait",
		"Each point is a consultation. On the line, the estimate was exact. Points on the left were estimated "+
			"while a lawyer was idle. Axes show powers of ten.")
}

func (d *Day) fairnessBars() (picture.Picture, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "pair, most requested first", "Gini"
	xy := d.ginis()
	if len(xy) > 0 {
		s, err := plotter.NewScatter(xy)
		if err != nil {
			return picture.Picture{}, err
		}
		p.Add(s)
	}
	limit := plotter.NewFunction(func(float64) float64 { return fairGini })
	p.Add(limit)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(d.Plan.Pairs), 0, 0.5
	return picture.Render(p, "Fairness within a pair",
		fmt.Sprintf("Assignments per hour on duty, for lawyers who serve only one pair, in pairs with at least %d "+
			"assignments. The line is the target.", giniServed))
}
