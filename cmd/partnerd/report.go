package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/clock"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/report"
)

type reportCmd struct {
	Calibration reportCalibrationCmd `cmd:"" help:"Report how accurate wait estimates were, by practice area, language and hour (UTC)."`
	Coverage    reportCoverageCmd    `cmd:"" help:"Report time on duty and on-time service, by practice area and language."`
	Fairness    reportFairnessCmd    `cmd:"" help:"Report how evenly calls were shared among lawyers; --json lists each lawyer."`
}

type ofPeriod struct {
	output
	From  string `help:"First day, like 2026-03-01 (UTC). Default: a week before --until."`
	Until string `help:"Day after the last day, like 2026-03-08 (UTC); at most 92 days after --from. Default: now."`
}

// tell prints a report of the period. read returns it for JSON and as a table.
func (o ofPeriod) tell(ctx context.Context, cfg *config.Config,
	read func(a *app.App, p report.Period) (result map[string]any, table []string, err error),
) error {
	from, err := dayOf("--from", o.From)
	if err != nil {
		return err
	}
	until, err := dayOf("--until", o.Until)
	if err != nil {
		return err
	}
	return with(ctx, cfg, func(a *app.App) error {
		p, err := report.Between(from, until, a.DB.Read().Now)
		if err != nil {
			return err
		}
		result, table, err := read(a, p)
		if err != nil {
			return err
		}
		result["from"], result["until"] = clock.Stamp(p.From), clock.Stamp(p.Until)
		return o.print(result, append([]string{p.From.Format(stamp) + " to " + p.Until.Format(stamp), ""},
			aligned(table)...)...)
	})
}

func dayOf(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is not a date like 2026-03-01", flag, s)
	}
	return day, nil
}

// aligned aligns the cells of a table, which are separated by tabs.
func aligned(table []string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, line := range table {
		_, _ = fmt.Fprintln(w, line) // to memory
	}
	_ = w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

func cells(values ...any) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, "\t")
}

func pairName(p matching.Pair) string { return p.Competence + " " + p.Language }

// share formats a fraction for people, or returns "-" if the whole is zero.
func share(part, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(part)/float64(of))
}

func figure(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

type reportCalibrationCmd struct{ ofPeriod }

type estimatesView struct {
	Pair        string   `json:"pair,omitempty"`
	Hour        *int     `json:"hour,omitempty"`
	Told        int      `json:"told"`
	Unknown     int      `json:"unknown"`
	Waiting     int      `json:"waiting"`
	Unserved    int      `json:"unserved"`
	Served      int      `json:"served"`
	MedianRatio *float64 `json:"medianRatio"`
	NotLonger   int      `json:"notLongerThanTold"`
	Long        int      `json:"overAMinute"`
	Within      int      `json:"withinFactorTwo"`
}

func viewOfEstimates(e report.Estimates) estimatesView {
	return estimatesView{Told: e.Told, Unknown: e.Unknown, Waiting: e.Open, Unserved: e.Unserved, Served: e.Served,
		MedianRatio: e.MedianRatio, NotLonger: e.NotLonger, Long: e.Long, Within: e.Within}
}

func (c *reportCalibrationCmd) Run(ctx context.Context, cfg *config.Config) error {
	return c.tell(ctx, cfg, func(a *app.App, p report.Period) (map[string]any, []string, error) {
		r, err := report.Calibrate(ctx, a.DB.Read(), p)
		if err != nil {
			return nil, nil, err
		}
		head := "\testimates\tunknown\twaiting\tunserved\tserved\testimate/wait, median\tnot longer\tover a minute\tof these within factor 2"
		line := func(name string, e report.Estimates) string {
			return cells(name, e.Told, e.Unknown, e.Open, e.Unserved, e.Served, figure(e.MedianRatio, "%.2f"),
				share(e.NotLonger, e.Served), e.Long, share(e.Within, e.Long))
		}
		table := []string{head, line("all", r.All)}
		pairs, hours := []estimatesView{}, []estimatesView{}
		for _, e := range r.ByPair {
			v := viewOfEstimates(e.Estimates)
			v.Pair = pairName(e.Pair)
			pairs, table = append(pairs, v), append(table, line(v.Pair, e.Estimates))
		}
		for _, e := range r.ByHour {
			v := viewOfEstimates(e.Estimates)
			v.Hour = &e.Hour
			hours, table = append(hours, v), append(table, line(fmt.Sprintf("%02d:00", e.Hour), e.Estimates))
		}
		return map[string]any{"all": viewOfEstimates(r.All), "byPair": pairs, "byHour": hours}, table, nil
	})
}

type reportCoverageCmd struct{ ofPeriod }

func (c *reportCoverageCmd) Run(ctx context.Context, cfg *config.Config) error {
	return c.tell(ctx, cfg, func(a *app.App, p report.Period) (map[string]any, []string, error) {
		covers, err := report.Coverage(ctx, a.DB.Read(), p)
		if err != nil {
			return nil, nil, err
		}
		table := []string{"\thours on duty\thours idle\tconsultations\tin 30 min\tin 24 h\tserved\tunserved\twaiting"}
		list := []map[string]any{}
		for _, o := range covers {
			list = append(list, map[string]any{"pair": pairName(o.Pair), "hoursOnDuty": o.OnDuty.Hours(),
				"hoursIdle": o.Idle.Hours(), "consultations": o.Asked, "within30Minutes": o.Within30m,
				"within24Hours": o.Within24h, "served": o.Served, "unserved": o.Unserved, "waiting": o.Open()})
			table = append(table, cells(pairName(o.Pair), fmt.Sprintf("%.1f", o.OnDuty.Hours()),
				fmt.Sprintf("%.1f", o.Idle.Hours()), o.Asked, share(o.Within30m, o.Asked-o.Open()),
				share(o.Within24h, o.Asked-o.Open()), o.Served, o.Unserved, o.Open()))
		}
		return map[string]any{"hours": p.Until.Sub(p.From).Hours(), "pairs": list}, table, nil
	})
}

type reportFairnessCmd struct{ ofPeriod }

func (c *reportFairnessCmd) Run(ctx context.Context, cfg *config.Config) error {
	return c.tell(ctx, cfg, func(a *app.App, p report.Period) (map[string]any, []string, error) {
		pairs, err := report.Fairness(ctx, a.DB.Read(), p)
		if err != nil {
			return nil, nil, err
		}
		table := []string{"\tlawyers\tcalls\tper hour, least\tmost\tGini\tserving only this\tGini\tidle"}
		list := []map[string]any{}
		for _, f := range pairs {
			s := f.Summary()
			lawyers := []map[string]any{}
			for _, l := range f.Lawyers {
				lawyers = append(lawyers, map[string]any{"id": l.LawyerID, "calls": l.Calls, "alone": l.Alone,
					"hoursOnDuty": l.OnDuty.Hours(), "hoursIdle": l.Idle.Hours()})
			}
			list = append(list, map[string]any{"pair": pairName(f.Pair), "calls": s.Calls, "leastPerHour": s.Least,
				"mostPerHour": s.Most, "gini": s.Gini, "lawyersOfThisPairAlone": s.Alone, "giniOfThem": s.GiniAlone,
				"idleShare": s.IdleShare, "lawyers": lawyers})
			table = append(table, cells(pairName(f.Pair), s.Lawyers, s.Calls, fmt.Sprintf("%.2f", s.Least),
				fmt.Sprintf("%.2f", s.Most), figure(s.Gini, "%.3f"), s.Alone,
				figure(s.GiniAlone, "%.3f"), fmt.Sprintf("%.2f", s.IdleShare)))
		}
		return map[string]any{"pairs": list}, table, nil
	})
}
