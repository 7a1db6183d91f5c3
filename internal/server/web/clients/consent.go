package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

type consentView struct {
	Application string
	Host        string // where the browser goes afterwards
	Request     string // the authorize request, sent back with the form
	Self        string // the URL of this page
	Fixed       []application.Scope
	Optional    []application.Scope
	Before      []application.Scope // allowed earlier, so the page does not ask for them
	Chosen      map[application.Scope]bool
	Nothing     bool // the form was sent without any scope
}

// Authorize is the browser's entry to linking an account (specification section 4.1). A request without a valid
// application and redirect URI gets a page with status 400. All other errors go to the redirect URI.
func (p *Pages) Authorize(c echo.Context) error {
	err := p.Page(p.authorize)(c)
	if err == nil || c.Response().Committed {
		return err
	}
	status := http.StatusInternalServerError
	if e, ok := problem.As(err); ok && e.Kind == problem.Unavailable {
		status = http.StatusServiceUnavailable
	}
	p.Logger.ErrorContext(c.Request().Context(), "authorize page failed", "error", err)
	return p.Error(c, status)
}

func (p *Pages) authorize(c echo.Context) error {
	// A semicolon is an ordinary character of a query (WHATWG URL), and therefore of a state.
	q, err := url.ParseQuery(strings.ReplaceAll(c.Request().URL.RawQuery, ";", "%3B"))
	if err != nil {
		return p.refuseAuthorize(c, &oauth.PageError{Code: oauth.PageMalformed,
			Description: "The query is not well-formed."})
	}
	q.Del("lang")
	r, err := p.parseAuthorize(c, q)
	if err != nil {
		return p.refuseAuthorize(c, err)
	}
	self := c.Request().URL.Path + "?" + q.Encode()
	client, err := p.Client(c)
	if err != nil {
		return err
	}
	if client == nil {
		return shell.ToLogin(c, self)
	}
	ask := r.Scopes
	if q.Get("prompt") != "consent" {
		remembered, err := p.deps.OAuth.Remembered(c.Request().Context(), p.DB.Read(), client.ID, r.Application.ID,
			r.RedirectURI)
		if err != nil {
			return err
		}
		ask = oauth.MustAsk(r.Scopes, remembered)
	}
	p.restOnSession(c)
	if len(ask) == 0 {
		return p.answerApplication(c, self, func(ctx context.Context, tx postgres.Tx) (string, error) {
			return p.deps.OAuth.ApproveAsBefore(ctx, tx, r, client.ID)
		})
	}
	return p.showConsent(c, http.StatusOK, r, client, newConsentView(r, ask, q.Encode(), self))
}

func (p *Pages) parseAuthorize(c echo.Context, q url.Values) (oauth.AuthorizeRequest, error) {
	return p.deps.OAuth.ParseAuthorize(c.Request().Context(), p.DB.Read(), q)
}

// refuseAuthorize shows an error that must not be redirected, and redirects all others to the redirect URI.
func (p *Pages) refuseAuthorize(c echo.Context, err error) error {
	var redirect *oauth.RedirectError
	if errors.As(err, &redirect) {
		return c.Redirect(http.StatusFound, redirect.URL)
	}
	var fault *oauth.PageError
	if errors.As(err, &fault) {
		data := shell.ErrorView{Status: http.StatusBadRequest, Key: "error.authorize", Detail: fault.Description}
		return p.Render(c, http.StatusBadRequest, "error", shell.View{Title: "error.authorize.title",
			Narrow: true, Data: data})
	}
	return err
}

// newConsentView shows everything that the application requests. The form asks for the scopes in ask. Since a page is
// shown anyway, it also asks for every scope that can be refused alone.
func newConsentView(r oauth.AuthorizeRequest, ask []application.Scope, request, self string) consentView {
	v := consentView{Application: r.Application.Name, Host: hostOf(r.RedirectURI), Request: request, Self: self,
		Chosen: map[application.Scope]bool{}}
	for _, s := range application.AllScopes {
		if !slices.Contains(r.Scopes, s) {
			continue
		}
		v.Chosen[s] = true
		switch {
		case oauth.MayRefuse(s):
			v.Optional = append(v.Optional, s)
		case !slices.Contains(ask, s):
			v.Before = append(v.Before, s)
		default:
			v.Fixed = append(v.Fixed, s)
		}
	}
	return v
}

func (p *Pages) showConsent(c echo.Context, status int, r oauth.AuthorizeRequest, client *account.Client,
	v consentView,
) error {
	shell.AllowFormsToLeave(c)
	title := "consent.title"
	if v.Nothing {
		title = "consent.title.error"
	}
	return p.Render(c, status, "consent", shell.View{Title: title, Client: client, CSRF: p.CSRF(c), Narrow: true,
		Data: v})
}

// consent handles the client's decision. The form contains the authorize request, which is checked again.
func (p *Pages) consent(c echo.Context) error {
	form := c.Request().PostForm
	q, err := url.ParseQuery(form.Get("request"))
	if err != nil {
		return shell.StatusError(http.StatusBadRequest)
	}
	r, err := p.parseAuthorize(c, q)
	if err != nil {
		return p.refuseAuthorize(c, err)
	}
	self := shell.AuthorizePath + "?" + q.Encode()
	client, err := p.Client(c)
	if err != nil {
		return err
	}
	if client == nil {
		return shell.ToLogin(c, self)
	}
	if !p.OwnForm(c) {
		return shell.StatusError(http.StatusForbidden)
	}
	p.restOnSession(c)
	switch form.Get("decision") {
	case "allow":
		return p.allow(c, r, client, q)
	case "deny":
		return p.answerApplication(c, self, func(ctx context.Context, tx postgres.Tx) (string, error) {
			return p.deps.OAuth.Deny(ctx, tx, r, client.ID)
		})
	}
	return shell.StatusError(http.StatusBadRequest)
}

// allow grants the scopes named in the form, but never one that was not requested.
func (p *Pages) allow(c echo.Context, r oauth.AuthorizeRequest, client *account.Client, q url.Values) error {
	ticked := c.Request().PostForm["scope"]
	var granted []application.Scope
	for _, s := range r.Scopes {
		if slices.Contains(ticked, string(s)) {
			granted = append(granted, s)
		}
	}
	if len(granted) == 0 {
		v := newConsentView(r, r.Scopes, q.Encode(), shell.AuthorizePath+"?"+q.Encode())
		v.Chosen, v.Nothing = nil, true
		return p.showConsent(c, http.StatusUnprocessableEntity, r, client, v)
	}
	return p.answerApplication(c, shell.AuthorizePath+"?"+q.Encode(),
		func(ctx context.Context, tx postgres.Tx) (string, error) {
			target, err := p.deps.OAuth.Approve(ctx, tx, r, client.ID, granted)
			if err != nil {
				return "", err
			}
			return target, p.deps.SelfService.NotifyLink(ctx, tx, *client, p.Language(c), r.Application.Name,
				r.Application.ID)
		})
}

// answerApplication redirects the browser to the result of decide, unless the session has ended. If decide returns
// nothing, it redirects to the page at self again: a scope to be approved without asking has been withdrawn.
func (p *Pages) answerApplication(c echo.Context, self string,
	decide func(context.Context, postgres.Tx) (target string, err error),
) error {
	ctx := c.Request().Context()
	var target string
	err := p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		target, err = decide(ctx, tx)
		return err
	})
	if errors.Is(err, account.ErrNoSession) {
		return shell.ToLogin(c, self)
	}
	if err != nil {
		return fmt.Errorf("answer authorization: %w", err)
	}
	if target == "" {
		target = self
	}
	return c.Redirect(http.StatusFound, target)
}

// applicationOf returns the name of the application in the authorize request at next. It is empty if there is none.
func (p *Pages) applicationOf(c echo.Context, next string) (string, error) {
	u, err := url.Parse(next)
	if err != nil || !shell.Identifier.MatchString(u.Query().Get("client_id")) {
		return "", nil
	}
	app, err := p.deps.Applications.Get(c.Request().Context(), p.DB.Read(), u.Query().Get("client_id"))
	if errors.Is(err, problem.ErrNotFound) {
		return "", nil
	}
	return app.Name, err
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}
