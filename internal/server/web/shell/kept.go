package shell

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// A form can arrive after its session has ended, or when the sign-in is too old for it. It is then kept while the
// reader signs in, encrypted in a cookie. After that the form is shown again, filled in, but is never sent
// automatically.
const (
	KeptCookie   = "partnerd-kept"
	KeptLifetime = 20 * time.Minute
	MaxKept      = 3600 // length of the cookie; a browser keeps 4096 characters with name and attributes
	FormOwner    = "who"
)

// notKept lists fields that are never copied, in addition to passwords. They belong to one form, are secret, or are
// personal.
var notKept = []string{"csrf", "entry", "code", "phone", "present", "note", "preview", FormOwner}

type keptForm struct {
	Path  string     `json:"p"`
	Who   string     `json:"w"`
	Until time.Time  `json:"u"`
	Form  url.Values `json:"f"`
}

// KeepForm keeps the form of an action that requires a sign-in first. A form without an owner, or one that is too
// large, is not kept.
func (p *Shell) KeepForm(c echo.Context) error {
	sent := c.Request().PostForm // empty unless it is a POST
	if p.box == nil || sent.Get(FormOwner) == "" {
		return nil
	}
	kept := keptForm{PageOf(c), sent.Get(FormOwner), p.DB.Clock().Now().Add(KeptLifetime), url.Values{}}
	for name, values := range sent {
		secret := strings.Contains(name, "password") || slices.ContainsFunc(values, HoldsSecretHalf)
		if !secret && !slices.Contains(notKept, name) {
			kept.Form[name] = values
		}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	var small bytes.Buffer
	w, err := flate.NewWriter(&small, flate.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(raw); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	sealed, err := p.box.Seal(KeptCookie, small.Bytes())
	if err != nil {
		return err
	}
	if text := base64.RawURLEncoding.EncodeToString(sealed); len(text) <= MaxKept {
		p.KeepCookie(c, KeptCookie, text, KeptLifetime)
	}
	return nil
}

// KeptForm returns, only once, what the person sent to this page before they signed in. It returns nil if they sent
// nothing.
func (p *Shell) KeptForm(c echo.Context, who string) url.Values {
	text := p.Cookie(c, KeptCookie)
	if text == "" || p.box == nil || c.Request().Method != http.MethodGet {
		return nil
	}
	var kept keptForm
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		sealed, err = p.box.Open(KeptCookie, sealed)
	}
	if err == nil {
		sealed, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(sealed)), MaxForm))
	}
	if err == nil {
		err = json.Unmarshal(sealed, &kept)
	}
	if err == nil && kept.Path != c.Request().URL.Path {
		return nil // for another page, which may still be opened
	}
	p.KeepCookie(c, KeptCookie, "", 0)
	if err != nil || kept.Who != who || !p.DB.Clock().Now().Before(kept.Until) {
		return nil
	}
	c.Set(keptKey, true)
	kept.Form.Set("csrf", "") // marks the form as sent, so that unticked boxes stay unticked
	return kept.Form
}

// keptKey is the context key that marks a page filled in with a kept form.
const keptKey = "partnerd.kept"

// WasKept reports whether the page is filled in with a form kept during a sign-in.
func WasKept(c echo.Context) bool { return c.Get(keptKey) != nil }

// PageOf returns the page of a form sent to this URL: the page at the URL, or the nearest one above.
func PageOf(c echo.Context) string {
	page, _ := pageAbove(c)
	return page
}

// pageAbove is [PageOf], but returns false if there is no page.
func pageAbove(c echo.Context) (path string, ok bool) {
	pages := map[string]bool{}
	for _, r := range c.Echo().Routes() {
		pages[r.Path] = pages[r.Path] || r.Method == http.MethodGet
	}
	route, path := c.Path(), c.Request().URL.Path
	for !pages[route] && strings.Count(route, "/") > 1 {
		route, path = route[:strings.LastIndexByte(route, '/')], path[:strings.LastIndexByte(path, '/')]
	}
	return path, pages[route]
}

// secretHalf is the prefix of a private key, which only the lawyer may have.
const secretHalf = "AGE-SECRET-KEY-"

// HoldsSecretHalf reports whether a text contains a private key.
func HoldsSecretHalf(s string) bool { return strings.Contains(strings.ToUpper(s), secretHalf) }
