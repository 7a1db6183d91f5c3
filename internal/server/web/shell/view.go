package shell

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/edge"
)

// Section is a link of the desk's navigation.
type Section struct {
	URL, Name string
	Current   bool
}

// SectionKey is the context key for the section of a desk.
const SectionKey = "ops section"

// ErrorView is an error page.
type ErrorView struct {
	Status int
	Key    string
	Detail string // English, for the developer of the partner's application
	Back   string // start page of the reader; if empty, the start page of the site
}

// View is the data of every template.
type View struct {
	Title     string          // text key of the page title
	Name      string          // a literal title, put before that of Title
	Canonical string          // canonical URL of the page; empty for pages that search engines should not find
	Twin      string          // path of the Markdown version; empty if there is none
	Lang      string          // language of the texts
	Languages []LanguageLink  // the same page in the other languages
	Client    *account.Client // the signed-in client, on pages that show it
	Staff     *staff.Person   // the same for staff
	CSRF      string          // value of the hidden field "csrf"; empty on pages without a form
	Sandbox   bool
	Narrow    bool      // a page with one task, without navigation
	Once      bool      // a page that cannot be shown again, not even in another language
	Sections  []Section // of the operators' desk, for its navigation
	Section   string    // page of the account, for its navigation; empty elsewhere
	Done      string    // key of what just succeeded
	DoneArgs  []any     // of Done
	Kept      bool      // a form is filled in with what was sent before the reader signed in
	From      *WayBack  // the application that sent the client here; nil for none
	Refresh   int       // seconds until the page reloads without a script; 0 for never
	Scripts   []string  // URLs of the scripts of the page
	Bar       any       // of a lawyer, on pages other than the desk
	Data      any
}

// LanguageLink leads to the same page in another language.
type LanguageLink struct{ Code, Name, URL string }

// Views are the templates of all pages, once per language, because the function t is bound to a language. A page is
// parsed on first use, because each page copies the whole layout and most processes show few pages.
type Views struct {
	layouts map[string]*template.Template // per language; cloned, never executed

	mu    sync.Mutex
	pages map[string]*template.Template // language/name
}

// NewViews reads the templates and texts. An error means that the program was built incorrectly.
func NewViews(stylePath string, s Site) (*Views, error) {
	texts, err := LoadTexts()
	if err != nil {
		return nil, err
	}
	v := &Views{layouts: map[string]*template.Template{}, pages: map[string]*template.Template{}}
	for _, lang := range Languages {
		layout, err := template.New("layout").Funcs(functions(lang, texts, stylePath, s)).
			ParseFS(Files, "templates/layout.html")
		if err != nil {
			return nil, fmt.Errorf("parse layout: %w", err)
		}
		v.layouts[lang] = layout
	}
	return v, nil
}

// localized formats the amounts among args in a language.
func localized(lang string, args []any) []any {
	own := args
	for i, a := range args {
		if amount, ok := a.(money.Worded); ok {
			if &own[0] == &args[0] { // own still shares the caller's slice
				own = slices.Clone(args)
			}
			own[i] = amount.Format(lang)
		}
	}
	return own
}

// Page returns the template of a page in one language.
func (v *Views) Page(lang, name string) (*template.Template, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := lang + "/" + name
	if t := v.pages[key]; t != nil {
		return t, nil
	}
	t, err := v.layouts[lang].Clone()
	if err != nil {
		return nil, fmt.Errorf("copy layout: %w", err)
	}
	if t, err = t.ParseFS(Files, "templates/"+name+".html"); err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	v.pages[key] = t
	return t, nil
}

// Execute writes a page.
func (v *Views) Execute(w io.Writer, lang, name string, data any) error {
	t, err := v.Page(lang, name)
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, "layout", data)
}

func functions(lang string, texts text.Catalogue, stylePath string, s Site) template.FuncMap {
	return template.FuncMap{
		"t": func(key string, args ...any) (any, error) {
			return Wording(texts, lang, key, localized(lang, args))
		},
		"ts": func(key string, args []any) (any, error) {
			return Wording(texts, lang, key, localized(lang, args))
		},
		"style":   func() string { return stylePath },
		"site":    func() Site { return s },
		"euro":    func(c money.Cents) string { return c.Format(lang) },
		"count":   func(n int64) string { return FormatCount(lang, n) },
		"ms":      func(d time.Duration) string { return FormatCount(lang, d.Milliseconds()) + "\u00a0ms" },
		"date":    func(t time.Time) template.HTML { return TimeIn(lang, ServiceZone(), t) },
		"utc":     func(t time.Time) template.HTML { return TimeIn(lang, time.UTC, t) },
		"datein":  func(zone *time.Location, t time.Time) template.HTML { return TimeIn(lang, zone, t) },
		"exactly": func(t time.Time) template.HTML { return timeAs(lang, t, formatExact(lang, t)) },
		"onday":   func(t time.Time) template.HTML { return timeAs(lang, t, formatDay(lang, t.UTC())) },
		"zoneof":  zoneOf,
		"price":   func() string { return consultation.Price.Format(lang) },
		"day":     func(t time.Time) string { return formatDay(lang, t.UTC()) },
		"isoday":  func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
		"iso":     clock.Format,
		"minutes": func(seconds *int) int { return *seconds / 60 },
		"seconds": func(seconds *int) int { return *seconds % 60 },
		"month":   func(t time.Time) string { return formatMonth(lang, t) },
		"clockin": func(zone *time.Location, t time.Time) template.HTML {
			return timeAs(lang, t, t.In(zone).Format("15:04:05\u00a0MST"))
		},
		"zonein": func(zone *time.Location, t time.Time) string { return t.In(zone).Format("MST") },
		"whenin": func(zone *time.Location, now, t time.Time) template.HTML {
			if t, now = t.In(zone), now.In(zone); t.Format(time.DateOnly) == now.Format(time.DateOnly) {
				return timeAs(lang, t, t.Format("15:04\u00a0MST"))
			}
			return TimeIn(lang, zone, t)
		},
		"act": func(kind, action, name, value, text, csrf string) deskAct {
			return deskAct{kind, action, name, value, text, csrf}
		},
		"signins": func(of any, base, csrf string) any {
			return struct {
				Of         any
				Base, CSRF string
			}{of, base, csrf}
		},
		"copying": func(id, label string) any { return struct{ ID, Label string }{id, label} },
		"notewith": func(c any, csrf string) any {
			return struct {
				Case any
				CSRF string
			}{c, csrf}
		},
		"pauseword": func(ready bool) string {
			if ready {
				return "desk.pause"
			}
			return "desk.pause.next"
		},
		"share":   func(n, of int) string { return formatPercent(lang, 100*float64(n)/float64(of)) },
		"percent": func(p float64) string { return formatPercent(lang, p) },
		"lag":     func(ms *float64) string { return FormatCount(lang, int64(*ms)) + "\u00a0ms" },
		"lower":   func(minutes int) int { return minutes - max(5, minutes/100) }, // a few minutes may be counted late
		"long":    identifierForm.MatchString,
		"breaks":  breaks,
		"ym":      func(t time.Time) string { return t.UTC().Format("2006-01") },
	}
}

// identifierForm matches IDs, which may be broken anywhere.
var identifierForm = regexp.MustCompile(`^[a-z]{2,4}_(test_)?[0-9a-z]{20,}$`)

// breaks allows line breaks after the dots and underscores of a code, so that narrow columns do not split its words.
func breaks(s string) template.HTML {
	escaped := template.HTMLEscapeString(s)
	if identifierForm.MatchString(s) || strings.Contains(s, " ") {
		return template.HTML(escaped) //nolint:gosec // escaped
	}
	return template.HTML(strings.NewReplacer(".", ".<wbr>", "_", "_<wbr>").Replace(escaped)) //nolint:gosec // escaped
}

// deskAct is a form with one button.
type deskAct struct{ Kind, Action, Name, Value, Text, CSRF string }

// Render writes a page. The body is complete before the status is sent.
func (p *Shell) Render(c echo.Context, status int, name string, v View) error {
	body, err := p.fill(c, name, v)
	if err != nil {
		return err
	}
	return c.HTMLBlob(status, body)
}

// RenderPublic writes a page that shows nothing about its reader except the language, and has no form.
func (p *Shell) RenderPublic(c echo.Context, name string, v View) error {
	body, err := p.fill(c, name, v)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-cache")
	edge.NewDocument(echo.MIMETextHTMLCharsetUTF8, body).ServeHTTP(c.Response(), c.Request())
	return nil
}

func (p *Shell) fill(c echo.Context, name string, v View) ([]byte, error) {
	v.Lang, v.Sandbox = p.Language(c), p.Sandbox
	if !v.Once {
		v.Languages = LanguageLinks(c, v.Lang)
	}
	if slices.Contains(withPasswords, name) {
		allowScripts(c)
		v.Scripts = append(v.Scripts, p.Scripts["reveal"].Path)
	}
	if slices.Contains(withSecrets, name) {
		allowScripts(c)
		v.Scripts = append(v.Scripts, p.Scripts["copy"].Path)
	}
	var body bytes.Buffer
	if err := p.Views.Execute(&body, v.Lang, name, v); err != nil {
		return nil, fmt.Errorf("render page %s: %w", name, err)
	}
	h := c.Response().Header()
	h.Add("Vary", "Accept-Language, Cookie")
	h.Set("Content-Language", v.Lang)
	return body.Bytes(), nil
}

// withPasswords lists the pages that can ask for a password and show what is typed.
var withPasswords = []string{"confirm", "form", "login", "phone", "security", "staff_security"}

// withSecrets lists the pages that show a secret once and can copy it.
var withSecrets = []string{"shown", "staff_factor"}

// QueryEscape escapes a value for a query.
func QueryEscape(s string) string { return url.QueryEscape(s) }

// LanguageLinks links to this page in the other languages. After a POST, it links to the page of the form.
func LanguageLinks(c echo.Context, current string) []LanguageLink {
	if c.Request().Method == http.MethodPost {
		return LinksTo(pageBehind(c), formQuery(c), current)
	}
	return LinksTo("", c.Request().URL.Query(), current)
}

// LinksTo links to a page in all languages except the current one. Without a path, the links are relative: the current
// path may be chosen by a stranger and could be read as another host.
func LinksTo(path string, q url.Values, current string) []LanguageLink {
	var out []LanguageLink
	for _, lang := range Languages {
		if lang == current {
			continue
		}
		q.Set("lang", lang)
		out = append(out, LanguageLink{Code: lang, Name: LanguageNames[lang], URL: path + "?" + q.Encode()})
	}
	return out
}

// pageBehind returns the page of the form that was sent, or "/" if the form has none.
func pageBehind(c echo.Context) string {
	if c.Path() == ConsentPath {
		return AuthorizePath
	}
	if page, ok := pageAbove(c); ok {
		return page
	}
	return "/"
}

// formQuery returns the query that shows the page of a form again: its next page, or the emailed link. Typed values
// stay out of URLs.
func formQuery(c echo.Context) url.Values {
	form, q := c.Request().PostForm, c.Request().URL.Query()
	if c.Path() == ConsentPath {
		if request, err := url.ParseQuery(form.Get("request")); err == nil {
			return request
		}
	}
	for _, name := range []string{"next", "token"} {
		if value := form.Get(name); value != "" && !form.Has("answer") { // a passkey response uses a one-time token
			q.Set(name, value)
		}
	}
	return q
}

// asset is a file that browsers may cache permanently, because its URL contains a digest of its content.
type asset struct {
	edge.Document
	Path string
}

func loadAsset(name, contentType string) (asset, error) {
	b, err := Files.ReadFile(name)
	if err != nil {
		return asset{}, fmt.Errorf("read asset: %w", err)
	}
	return newAsset(name, contentType, b), nil
}

// newAsset creates an asset. Its URL changes with its content.
func newAsset(name, contentType string, b []byte) asset {
	sum := sha256.Sum256(b)
	stem, ext, _ := strings.Cut(name, ".")
	return asset{edge.NewDocument(contentType, b), fmt.Sprintf("/%s.%s.%s", stem, hex.EncodeToString(sum[:6]), ext)}
}

func (a asset) serve(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	a.ServeHTTP(c.Response(), c.Request())
	return nil
}

// WayBack is the way back to the application that sent the client.
type WayBack struct{ Name, URL string }
