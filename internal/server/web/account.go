package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// field is one input of a form, as the template "field" shows it. Texts are keys.
type field struct {
	ID, Label, Type, Autocomplete string
	InputMode                     string
	Value                         string
	Hint, Fault                   string
	FaultArgs                     []any
	Focus                         bool
}

// require says so at each field that was sent empty, and tells whether one was.
func require(fields []field, form url.Values) (missing bool) {
	for i, f := range fields {
		if sent := form.Get(f.ID); sent == "" || f.Type != "password" && strings.TrimSpace(sent) == "" {
			fields[i].Fault, fields[i].Focus = "rule.required", !missing
			missing = true
		}
	}
	return missing
}

// refuse says at each field what err refuses of its value, by the rule and in the reader's language, and tells whether
// it refuses any.
func refuse(fields []field, err error) (refused bool) {
	for _, issue := range problem.IssuesOf(err) {
		at := slices.IndexFunc(fields, func(f field) bool { return f.ID == issue.Path })
		if at < 0 || issue.Why == nil {
			continue
		}
		fields[at].Fault, fields[at].FaultArgs, fields[at].Focus = "rule."+issue.Why.Rule.Key, issue.Why.Args, !refused
		refused = true
	}
	return refused
}

// mine wraps a page of the signed-in client: everybody else is sent to sign in and comes back. A POST must come from a
// form that was made for this sign-in. The language that the client chooses for the pages is that of their messages,
// too.
func (p *Pages) mine(h func(echo.Context, *account.Client) error) echo.HandlerFunc {
	return p.page(func(c echo.Context) error {
		client, err := p.client(c)
		if err != nil {
			return err
		}
		if client == nil {
			return p.keepAndLogIn(c)
		}
		if c.Request().Method == http.MethodPost && !p.ownForm(c) {
			return statusError(http.StatusForbidden)
		}
		if lang := c.QueryParam("lang"); languageNames[lang] != "" && lang != client.Language {
			if err := p.deps.Accounts.SetLanguage(c.Request().Context(), p.deps.DB.Read(),
				client.ID, lang); err != nil {
				return err
			}
		}
		p.restOnSession(c)
		if err = h(c, client); errors.Is(err, account.ErrNoSession) { // it ended while the form was under way
			return p.keepAndLogIn(c)
		}
		return err
	})
}

// restOnSession lets what the client does from here on rest on their session.
func (p *Pages) restOnSession(c echo.Context) {
	rests(c, account.SignedIn(p.cookie(c, sessionCookie)))
}

// rests lets what the request does from here on rest on r, too.
func rests(c echo.Context, r postgres.Rests) {
	c.SetRequest(c.Request().WithContext(postgres.Resting(c.Request().Context(), r)))
}

// keepAndLogIn sends the visitor to sign in; a form that was sent is shown there again.
func (p *Pages) keepAndLogIn(c echo.Context) error {
	if err := p.keepForm(c); err != nil {
		return fmt.Errorf("keep a form: %w", err)
	}
	return toLogin(c, backTo(c))
}

// fresh is [Pages.mine] for what protects the account: it asks who signed in a while ago to do so again.
func (p *Pages) fresh(h func(echo.Context, *account.Client) error) echo.HandlerFunc {
	return p.mine(func(c echo.Context, client *account.Client) error {
		tx := p.deps.DB.Read()
		at, err := p.deps.Accounts.SignedInAt(c.Request().Context(), tx, p.cookie(c, sessionCookie))
		if err != nil && !errors.Is(err, account.ErrNoSession) {
			return fmt.Errorf("read browser session: %w", err)
		}
		if tx.Now.Sub(at) > account.FreshSignIn {
			if err := p.keepForm(c); err != nil {
				return fmt.Errorf("keep a form: %w", err)
			}
			return c.Redirect(http.StatusSeeOther, "/login?again=1&next="+url.QueryEscape(backTo(c)))
		}
		return h(c, client)
	})
}

// backTo is where to return after a sign-in; a form that was sent is not sent again.
func backTo(c echo.Context) string {
	if c.Request().Method == http.MethodPost {
		return pageOf(c)
	}
	return c.Request().URL.RequestURI()
}

// try is one count against a bucket of perMinute tries.
type try struct {
	bucket    string
	perMinute int
}

// attempt counts a try in each bucket in turn and returns how long to wait, 0 when it may go on.
func (p *Pages) attempt(ctx context.Context, tries ...try) time.Duration {
	if len(tries) == 0 {
		return 0
	}
	var buckets []ratelimit.Bucket
	for _, t := range tries {
		buckets = append(buckets, ratelimit.Bucket{Key: t.bucket, PerMinute: t.perMinute})
	}
	said := p.deps.Limiter.AllowEach(ctx, p.deps.DB.Clock().Now(), buckets...)
	return said[len(said)-1].RetryAfter
}

// takeBack uncounts tries that proved harmless.
func (p *Pages) takeBack(ctx context.Context, tries []try) {
	for _, t := range tries {
		p.deps.Limiter.Return(ctx, t.bucket, t.perMinute)
	}
}

// from is a try that counts against the network that it comes from.
func from(c echo.Context, what string, perMinute int) try {
	return try{what + " address " + ratelimit.Network(c.RealIP()), perMinute}
}

func setRetryAfter(c echo.Context, wait time.Duration) {
	c.Response().Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(wait.Seconds()))))
}

func tooMany(c echo.Context, wait time.Duration) error {
	setRetryAfter(c, wait)
	return statusError(http.StatusTooManyRequests)
}

type overviewView struct {
	Wallet   wallet.Balance
	Phone    string // masked; empty when none is verified
	Open     int    // consultations
	Apps     []oauth.Connection
	Passkeys int
}

// overview is the start of the account.
func (p *Pages) overview(c echo.Context, client *account.Client) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	var v overviewView
	var err error
	if v.Wallet, err = p.deps.Wallet.Balance(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("read wallet: %w", err)
	}
	if v.Phone, err = p.deps.SelfService.MaskedPhone(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("read phone: %w", err)
	}
	if v.Open, err = p.deps.Consultations.OpenOf(ctx, tx, client.ID); err != nil {
		return err
	}
	if v.Apps, err = p.deps.OAuth.Connections(ctx, tx, client.ID); err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	keys, err := p.deps.SelfService.Passkeys(ctx, tx, client.ID)
	if err != nil {
		return err
	}
	v.Passkeys = len(keys)
	return p.showAccount(c, http.StatusOK, client, "overview", "overview.title", v)
}

// showAccount renders a page of the account, with its navigation.
func (p *Pages) showAccount(c echo.Context, status int, client *account.Client, name, title string, data any) error {
	from, err := p.cameFrom(c, client)
	if err != nil {
		return fmt.Errorf("find the way back: %w", err)
	}
	v := view{Title: title, Client: client, CSRF: p.csrf(c), Section: name, Done: doneText(c),
		Kept: wasKept(c), From: from, Data: data}
	if name != "statement" { // whose months are those of UTC
		p.showLocalTime(c, &v)
	}
	return p.render(c, status, name, v)
}

// doneTexts are what a page can say after a form of it succeeded.
var doneTexts = map[string]string{
	"app": "apps.done", "app-cancel": "apps.done.cancelled", "password": "security.password.done",
	"passkey": "security.passkey.done", "passkey-gone": "security.passkey.gone", "session": "security.session.done",
	"sessions": "security.sessions.done", "phone": "phone.done", "phone-gone": "phone.gone", "zone": "phone.zone.done",
	"cancelled": "consultation.done.cancelled", "withdrawn": "consultation.done.withdrawn",
	"refund": "wallet.refund.done", "topup-cancelled": "wallet.topup.cancelled", "topup-over": "wallet.topup.over",
	"welcome": "overview.welcome", "sent": "phone.sent", "email": "email.done", "undone": "undo.done",
}

func doneText(c echo.Context) string {
	if c.QueryParam("topup") == "success" { // back from the checkout
		return "wallet.topup.done"
	}
	return doneTexts[c.QueryParam("done")]
}

// confirmView is a question before something that cannot be taken back.
type confirmView struct {
	Heading string // key
	Text    string // key
	Args    []any
	Facts   []fact
	Action  string // where the form goes
	Button  string // key
	Danger  bool
	Back    string
	Fields  []field
	Refused string // key of why it cannot be done; there is no form then
}

type fact struct {
	Label string // key
	Value any    // a string, or an instant as HTML
}

func (p *Pages) confirm(c echo.Context, status int, client *account.Client, v confirmView) error {
	title := v.Heading
	if slices.ContainsFunc(v.Fields, func(f field) bool { return f.Fault != "" }) {
		title += ".error"
	}
	page := view{Title: title, Client: client, CSRF: p.csrf(c), Narrow: true, Data: v}
	p.showLocalTime(c, &page)
	return p.render(c, status, "confirm", page)
}

// endsOfExpired are the reasons for which a consultation expires: the client is told which, because most are not that
// nobody was found.
var endsOfExpired = []consultation.Reason{consultation.GuaranteeMissed, consultation.ClientNotReached,
	consultation.PhoneLost, consultation.WrongPerson, consultation.TooShort, consultation.TechnicalFault,
	consultation.NoteMissing, consultation.WithdrawnFrom}

// statusKey is the text of where a consultation stands.
func statusKey(s consultation.Status, why consultation.Reason) string {
	key := "status." + string(s)
	if s == consultation.Expired && slices.Contains(endsOfExpired, why) {
		key += "." + string(why)
	}
	return key
}
