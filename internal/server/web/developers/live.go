package developers

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/server/web/forms"
)

// devLive shows the checklist for going live and the last check of the endpoint.
func (p *Pages) devLive(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	items, err := p.deps.Conformance.Checklist(ctx, tx, m.Application.ID)
	if err != nil {
		return err
	}
	list := forms.Block{Title: "dev.checklist", Hint: "dev.checklist.hint",
		Head: []string{"dev.col.item", "ops.col.status", "dev.col.saw"}, Table: true,
		Links: p.devLinks(m, "", "examine")}
	for _, i := range items {
		state := forms.YesNo("dev.item.done", "dev.item.todo", i.Done)
		if i.Later {
			state = forms.Worded("dev.item.later")
		}
		list.Rows = append(list.Rows, []forms.Cell{forms.Worded("dev.item." + i.Name), state, sawCell(i)})
	}
	blocks := []forms.Block{list}
	report, err := p.deps.Conformance.Last(ctx, tx, m.Application.ID)
	if err != nil {
		return err
	}
	if report != nil {
		passed := 0
		for _, x := range report.Results {
			if x.Passed {
				passed++
			}
		}
		c.Set(doneArgs, []any{passed, len(report.Results)})
		b := forms.Block{Title: "dev.examination", Hint: "dev.examination.hint",
			Facts: []forms.Line{forms.LineOf("ops.col.when", forms.At(report.At)), forms.LineOf("ops.col.status",
				forms.YesNo("dev.exam.passed", "dev.exam.failed", report.Passed))}}
		checks := forms.Block{Title: "dev.exam.checks", Head: []string{"dev.col.check", "ops.col.status",
			"dev.col.fault"},
			Table: true}
		for _, x := range report.Results {
			state := forms.YesNo("dev.exam.ok", "dev.exam.fault", x.Passed)
			if x.Advice && !x.Passed {
				state = forms.Worded("dev.exam.advice")
			}
			checks.Rows = append(checks.Rows, []forms.Cell{forms.Worded("dev.exam." + x.Name), state,
				forms.Plain(x.Fault)})
		}
		blocks = append(blocks, b, checks)
	}
	return p.dev(c, s, forms.Page{Heading: "dev.section.live", Code: m.Application.Name, Blocks: blocks})
}

// sawCell shows the finding of an item. Errors of a handler are in English, like its developers' logs.
func sawCell(i conformance.Item) forms.Cell {
	switch {
	case i.Check != "":
		return forms.Cell{Key: "dev.exam." + i.Check, Also: i.Of}
	case !i.At.IsZero():
		return forms.Worded("dev.saw."+i.Found, i.At)
	case i.Of != "":
		return forms.Worded("dev.saw."+i.Found, i.Of)
	}
	return forms.Worded("dev.saw." + i.Found)
}

// devLiveActs lists the actions on the pages about going live and, in a sandbox, about the clock.
func (p *Pages) devLiveActs(live, overview string) []Act {
	acts := []Act{{Name: "examine", Path: live + "/examine", Need: portal.Developer, Back: live, Counts: true,
		Do: func(ctx context.Context, c Call) (Done, error) {
			if err := p.deps.Portal.BeginExamination(ctx, c.By); err != nil {
				return Done{}, err
			}
			_, err := p.deps.Conformance.Examine(ctx, c.Of.ID)
			return Done{}, err
		}}}
	if p.deps.Clock == nil {
		return acts
	}
	return append(acts, Act{Name: "clock", Path: overview + "/clock", Need: portal.Developer, Back: overview,
		Fields: func(context.Context, postgres.Tx, Call) ([]forms.Field, error) {
			return []forms.Field{{Name: "minutes", Of: "seconds", Label: "dev.field.minutes",
				Hint: "dev.field.minutes.hint", Type: "number", Value: "30", Least: 1, Most: maxMinutes}}, nil
		},
		Limit: ratelimit.Clock, PerMinute: ratelimit.AdvancesPerMinute,
		Long: func(ctx context.Context, c Call) (Done, error) {
			minutes, err := forms.WholeNumber(c.Form, "minutes", 1, maxMinutes)
			if err != nil {
				return Done{}, err
			}
			passed, err := p.deps.Clock.Advance(ctx, c.Of.ID, time.Duration(minutes)*time.Minute)
			return Done{Finding: "dev.clock.passed", Args: []any{int(passed / time.Second)}}, err
		}})
}

const maxMinutes = 90 * 24 * 60 // the most that one call of the Sandbox API can advance
