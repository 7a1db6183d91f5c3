package web

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
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
)

// A form that must act once carries a key, which is an idempotency key of whoever sends it. What the form does, and
// where it leads, are kept under the key in one transaction: sent again, by a double click, a reload, another tab or a
// proxy, it does nothing and leads to the same page. A POST never shows a secret: it leads to a page that shows it
// once.

const (
	onceField  = "once"
	formsPlace = "form" // in the place of an operation
	shownPage  = "/staff/shown"
	shownFor   = 15 * time.Minute // how long a secret can be looked at
)

var formKey = regexp.MustCompile(`^[0-9A-Za-z_]{26,40}$`)

func newFormKey() string { return rand.Text() }

// Every form token carries the key of its page. The same values sent twice from one page
// have one effect. See [Pages.sentOnce].
const pageKeyMark = "."

func withPageKey(formToken string) string { return formToken + pageKeyMark + newFormKey() }

// formAnswer is what is kept under the key of a form.
type formAnswer struct {
	To    string       `json:"to"`
	Shown *shownAnswer `json:"shown,omitempty"` // what the page at To shows; nil for one that shows nothing of its own
	Until time.Time    `json:"until"`           // for secrets
	Sent  *sentView    `json:"sent,omitempty"`  // the page that says what was mailed, instead of one to go to
	// What a sign-in gave the browser. A twin that was sent with it, before it came, gets it until then: a browser
	// follows the last answer only, and may have dropped the first.
	Cookies []string `json:"cookies,omitempty"`
}

// signInFor is how long a twin is signed in by the answer of the first.
const signInFor = time.Minute

// shownAnswer is a page that only the session sees which sent the form.
type shownAnswer struct {
	Act, Subject, Back string
	Secrets            []fact   // shown once
	Codes              []string // for recovery, shown once
	Finding            string   // key
	Args               []any
	At                 *time.Time // the last of Args, when that is an instant: JSON would make it a text
}

// sentForm is the request that a form with a key makes; whose is the session or the client that it belongs to. Faults:
// a status for a form without a key.
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
	return idempotency.Request{ClientID: whose, Endpoint: formsPlace, Key: key,
		Fingerprint: id.DigestOf(path + "\n" + values.Encode())}
}

// answered is the answer of a form that was done: the page that shows what came of it, or only the way on.
func answered(r idempotency.Request, now time.Time, page shownAnswer) formAnswer {
	if page.Secrets == nil && page.Finding == "" {
		return formAnswer{To: page.Back}
	}
	return formAnswer{To: shownPage + "/" + r.Key, Shown: &page, Until: now.Add(shownFor)}
}

// once does what a form asks for, unless it was done before, and returns where it leads.
func (p *Pages) once(ctx context.Context, r idempotency.Request,
	do func(tx postgres.Tx) (formAnswer, error),
) (to string, err error) {
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
func (p *Pages) onceAlone(ctx context.Context, r idempotency.Request,
	do func(context.Context) (formAnswer, error),
) (to string, err error) {
	response, err := p.awaitTwin(ctx, r, func(ctx context.Context) (int, any, error) {
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

// sentKey is the place in the context of the page that says what was mailed.
const sentKey = "partnerd.sent"

// errNotDone ends what is not kept: the form is shown again, and may be sent again.
var errNotDone = errors.New("a form was not done")

// pageForm is the request that a form makes by the key of its page; false for one without, from a page that an older
// program made.
func pageForm(c echo.Context, whose string) (idempotency.Request, bool) {
	form := c.Request().PostForm
	token, key, _ := strings.Cut(form.Get("csrf"), pageKeyMark)
	if !formKey.MatchString(key) {
		return idempotency.Request{}, false
	}
	r := formRequest(cmp.Or(whose, token), key, c.Request().URL.RequestURI(), form)
	// The key of the page, which is kept nowhere, salts the digest: values may be passwords.
	r.Fingerprint = id.DigestOf(key + r.Fingerprint.String())
	r.Key = r.Fingerprint.String()
	return r, true
}

// sentOnce runs do for a form of whose, or of the browser when whose is empty. A form sent before from the same page
// with the same values gets the first answer, and do does not run. Only answers that lead on are kept: a refused form
// can be sent again.
func (p *Pages) sentOnce(c echo.Context, whose string, do func() error) error {
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
		return statusError(http.StatusConflict)
	case err != nil && !errors.Is(err, errNotDone):
		return err
	case ran:
		return nil
	}
	return p.answerAgain(c, response, true)
}

// answerOf is what is kept of the answer in c; false when it does not lead on.
func (p *Pages) answerOf(c echo.Context, whose string) (a formAnswer, done bool) {
	h := c.Response().Header()
	a.Sent, _ = c.Get(sentKey).(*sentView)
	if a.To = h.Get("Location"); c.Response().Status != http.StatusSeeOther && a.Sent == nil {
		return a, false
	}
	if u, err := url.Parse(a.To); err != nil || u.Query().Has("fault") {
		return a, false
	}
	if whose == "" {
		a.Cookies, a.Until = h.Values("Set-Cookie"), p.deps.DB.Clock().Now().Add(signInFor)
	}
	return a, true
}

// answerAgain gives the first answer. Only the browser that the form was made for gets what it set.
func (p *Pages) answerAgain(c echo.Context, first idempotency.Response, own bool) error {
	var a formAnswer
	if err := json.Unmarshal(first.Body, &a); err != nil {
		return fmt.Errorf("read the answer of a form: %w", err)
	}
	if own && p.deps.DB.Clock().Now().Before(a.Until) {
		for _, k := range a.Cookies {
			c.Response().Header().Add("Set-Cookie", k)
		}
	}
	if a.Sent != nil {
		return p.showSent(c, *a.Sent)
	}
	return c.Redirect(http.StatusSeeOther, a.To)
}

// awaitTwin is [idempotency.Service.Alone] that waits for a twin which runs, for as long as a person waits.
func (p *Pages) awaitTwin(
	ctx context.Context, r idempotency.Request, effect func(context.Context) (int, any, error),
) (idempotency.Response, error) {
	patience, cancel := context.WithTimeout(ctx, twinFor)
	defer cancel()
	for {
		response, err := p.deps.Idempotency.Alone(ctx, r, effect)
		if !errors.Is(err, idempotency.ErrInProgress) || !poll.Pause(patience, twinEvery) {
			return response, err
		}
	}
}

const (
	twinFor   = 5 * time.Second
	twinEvery = 50 * time.Millisecond
)

// mineOnce is for what a client sends; see [Pages.sentOnce].
func (p *Pages) mineOnce(h func(echo.Context, *account.Client) error) func(echo.Context, *account.Client) error {
	return func(c echo.Context, client *account.Client) error {
		return p.sentOnce(c, client.ID, func() error { return h(c, client) })
	}
}

// staffOnce is for what somebody who works here sends.
func (p *Pages) staffOnce(h func(echo.Context, staff.Session) error) func(echo.Context, staff.Session) error {
	return func(c echo.Context, s staff.Session) error {
		return p.sentOnce(c, s.ID, func() error { return h(c, s) })
	}
}

// visitorOnce is for what somebody sends who is not signed in. own tells whether the form is one of this browser. One
// that was sent before, and signed this browser in or out, is no longer: it leads on, and changes nothing.
func (p *Pages) visitorOnce(own func(echo.Context) bool, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if own(c) {
			return p.sentOnce(c, "", func() error { return h(c) })
		}
		r, ok := pageForm(c, "")
		if !ok {
			return h(c)
		}
		first, err := p.deps.Idempotency.Stored(c.Request().Context(), r)
		switch {
		case errors.Is(err, idempotency.ErrInProgress):
			return statusError(http.StatusConflict)
		case err != nil:
			return err
		case first == nil:
			return h(c)
		}
		return p.answerAgain(c, *first, false)
	}
}

// signInOnce is [Pages.visitorOnce] for a form that signs in, or that only a visitor needs. When somebody has signed
// in since the form was made, it changes nothing and leads to where a sign-in leads. on tells where; it is empty while
// nobody is signed in.
func (p *Pages) signInOnce(
	own func(echo.Context) bool, on func(echo.Context) (string, error), h echo.HandlerFunc,
) echo.HandlerFunc {
	return p.visitorOnce(own, func(c echo.Context) error {
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

// clientOn is where a sign-in leads the client who is signed in; empty for nobody.
func (p *Pages) clientOn(c echo.Context) (string, error) {
	client, err := p.client(c)
	if err != nil || client == nil {
		return "", err
	}
	return safeNext(c.Request().PostForm.Get("next")), nil
}

// staffOn is [Pages.clientOn] for the people who work here.
func (p *Pages) staffOn(c echo.Context) (string, error) {
	s, err := p.deps.Staff.Session(c.Request().Context(), p.deps.DB.Read(), p.staffToken(c))
	if errors.Is(err, staff.ErrNoSession) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the session of somebody who works here: %w", err)
	}
	return staffNext(c.Request().PostForm.Get("next"), s.Person), nil
}

// stale is with what a form of a mailed link is shown again that was made before the sign-in of this browser: it does
// more than sign in, so it is sent once more, not left out.
func (p *Pages) stale(c echo.Context, on func(echo.Context) (string, error)) (status int, key string, err error) {
	to, err := on(c)
	if err != nil || to == "" {
		return http.StatusForbidden, "login.stale", err
	}
	return http.StatusConflict, "form.stale", nil
}

// keepCodes keeps recovery codes for the page that shows them once, and returns its address. next is where it leads.
func (p *Pages) keepCodes(
	ctx context.Context, tx postgres.Tx, sessionID, next string, codes []string,
) (to string, err error) {
	r := idempotency.Request{ClientID: sessionID, Endpoint: formsPlace, Key: newFormKey()}
	page := shownAnswer{Act: "staff.codes.title", Back: next, Codes: codes}
	to = shownPage + "/" + r.Key
	kept := formAnswer{To: to, Shown: &page, Until: tx.Now.Add(shownFor)}
	return to, p.deps.Idempotency.Keep(ctx, tx, r, http.StatusSeeOther, kept)
}

// formFault is how it is said that a form was sent before with other values, or is being done at this moment; nil for
// any other err, which is returned.
func (p *Pages) formFault(c echo.Context, s staff.Session, err error) (*fault, error) {
	switch {
	case errors.Is(err, idempotency.ErrInProgress):
		return &fault{Key: "form.running"}, nil
	case !errors.Is(err, idempotency.ErrConflict):
		return nil, err
	}
	form := c.Request().PostForm
	to, err := p.firstAnswer(c.Request().Context(), s, cmp.Or(form.Get(onceField), form.Get(entryField)))
	if err != nil {
		return nil, err
	}
	f := fault{Key: "form.again", Links: []link{{c.Request().URL.Path, "form.again.new"}}}
	if to != "" {
		f.Links = append([]link{{to, "form.again.first"}}, f.Links...)
	}
	return &f, nil
}

// firstAnswer is where the form of a key led when it was done, whatever its values were; empty when that is not kept.
func (p *Pages) firstAnswer(ctx context.Context, s staff.Session, key string) (to string, err error) {
	first, err := p.deps.Idempotency.Kept(ctx, idempotency.Request{ClientID: s.ID, Endpoint: formsPlace, Key: key})
	if errors.Is(err, idempotency.ErrInProgress) { // and leads nowhere yet
		return "", nil
	}
	if err != nil || first == nil {
		return "", err
	}
	return leadsTo(*first)
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
	found, err := p.deps.Idempotency.Replace(ctx, idempotency.Request{ClientID: s.ID, Endpoint: formsPlace, Key: key},
		func(body []byte) (any, error) {
			var kept formAnswer
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
		return opsMissing(err)
	}
	for i, arg := range v.Args {
		if n, ok := arg.(float64); ok { // as numbers come out of JSON
			v.Args[i] = int(n)
		}
	}
	if v.At != nil {
		v.Args = append(v.Args, *v.At)
	}
	if v.Codes != nil {
		return p.showCodes(c, v)
	}
	return p.renderStaff(c, http.StatusOK, s, "shown", view{Title: v.Act, Data: v, Once: true})
}

// showCodes shows recovery codes, which nobody sees again.
func (p *Pages) showCodes(c echo.Context, v shownAnswer) error {
	allowScripts(c)
	return p.render(c, http.StatusOK, "staff_codes", view{Title: v.Act, Narrow: true, Once: true,
		Scripts: []string{p.codesScript.path}, Data: v})
}

// CodesFile is a text file with the codes, within the page itself: nothing keeps it and no request carries it.
func (v shownAnswer) CodesFile() template.URL {
	return template.URL("data:text/plain;charset=utf-8," + url.PathEscape(strings.Join(v.Codes, "\r\n")+"\r\n")) //nolint:gosec // escaped
}
