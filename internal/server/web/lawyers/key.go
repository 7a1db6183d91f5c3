package lawyers

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
	"partnerd/internal/server/web/shell"
)

const (
	KeyChangePage = shell.KeyPage + "/change"
)

func (p *Pages) registerKey(e *echo.Echo, read []string) {
	e.Match(read, shell.KeyPage, p.WithLawyer(p.key))
	e.Match(read, KeyChangePage, p.WithLawyer(p.keyChange))
	e.POST(KeyChangePage, p.WithLawyer(p.StaffOnce(p.setKey)))
	e.POST(shell.KeyPage+"/remove", p.WithLawyer(p.StaffOnce(p.removeKey)))
	e.POST(shell.LawyersDesk+"/copies/:id", p.WithLawyer(p.takeCopy))
}

var keyDone = map[string]string{"set": "desk.key.set", "removed": "desk.key.removed"}

type keyView struct {
	Key    note.Recipient // Key is empty if none is set
	Copies []copyView
	Zone   *time.Location

	Recipient string // the rejected input
	Fault     string // text key
}

type copyView struct {
	note.Copy
	EarlierKey bool
}

func (p *Pages) key(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
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
	return p.RenderStaff(c, http.StatusOK, s, "desk_key", shell.View{Title: "desk.key.title",
		Done: keyDone[c.QueryParam("done")], Data: v})
}

func (p *Pages) keyChange(c echo.Context, s staff.Session) error {
	if !s.Fresh(p.DB.Clock().Now()) {
		return p.SignInAgain(c, KeyChangePage)
	}
	return p.showKeyChange(c, http.StatusOK, s, keyView{Recipient: p.KeptForm(c, s.Person.ID).Get("recipient")})
}

func (p *Pages) showKeyChange(c echo.Context, status int, s staff.Session, v keyView) error {
	var err error
	if v.Key, _, err = p.deps.Desk.Key(c.Request().Context(), p.DB.Read(), s); err != nil {
		return err
	}
	title := "desk.key.change"
	if v.Fault != "" {
		title += ".error"
	}
	return p.RenderStaff(c, status, s, "desk_key_change",
		shell.View{Title: title, Kept: shell.WasKept(c), Scripts: []string{p.Scripts["key"].Path}, Data: v})
}

func (p *Pages) setKey(c echo.Context, s staff.Session) error {
	recipient := strings.TrimSpace(c.Request().PostForm.Get("recipient"))
	err := p.deps.Desk.SetKey(c.Request().Context(), s, recipient)
	if !errors.Is(err, problem.ErrValidation) {
		return p.keyChanged(c, err, "set")
	}
	v := keyView{Fault: "desk.key.fault", Recipient: recipient}
	if shell.HoldsSecretHalf(recipient) {
		v = keyView{Fault: "desk.key.secret"}
	}
	return p.showKeyChange(c, http.StatusUnprocessableEntity, s, v)
}

func (p *Pages) removeKey(c echo.Context, s staff.Session) error {
	return p.keyChanged(c, p.deps.Desk.RemoveKey(c.Request().Context(), s), "removed")
}

// keyChanged redirects after a change of the key.
func (p *Pages) keyChanged(c echo.Context, err error, done string) error {
	switch {
	case errors.Is(err, desk.ErrStale):
		if err := p.KeepForm(c); err != nil {
			return fmt.Errorf("keep a form: %w", err)
		}
		return p.SignInAgain(c, KeyChangePage)
	case err != nil:
		return err
	}
	return c.Redirect(http.StatusSeeOther, shell.KeyPage+"?done="+done)
}

// takeCopy sends the file that only the lawyer's key decrypts.
func (p *Pages) takeCopy(c echo.Context, s staff.Session) error {
	id := c.Param("id")
	if !shell.Identifier.MatchString(id) {
		return shell.StatusError(http.StatusNotFound)
	}
	sealed, err := p.deps.Desk.TakeCopy(c.Request().Context(), s, id)
	if errors.Is(err, problem.ErrNotFound) {
		return shell.StatusError(http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+note.FileName(id)+`"`)
	return c.Blob(http.StatusOK, echo.MIMEOctetStream, sealed)
}
