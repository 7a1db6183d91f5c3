// Command bench benchmarks the program on this machine and prints a table; see package internal/dev/bench.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"partnerd/internal/app"
	"partnerd/internal/dev/bench"
)

type options struct {
	Dir   string        `default:".data/bench" type:"path" help:"Folder for the database cluster, kept between runs."`
	Load  time.Duration `default:"10s" help:"Duration of each scenario with a rate."`
	Count int           `default:"20000" help:"Number of items in each scenario with a count."`
	Rows  int           `default:"200000" help:"Number of existing rows in each scenario with large tables."`
	Only  string        `help:"Run only scenarios whose name matches this regular expression."`

	Tracing float64 `help:"Share of traces to record (0 to 1) in the scenarios life, match, wallet and api."`

	Stat bool `help:"Print benchstat input instead of a table."`

	CPUProfile string `name:"cpuprofile" help:"Write a CPU profile to this file."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var o options
	k := kong.Parse(&o, kong.Name("bench"), kong.Description("Measure partnerd on this machine."))
	err := run(ctx, o)
	stop()
	k.FatalIfErrorf(err)
}

func run(ctx context.Context, o options) error {
	if o.Load < time.Second || o.Load > 10*time.Minute || o.Count < 100 || o.Count > 1_000_000 || o.Rows < 1000 ||
		o.Rows > 20_000_000 {
		return errors.New("--load must be between 1s and 10m, --count between 100 and 1000000, --rows between " +
			"1000 and 20000000")
	}
	if !(o.Tracing >= 0 && o.Tracing <= 1) {
		return errors.New("--tracing must be between 0 and 1")
	}
	app.TuneGC() // as partnerd does; most scenarios run it in this process
	only, err := regexp.Compile(o.Only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if o.CPUProfile != "" {
		f, err := os.Create(o.CPUProfile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return bench.Run(ctx, bench.Config{Dir: o.Dir, Load: o.Load, Count: o.Count, Rows: o.Rows, Only: only,
		Trace: o.Tracing, Stat: o.Stat, Out: os.Stdout})
}
