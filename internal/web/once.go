package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/id"
	"partnerd/internal/idempotency"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/staff"
)

// A form that must act once carries a key, which is an idempotency key of whoever sends it. What the form does, and where
// it leads, are kept under the key in one transaction: sent again, by a double click, a reload, another tab or a proxy,
// it does nothing and leads to the same page. A POST never shows a secret: it leads to a page that shows it once.

const (
	onceField  = "once"
	formsPlace = "form" // in the place of an operation
	shownPage  = "/staff/shown"
	shownFor   = 15 * time.Minute // how long a secret can be looked at
)

var formKey = regexp.MustCompile(`^[0-9A-Za-z_]{26,40}$`)

func newFormKey() string { return rand.Text() }

// formAnswer is what is kept under the key of a form.
type formAnswer struct {
	To    string       `json:"to"`
	Shown *shownAnswer `json:"shown,omitempty"` // what the page at To shows; nil for one that shows nothing of its own
	Until time.Time    `json:"until"`           // for secrets
}

// shownAnswer is a page that only the session sees which sent the form.
type shownAnswer struct {
	Act, Subject, Back string
	Secrets            []fact // shown once
	Finding            string // key
	Args               []any
}

// sentForm is the request that a form with a key makes; whose is the session or the client that it belongs to. Faults: a
// status for a form without a key.
func sentForm(c echo.Context, whose string) (idempotency.Request, error) {
	form := c.Request().PostForm
	key := form.Get(onceField)
	if !formKey.MatchString(key) {
		return idempotency.Request{}, statusError(http.StatusBadRequest)
	}
	return formRequest(whose, key, c.Request().URL.Path, form), nil
}

func formRequest(whose, key, path string, form url.Values) idempotency.Request {
	values := maps.Clone(form)
	for _, name := range []string{onceField, entryField, "csrf"} {
		values.Del(name)
	}
	return idempotency.Request{ClientID: whose, Endpoint: formsPlace, Key: key, Fingerprint: id.DigestOf(path + "\n" + values.Encode())}
}

// answered is the answer of a form that was done: the page that shows what came of it, or only the way on.
func answered(r idempotency.Request, now time.Time, page shownAnswer) formAnswer {
	if page.Secrets == nil && page.Finding == "" {
		return formAnswer{To: page.Back}
	}
	return formAnswer{To: shownPage + "/" + r.Key, Shown: &page, Until: now.Add(shownFor)}
}

// once does what a form asks for, unless it was done before, and returns where it leads.
func (p *Pages) once(ctx context.Context, r idempotency.Request, do func(tx postgres.Tx) (formAnswer, error)) (to string, err error) {
	response, err := p.deps.Idempotency.Form(ctx, r, func(tx postgres.Tx) (int, any, error) {
		a, err := do(tx)
		return http.StatusSeeOther, a, err
	})
	if err != nil {
		return "", err
	}
	return leadsTo(response)
}

// onceAlone is [Pages.once] for what has transactions of its own.
func (p *Pages) onceAlone(ctx context.Context, r idempotency.Request, do func(context.Context) (formAnswer, error)) (to string, err error) {
	response, err := p.deps.Idempotency.Alone(ctx, r, func(ctx context.Context) (int, any, error) {
		a, err := do(ctx)
		return http.StatusSeeOther, a, err
	})
	if err != nil {
		return "", err
	}
	return leadsTo(response)
}

// sentBefore is where a form leads that was done before; empty for one that was not. Problem: IDEMPOTENCY_CONFLICT for
// one that was sent with other values.
func (p *Pages) sentBefore(ctx context.Context, r idempotency.Request) (to string, err error) {
	response, err := p.deps.Idempotency.Stored(ctx, r)
	if err != nil || response == nil {
		return "", err
	}
	return leadsTo(*response)
}

func leadsTo(response idempotency.Response) (string, error) {
	var a formAnswer
	if err := json.Unmarshal(response.Body, &a); err != nil {
		return "", fmt.Errorf("read the answer of a form: %w", err)
	}
	return a.To, nil
}

// formFault is how it is said that a form was sent before with other values, or is being done at this moment.
func formFault(err error) string {
	switch {
	case errors.Is(err, idempotency.ErrConflict):
		return "form.again"
	case errors.Is(err, idempotency.ErrInProgress):
		return "form.running"
	}
	return ""
}

// shown shows what came of a form: secrets once, and to the session that sent it.
func (p *Pages) shown(c echo.Context, s staff.Session) error {
	if c.Request().Method == http.MethodHead { // nobody has looked
		return c.NoContent(http.StatusOK)
	}
	ctx, key := c.Request().Context(), c.Param("key")
	if !formKey.MatchString(key) {
		return statusError(http.StatusNotFound)
	}
	var v shownAnswer
	now := p.deps.DB.Clock().Now()
	found, err := p.deps.Idempotency.Replace(ctx, idempotency.Request{ClientID: s.ID, Endpoint: formsPlace, Key: key}, func(body []byte) (any, error) {
		var kept formAnswer
		if err := json.Unmarshal(body, &kept); err != nil {
			return nil, fmt.Errorf("read the answer of a form: %w", err)
		}
		if kept.Shown == nil {
			return nil, problem.ErrNotFound
		}
		v = *kept.Shown
		if kept.Shown.Secrets = nil; !now.Before(kept.Until) {
			v.Secrets = nil
		}
		return kept, nil
	})
	if err == nil && !found {
		err = problem.ErrNotFound
	}
	if err != nil {
		return opsMissing(err)
	}
	for i, arg := range v.Args {
		if n, ok := arg.(float64); ok { // as numbers come out of JSON
			v.Args[i] = int(n)
		}
	}
	return p.renderStaff(c, http.StatusOK, s, "shown", view{Title: v.Act, Data: v, Once: true})
}
