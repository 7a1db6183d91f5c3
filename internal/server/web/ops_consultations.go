package web

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
)

func (p *Pages) opsConsultations(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	q, status, app, age := query(c, "q"), query(c, "status"), query(c, "application"), query(c, "age")
	if strings.HasPrefix(q, "con_") && identifier.MatchString(q) {
		_, err := p.deps.Consultations.Peek(ctx, tx, q)
		if err == nil {
			return c.Redirect(http.StatusSeeOther, opsPath("consultations", q))
		}
		if !errors.Is(err, problem.ErrNotFound) {
			return err
		}
	}
	hours, _ := strconv.Atoi(age)
	f := consultation.Filter{Status: consultation.Status(status), ApplicationID: app, ExternalRef: q,
		Age: time.Duration(min(max(hours, 0), 100_000)) * time.Hour, After: query(c, "after")}
	items, more, err := p.deps.Consultations.Find(ctx, tx, f, opsRows)
	if err != nil {
		return err
	}
	apps, err := p.deps.Applications.List(ctx, tx)
	if err != nil {
		return err
	}
	v := opsPage{Heading: "ops.section.consultations", Search: []opsField{
		{Name: "q", Label: "ops.search.consultation", Type: "search", Value: q},
		{Name: "status", Label: "ops.col.status", Type: "select",
			Options: []opsOption{{Text: "ops.field.all", Key: true}}},
		{Name: "application", Label: "ops.col.application", Type: "select",
			Options: []opsOption{{Text: "ops.field.all", Key: true}}},
		{Name: "age", Label: "ops.search.age", Type: "number", Value: age, Optional: true}}}
	for _, st := range consultation.Statuses()[1:] {
		v.Search[1].Options = append(v.Search[1].Options, opsOption{Value: string(st), Text: coded(string(st)).Key,
			Key: true, Chosen: string(st) == status})
	}
	names := map[string]string{}
	for _, a := range apps {
		names[a.ID] = a.Name
		v.Search[2].Options = append(v.Search[2].Options, opsOption{Value: a.ID, Text: a.Name, Chosen: a.ID == app})
	}
	v.Blocks = []opsBlock{caseTable(items, names)}
	if more {
		v.Older = older(c, items[len(items)-1].ID)
	}
	return p.ops(c, s, v)
}

func caseTable(items []consultation.Consultation, applications map[string]string) opsBlock {
	b := opsBlock{Title: "ops.found", Head: []string{"ops.col.consultation", "ops.col.status", "ops.col.when",
		"ops.col.application", "ops.col.reference"}, Table: true}
	for _, item := range items {
		b.Rows = append(b.Rows, []opsCell{linked(opsPath("consultations", item.ID), item.ID),
			coded(string(item.Status)), at(item.CreatedAt), plain(applications[item.ApplicationID]),
			plain(item.ExternalRef)})
	}
	return b
}

func (p *Pages) opsConsultation(c echo.Context, s staff.Session) error {
	ctx, lang := c.Request().Context(), p.language(c)
	got, err := p.deps.Operator.Case(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	words, err := p.words(ctx, p.deps.DB.Read(), lang)
	if err != nil {
		return err
	}
	facts := []opsFact{
		{"ops.col.status", coded(string(got.Status))}, {"ops.col.application",
			linked(opsPath("applications", got.ApplicationID), got.Application.Name)},
		{"ops.col.client", subjectCell(got.ClientID)}, {"ops.col.reference", plain(got.ExternalRef)},
		{"ops.col.pair", inWords(words, got.Competence, got.Language)},
		{"ops.col.price", plain(got.Price.Format(lang))}, {"ops.col.lawyer", p.lawyerCell(got, got.LawyerID)},
		{"ops.col.due", maybeAt(got.CallbackDueAt)}, {"ops.col.call", maybeAt(got.CallStartedAt)},
		{"ops.col.ended", endCell(got.EndReason)},
	}
	if got.DurationSec != nil {
		facts = append(facts, opsFact{"ops.col.duration", worded("ops.seconds", *got.DurationSec)})
	}
	if got.RefundedAt != nil {
		facts = append(facts, opsFact{"ops.col.refunded", plain(got.Refunded.Format(lang))})
	}
	if got.Withdrawal != nil {
		facts = append(facts, opsFact{"ops.col.withdrawal", at(got.Withdrawal.DeclaredAt)},
			opsFact{"ops.col.owed", plain(got.Proposed.Format(lang))})
	}
	top := opsBlock{Title: "ops.case", Hint: "ops.case.hint", Facts: facts,
		Links: p.links(s, got.ID, actsFor(got, p.deps.DB.Read().Now)...)}
	if open, waits := operator.Waiting(got.Proposals, p.deps.DB.Read().Now); waits {
		who, err := p.nameOf(ctx, p.deps.DB.Read(), map[string]string{}, open.By)
		if err != nil {
			return err
		}
		top.Alert, top.Args = "ops.case.proposed", []any{open.Amount.Format(lang), who}
		top.Links = append(top.Links, p.decisions(s, open)...)
	}
	if s.Person.May(staff.Support, staff.Security) {
		top.Links = append(top.Links, opsLink{URL: opsPath("consultations", got.ID, "proof.json"), Key: "ops.proof"})
	}
	timeline, err := p.timeline(ctx, got, lang)
	if err != nil {
		return err
	}
	return p.ops(c, s, opsPage{Heading: "ops.consultation", Code: got.ID,
		Blocks: []opsBlock{top, why(p, got), timeline}})
}

// decisions are what the person may decide of an open proposal: their own they can only take back.
func (p *Pages) decisions(s staff.Session, open operator.Proposal) []opsLink {
	if open.By == s.Person.ID {
		return p.links(s, open.ID, "refuse")
	}
	return p.links(s, open.ID, "confirm", "refuse")
}

// actsFor are the acts that the state table allows; money that waits for a second person is not proposed twice.
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

func (p *Pages) lawyerCell(got operator.Case, lawyerID string) opsCell {
	if l, ok := got.Lawyers[lawyerID]; ok {
		return opsCell{Text: l.Name, URL: opsPath("lawyers", lawyerID)}
	}
	return code(lawyerID)
}

// endCell says why a consultation ended without being completed.
func endCell(why consultation.Reason) opsCell {
	if why == "" {
		return opsCell{}
	}
	return worded("ops.end." + string(why))
}

// because says why a lawyer was asked; of the oldest offers it is not known.
func because(why matching.Why) opsCell {
	if why == "" {
		return opsCell{}
	}
	return worded("ops.because." + string(why))
}

// why tells why each lawyer was asked, and what he answered.
func why(p *Pages, got operator.Case) opsBlock {
	b := opsBlock{Title: "ops.why", Head: []string{"ops.col.when", "ops.col.lawyer", "ops.col.why", "ops.col.place",
		"ops.col.answer"}, Table: true}
	for _, o := range got.Offers {
		place := opsCell{}
		if o.QueuePlace > 0 {
			place = worded("ops.place", o.QueuePlace, o.QueueSeen, int(o.Idle/time.Second))
		}
		b.Rows = append(b.Rows, []opsCell{at(o.CreatedAt), p.lawyerCell(got, o.LawyerID), because(o.Why), place,
			answerCell(string(o.State), o.Reason)})
	}
	return b
}

type moment struct {
	at    time.Time
	cells []opsCell
}

// timeline puts everything that happened in the order of time.
func (p *Pages) timeline(ctx context.Context, got operator.Case, lang string) (opsBlock, error) {
	var all []moment
	add := func(t time.Time, kind string, cells ...opsCell) {
		what := opsCell{}
		if len(cells) > 0 {
			what = cells[0]
		}
		detail := opsCell{}
		if len(cells) > 1 {
			detail = cells[1]
		}
		all = append(all, moment{t, []opsCell{exactly(t), worded("ops.line." + kind), what, detail}})
	}
	// of one instant, too
	slices.SortFunc(got.Deliveries, func(a, b webhook.Delivery) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for _, d := range got.Deliveries {
		add(d.CreatedAt, "event", code(string(d.Type)), opsCell{Key: coded(string(d.State)).Key,
			URL: opsPath("deliveries", d.ID) + "?application=" + got.ApplicationID})
	}
	for _, o := range got.Offers {
		add(o.CreatedAt, "offer", p.lawyerCell(got, o.LawyerID), because(o.Why))
		if o.EndedAt != nil {
			add(*o.EndedAt, "answer", p.lawyerCell(got, o.LawyerID), answerCell(string(o.State), o.Reason))
		}
		if o.ReturnedAt != nil {
			add(*o.ReturnedAt, "returned", p.lawyerCell(got, o.LawyerID), reasonCell(o.Reason))
		}
	}
	for _, call := range got.Calls {
		add(call.StartedAt, "call", code(call.ID), worded("ops.attempt", call.Attempt))
		for _, e := range call.Events {
			add(e.At, "report", lineCell(e), worded("ops.attempt", call.Attempt))
		}
		if call.EndedAt != nil {
			add(*call.EndedAt, "callend", answerCell(string(call.Outcome), call.Reason),
				worded("ops.attempt", call.Attempt))
		}
	}
	for _, m := range got.Money {
		add(m.CreatedAt, "money", coded(string(m.Type)), plain(m.Amount.Format(lang)))
	}
	known := map[string]string{}
	for _, e := range got.Audit {
		name, err := p.nameOf(ctx, p.deps.DB.Read(), known, e.Actor)
		if err != nil {
			return opsBlock{}, err
		}
		add(e.CreatedAt, "act", code(e.Action), plain(name+": "+e.Reason))
	}
	for _, o := range got.Proposals {
		by, err := p.nameOf(ctx, p.deps.DB.Read(), known, o.By)
		if err != nil {
			return opsBlock{}, err
		}
		add(o.CreatedAt, "proposal", worded(kindKey(o)), plain(o.Amount.Format(lang)+", "+by))
		if end := o.EndedAt(p.deps.DB.Read().Now); end != nil {
			add(*end, "proposalend", proposalEnd(o))
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	b := opsBlock{Title: "ops.timeline", Head: []string{"ops.col.when", "ops.col.kind", "ops.col.what",
		"ops.col.detail"}, Table: true}
	for _, m := range all {
		b.Rows = append(b.Rows, m.cells)
	}
	return b, nil
}

// proposalEnd says how a proposal ended that no longer waits.
func proposalEnd(o operator.Proposal) opsCell {
	switch {
	case o.EndedEarly():
		return worded("ops.proposal.early")
	case o.State == operator.Open: // until the next is proposed
		return coded(string(operator.RanOut))
	}
	return coded(string(o.State))
}

func (p *Pages) opsProof(c echo.Context, _ staff.Session) error {
	proof, err := p.deps.Consultations.ProofFor(c.Request().Context(), p.deps.DB.Read(), c.Param("id"))
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="proof-`+proof.ConsultationID+`.json"`)
	return c.JSONPretty(http.StatusOK, privacy.PackOf(proof), "  ")
}
