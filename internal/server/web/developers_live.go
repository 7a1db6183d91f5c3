package web

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// devLive is what is missing before an application goes live, and the last examination of its endpoint.
func (p *Pages) devLive(c echo.Context, s staff.Session, m portal.Membership) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	items, err := p.deps.Conformance.Checklist(ctx, tx, m.Application.ID)
	if err != nil {
		return err
	}
	list := opsBlock{Title: "dev.checklist", Hint: "dev.checklist.hint",
		Head: []string{"dev.col.item", "ops.col.status", "dev.col.saw"}, Table: true,
		Links: p.devLinks(m, "", "examine")}
	for _, i := range items {
		state := yes("dev.item.done", "dev.item.todo", i.Done)
		if i.Later {
			state = worded("dev.item.later")
		}
		list.Rows = append(list.Rows, []opsCell{worded("dev.item." + i.Name), state, sawCell(i)})
	}
	blocks := []opsBlock{list}
	report, err := p.deps.Conformance.Last(ctx, tx, m.Application.ID)
	if err != nil {
		return err
	}
	if report != nil {
		b := opsBlock{Title: "dev.examination", Hint: "dev.examination.hint",
			Facts: []opsFact{{"ops.col.when", at(report.At)}, {"ops.col.status",
				yes("dev.exam.passed", "dev.exam.failed", report.Passed)}}}
		checks := opsBlock{Title: "dev.exam.checks", Head: []string{"dev.col.check", "ops.col.status", "dev.col.fault"},
			Table: true}
		for _, x := range report.Results {
			state := yes("dev.exam.ok", "dev.exam.fault", x.Passed)
			if x.Advice && !x.Passed {
				state = worded("dev.exam.advice")
			}
			checks.Rows = append(checks.Rows, []opsCell{worded("dev.exam." + x.Name), state, plain(x.Fault)})
		}
		blocks = append(blocks, b, checks)
	}
	return p.dev(c, s, opsPage{Heading: "dev.section.live", Code: m.Application.Name, Blocks: blocks})
}

// sawCell is what was seen of an item. What a receiver did wrong is said in English, as its developers' logs are.
func sawCell(i conformance.Item) opsCell {
	switch {
	case i.Check != "":
		return opsCell{Key: "dev.exam." + i.Check, Also: i.Of}
	case !i.At.IsZero():
		return worded("dev.saw."+i.Found, i.At)
	case i.Of != "":
		return worded("dev.saw."+i.Found, i.Of)
	}
	return worded("dev.saw." + i.Found)
}

// devLiveActs are the acts of the pages about going live and, where there is one, about the clock of a sandbox.
func (p *Pages) devLiveActs(live, overview string) []devAct {
	acts := []devAct{{Name: "examine", Path: live + "/examine", Need: portal.Developer, Back: live,
		Do: func(ctx context.Context, c devCall) (devDone, error) {
			if err := p.deps.Portal.BeginExamination(ctx, c.By); err != nil {
				return devDone{}, err
			}
			_, err := p.deps.Conformance.Examine(ctx, c.Of.ID)
			return devDone{}, err
		}}}
	if p.deps.Clock == nil {
		return acts
	}
	return append(acts, devAct{Name: "clock", Path: overview + "/clock", Need: portal.Developer, Back: overview,
		Fields: func(context.Context, postgres.Tx, devCall) ([]opsField, error) {
			return []opsField{{Name: "minutes", Of: "seconds", Label: "dev.field.minutes",
				Hint: "dev.field.minutes.hint", Type: "number", Value: "30", Least: 1, Most: maxMinutes}}, nil
		},
		Limit: ratelimit.Clock, PerMinute: ratelimit.AdvancesPerMinute,
		Long: func(ctx context.Context, c devCall) (devDone, error) {
			minutes, err := wholeNumber(c.Form, "minutes", 1, maxMinutes)
			if err != nil {
				return devDone{}, err
			}
			passed, err := p.deps.Clock.Advance(ctx, c.Of.ID, time.Duration(minutes)*time.Minute)
			return devDone{Finding: "dev.clock.passed", Args: []any{int(passed / time.Second)}}, err
		}})
}

const maxMinutes = 90 * 24 * 60 // as far as one call of the Sandbox API lets pass
