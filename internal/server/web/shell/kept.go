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

// A form that was sent when its session was over, or too old for what it does, is kept for the reader while they sign
// in: sealed, in the browser. It is shown again, filled in, and never sent by itself.
const (
	KeptCookie   = "partnerd-kept"
	KeptLifetime = 20 * time.Minute
	MaxKept      = 3600 // characters of the cookie; a browser keeps 4096 with its name and attributes
	FormOwner    = "who"
)

// notKept are fields that no copy is made of, beside passwords: they are of one form, secret or a person's.
var notKept = []string{"csrf", "entry", "code", "phone", "present", "note", "preview", FormOwner}

type keptForm struct {
	Path  string     `json:"p"`
	Who   string     `json:"w"`
	Until time.Time  `json:"u"`
	Form  url.Values `json:"f"`
}

// KeepForm keeps the form of an act that cannot be done before its reader signs in. One that does not say whose it is,
// or that is too large, is not kept.
func (p *Shell) KeepForm(c echo.Context) error {
	sent := c.Request().PostForm // empty, unless it is a POST
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

// KeptForm returns what the person sent to this page before they signed in, once; nil when there is nothing of theirs.
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
		return nil // it is for another page, which may still be asked for
	}
	p.KeepCookie(c, KeptCookie, "", 0)
	if err != nil || kept.Who != who || !p.DB.Clock().Now().Before(kept.Until) {
		return nil
	}
	c.Set(keptKey, true)
	kept.Form.Set("csrf", "") // it was sent: boxes that are not ticked stay so
	return kept.Form
}

// keptKey is the place in the context of a page that is filled in with what was kept.
const keptKey = "partnerd.kept"

// WasKept tells whether the page is filled in with what was kept during a sign-in.
func WasKept(c echo.Context) bool { return c.Get(keptKey) != nil }

// PageOf is where a form belongs that was sent to this address: the page at it, or the next one above.
func PageOf(c echo.Context) string {
	page, _ := pageAbove(c)
	return page
}

// pageAbove is [PageOf]; false when there is no page at all.
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

// secretHalf begins the half of a key that nobody but the lawyer may have.
const secretHalf = "AGE-SECRET-KEY-"

// HoldsSecretHalf tells whether a text has the secret half of a key in it.
func HoldsSecretHalf(s string) bool { return strings.Contains(strings.ToUpper(s), secretHalf) }
