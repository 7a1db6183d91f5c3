package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// StaffOnce handles a form of a staff member once.
func (p *Pages) StaffOnce(h func(echo.Context, staff.Session) error) func(echo.Context, staff.Session) error {
	return func(c echo.Context, s staff.Session) error {
		return p.SentOnce(c, s.ID, func() error { return h(c, s) })
	}
}

// StaffOn is [clients.Pages.clientOn] for staff.
func (p *Pages) StaffOn(c echo.Context) (string, error) {
	s, err := p.deps.Staff.Session(c.Request().Context(), p.DB.Read(), p.StaffToken(c))
	if errors.Is(err, staff.ErrNoSession) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the session of somebody who works here: %w", err)
	}
	return shell.StaffNext(c.Request().PostForm.Get("next"), s.Person), nil
}

// keepCodes stores recovery codes for the page that shows them once, and returns its path. next is the page after it.
func (p *Pages) keepCodes(
	ctx context.Context, tx postgres.Tx, sessionID, next string, codes []string,
) (to string, err error) {
	r := idempotency.Request{ClientID: sessionID, Endpoint: shell.FormsPlace, Key: shell.NewFormKey()}
	page := shell.ShownAnswer{Act: "staff.codes.title", Back: next, Codes: codes}
	to = shell.ShownPage + "/" + r.Key
	kept := shell.FormAnswer{To: to, Shown: &page, Until: tx.Now.Add(shell.ShownFor)}
	return to, p.deps.Idempotency.Keep(ctx, tx, r, http.StatusSeeOther, kept)
}

// FormFault returns the error for a form that was already sent with other values, or is still being processed. It
// returns nil, and err itself, for any other err.
func (p *Pages) FormFault(c echo.Context, s staff.Session, err error) (*forms.Fault, error) {
	switch {
	case errors.Is(err, idempotency.ErrInProgress):
		return &forms.Fault{Key: "form.running"}, nil
	case !errors.Is(err, idempotency.ErrConflict):
		return nil, err
	}
	form := c.Request().PostForm
	to, err := p.firstAnswer(c.Request().Context(), s, cmp.Or(form.Get(shell.OnceField), form.Get(shell.EntryField)))
	if err != nil {
		return nil, err
	}
	f := forms.Fault{Key: "form.again", Links: []forms.Link{forms.LinkTo(c.Request().URL.Path, "form.again.new")}}
	if to != "" {
		f.Links = append([]forms.Link{forms.LinkTo(to, "form.again.first")}, f.Links...)
	}
	return &f, nil
}

// firstAnswer returns the page after the form with a key, whatever its values were. It is empty if no response is
// stored.
func (p *Pages) firstAnswer(ctx context.Context, s staff.Session, key string) (to string, err error) {
	first, err := p.deps.Idempotency.Kept(ctx, idempotency.Request{ClientID: s.ID, Endpoint: shell.FormsPlace,
		Key: key})
	if errors.Is(err, idempotency.ErrInProgress) { // no page is known yet
		return "", nil
	}
	if err != nil || first == nil {
		return "", err
	}
	return shell.LeadsTo(*first)
}

// shown shows the result of a form. Secrets are shown once, and only to the session that sent the form.
func (p *Pages) shown(c echo.Context, s staff.Session) error {
	if c.Request().Method == http.MethodHead { // nobody has seen it
		return c.NoContent(http.StatusOK)
	}
	ctx, key := c.Request().Context(), c.Param("key")
	if !shell.FormKey.MatchString(key) {
		return shell.StatusError(http.StatusNotFound)
	}
	var v shell.ShownAnswer
	now := p.DB.Clock().Now()
	found, err := p.deps.Idempotency.Replace(ctx, idempotency.Request{ClientID: s.ID, Endpoint: shell.FormsPlace,
		Key: key},
		func(body []byte) (any, error) {
			var kept shell.FormAnswer
			if err := json.Unmarshal(body, &kept); err != nil {
				return nil, fmt.Errorf("read the answer of a form: %w", err)
			}
			if kept.Shown == nil {
				return nil, problem.ErrNotFound
			}
			v = *kept.Shown
			if kept.Shown.Secrets, kept.Shown.Codes = nil, nil; !now.Before(kept.Until) {
				v.Secrets, v.Codes = nil, nil
			}
			return kept, nil
		})
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	if err != nil {
		return shell.Missing(err)
	}
	for i, arg := range v.Args {
		if n, ok := arg.(float64); ok { // JSON numbers
			v.Args[i] = int(n)
		}
	}
	if v.At != nil {
		v.Args = append(v.Args, *v.At)
	}
	if v.Codes != nil {
		return p.ShowCodes(c, v)
	}
	return p.RenderStaff(c, http.StatusOK, s, "shown", shell.View{Title: v.Act, Data: v, Once: true})
}
