package shell

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/staff"
)

// Names of the cookies: the session of a signed-in client, and a random value that binds the forms of a visitor to this
// browser.
const (
	SessionCookie = "partnerd"
	BrowserCookie = "partnerd-browser"
	KnownCookie   = "partnerd-known" // identifies a browser in which the client has already signed in
)

// CookieName adds the prefix that makes browsers refuse the cookie from any other host or over plain HTTP.
func (p *Shell) CookieName(name string) string {
	if p.Secure {
		return "__Host-" + name
	}
	return name
}

// Cookie returns the value of a cookie, or "" if it is missing.
func (p *Shell) Cookie(c echo.Context, name string) string { return valueOf(c, p.CookieName(name)) }

// valueOf is [Shell.Cookie] by the name in the browser.
func valueOf(c echo.Context, name string) string {
	k, err := c.Cookie(name)
	if err != nil {
		return ""
	}
	return k.Value
}

// SetCookie stores a cookie until the browser is closed. An empty value removes it.
func (p *Shell) SetCookie(c echo.Context, name, value string) {
	p.KeepCookie(c, name, value, 0)
}

// KeepCookie is [Shell.SetCookie] for a cookie that survives closing the browser.
func (p *Shell) KeepCookie(c echo.Context, name, value string, lifetime time.Duration) {
	p.keep(c, p.CookieName(name), value, lifetime)
}

// keep is [Shell.KeepCookie] by the name in the browser.
func (p *Shell) keep(c echo.Context, name, value string, lifetime time.Duration) {
	k := &http.Cookie{Name: name, Value: value, Path: "/", Secure: p.Secure, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, MaxAge: int(lifetime.Seconds())}
	if value == "" {
		k.MaxAge = -1
	}
	c.SetCookie(k)
}

// Client returns the signed-in client, or nil.
func (p *Shell) Client(c echo.Context) (*account.Client, error) {
	token := p.Cookie(c, SessionCookie)
	if token == "" {
		return nil, nil
	}
	client, err := p.accounts.Session(c.Request().Context(), p.DB.Read(), token)
	if errors.Is(err, account.ErrNoSession) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read browser session: %w", err)
	}
	return &client, nil
}

// ToLogin redirects the visitor to the sign-in, which leads back to next.
func ToLogin(c echo.Context, next string) error {
	return c.Redirect(http.StatusFound, "/login?next="+url.QueryEscape(next))
}

// CSRF returns the token for a form of this browser. If the browser has no cookie for it yet, one is created.
func (p *Shell) CSRF(c echo.Context) string {
	return p.FormToken(c, p.Cookie(c, SessionCookie), CSRFToken)
}

// OwnForm reports whether [Shell.CSRF] created the form for this browser and this sign-in.
func (p *Shell) OwnForm(c echo.Context) bool {
	return p.MadeFor(c, p.Cookie(c, SessionCookie), CSRFToken)
}

// FormToken returns the form token for a session, or for the visitor's browser if session is empty. token derives it
// from the secret of the session or of the browser.
func (p *Shell) FormToken(c echo.Context, session string, token func(secret string) string) string {
	secret := cmp.Or(session, p.Cookie(c, BrowserCookie))
	if secret == "" {
		secret = rand.Text()
		p.SetCookie(c, BrowserCookie, secret)
	}
	return WithPageKey(token(secret))
}

// MadeFor reports whether [Shell.FormToken] created the form for this session or browser.
func (p *Shell) MadeFor(c echo.Context, session string, token func(secret string) string) bool {
	secret := cmp.Or(session, p.Cookie(c, BrowserCookie))
	got, _, _ := strings.Cut(c.Request().PostForm.Get("csrf"), pageKeyMark)
	return secret != "" && subtle.ConstantTimeCompare([]byte(got), []byte(token(secret))) == 1
}

// CSRFToken derives the token of forms from a secret of the browser.
func CSRFToken(secret string) string { return id.DigestOf("partnerd form\x00" + secret).String() }

// SafeNext returns raw if it is an absolute path on this site, and otherwise the account page. Browsers drop tabs and
// line breaks and read "\" as "/", so none of these is allowed. Empty and dot segments are refused too, because they
// change the path, which could then begin with "//".
func SafeNext(raw string) string {
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

// staffCookie holds the token of a complete sign-in, or of one that waits for the second factor.
func (p *Shell) staffCookie() string { return staff.CookieName(p.Secure) }

// StaffToken returns the token of a staff member, or "" if there is none.
func (p *Shell) StaffToken(c echo.Context) string { return valueOf(c, p.staffCookie()) }

// SetStaffToken stores the token until the browser is closed. An empty token removes it.
func (p *Shell) SetStaffToken(c echo.Context, token string) { p.keep(c, p.staffCookie(), token, 0) }
