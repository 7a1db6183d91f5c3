package lawyers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

func (p *Pages) noteView(ctx context.Context, tx postgres.Tx, s staff.Session,
	v, refused *caseView,
) (*caseView, error) {
	if refused != nil && refused.ID == v.ID {
		v.Draft, v.Fault, v.Version, v.Other, v.Conflict = refused.Draft, refused.Fault, refused.Version, refused.Other,
			refused.Conflict
		return v, nil
	}
	d, err := p.deps.Desk.Draft(ctx, tx, s, v.ID)
	if err != nil && !errors.Is(err, problem.ErrNotFound) { // the draft ended in the meantime
		return nil, err
	}
	v.Draft, v.Version = d, d.Version()
	return v, nil
}

func draftOf(c echo.Context) note.Draft {
	form := c.Request().PostForm
	return note.Draft{Note: form.Get("note"), Preview: form.Get("preview")}
}

// saveDraft saves the typed text. If another text was saved in the meantime, it shows both, and the lawyer chooses.
func (p *Pages) saveDraft(c echo.Context, s staff.Session) error {
	ctx, form, d := c.Request().Context(), c.Request().PostForm, draftOf(c)
	switch form.Get("take") {
	case "other":
		return p.acted(c, nil, "")
	case "both":
		kept, err := p.deps.Desk.Draft(ctx, p.DB.Read(), s, c.Param("id"))
		if err != nil {
			return p.acted(c, err, "")
		}
		d = joined(d, kept)
	}
	err := p.deps.Desk.SaveDraft(ctx, s, c.Param("id"), d, form.Get("version"))
	if errors.Is(err, desk.ErrDraft) {
		return p.showConflict(c, s, d)
	}
	return p.acted(c, err, "draft")
}

// joined appends the texts of another draft to those of d.
func joined(d, other note.Draft) note.Draft {
	join := func(a, b string) string {
		if a == b || b == "" {
			return a
		}
		return strings.TrimLeft(a+"\n\n"+b, "\n")
	}
	return note.Draft{Note: join(d.Note, other.Note), Preview: join(d.Preview, other.Preview)}
}

// showConflict shows the typed text beside the stored draft. A note that has been sent since can only be corrected.
func (p *Pages) showConflict(c echo.Context, s staff.Session, typed note.Draft) error {
	kept, err := p.deps.Desk.Draft(c.Request().Context(), p.DB.Read(), s, c.Param("id"))
	v := &caseView{Draft: typed, Other: kept, Conflict: true, Version: kept.Version()}
	v.ID = c.Param("id")
	if errors.Is(err, problem.ErrNotFound) {
		v.Conflict, v.Fault = false, "desk.fault.sent"
		return p.showCorrection(c, http.StatusConflict, s, v)
	}
	if err != nil {
		return err
	}
	return p.showDesk(c, http.StatusConflict, s, v)
}

// submitNote sends a note. A rejected note is shown again as typed.
func (p *Pages) submitNote(c echo.Context, s staff.Session) error {
	d, form := draftOf(c), c.Request().PostForm
	err := p.deps.Desk.SubmitNote(c.Request().Context(), s, c.Param("id"), d, form.Get("version"),
		form.Get("confirmed") == "yes")
	if errors.Is(err, desk.ErrDraft) {
		return p.showConflict(c, s, d)
	}
	if err == nil {
		return p.noteSent(c, s)
	}
	if !errors.Is(err, problem.ErrValidation) {
		return p.acted(c, err, "")
	}
	refused := &caseView{Draft: d, Version: form.Get("version"), Fault: deskFaults["note"]}
	if problemOf, ok := problem.As(err); ok && len(problemOf.Issues) > 0 {
		refused.Fault = deskFaults["confirm"]
	}
	refused.ID = c.Param("id")
	if form.Get("correction") != "" {
		return p.showCorrection(c, http.StatusUnprocessableEntity, s, refused)
	}
	return p.showDesk(c, http.StatusUnprocessableEntity, s, refused)
}

// noteSent redirects to the desk. A lawyer who was suspended before their last note is told here, because their session
// ends with it.
func (p *Pages) noteSent(c echo.Context, s staff.Session) error {
	err := p.deps.Desk.Admit(c.Request().Context(), s, "getState")
	switch {
	case errors.Is(err, desk.ErrOut):
		p.SetStaffToken(c, "")
		v := p.StaffLoginView("", s.Person.Email)
		v.Done = "staff.login.suspended.note"
		return p.StaffSuspended(c, v)
	case err != nil && !errors.Is(err, desk.ErrForbidden):
		return fmt.Errorf("admit the lawyer: %w", err)
	}
	return p.acted(c, nil, "note")
}

// correctNoteForm is the form for a sent note. It replaces both texts.
func (p *Pages) correctNoteForm(c echo.Context, s staff.Session) error {
	v := &caseView{}
	v.ID = c.Param("id")
	ctx, tx := c.Request().Context(), p.DB.Read()
	err := p.deps.Desk.TakesNote(ctx, tx, s, v.ID)
	if errors.Is(err, problem.ErrNotFound) {
		return shell.StatusError(http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	_, err = p.deps.Desk.Draft(ctx, tx, s, v.ID)
	if err == nil { // not sent yet: its draft exists
		return c.Redirect(http.StatusSeeOther, shell.LawyersDesk+"#note-"+v.ID)
	}
	if !errors.Is(err, problem.ErrNotFound) {
		return err
	}
	return p.showCorrection(c, http.StatusOK, s, v)
}

func (p *Pages) showCorrection(c echo.Context, status int, s staff.Session, v *caseView) error {
	if !shell.Identifier.MatchString(v.ID) {
		return shell.StatusError(http.StatusNotFound)
	}
	v.Ended, v.Correction, v.PreviewMax, v.NoteMax = true, true, note.MaxPreview, note.MaxNote
	_, has, err := p.deps.Desk.Key(c.Request().Context(), p.DB.Read(), s)
	if err != nil {
		return err
	}
	v.NoKey = !has
	return p.RenderStaff(c, status, s, "desk_note", shell.View{Title: "desk.correct.title", Data: v})
}
