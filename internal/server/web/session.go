package web

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/account"
)

// Names of the cookies: the session of a signed-in client, and a random value that ties the forms of a visitor who is
// not signed in to this browser.
const (
	sessionCookie = "partnerd"
	browserCookie = "partnerd-browser"
	knownCookie   = "partnerd-known" // tells a browser in which the client has signed in before
)

// cookieName adds the prefix that makes browsers refuse the cookie from any other host or over plain HTTP.
func (p *Pages) cookieName(name string) string {
	if p.secure {
		return "__Host-" + name
	}
	return name
}

func (p *Pages) cookie(c echo.Context, name string) string {
	k, err := c.Cookie(p.cookieName(name))
	if err != nil {
		return ""
	}
	return k.Value
}

// setCookie stores a cookie until the browser is closed; an empty value removes it.
func (p *Pages) setCookie(c echo.Context, name, value string) {
	p.keepCookie(c, name, value, 0)
}

// keepCookie is [Pages.setCookie] for a cookie that outlives the browser's window.
func (p *Pages) keepCookie(c echo.Context, name, value string, lifetime time.Duration) {
	k := &http.Cookie{Name: p.cookieName(name), Value: value, Path: "/", Secure: p.secure, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, MaxAge: int(lifetime.Seconds())}
	if value == "" {
		k.MaxAge = -1
	}
	c.SetCookie(k)
}

// client returns who is signed in, or nil.
func (p *Pages) client(c echo.Context) (*account.Client, error) {
	token := p.cookie(c, sessionCookie)
	if token == "" {
		return nil, nil
	}
	client, err := p.deps.Accounts.Session(c.Request().Context(), p.deps.DB.Read(), token)
	if errors.Is(err, account.ErrNoSession) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read browser session: %w", err)
	}
	return &client, nil
}

// toLogin sends the visitor to sign in and back to next.
func toLogin(c echo.Context, next string) error {
	return c.Redirect(http.StatusFound, "/login?next="+url.QueryEscape(next))
}

// csrf returns the token for a form of this browser, making the browser's own cookie when there is none yet.
func (p *Pages) csrf(c echo.Context) string {
	secret := p.formSecret(c)
	if secret == "" {
		secret = rand.Text()
		p.setCookie(c, browserCookie, secret)
	}
	return withPageKey(csrfToken(secret))
}

// ownForm tells whether the form was made by [Pages.csrf] for this browser and this sign-in.
func (p *Pages) ownForm(c echo.Context) bool {
	secret := p.formSecret(c)
	want := csrfToken(secret)
	got, _, _ := strings.Cut(c.Request().PostForm.Get("csrf"), pageKeyMark)
	return secret != "" && subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1
}

func (p *Pages) formSecret(c echo.Context) string {
	if s := p.cookie(c, sessionCookie); s != "" {
		return s
	}
	return p.cookie(c, browserCookie)
}

func csrfToken(secret string) string { return id.DigestOf("partnerd form\x00" + secret).String() }

// sane tells whether all values are text that the database can hold.
func sane(form url.Values) bool {
	for _, values := range form {
		for _, v := range values {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return false
			}
		}
	}
	return true
}

// safeNext returns raw when it is an absolute path on this site, else the account page. Browsers drop tabs and line
// ends and read "\" as "/", so neither may occur; a path with empty or dot segments is read as another one, which may
// begin with "//".
func safeNext(raw string) string {
	const home = "/account"
	if len(raw) > 8192 || !strings.HasPrefix(raw, "/") || strings.HasPrefix(raw, "//") {
		return home
	}
	for _, r := range raw {
		if r < 0x20 || r == 0x7f || r == '\\' {
			return home
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil ||
		path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/" {
		return home
	}
	return u.RequestURI()
}
