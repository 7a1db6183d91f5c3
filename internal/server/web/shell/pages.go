package shell

import (
	"embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
)

// Rests makes the further effects of the request depend on r too.
func Rests(c echo.Context, r postgres.Rests) {
	c.SetRequest(c.Request().WithContext(postgres.Resting(c.Request().Context(), r)))
}

// Identifier is the format of every ID in a path (decision H46).
var Identifier = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// LeadsToApplication reports whether the page at next can redirect to an application.
func LeadsToApplication(next string) bool {
	path, _, _ := strings.Cut(next, "?")
	return path == AuthorizePath
}

// Missing converts a "not found" problem to the page with status 404.
func Missing(err error) error {
	for _, missing := range []error{
		problem.ErrNotFound, lawyer.ErrNotFound, staff.ErrNotFound, operator.ErrNoProposal,
	} {
		if errors.Is(err, missing) {
			return StatusError(http.StatusNotFound)
		}
	}
	return err
}

//go:embed templates/*.html assets/style.css assets/*.js *.json
var Files embed.FS

// RegisterAssets adds the assets that pages load.
func (p *Shell) RegisterAssets(e *echo.Echo, read []string) {
	e.Match(read, p.style.Path, p.style.serve)
	if p.logo.Path != "" {
		e.Match(read, p.logo.Path, p.logo.serve)
	}
	for name, script := range p.Scripts {
		if name != "try" || p.Sandbox { // the script calls the sandbox API
			e.Match(read, script.Path, script.serve)
		}
	}
}

// Maximum sizes of a form's body in bytes: that of a note, which is the longest, and that of all other forms.
const (
	MaxForm     = 64 << 10
	maxNoteForm = 512 << 10
)

// Page wraps a handler with what every page needs: headers, the language, and for a POST the check that the form is
// ours. If the handler returns a status, the page for that status is shown. The caller logs any other error.
func (p *Shell) Page(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		p.SetHeaders(c)
		p.ChooseLanguage(c)
		from := mail.Origin{UserAgent: c.Request().UserAgent(), Address: c.RealIP()}
		c.SetRequest(c.Request().WithContext(mail.Caused(c.Request().Context(), from)))
		err := p.readForm(c)
		if err == nil {
			err = h(c)
		}
		var status StatusError
		if errors.As(err, &status) {
			return p.Error(c, int(status))
		}
		return err
	}
}

// StatusError ends a request with the error page of that status.
type StatusError int

func (e StatusError) Error() string { return http.StatusText(int(e)) }

// readForm refuses a POST that another site caused or that is not valid text.
func (p *Shell) readForm(c echo.Context) error {
	r := c.Request()
	if r.Method != http.MethodPost {
		return nil
	}
	if !p.origins.Ours(r) {
		return StatusError(http.StatusForbidden)
	}
	limit := int64(MaxForm)
	if strings.HasPrefix(r.URL.Path, LawyersDesk+"/") {
		limit = maxNoteForm
	}
	r.Body = http.MaxBytesReader(c.Response(), r.Body, limit)
	if err := r.ParseForm(); err != nil {
		return StatusError(http.StatusBadRequest)
	}
	forms.Readable(r.PostForm)
	return nil
}

// The content security policy of every page, except [AllowFormsToLeave] and the few pages with our own scripts.
const (
	formsStay = "form-action 'self'; "
	Policy    = "default-src 'none'; style-src 'self'; img-src 'self' data:; " + formsStay +
		"base-uri 'none'; frame-ancestors 'none'"
)

// SetHeaders sets the headers of every page.
func (p *Shell) SetHeaders(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer, which would make browsers send "Origin: null" with our own forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
	h.Set("Cache-Control", "no-store")
}

// allowScripts lets the page run our own scripts.
func allowScripts(c echo.Context) {
	h := c.Response().Header()
	if was := h.Get("Content-Security-Policy"); !strings.Contains(was, "script-src") {
		h.Set("Content-Security-Policy", was+"; script-src 'self'")
	}
}

// ShowLocalTime makes the browser show times in its own zone.
func (p *Shell) ShowLocalTime(c echo.Context, v *View) {
	allowScripts(c)
	v.Scripts = append(v.Scripts, p.Scripts["local"].Path)
}

// AllowFormsToLeave is for pages whose forms redirect to an application. Chromium applies form-action to the whole
// chain of redirects after a form. Only the application knows where its redirect URI sends the browser.
func AllowFormsToLeave(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), formsStay, "", 1))
}

// Error responds with the page for an HTTP status, in the visitor's language.
func (p *Shell) Error(c echo.Context, status int) error {
	p.SetHeaders(c)
	key := "error.other"
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusServiceUnavailable:
		key = fmt.Sprintf("error.%d", status)
	}
	return p.Render(c, status, "error", View{Title: key + ".title", Data: ErrorView{Status: status, Key: key,
		Back: p.ownStart(c, status)}})
}

// ownStart returns the start page of the reader of an error. It is empty for a visitor, and after a failure, because
// the database may have failed.
func (p *Shell) ownStart(c echo.Context, status int) string {
	if status >= http.StatusInternalServerError {
		return ""
	}
	path := c.Request().URL.Path
	atWork := slices.ContainsFunc([]string{"/staff", LawyersDesk, OperatorDesk, DevelopersDesk},
		func(root string) bool {
			return path == root || strings.HasPrefix(path, root+"/")
		})
	if client, err := p.Client(c); !atWork && err == nil && client != nil {
		return "/account"
	}
	if s, err := p.staff.Session(c.Request().Context(), p.DB.Read(), p.StaffToken(c)); err == nil {
		return DeskOf(s.Person)
	}
	return ""
}

// Sane reports whether all values are text that the database can store.
func Sane(form url.Values) bool {
	for _, values := range form {
		for _, v := range values {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return false
			}
		}
	}
	return true
}
