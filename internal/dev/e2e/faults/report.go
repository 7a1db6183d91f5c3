package faults

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"partnerd/internal/dev/picture"
)

//go:embed report.html
var page string

// Happened is a fault that was injected.
type Happened struct {
	Fault Fault
	Note  string // further details
}

// Invariant is a condition that must hold at the end.
type Invariant struct {
	What   string
	Looked int      // number of items checked
	Broken []string // one entry per violation
}

// Figure is a line of the summary.
type Figure struct{ What, Value string }

// Answer is the result of one request.
type Answer struct {
	At, Took time.Duration // since the start, of its end
	Status   int           // 0: no response
}

// Answers records the results of requests. It is safe for concurrent use.
type Answers struct {
	began time.Time
	mu    sync.Mutex
	all   []Answer
}

// NewAnswers returns an empty record that starts now.
func NewAnswers() *Answers { return &Answers{began: time.Now()} }

// Add records a result that arrived just now for a request sent at the given time.
func (a *Answers) Add(sent time.Time, status int) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, Answer{now.Sub(a.began), now.Sub(sent), status})
}

// All returns the results so far, in order.
func (a *Answers) All() []Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

// Succeeded reports whether a status is a success.
func Succeeded(status int) bool { return status >= 200 && status < 300 }

// LongestGap returns the longest time without a successful request, up to the given time.
func LongestGap(all []Answer, until time.Duration) (longest time.Duration) {
	last := time.Duration(0)
	for _, a := range all {
		if Succeeded(a.Status) && a.At <= until {
			longest, last = max(longest, a.At-last), a.At
		}
	}
	return max(longest, until-last)
}

// Run is the content of the report of a run.
type Run struct {
	Seed        uint64
	Length      time.Duration
	Command     string // reproduces the run
	Faults      []Happened
	Invariants  []Invariant
	Figures     []Figure
	NotChecked  []string // what could not be done here
	HistoryPage string   // file of Porcupine's visualisation
	Answers     []Answer
}

// HTML returns the page.
func (r Run) HTML() ([]byte, error) {
	var pictures []picture.Picture
	for _, draw := range []func() (picture.Picture, error){r.timeline, r.rates, r.latencies} {
		p, err := draw()
		if err != nil {
			return nil, err
		}
		pictures = append(pictures, p)
	}
	t, err := template.New("report").Parse(page)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, struct {
		Run
		Pictures []picture.Picture
	}{r, pictures}); err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return out.Bytes(), nil
}

// timeline draws a line for each subject and a bar for each fault.
func (r Run) timeline() (picture.Picture, error) {
	p := plot.New()
	p.X.Label.Text = "seconds"
	p.X.Min, p.X.Max = 0, r.Length.Seconds()
	var names []string
	for _, h := range r.Faults {
		name := string(h.Fault.Kind)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	for _, h := range r.Faults {
		i := slices.Index(names, string(h.Fault.Kind))
		y, end := float64(i), max(h.Fault.End(), h.Fault.At+300*time.Millisecond)
		bar, err := plotter.NewLine(plotter.XYs{{X: h.Fault.At.Seconds(), Y: y}, {X: end.Seconds(), Y: y}})
		if err != nil {
			return picture.Picture{}, fmt.Errorf("draw a fault: %w", err)
		}
		bar.Width, bar.Color = vg.Points(6), plotutil.Color(i)
		p.Add(bar)
	}
	if len(names) > 0 {
		p.NominalY(names...)
	}
	return picture.Render(p, "Faults",
		"When each fault occurred, and for how long. Faults on one line may affect different processes.")
}

func (r Run) rates() (picture.Picture, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "seconds", "responses per second"
	var lines []any
	for _, of := range []struct {
		name string
		is   func(int) bool
	}{
		{"succeeded", Succeeded},
		{"unavailable", func(s int) bool { return s == http.StatusServiceUnavailable }},
		{"no response", func(s int) bool { return s == 0 }},
	} {
		counts := make(plotter.XYs, int(r.Length.Seconds())+1)
		for i := range counts {
			counts[i].X = float64(i)
		}
		for _, a := range r.Answers {
			if i := int(a.At.Seconds()); of.is(a.Status) && i < len(counts) {
				counts[i].Y++
			}
		}
		lines = append(lines, of.name, counts)
	}
	if err := plotutil.AddLines(p, lines...); err != nil {
		return picture.Picture{}, fmt.Errorf("draw rates: %w", err)
	}
	p.Legend.Top = true
	return picture.Render(p, "Responses",
		"By result of the request, per second. Callers without a response retry with the same key.")
}

func (r Run) latencies() (picture.Picture, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "seconds", "milliseconds, powers of ten"
	bySecond := make([][]time.Duration, int(r.Length.Seconds())+1)
	for _, a := range r.Answers {
		if i := int(a.At.Seconds()); Succeeded(a.Status) && i < len(bySecond) {
			bySecond[i] = append(bySecond[i], a.Took)
		}
	}
	for q, shade := range map[float64]color.Color{0.5: plotutil.Color(0), 0.99: plotutil.Color(1)} {
		var points plotter.XYs
		for i, took := range bySecond {
			if len(took) > 0 {
				slices.Sort(took)
				points = append(points, plotter.XY{X: float64(i),
					Y: math.Log10(max(0.1, float64(took[int(q*float64(len(took)-1))].Microseconds())/1000))})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return picture.Picture{}, fmt.Errorf("draw latencies: %w", err)
		}
		line.Color = shade
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("p%.0f", 100*q), line)
	}
	p.Legend.Top = true
	return picture.Render(p, "Latencies", "Of successful requests, by the second in which they ended.")
}
