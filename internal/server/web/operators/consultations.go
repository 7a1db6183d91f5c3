package operators

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

func (p *Pages) opsConsultations(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	q, status, app, age := forms.Param(c, "q"), forms.Param(c, "status"), forms.Param(c, "application"),
		forms.Param(c, "age")
	if strings.HasPrefix(q, "con_") && shell.Identifier.MatchString(q) {
		_, err := p.deps.Consultations.Peek(ctx, tx, q)
		if err == nil {
			return c.Redirect(http.StatusSeeOther, Path("consultations", q))
		}
		if !errors.Is(err, problem.ErrNotFound) {
			return err
		}
	}
	hours, _ := strconv.Atoi(age)
	f := consultation.Filter{Status: consultation.Status(status), ApplicationID: app, ExternalRef: q,
		Age: time.Duration(min(max(hours, 0), 100_000)) * time.Hour, After: forms.Param(c, "after")}
	items, more, err := p.deps.Consultations.Find(ctx, tx, f, opsRows)
	if err != nil {
		return err
	}
	apps, err := p.deps.Applications.List(ctx, tx)
	if err != nil {
		return err
	}
	v := forms.Page{Heading: "ops.section.consultations", Search: []forms.Field{
		{Name: "q", Label: "ops.search.consultation", Type: "search", Value: q},
		{Name: "status", Label: "ops.col.status", Type: "select",
			Options: []forms.Option{{Text: "ops.field.all", Key: true}}},
		{Name: "application", Label: "ops.col.application", Type: "select",
			Options: []forms.Option{{Text: "ops.field.all", Key: true}}},
		{Name: "age", Label: "ops.search.age", Type: "number", Value: age, Optional: true}}}
	for _, st := range consultation.Statuses()[1:] {
		v.Search[1].Options = append(v.Search[1].Options, forms.Option{Value: string(st),
			Text: forms.Coded(string(st)).Key,
			Key:  true, Chosen: string(st) == status})
	}
	names := map[string]string{}
	for _, a := range apps {
		names[a.ID] = a.Name
		v.Search[2].Options = append(v.Search[2].Options, forms.Option{Value: a.ID, Text: a.Name, Chosen: a.ID == app})
	}
	v.Blocks = []forms.Block{caseTable(items, names)}
	if more {
		v.Older = forms.Older(c, items[len(items)-1].ID)
	}
	return p.ops(c, s, v)
}

func caseTable(items []consultation.Consultation, applications map[string]string) forms.Block {
	b := forms.Block{Title: "ops.found", Head: []string{"ops.col.consultation", "ops.col.status", "ops.col.when",
		"ops.col.application", "ops.col.reference"}, Table: true}
	for _, item := range items {
		b.Rows = append(b.Rows, []forms.Cell{forms.Linked(Path("consultations", item.ID), item.ID),
			forms.Coded(string(item.Status)), forms.At(item.CreatedAt), forms.Plain(applications[item.ApplicationID]),
			forms.Plain(item.ExternalRef)})
	}
	return b
}

func (p *Pages) opsConsultation(c echo.Context, s staff.Session) error {
	ctx, lang := c.Request().Context(), p.Language(c)
	got, err := p.deps.Operator.Case(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	words, err := p.words(ctx, p.DB.Read(), lang)
	if err != nil {
		return err
	}
	facts := []forms.Line{
		forms.LineOf("ops.col.status", forms.Coded(string(got.Status))), forms.LineOf("ops.col.application",
			forms.Linked(Path("applications", got.ApplicationID), got.Application.Name)),
		forms.LineOf("ops.col.client", subjectCell(got.ClientID)), forms.LineOf("ops.col.reference",
			forms.Plain(got.ExternalRef)),
		forms.LineOf("ops.col.pair", inWords(words, got.Competence, got.Language)),
		forms.LineOf("ops.col.price", forms.Plain(got.Price.Format(lang))),
		forms.LineOf("ops.col.lawyer", p.lawyerCell(got, got.LawyerID)),
		forms.LineOf("ops.col.due", forms.MaybeAt(got.CallbackDueAt)),
		forms.LineOf("ops.col.call", forms.MaybeAt(got.CallStartedAt)),
		forms.LineOf("ops.col.ended", EndCell(got.EndReason)),
	}
	if got.DurationSec != nil {
		facts = append(facts, forms.LineOf("ops.col.duration", forms.Worded("ops.seconds", *got.DurationSec)))
	}
	if got.RefundedAt != nil {
		facts = append(facts, forms.LineOf("ops.col.refunded", forms.Plain(got.Refunded.Format(lang))))
	}
	if got.Withdrawal != nil {
		facts = append(facts, forms.LineOf("ops.col.withdrawal", forms.At(got.Withdrawal.DeclaredAt)),
			forms.LineOf("ops.col.owed", forms.Plain(got.Proposed.Format(lang))))
	}
	top := forms.Block{Title: "ops.case", Hint: "ops.case.hint", Facts: facts,
		Links: p.links(s, got.ID, actsFor(got, p.DB.Read().Now)...)}
	if open, waits := operator.Waiting(got.Proposals, p.DB.Read().Now); waits {
		who, err := p.nameOf(ctx, p.DB.Read(), map[string]string{}, open.By)
		if err != nil {
			return err
		}
		top.Alert, top.Args = "ops.case.proposed", []any{open.Amount.Format(lang), who}
		top.Links = append(top.Links, p.decisions(s, open)...)
	}
	if s.Person.May(staff.Support, staff.Security) {
		top.Links = append(top.Links, forms.Action{URL: Path("consultations", got.ID, "proof.json"), Key: "ops.proof"})
	}
	timeline, err := p.timeline(ctx, got, lang)
	if err != nil {
		return err
	}
	return p.ops(c, s, forms.Page{Heading: "ops.consultation", Code: got.ID,
		Blocks: []forms.Block{top, why(p, got), timeline}})
}

// decisions lists what the person may decide about an open proposal. They can reject their own proposal but not confirm
// it.
func (p *Pages) decisions(s staff.Session, open operator.Proposal) []forms.Action {
	if open.By == s.Person.ID {
		return p.links(s, open.ID, "refuse")
	}
	return p.links(s, open.ID, "confirm", "refuse")
}

// actsFor lists the actions that the state table allows. While a proposal to move money is open, no second one is
// offered.
func actsFor(c operator.Case, now time.Time) (names []string) {
	_, proposed := operator.Waiting(c.Proposals, now)
	switch {
	case c.Status == consultation.Matching || c.Status == consultation.PendingCallback:
		names = append(names, "assign", "cancel")
	case c.Status.Cancellable():
		names = append(names, "cancel")
	case c.Status == consultation.CallEnded:
		names = append(names, "close")
	case c.Status == consultation.Completed:
		if c.RefundedAt == nil && !proposed {
			names = append(names, "refund")
		}
		if c.ErasedAt == nil {
			names = append(names, "correct")
		}
	}
	return names
}

func (p *Pages) lawyerCell(got operator.Case, lawyerID string) forms.Cell {
	if l, ok := got.Lawyers[lawyerID]; ok {
		return forms.Cell{Text: l.Name, URL: Path("lawyers", lawyerID)}
	}
	return forms.Code(lawyerID)
}

// EndCell says why a consultation ended without being completed.
func EndCell(why consultation.Reason) forms.Cell {
	if why == "" {
		return forms.Cell{}
	}
	return forms.Worded("ops.end." + string(why))
}

// because says why a lawyer got an offer. For the oldest offers the reason is unknown.
func because(why matching.Why) forms.Cell {
	if why == "" {
		return forms.Cell{}
	}
	return forms.Worded("ops.because." + string(why))
}

// why lists the offers: why each lawyer got one and how it ended.
func why(p *Pages, got operator.Case) forms.Block {
	b := forms.Block{Title: "ops.why", Head: []string{"ops.col.when", "ops.col.lawyer", "ops.col.why", "ops.col.place",
		"ops.col.answer"}, Table: true}
	for _, o := range got.Offers {
		place := forms.Cell{}
		if o.QueuePlace > 0 {
			place = forms.Worded("ops.place", o.QueuePlace, o.QueueSeen, int(o.Idle/time.Second))
		}
		b.Rows = append(b.Rows, []forms.Cell{forms.At(o.CreatedAt), p.lawyerCell(got, o.LawyerID), because(o.Why),
			place,
			answerCell(string(o.State), o.Reason)})
	}
	return b
}

type moment struct {
	at    time.Time
	cells []forms.Cell
}

// timeline lists everything that happened in chronological order.
func (p *Pages) timeline(ctx context.Context, got operator.Case, lang string) (forms.Block, error) {
	var all []moment
	add := func(t time.Time, kind string, cells ...forms.Cell) {
		what := forms.Cell{}
		if len(cells) > 0 {
			what = cells[0]
		}
		detail := forms.Cell{}
		if len(cells) > 1 {
			detail = cells[1]
		}
		all = append(all, moment{t, []forms.Cell{forms.Exactly(t), forms.Worded("ops.line." + kind), what, detail}})
	}
	// events of the same time also keep their order
	slices.SortFunc(got.Deliveries, func(a, b webhook.Delivery) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for _, d := range got.Deliveries {
		add(d.CreatedAt, "event", forms.Code(string(d.Type)), forms.Cell{Key: forms.Coded(string(d.State)).Key,
			URL: Path("deliveries", d.ID) + "?application=" + got.ApplicationID})
	}
	for _, o := range got.Offers {
		add(o.CreatedAt, "offer", p.lawyerCell(got, o.LawyerID), because(o.Why))
		if o.EndedAt != nil {
			add(*o.EndedAt, "answer", p.lawyerCell(got, o.LawyerID), answerCell(string(o.State), o.Reason))
		}
		if o.ReturnedAt != nil {
			add(*o.ReturnedAt, "returned", p.lawyerCell(got, o.LawyerID), ReasonCell(o.Reason))
		}
	}
	for _, call := range got.Calls {
		add(call.StartedAt, "call", forms.Code(call.ID), forms.Worded("ops.attempt", call.Attempt))
		for _, e := range call.Events {
			add(e.At, "report", lineCell(e), forms.Worded("ops.attempt", call.Attempt))
		}
		if call.EndedAt != nil {
			add(*call.EndedAt, "callend", answerCell(string(call.Outcome), call.Reason),
				forms.Worded("ops.attempt", call.Attempt))
		}
	}
	for _, m := range got.Money {
		add(m.CreatedAt, "money", forms.Coded(string(m.Type)), forms.Plain(m.Amount.Format(lang)))
	}
	known := map[string]string{}
	for _, e := range got.Audit {
		name, err := p.nameOf(ctx, p.DB.Read(), known, e.Actor)
		if err != nil {
			return forms.Block{}, err
		}
		add(e.CreatedAt, "act", forms.Code(e.Action), forms.Plain(name+": "+e.Reason))
	}
	for _, o := range got.Proposals {
		by, err := p.nameOf(ctx, p.DB.Read(), known, o.By)
		if err != nil {
			return forms.Block{}, err
		}
		add(o.CreatedAt, "proposal", forms.Worded(KindKey(o)), forms.Plain(o.Amount.Format(lang)+", "+by))
		if end := o.EndedAt(p.DB.Read().Now); end != nil {
			add(*end, "proposalend", proposalEnd(o))
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	b := forms.Block{Title: "ops.timeline", Head: []string{"ops.col.when", "ops.col.kind", "ops.col.entry",
		"ops.col.detail"}, Table: true}
	for _, m := range all {
		b.Rows = append(b.Rows, m.cells)
	}
	return b, nil
}

// proposalEnd says how a proposal ended.
func proposalEnd(o operator.Proposal) forms.Cell {
	switch {
	case o.EndedEarly():
		return forms.Worded("ops.proposal.early")
	case o.State == operator.Open: // until the next proposal is made
		return forms.Coded(string(operator.RanOut))
	}
	return forms.Coded(string(o.State))
}

func (p *Pages) opsProof(c echo.Context, _ staff.Session) error {
	proof, err := p.deps.Consultations.ProofFor(c.Request().Context(), p.DB.Read(), c.Param("id"))
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="proof-`+proof.ConsultationID+`.json"`)
	return c.JSONPretty(http.StatusOK, privacy.PackOf(proof), "  ")
}
