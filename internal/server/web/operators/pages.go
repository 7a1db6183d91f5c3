package operators

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
)

const (
	opsRows  = 50
	opsStale = 26 * time.Hour // an older nightly ledger check was missed

	// promiseAlarm is how long before a promised callback is due operators should act themselves.
	promiseAlarm = 2 * time.Hour
)

func (p *Pages) ops(c echo.Context, s staff.Session, v forms.Page) error {
	for i := range v.Blocks {
		p.dropLinks(s, &v.Blocks[i])
	}
	v.DropEmpty()
	return p.showOps(c, http.StatusOK, s, "ops", v.Heading, v)
}

// dropLinks removes the links in a block that its reader may not follow.
func (p *Pages) dropLinks(s staff.Session, b *forms.Block) {
	drop := func(c *forms.Cell) {
		if c.URL != "" && !p.mayOpen(s, c.URL) {
			c.URL = ""
		}
	}
	for i := range b.Facts {
		drop(&b.Facts[i].Cell)
	}
	for _, row := range b.Rows {
		for i := range row {
			drop(&row[i])
		}
	}
	b.Links = slices.DeleteFunc(b.Links, func(l forms.Action) bool { return !p.mayOpen(s, l.URL) })
}

// mayOpen reports whether a person may follow a link. Links outside the desk are open to everyone.
func (p *Pages) mayOpen(s staff.Session, link string) bool {
	at, _, _ := strings.Cut(link, "?")
	exact, loose := []staff.Role(nil), []staff.Role(nil)
	var isExact, isLoose bool
	look := func(path string, roles []staff.Role) {
		switch {
		case path == at:
			exact, isExact = roles, true
		case sameShape(path, at):
			loose, isLoose = roles, true
		}
	}
	for _, r := range p.Reads() {
		look(r.Path, r.Roles)
	}
	for _, a := range p.Acts() {
		look(a.Path, a.Roles)
	}
	return isExact && s.Person.May(exact...) || !isExact && (!isLoose || s.Person.May(loose...))
}

// sameShape reports whether a path matches a route with one ID.
func sameShape(path, at string) bool {
	before, after, ok := strings.Cut(path, ":id")
	rest, fits := strings.CutPrefix(at, before)
	rest, ends := strings.CutSuffix(rest, after)
	return ok && fits && ends && rest != "" && !strings.Contains(rest, "/")
}

// nameOf returns the name of an actor. An actor who does not sign in here keeps the name from the audit log.
func (p *Pages) nameOf(ctx context.Context, tx postgres.Tx, known map[string]string, actor string) (string, error) {
	if name, ok := known[actor]; ok {
		return name, nil
	}
	if !strings.HasPrefix(actor, "stf_") {
		return actor, nil
	}
	person, err := p.deps.Staff.Get(ctx, tx, actor)
	if errors.Is(err, staff.ErrNotFound) {
		return actor, nil
	}
	known[actor] = person.Name
	return person.Name, err
}

// opsBoard is the start page: promised callbacks, missing notes, proposals that wait for a second person, and an
// overdue ledger check.
func (p *Pages) opsBoard(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	promised, err := p.deps.Consultations.Promised(ctx, tx, opsRows)
	if err != nil {
		return err
	}
	board := forms.Block{Title: "ops.board.promised", Head: []string{"ops.col.due", "ops.col.left",
		"ops.col.consultation",
		"ops.col.status", "ops.col.lawyer"}, Table: true}
	late, known := 0, map[string]lawyer.Lawyer{}
	for _, item := range promised {
		left := item.CallbackDueAt.Sub(tx.Now)
		if left < promiseAlarm {
			late++
		}
		who, err := p.lawyerName(ctx, tx, known, item.LawyerID)
		if err != nil {
			return err
		}
		board.Rows = append(board.Rows, []forms.Cell{forms.At(*item.CallbackDueAt), leftCell(left, left < promiseAlarm),
			p.caseCell(item.ID), forms.Coded(string(item.Status)), who})
	}
	if late > 0 {
		board.Alert, board.Args = "ops.board.alarm", []any{late}
	}
	missing, err := p.deps.Consultations.MissingNotes(ctx, tx, opsRows)
	if err != nil {
		return err
	}
	notes := forms.Block{Title: "ops.notes", Head: []string{"ops.col.consultation", "ops.col.lawyer", "ops.notes.since",
		"ops.notes.until"}, Table: true}
	for _, item := range missing {
		who, err := p.lawyerName(ctx, tx, known, item.LawyerID)
		if err != nil {
			return err
		}
		notes.Rows = append(notes.Rows, []forms.Cell{p.caseCell(item.ID), who, forms.MaybeAt(item.CallEndedAt),
			forms.At(item.NoteDueAt())})
	}
	proposals, err := p.proposalBlock(ctx, tx, c, s)
	if err != nil {
		return err
	}
	check, examined, err := p.deps.Books.LastCheck(ctx, tx)
	if err != nil {
		return err
	}
	v := forms.Page{Heading: "ops.title", Blocks: []forms.Block{board, notes, proposals}}
	if !examined || len(check.Findings) > 0 || tx.Now.Sub(check.StartedAt) > opsStale {
		v.Blocks = append([]forms.Block{{Title: "ops.books", Alert: "ops.books.look"}}, v.Blocks...)
	}
	return p.ops(c, s, v)
}

func (p *Pages) proposalBlock(ctx context.Context, tx postgres.Tx, c echo.Context, s staff.Session) (forms.Block,
	error) {
	b := forms.Block{Title: "ops.proposals", Hint: "ops.proposals.hint",
		Head: []string{"ops.col.when", "ops.col.kind", "ops.col.subject", "ops.col.amount", "ops.col.by",
			"ops.col.reason", "ops.col.decide"}, Table: true}
	open, err := p.deps.Operator.Proposals(ctx, tx)
	if err != nil {
		return b, err
	}
	known := map[string]string{}
	for _, o := range open {
		by, err := p.nameOf(ctx, tx, known, o.By)
		if err != nil {
			return b, err
		}
		decide := forms.Cell{}
		for _, l := range slices.Backward(p.decisions(s, o)) {
			next := forms.Cell{URL: l.URL, Key: l.Key}
			if decide.URL != "" {
				next.More = new(decide)
			}
			decide = next
		}
		b.Rows = append(b.Rows, []forms.Cell{forms.At(o.CreatedAt), forms.Worded(KindKey(o)), subjectCell(o.Subject),
			forms.Plain(o.Amount.Format(p.Language(c))), forms.Plain(by), forms.Plain(o.Reason), decide})
	}
	return b, nil
}

func (p *Pages) caseCell(id string) forms.Cell { return forms.Linked(Path("consultations", id), id) }

// subjectCell links an ID to its page.
func subjectCell(subject string) forms.Cell {
	for prefix, section := range map[string]string{
		"con_": "consultations", "cli_": "clients", "law_": "lawyers", "app_": "applications", "stf_": "people",
		"dlv_": "deliveries",
	} {
		if strings.HasPrefix(subject, prefix) {
			return forms.Linked(Path(section, subject), subject)
		}
	}
	return forms.Code(subject)
}
