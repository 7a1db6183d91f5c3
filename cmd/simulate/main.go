// Command simulate simulates a day of consultations on a simulated clock and writes a report; see package
// internal/dev/simulate.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"partnerd/internal/dev/simulate"
)

type options struct {
	Dir           string `default:".data/simulate" type:"path" help:"Folder for the database cluster and the report, kept between runs."`
	Consultations int    `default:"100000" help:"Number of consultations in the day; 0 runs only the theoretical queues."`
	Lawyers       int    `default:"10000" help:"Number of lawyers with a shift."`
	Pairs         int    `default:"60" help:"Number of combinations of practice area and language they serve."`
	Seed          uint64 `default:"1" help:"Random seed."`
	Arrivals      int    `default:"2000" help:"Number of clients in each theoretical queue, in each of five runs; 0 runs none."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var o options
	k := kong.Parse(&o, kong.Name("simulate"),
		kong.Description("Simulate a day of consultations on a simulated clock."))
	err := run(ctx, o)
	stop()
	k.FatalIfErrorf(err)
}

func run(ctx context.Context, o options) error {
	if o.Consultations < 0 || o.Consultations > 1_000_000 || o.Lawyers < 1 || o.Lawyers > 100_000 || o.Pairs < 1 ||
		o.Pairs > 1000 || o.Arrivals < 0 || o.Arrivals > 100_000 {
		return errors.New("--consultations must be between 0 and 1000000, --lawyers between 1 and 100000, --pairs " +
			"between 1 and 1000, --arrivals between 0 and 100000")
	}
	cfg := simulate.Config{Dir: o.Dir, Report: o.Dir,
		Day: simulate.DefaultPlan(o.Lawyers, o.Pairs, o.Consultations, o.Seed), Out: os.Stdout}
	if o.Arrivals > 0 {
		cfg.Single = simulate.Singles(o.Arrivals, 5)
	}
	return simulate.Run(ctx, cfg)
}
