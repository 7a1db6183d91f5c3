package shell

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/base/poll"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
)

// A form that must act once carries a key, which is an idempotency key of its sender. One transaction stores the effect
// of the form and the page after it under the key. If the form is sent again (by a double click, a reload, another tab
// or a proxy), nothing happens, and it leads to the same page. A POST never shows a secret. It redirects to a page that
// shows the secret once.

const (
	OnceField  = "once"
	FormsPlace = "form" // used in place of an operation
	ShownPage  = "/staff/shown"
	ShownFor   = 15 * time.Minute // how long a secret can be viewed
)

// FormKey matches the keys of forms.
var FormKey = regexp.MustCompile(`^[0-9A-Za-z_]{26,40}$`)

// NewFormKey creates the key of a form.
func NewFormKey() string { return rand.Text() }

// pageKeyMark precedes the key of the page in every form token. The same values sent twice from one page have one
// effect. See [Shell.SentOnce].
const pageKeyMark = "."

// WithPageKey adds the key of a page to the token of its forms.
func WithPageKey(formToken string) string { return formToken + pageKeyMark + NewFormKey() }

// FormAnswer is what is stored under the key of a form.
type FormAnswer struct {
	To    string       `json:"to"`
	Shown *ShownAnswer `json:"shown,omitempty"` // content of the page at To; nil if that page needs none
	Until time.Time    `json:"until"`           // for secrets
	Sent  *SentView    `json:"sent,omitempty"`  // page about a sent email, shown instead of redirecting to To
	// Cookies of a sign-in. A duplicate of the form, sent before the cookies arrived, gets them too for a short time. A
	// browser follows only the last response and may have dropped the first.
	Cookies []string `json:"cookies,omitempty"`
}

// SignInFor is how long the first response also signs in duplicates of the form.
const SignInFor = time.Minute

// ShownAnswer is a page that only the session that sent the form can see.
type ShownAnswer struct {
	Act, Subject, Back string
	Secrets            []forms.Fact // shown once
	Codes              []string     // recovery codes, shown once
	Finding            string       // text key
	Args               []any
	At                 *time.Time // the last of Args, if it is a time, which JSON would turn into a string
}

// SentForm returns the request of a form with a key. whose identifies the session or the client to which it belongs. A
// form without a key ends in a status error.
func SentForm(c echo.Context, whose string) (idempotency.Request, error) {
	form := c.Request().PostForm
	key := form.Get(OnceField)
	if !FormKey.MatchString(key) {
		return idempotency.Request{}, StatusError(http.StatusBadRequest)
	}
	return FormRequest(whose, key, c.Request().URL.Path, form), nil
}

// FormRequest returns the request that a form makes under a key.
func FormRequest(whose, key, path string, form url.Values) idempotency.Request {
	values := maps.Clone(form)
	for _, name := range []string{OnceField, EntryField, "csrf"} {
		values.Del(name)
	}
	return idempotency.Request{ClientID: whose, Endpoint: FormsPlace, Key: key,
		Fingerprint: id.DigestOf(path + "\n" + values.Encode())}
}

// Answered returns the response to a completed form: the page with the result, or only the next page.
func Answered(r idempotency.Request, now time.Time, page ShownAnswer) FormAnswer {
	if page.Secrets == nil && page.Finding == "" {
		return FormAnswer{To: page.Back}
	}
	return FormAnswer{To: ShownPage + "/" + r.Key, Shown: &page, Until: now.Add(ShownFor)}
}

// Once carries out a form, unless it was already carried out, and returns the next page.
func (p *Shell) Once(ctx context.Context, r idempotency.Request,
	do func(tx postgres.Tx) (FormAnswer, error),
) (to string, err error) {
	response, err := p.idempotency.Form(ctx, r, func(tx postgres.Tx) (int, any, error) {
		a, err := do(tx)
		return http.StatusSeeOther, a, err
	})
	if err != nil {
		return "", err
	}
	return LeadsTo(response)
}

// OnceAlone is [Shell.Once] for actions with their own transactions.
func (p *Shell) OnceAlone(ctx context.Context, r idempotency.Request,
	do func(context.Context) (FormAnswer, error),
) (to string, err error) {
	response, err := p.awaitTwin(ctx, r, func(ctx context.Context) (int, any, error) {
		a, err := do(ctx)
		return http.StatusSeeOther, a, err
	})
	if err != nil {
		return "", err
	}
	return LeadsTo(response)
}

// SentBefore returns the page after a form that was already carried out, or "" if it was not. Problem:
// IDEMPOTENCY_CONFLICT if it was sent with other values.
func (p *Shell) SentBefore(ctx context.Context, r idempotency.Request) (to string, err error) {
	response, err := p.idempotency.Stored(ctx, r)
	if err != nil || response == nil {
		return "", err
	}
	return LeadsTo(*response)
}

// LeadsTo returns the page after a form that was already carried out.
func LeadsTo(response idempotency.Response) (string, error) {
	var a FormAnswer
	if err := json.Unmarshal(response.Body, &a); err != nil {
		return "", fmt.Errorf("read the answer of a form: %w", err)
	}
	return a.To, nil
}

// sentKey is the context key of the page about a sent email.
const sentKey = "partnerd.sent"

// errNotDone discards a response that must not be stored. The form is shown again and can be resent.
var errNotDone = errors.New("a form was not done")

// pageForm returns the request of a form under the key of its page. It returns false if there is no key, as on a page
// from an older version of the program.
func pageForm(c echo.Context, whose string) (idempotency.Request, bool) {
	form := c.Request().PostForm
	token, key, _ := strings.Cut(form.Get("csrf"), pageKeyMark)
	if !FormKey.MatchString(key) {
		return idempotency.Request{}, false
	}
	r := FormRequest(cmp.Or(whose, token), key, c.Request().URL.RequestURI(), form)
	// The digest is salted with the key of the page, which is stored nowhere, because values can be passwords.
	r.Fingerprint = id.DigestOf(key + r.Fingerprint.String())
	r.Key = r.Fingerprint.String()
	return r, true
}

// SentOnce runs do for a form that belongs to whose, or to the browser if whose is empty. If the same page already sent
// the same values, the first response is repeated and do does not run. Only redirects are stored, so a refused form can
// be resent.
func (p *Shell) SentOnce(c echo.Context, whose string, do func() error) error {
	r, ok := pageForm(c, whose)
	if !ok {
		return do()
	}
	ctx, ran := c.Request().Context(), false
	var refusal error
	response, err := p.awaitTwin(ctx, r, func(context.Context) (int, any, error) {
		ran = true
		if refusal = do(); refusal != nil {
			return 0, nil, errNotDone
		}
		a, done := p.answerOf(c, whose)
		if !done {
			return 0, nil, errNotDone
		}
		return http.StatusSeeOther, a, nil
	})
	switch {
	case refusal != nil:
		return refusal
	case errors.Is(err, idempotency.ErrInProgress):
		return StatusError(http.StatusConflict)
	case err != nil && !errors.Is(err, errNotDone):
		return err
	case ran:
		return nil
	}
	return p.answerAgain(c, response, true)
}

// answerOf returns what to store of the response in c, or false if the response does not redirect.
func (p *Shell) answerOf(c echo.Context, whose string) (a FormAnswer, done bool) {
	h := c.Response().Header()
	a.Sent, _ = c.Get(sentKey).(*SentView)
	if a.To = h.Get("Location"); c.Response().Status != http.StatusSeeOther && a.Sent == nil {
		return a, false
	}
	if u, err := url.Parse(a.To); err != nil || u.Query().Has("fault") {
		return a, false
	}
	if whose == "" {
		a.Cookies, a.Until = h.Values("Set-Cookie"), p.DB.Clock().Now().Add(SignInFor)
	}
	return a, true
}

// answerAgain repeats the first response. Its cookies are only set in the browser for which the form was created.
func (p *Shell) answerAgain(c echo.Context, first idempotency.Response, own bool) error {
	var a FormAnswer
	if err := json.Unmarshal(first.Body, &a); err != nil {
		return fmt.Errorf("read the answer of a form: %w", err)
	}
	if own && p.DB.Clock().Now().Before(a.Until) {
		for _, k := range a.Cookies {
			c.Response().Header().Add("Set-Cookie", k)
		}
	}
	if a.Sent != nil {
		return p.ShowSent(c, *a.Sent)
	}
	return c.Redirect(http.StatusSeeOther, a.To)
}

// awaitTwin is [idempotency.Service.Alone], but waits for a running duplicate for as long as a person would wait.
func (p *Shell) awaitTwin(
	ctx context.Context, r idempotency.Request, effect func(context.Context) (int, any, error),
) (idempotency.Response, error) {
	patience, cancel := context.WithTimeout(ctx, twinFor)
	defer cancel()
	for {
		response, err := p.idempotency.Alone(ctx, r, effect)
		if !errors.Is(err, idempotency.ErrInProgress) || !poll.Pause(patience, twinEvery) {
			return response, err
		}
	}
}

const (
	twinFor   = 5 * time.Second
	twinEvery = 50 * time.Millisecond
)

// VisitorOnce handles a form of a visitor who is not signed in. own reports whether the form belongs to this browser. A
// duplicate that arrives after the first form signed this browser in or out no longer belongs to it. Such a duplicate
// redirects and changes nothing.
func (p *Shell) VisitorOnce(own func(echo.Context) bool, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if own(c) {
			return p.SentOnce(c, "", func() error { return h(c) })
		}
		r, ok := pageForm(c, "")
		if !ok {
			return h(c)
		}
		first, err := p.idempotency.Stored(c.Request().Context(), r)
		switch {
		case errors.Is(err, idempotency.ErrInProgress):
			return StatusError(http.StatusConflict)
		case err != nil:
			return err
		case first == nil:
			return h(c)
		}
		return p.answerAgain(c, *first, false)
	}
}

// SignInOnce is [Shell.VisitorOnce] for a form that signs in, or that only a visitor needs. If someone has signed in
// since the form was created, nothing changes and the form redirects to the page after a sign-in. on returns that page,
// or "" while no one is signed in.
func (p *Shell) SignInOnce(
	own func(echo.Context) bool, on func(echo.Context) (string, error), h echo.HandlerFunc,
) echo.HandlerFunc {
	return p.VisitorOnce(own, func(c echo.Context) error {
		if own(c) {
			return h(c)
		}
		to, err := on(c)
		switch {
		case err != nil:
			return err
		case to == "":
			return h(c)
		}
		return c.Redirect(http.StatusSeeOther, to)
	})
}

// Stale returns the message for a form of an emailed link that was created before this browser signed in. Such a form
// does more than sign in, so it is shown again instead of being skipped.
func (p *Shell) Stale(c echo.Context, on func(echo.Context) (string, error)) (status int, key string, err error) {
	to, err := on(c)
	if err != nil || to == "" {
		return http.StatusForbidden, "login.stale", err
	}
	return http.StatusConflict, "form.stale", nil
}

// ShowCodes shows recovery codes, which are never shown again.
func (p *Shell) ShowCodes(c echo.Context, v ShownAnswer) error {
	allowScripts(c)
	return p.Render(c, http.StatusOK, "staff_codes", View{Title: v.Act, Narrow: true, Once: true,
		Scripts: []string{p.Scripts["codes"].Path}, Data: v})
}

// CodesFile returns a text file with the codes as a data URL. It is part of the page, so it is stored nowhere and needs
// no request.
func (v ShownAnswer) CodesFile() template.URL {
	text := strings.Join(v.Codes, "\r\n") + "\r\n"
	return template.URL("data:text/plain;charset=utf-8," + url.PathEscape(text)) //nolint:gosec // escaped
}

// EntryField is the operators' forms' equivalent of [OnceField]. Its key is the ID of the audit entry.
const EntryField = "entry"
