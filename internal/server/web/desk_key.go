package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
)

// Where a lawyer takes his copies, and where he changes the key that they are encrypted to.
const (
	keyPage       = lawyersDesk + "/key"
	keyChangePage = keyPage + "/change"
)

func (p *Pages) registerKey(e *echo.Echo, read []string) {
	e.Match(read, p.keyScript.path, p.keyScript.serve)
	e.Match(read, keyPage, p.withLawyer(p.key))
	e.Match(read, keyChangePage, p.withLawyer(p.keyChange))
	e.POST(keyChangePage, p.withLawyer(p.staffOnce(p.setKey)))
	e.POST(keyPage+"/remove", p.withLawyer(p.staffOnce(p.removeKey)))
	e.POST(lawyersDesk+"/copies/:id", p.withLawyer(p.takeCopy))
}

var keyDone = map[string]string{"set": "desk.key.set", "removed": "desk.key.removed"}

type keyView struct {
	Key    note.Recipient // without one, Key is empty
	Copies []copyView
	Zone   *time.Location

	Recipient string // what was sent and refused
	Fault     string // key
}

type copyView struct {
	note.Copy
	EarlierKey bool
}

func (p *Pages) key(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	key, _, err := p.deps.Desk.Key(ctx, tx, s)
	if err != nil {
		return err
	}
	list, err := p.deps.Desk.Copies(ctx, tx, s)
	if err != nil {
		return err
	}
	v := keyView{Key: key}
	if v.Zone, err = p.deps.Desk.Zone(ctx, tx, s); err != nil {
		return err
	}
	for _, item := range list {
		v.Copies = append(v.Copies, copyView{item, item.ForEarlierKey(key)})
	}
	return p.renderStaff(c, http.StatusOK, s, "desk_key", view{Title: "desk.key.title",
		Done: keyDone[c.QueryParam("done")], Data: v})
}

func (p *Pages) keyChange(c echo.Context, s staff.Session) error {
	if !s.Fresh(p.deps.DB.Clock().Now()) {
		return p.signInAgain(c, keyChangePage)
	}
	return p.showKeyChange(c, http.StatusOK, s, keyView{Recipient: p.keptForm(c, s.Person.ID).Get("recipient")})
}

func (p *Pages) showKeyChange(c echo.Context, status int, s staff.Session, v keyView) error {
	var err error
	if v.Key, _, err = p.deps.Desk.Key(c.Request().Context(), p.deps.DB.Read(), s); err != nil {
		return err
	}
	title := "desk.key.change"
	if v.Fault != "" {
		title += ".error"
	}
	return p.renderStaff(c, status, s, "desk_key_change",
		view{Title: title, Kept: wasKept(c), Scripts: []string{p.keyScript.path}, Data: v})
}

// secretHalf begins the half of a key that nobody but the lawyer may have.
const secretHalf = "AGE-SECRET-KEY-"

func holdsSecretHalf(s string) bool { return strings.Contains(strings.ToUpper(s), secretHalf) }

func (p *Pages) setKey(c echo.Context, s staff.Session) error {
	recipient := strings.TrimSpace(c.Request().PostForm.Get("recipient"))
	err := p.deps.Desk.SetKey(c.Request().Context(), s, recipient)
	if !errors.Is(err, problem.ErrValidation) {
		return p.keyChanged(c, err, "set")
	}
	v := keyView{Fault: "desk.key.fault", Recipient: recipient}
	if holdsSecretHalf(recipient) {
		v = keyView{Fault: "desk.key.secret"}
	}
	return p.showKeyChange(c, http.StatusUnprocessableEntity, s, v)
}

func (p *Pages) removeKey(c echo.Context, s staff.Session) error {
	return p.keyChanged(c, p.deps.Desk.RemoveKey(c.Request().Context(), s), "removed")
}

// keyChanged leads on after a change of the key.
func (p *Pages) keyChanged(c echo.Context, err error, done string) error {
	switch {
	case errors.Is(err, desk.ErrStale):
		if err := p.keepForm(c); err != nil {
			return fmt.Errorf("keep a form: %w", err)
		}
		return p.signInAgain(c, keyChangePage)
	case err != nil:
		return err
	}
	return c.Redirect(http.StatusSeeOther, keyPage+"?done="+done)
}

// takeCopy sends the file that only the lawyer's key opens.
func (p *Pages) takeCopy(c echo.Context, s staff.Session) error {
	id := c.Param("id")
	if !identifier.MatchString(id) {
		return statusError(http.StatusNotFound)
	}
	sealed, err := p.deps.Desk.TakeCopy(c.Request().Context(), s, id)
	if errors.Is(err, problem.ErrNotFound) {
		return statusError(http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+note.FileName(id)+`"`)
	return c.Blob(http.StatusOK, echo.MIMEOctetStream, sealed)
}
