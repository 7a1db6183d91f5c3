// Command gotest runs "go test" with its arguments and prints its output. While there is no other output, it prints the
// progress every half minute. At the end it lists the slowest tests and packages, without those whose result came from
// Go's cache. It exits with the status of "go test".
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	sayEvery = 30 * time.Second
	longest  = 10 // number of slowest tests and packages to list
	// Compilers and test programs are short-lived and have small heaps. At Go's default they spend a fifth of their
	// time on garbage collection.
	gogc = "400"
)

func main() {
	args := os.Args[1:]
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Env = append([]string{"GOGC=" + gogc}, os.Environ()...) // the caller's own value comes later and wins
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		report(os.Stdout, out, slices.Contains(args, "-v"), time.Tick(sayEvery))
		err = cmd.Wait()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(max(exit.ExitCode(), 1))
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

type timed struct {
	name    string
	seconds float64
}

// running is a package whose tests are running.
type running struct {
	name  string
	order []string // its tests in order of start; "" is the package itself
	said  map[string]*strings.Builder
	done  map[string]string // how each test ended
	took  []timed
}

type reporter struct {
	out                io.Writer
	verbose, silent    bool
	running            []*running
	packages, ok, fail int
	failed             []string // packages
	tests, slow        []timed
}

// report prints the events of "go test -json" as "go test" does, with full output if verbose.
func report(out io.Writer, events io.Reader, verbose bool, tick <-chan time.Time) {
	r := &reporter{out: out, verbose: verbose}
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for in := bufio.NewReader(events); ; {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-tick:
			if r.silent {
				r.progress()
			}
			r.silent = true
		case line, open := <-lines:
			if !open {
				r.summary()
				return
			}
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				e = event{Action: "build-output", Output: string(line)} // not every line that go prints is an event
			}
			r.take(e)
		}
	}
}

func (r *reporter) print(text ...string) {
	for _, t := range text {
		r.silent = false
		fmt.Fprint(r.out, t)
	}
}

func (r *reporter) take(e event) {
	if e.Action == "build-output" {
		r.print(e.Output)
	}
	if e.Package == "" {
		return
	}
	i := slices.IndexFunc(r.running, func(p *running) bool { return p.name == e.Package })
	if i < 0 {
		i = len(r.running)
		r.running = append(r.running, &running{name: e.Package,
			said: map[string]*strings.Builder{}, done: map[string]string{}})
	}
	p := r.running[i]
	if p.said[e.Test] == nil {
		p.order, p.said[e.Test] = append(p.order, e.Test), &strings.Builder{}
	}
	switch e.Action {
	case "output":
		if r.verbose {
			r.print(e.Output)
		} else if !strings.HasPrefix(e.Output, "=== ") {
			p.said[e.Test].WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		p.done[e.Test] = e.Action
		if e.Test == "" {
			r.running = slices.Delete(r.running, i, i+1)
			r.ended(p, e)
			return
		}
		if e.Action == "fail" {
			r.fail++
		} else if e.Action == "pass" {
			r.ok++
		}
		if !strings.Contains(e.Test, "/") {
			p.took = append(p.took, timed{e.Test, e.Elapsed})
		}
	}
}

// ended prints the result of a package. If it failed, that is the tests that failed or never ended, and the package's
// own output. Otherwise it is the package's line.
func (r *reporter) ended(p *running, e event) {
	said := p.said[""].String()
	if !strings.Contains(said, "(cached)") && e.Action != "skip" {
		r.slow = append(r.slow, timed{p.name, e.Elapsed})
		for _, t := range p.took {
			r.tests = append(r.tests, timed{p.name + " " + t.name, t.seconds})
		}
	}
	r.packages++
	if e.Action == "fail" {
		r.failed = append(r.failed, p.name)
	}
	if r.verbose {
		return
	}
	if e.Action != "fail" {
		for line := range strings.Lines(said) {
			if strings.HasPrefix(line, "ok ") {
				r.print(line)
			}
		}
		return
	}
	for _, test := range p.order {
		if test != "" && p.done[test] != "pass" && p.done[test] != "skip" {
			r.print(p.said[test].String())
		}
	}
	r.print(said)
}

// progress prints how many packages are done and which are running.
func (r *reporter) progress() {
	var now []string
	for _, p := range r.running {
		now = append(now, p.name)
	}
	what := "compiling"
	if len(now) > 0 {
		what = "running: " + strings.Join(now, ", ")
	}
	r.print(fmt.Sprintf("… %d packages done, %d tests passed, %d failed; %s\n", r.packages, r.ok, r.fail, what))
}

func (r *reporter) summary() {
	for _, list := range []struct {
		title string
		of    []timed
	}{{"Slowest tests", r.tests}, {"Slowest packages", r.slow}} {
		if len(list.of) == 0 {
			continue
		}
		slices.SortFunc(list.of, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
		r.print("\n", list.title, ":\n")
		for _, t := range list.of[:min(longest, len(list.of))] {
			r.print(fmt.Sprintf("%7.1f s  %s\n", t.seconds, t.name))
		}
	}
	r.print(fmt.Sprintf("%d tests passed, %d failed\n", r.ok, r.fail))
	if len(r.failed) > 0 {
		r.print("FAILED: ", strings.Join(r.failed, " "), "\n")
	}
}
