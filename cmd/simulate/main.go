// Command simulate plays a day of consultations on a simulated clock and writes a report; see package
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
	Dir           string `default:".data/simulate" type:"path" help:"Folder of the database cluster and the report, kept between runs."`
	Consultations int    `default:"100000" help:"How many consultations the day has; 0 plays the queues of theory alone."`
	Lawyers       int    `default:"10000" help:"How many lawyers have a shift in it."`
	Pairs         int    `default:"60" help:"How many pairs of competence and language they serve."`
	Seed          uint64 `default:"1" help:"Of everything that is drawn by lot."`
	Arrivals      int    `default:"2000" help:"How many clients come to each queue that is compared with theory, in each of five runs; 0 plays none."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var o options
	k := kong.Parse(&o, kong.Name("simulate"), kong.Description("Plays a day of consultations on a simulated clock."))
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
