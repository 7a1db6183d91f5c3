package web

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/edge"
)

//go:embed templates/*.html assets/style.css assets/passkey.js assets/reveal.js assets/codes.js assets/copy.js assets/local.js assets/desk.js assets/key.js assets/docs.js assets/try.js texts.json texts_account.json texts_staff.json texts_desk.json texts_ops.json texts_developers.json texts_rules.json
var files embed.FS

// SandboxPayments is the provider's side of the built-in checkout; it exists only in a sandbox.
type SandboxPayments interface {
	// Pay and Cancel record the payer's decision; the first one stands. [payment.ErrSessionClosed] when it is too late,
	// [payment.ErrWalletLimitExceeded] when the wallet may not hold as much, another error against the first decision.
	Pay(ctx context.Context, tx postgres.Tx, sessionID string) error
	Cancel(ctx context.Context, tx postgres.Tx, sessionID string) error
	// Decision tells what the payer decided, also while the notice of it is under way; false when nothing yet.
	Decision(ctx context.Context, tx postgres.Tx, sessionID string) (payment.Kind, bool, error)
}

// Deps is what the pages need.
type Deps struct {
	DB              *postgres.DB
	Box             *seal.Box // seals forms that are kept during a sign-in
	Accounts        *account.Service
	SelfService     *account.SelfService
	Staff           *staff.Service
	Operator        *operator.Service
	Lawyers         *lawyer.Service
	Webhooks        *webhook.Service
	Portal          *portal.Service
	Requests        *requestlog.Log
	Idempotency     *idempotency.Service
	Conformance     *conformance.Service
	Clock           *sandbox.Clock // nil in live
	Playground      *Playground    // nil in live
	Access          *access.Log
	Privacy         *privacy.Service
	Consultations   *consultation.Service
	Desk            *desk.Service
	Catalog         *catalog.Service
	Applications    *application.Service
	OAuth           *oauth.Service
	Wallet          *wallet.Service
	Payments        *payment.Service
	Books           *books.Service
	SandboxPayments SandboxPayments // nil in a live deployment
	Limiter         *ratelimit.Limiter
	Logger          *slog.Logger
	BaseURL         string // absolute, without a trailing slash
	Sandbox         bool
	Contract        []byte // the contract of the Partner API, as it is published
	Platform        []byte // that of the Platform API
	Player          []byte // that of the Sandbox API; nil in live

	Name            string // what the service is called; empty: partnerd
	Contact         string // whom people write to, a URL; empty: nobody is named
	Logo            Logo   // the operator's; none when it is zero
	Legal           Legal  // the operator's pages
	MailFolder      string // where a sandbox on the reader's machine keeps mail; empty: mail is sent
	SecurityContact string // where to report a weakness, a URL; empty: nobody says
	LoginPerAccount int    // sign-in attempts a minute for one e-mail address; 0 means 10
	LoginPerAddress int    // sign-in attempts a minute from one network address; 0 means 60
}

// Pages serves the HTML pages.
type Pages struct {
	deps          Deps
	secure        bool // cookies are Secure and named with __Host-
	views         *views
	style         asset
	passkeyScript asset
	revealScript  asset
	localScript   asset
	codesScript   asset
	copyScript    asset
	deskScript    asset
	keyScript     asset
	docsScript    asset
	tryScript     asset
	docs          func() (docs, error) // made when it is first asked for
	origins       *edge.Origins
}

// New reads the templates and the texts; an error means that the program was built wrong.
func New(d Deps) (*Pages, error) {
	base, err := url.Parse(d.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read base URL: %w", err)
	}
	d.BaseURL = strings.TrimSuffix(d.BaseURL, "/")
	if d.LoginPerAccount == 0 {
		d.LoginPerAccount = 10
	}
	if d.LoginPerAddress == 0 {
		d.LoginPerAddress = 60
	}
	p := &Pages{deps: d, secure: base.Scheme == "https"}
	if p.origins, err = edge.NewOrigins(d.BaseURL); err != nil {
		return nil, err
	}
	if p.style, err = loadAsset("assets/style.css", "text/css; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.passkeyScript, err = loadAsset("assets/passkey.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.revealScript, err = loadAsset("assets/reveal.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.localScript, err = loadAsset("assets/local.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.codesScript, err = loadAsset("assets/codes.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.copyScript, err = loadAsset("assets/copy.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.deskScript, err = loadAsset("assets/desk.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.keyScript, err = loadAsset("assets/key.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.views, err = newViews(p.style.path, site{cmp.Or(d.Name, "partnerd"), d.Logo.path, d.Contact,
		d.Legal.pages()}); err != nil {
		return nil, err
	}
	if p.docsScript, err = loadAsset("assets/docs.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	if p.tryScript, err = loadAsset("assets/try.js", "text/javascript; charset=utf-8"); err != nil {
		return nil, err
	}
	p.docs = sync.OnceValues(p.newDocs)
	return p, nil
}

// Register adds the routes of all pages except [Pages.Authorize], whose path belongs to the API.
func (p *Pages) Register(e *echo.Echo) {
	read := []string{http.MethodGet, http.MethodHead}
	e.Match(read, "/", p.page(p.home))
	e.Match(read, p.style.path, p.style.serve)
	if p.deps.Logo.path != "" {
		e.Match(read, p.deps.Logo.path, p.deps.Logo.serve)
	}
	if p.deps.SecurityContact != "" {
		e.Match(read, "/.well-known/security.txt", p.securityContact)
	}
	p.registerDocs(e, read)
	e.Match(read, "/login", p.page(p.loginForm))
	e.POST("/login", p.page(p.signInOnce(p.ownForm, p.clientOn, p.login)))
	e.POST("/logout", p.page(p.visitorOnce(p.ownForm, p.logout)))
	e.POST(consentPath, p.page(p.consent))
	p.registerAccount(e, read)
	p.registerDesk(e, read)
	p.registerKey(e, read)
	p.registerStaff(e, read)
	e.Match(read, "/checkout/:id", p.page(p.checkout))
	e.POST("/checkout/:id", p.page(p.decideCheckout))
	p.registerOps(e, read)
	p.registerDevelopers(e, read)
}

// registerAccount adds what clients do for themselves.
func (p *Pages) registerAccount(e *echo.Echo, read []string) {
	e.Match(read, p.passkeyScript.path, p.passkeyScript.serve)
	e.Match(read, p.localScript.path, p.localScript.serve)
	e.Match(read, p.revealScript.path, p.revealScript.serve)
	e.Match(read, p.codesScript.path, p.codesScript.serve)
	e.Match(read, p.copyScript.path, p.copyScript.serve)
	e.Match(read, "/accessibility", p.page(p.accessibility))
	for _, page := range p.deps.Legal.pages() {
		e.Match(read, "/legal/"+page, p.page(p.legal(page)))
	}
	e.Match(read, "/legal/waiver", p.page(p.newestWaiver))
	e.Match(read, "/legal/waiver/:version", p.page(p.waiver))
	e.Match(read, "/signup", p.page(p.signUpForm))
	e.POST("/signup", p.page(p.signInOnce(p.ownForm, p.clientOn, p.signUp)))
	e.Match(read, "/signup/confirm", p.page(p.openLink(p.confirmSignUpPage())))
	e.POST("/signup/confirm", p.page(p.visitorOnce(p.ownForm, p.useLink(p.confirmSignUpPage()))))
	e.Match(read, "/password/forgot", p.page(p.forgotForm))
	e.POST("/password/forgot", p.page(p.signInOnce(p.ownForm, p.clientOn, p.forgot)))
	e.Match(read, "/password/reset", p.page(p.openLink(p.resetPage())))
	e.POST("/password/reset", p.page(p.visitorOnce(p.ownForm, p.useLink(p.resetPage()))))
	e.Match(read, "/email/undo", p.page(p.openLink(p.undoEmailPage())))
	e.POST("/email/undo", p.page(p.visitorOnce(p.ownForm, p.useLink(p.undoEmailPage()))))
	if p.deps.SelfService.HasPasskeys() {
		e.Match(read, "/login/passkey", p.page(p.passkeyLoginForm))
		e.POST("/login/passkey", p.page(p.signInOnce(p.ownForm, p.clientOn, p.passkeyLogin)))
		e.Match(read, "/account/security/passkeys", p.fresh(p.newPasskeyForm))
		e.POST("/account/security/passkeys", p.fresh(p.mineOnce(p.addPasskey)))
		e.POST("/account/security/passkeys/:id/remove", p.fresh(p.mineOnce(p.removePasskey)))
	}
	e.Match(read, "/account", p.mine(p.overview))
	e.Match(read, "/account/apps", p.mine(p.apps))
	e.POST("/account/apps/:id/disconnect", p.mine(p.mineOnce(p.disconnect)))
	e.Match(read, "/account/security", p.mine(p.security))
	e.POST("/account/security/password", p.mine(p.mineOnce(p.changePassword)))
	e.Match(read, emailFormAddress, p.mine(p.emailForm))
	e.POST(emailFormAddress, p.mine(p.mineOnce(p.requestEmail)))
	e.Match(read, emailFormAddress+"/confirm", p.mine(p.confirmEmailForm))
	e.POST(emailFormAddress+"/confirm", p.mine(p.mineOnce(p.confirmEmail)))
	e.POST("/account/security/sessions/end", p.mine(p.mineOnce(p.endOtherSessions)))
	e.POST("/account/security/sessions/:id/end", p.mine(p.mineOnce(p.endSession)))
	e.Match(read, "/account/phone", p.fresh(p.phone))
	e.POST("/account/phone", p.fresh(p.mineOnce(p.sendCode)))
	e.POST("/account/phone/code", p.fresh(p.mineOnce(p.enterCode)))
	e.POST("/account/phone/zone", p.fresh(p.mineOnce(p.setZone)))
	e.Match(read, "/account/wallet", p.mine(p.wallet))
	e.POST("/account/wallet/topup", p.mine(p.mineOnce(p.topUp)))
	e.POST("/account/wallet/topups/:id/cancel", p.mine(p.mineOnce(p.cancelTopUp)))
	e.Match(read, "/account/wallet/statement/:month", p.mine(p.statement))
	e.Match(read, "/account/wallet/refund", p.fresh(p.refundForm))
	e.POST("/account/wallet/refund", p.fresh(p.mineOnce(p.refund)))
	e.Match(read, "/account/consultations", p.mine(p.consultations))
	e.Match(read, "/account/consultations/:id", p.mine(p.consultation))
	e.Match(read, "/account/consultations/:id/proof.json", p.mine(p.proof))
	e.Match(read, "/account/consultations/:id/cancel", p.mine(p.cancelForm))
	e.POST("/account/consultations/:id/cancel", p.mine(p.mineOnce(p.cancel)))
	e.Match(read, "/account/consultations/:id/withdraw", p.mine(p.withdrawForm))
	e.POST("/account/consultations/:id/withdraw", p.mine(p.mineOnce(p.withdraw)))
	e.Match(read, "/account/privacy", p.mine(p.privacy))
	e.Match(read, "/account/privacy/export", p.fresh(p.export))
	e.Match(read, "/account/privacy/erase", p.fresh(p.eraseForm))
	e.POST("/account/privacy/erase", p.fresh(p.erase))
	e.POST("/account/privacy/return", p.fresh(p.mineOnce(p.returnMoney)))
}

// What bounds the body of a form, in bytes: that of a note, which is longer than any other, and of all others.
const (
	maxForm     = 64 << 10
	maxNoteForm = 512 << 10
)

// page wraps a handler with what every page has: headers, the language, and for a POST the checks that the form is
// ours. A handler's error that is a status becomes the page for it; any other error is the caller's to log.
func (p *Pages) page(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		p.setHeaders(c)
		p.chooseLanguage(c)
		from := mail.Origin{UserAgent: c.Request().UserAgent(), Address: c.RealIP()}
		c.SetRequest(c.Request().WithContext(mail.Caused(c.Request().Context(), from)))
		err := p.readForm(c)
		if err == nil {
			err = h(c)
		}
		var status statusError
		if errors.As(err, &status) {
			return p.Error(c, int(status))
		}
		return err
	}
}

// statusError ends a request with the error page of that status.
type statusError int

func (e statusError) Error() string { return http.StatusText(int(e)) }

// readForm refuses a POST that another site caused or that is not a sane form.
func (p *Pages) readForm(c echo.Context) error {
	r := c.Request()
	if r.Method != http.MethodPost {
		return nil
	}
	if !p.origins.Ours(r) {
		return statusError(http.StatusForbidden)
	}
	limit := int64(maxForm)
	if strings.HasPrefix(r.URL.Path, lawyersDesk+"/") {
		limit = maxNoteForm
	}
	r.Body = http.MaxBytesReader(c.Response(), r.Body, limit)
	if err := r.ParseForm(); err != nil {
		return statusError(http.StatusBadRequest)
	}
	readable(r.PostForm)
	return nil
}

// The content security policy of every page, but for [allowFormsToLeave] and the few pages with a script of ours.
const (
	formsStay = "form-action 'self'; "
	policy    = "default-src 'none'; style-src 'self'; img-src 'self' data:; " + formsStay +
		"base-uri 'none'; frame-ancestors 'none'"
)

func (p *Pages) setHeaders(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: it would make browsers send "Origin: null" with our own forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
	h.Set("Cache-Control", "no-store")
}

// allowScripts lets the page run scripts of ours.
func allowScripts(c echo.Context) {
	h := c.Response().Header()
	if was := h.Get("Content-Security-Policy"); !strings.Contains(was, "script-src") {
		h.Set("Content-Security-Policy", was+"; script-src 'self'")
	}
}

// showLocalTime has the browser show instants in its own zone.
func (p *Pages) showLocalTime(c echo.Context, v *view) {
	allowScripts(c)
	v.Scripts = append(v.Scripts, p.localScript.path)
}

// allowFormsToLeave is for pages whose forms lead on to an application: Chromium applies form-action to the whole chain
// of redirects after a form was sent, and nobody but the application knows where its redirect URI sends the browser.
func allowFormsToLeave(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), formsStay, "", 1))
}

// Error answers with the page for an HTTP status, in the visitor's language.
func (p *Pages) Error(c echo.Context, status int) error {
	p.setHeaders(c)
	key := "error.other"
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusServiceUnavailable:
		key = fmt.Sprintf("error.%d", status)
	}
	return p.render(c, status, "error", view{Title: key + ".title", Data: errorView{Status: status, Key: key,
		Back: p.ownStart(c, status)}})
}

// ownStart is where the reader of an error works; empty for a visitor, and after a failure: the database may be what
// failed.
func (p *Pages) ownStart(c echo.Context, status int) string {
	if status >= http.StatusInternalServerError {
		return ""
	}
	path := c.Request().URL.Path
	atWork := slices.ContainsFunc([]string{"/staff", lawyersDesk, operatorDesk, developersDesk},
		func(root string) bool {
			return path == root || strings.HasPrefix(path, root+"/")
		})
	if client, err := p.client(c); !atWork && err == nil && client != nil {
		return "/account"
	}
	if s, err := p.deps.Staff.Session(c.Request().Context(), p.deps.DB.Read(), p.staffToken(c)); err == nil {
		return deskOf(s.Person)
	}
	return ""
}

type errorView struct {
	Status int
	Key    string
	Detail string // English, for the developer of the partner's application
	Back   string // where the reader works; empty for the start page
}

func (p *Pages) home(c echo.Context) error {
	return p.renderPublic(c, "home", view{Title: "home.title", Data: p.deps.BaseURL})
}
