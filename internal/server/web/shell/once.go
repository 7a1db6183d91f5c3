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

// A form that must act once carries a key, which is an idempotency key of whoever sends it. What the form does, and
// where it leads, are kept under the key in one transaction: sent again, by a double click, a reload, another tab or a
// proxy, it does nothing and leads to the same page. A POST never shows a secret: it leads to a page that shows it
// once.

const (
	OnceField  = "once"
	FormsPlace = "form" // in the place of an operation
	ShownPage  = "/staff/shown"
	ShownFor   = 15 * time.Minute // how long a secret can be looked at
)

// FormKey is the form of the keys of forms.
var FormKey = regexp.MustCompile(`^[0-9A-Za-z_]{26,40}$`)

// NewFormKey makes the key of a form.
func NewFormKey() string { return rand.Text() }

// pageKeyMark stands before the key of the page in every form token: the same values sent twice from one page have one
// effect. See [Shell.SentOnce].
const pageKeyMark = "."

// WithPageKey adds the key of a page to the token of its forms.
func WithPageKey(formToken string) string { return formToken + pageKeyMark + NewFormKey() }

// FormAnswer is what is kept under the key of a form.
type FormAnswer struct {
	To    string       `json:"to"`
	Shown *ShownAnswer `json:"shown,omitempty"` // what the page at To shows; nil for one that shows nothing of its own
	Until time.Time    `json:"until"`           // for secrets
	Sent  *SentView    `json:"sent,omitempty"`  // the page that says what was mailed, instead of one to go to
	// What a sign-in gave the browser. A twin that was sent with it, before it came, gets it until then: a browser
	// follows the last answer only, and may have dropped the first.
	Cookies []string `json:"cookies,omitempty"`
}

// SignInFor is how long a twin is signed in by the answer of the first.
const SignInFor = time.Minute

// ShownAnswer is a page that only the session sees which sent the form.
type ShownAnswer struct {
	Act, Subject, Back string
	Secrets            []forms.Fact // shown once
	Codes              []string     // for recovery, shown once
	Finding            string       // key
	Args               []any
	At                 *time.Time // the last of Args, when that is an instant: JSON would make it a text
}

// SentForm is the request that a form with a key makes; whose is the session or the client that it belongs to. Faults:
// a status for a form without a key.
func SentForm(c echo.Context, whose string) (idempotency.Request, error) {
	form := c.Request().PostForm
	key := form.Get(OnceField)
	if !FormKey.MatchString(key) {
		return idempotency.Request{}, StatusError(http.StatusBadRequest)
	}
	return FormRequest(whose, key, c.Request().URL.Path, form), nil
}

// FormRequest is the request that a form makes under a key.
func FormRequest(whose, key, path string, form url.Values) idempotency.Request {
	values := maps.Clone(form)
	for _, name := range []string{OnceField, EntryField, "csrf"} {
		values.Del(name)
	}
	return idempotency.Request{ClientID: whose, Endpoint: FormsPlace, Key: key,
		Fingerprint: id.DigestOf(path + "\n" + values.Encode())}
}

// Answered is the answer of a form that was done: the page that shows what came of it, or only the way on.
func Answered(r idempotency.Request, now time.Time, page ShownAnswer) FormAnswer {
	if page.Secrets == nil && page.Finding == "" {
		return FormAnswer{To: page.Back}
	}
	return FormAnswer{To: ShownPage + "/" + r.Key, Shown: &page, Until: now.Add(ShownFor)}
}

// Once does what a form asks for, unless it was done before, and returns where it leads.
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

// OnceAlone is [Shell.Once] for what has transactions of its own.
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

// SentBefore is where a form leads that was done before; empty for one that was not. Problem: IDEMPOTENCY_CONFLICT for
// one that was sent with other values.
func (p *Shell) SentBefore(ctx context.Context, r idempotency.Request) (to string, err error) {
	response, err := p.idempotency.Stored(ctx, r)
	if err != nil || response == nil {
		return "", err
	}
	return LeadsTo(*response)
}

// LeadsTo is where a form led that was done before.
func LeadsTo(response idempotency.Response) (string, error) {
	var a FormAnswer
	if err := json.Unmarshal(response.Body, &a); err != nil {
		return "", fmt.Errorf("read the answer of a form: %w", err)
	}
	return a.To, nil
}

// sentKey is the place in the context of the page that says what was mailed.
const sentKey = "partnerd.sent"

// errNotDone ends what is not kept: the form is shown again, and may be sent again.
var errNotDone = errors.New("a form was not done")

// pageForm is the request that a form makes by the key of its page; false for one without, from a page that an older
// program made.
func pageForm(c echo.Context, whose string) (idempotency.Request, bool) {
	form := c.Request().PostForm
	token, key, _ := strings.Cut(form.Get("csrf"), pageKeyMark)
	if !FormKey.MatchString(key) {
		return idempotency.Request{}, false
	}
	r := FormRequest(cmp.Or(whose, token), key, c.Request().URL.RequestURI(), form)
	// The key of the page, which is kept nowhere, salts the digest: values may be passwords.
	r.Fingerprint = id.DigestOf(key + r.Fingerprint.String())
	r.Key = r.Fingerprint.String()
	return r, true
}

// SentOnce runs do for a form of whose, or of the browser when whose is empty. A form sent before from the same page
// with the same values gets the first answer, and do does not run. Only answers that lead on are kept: a refused form
// can be sent again.
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

// answerOf is what is kept of the answer in c; false when it does not lead on.
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

// answerAgain gives the first answer. Only the browser that the form was made for gets what it set.
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

// awaitTwin is [idempotency.Service.Alone] that waits for a twin which runs, for as long as a person waits.
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

// VisitorOnce is for what somebody sends who is not signed in. own tells whether the form is one of this browser. One
// that was sent before, and signed this browser in or out, is no longer: it leads on, and changes nothing.
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

// SignInOnce is [Shell.VisitorOnce] for a form that signs in, or that only a visitor needs. When somebody has signed
// in since the form was made, it changes nothing and leads to where a sign-in leads. on tells where; it is empty while
// nobody is signed in.
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

// Stale is with what a form of a mailed link is shown again that was made before the sign-in of this browser: it does
// more than sign in, so it is sent once more, not left out.
func (p *Shell) Stale(c echo.Context, on func(echo.Context) (string, error)) (status int, key string, err error) {
	to, err := on(c)
	if err != nil || to == "" {
		return http.StatusForbidden, "login.stale", err
	}
	return http.StatusConflict, "form.stale", nil
}

// ShowCodes shows recovery codes, which nobody sees again.
func (p *Shell) ShowCodes(c echo.Context, v ShownAnswer) error {
	allowScripts(c)
	return p.Render(c, http.StatusOK, "staff_codes", View{Title: v.Act, Narrow: true, Once: true,
		Scripts: []string{p.Scripts["codes"].Path}, Data: v})
}

// CodesFile is a text file with the codes, within the page itself: nothing keeps it and no request carries it.
func (v ShownAnswer) CodesFile() template.URL {
	text := strings.Join(v.Codes, "\r\n") + "\r\n"
	return template.URL("data:text/plain;charset=utf-8," + url.PathEscape(text)) //nolint:gosec // escaped
}

// EntryField is [OnceField] of the operators' forms: its key is the identifier of the audit's entry.
const EntryField = "entry"
