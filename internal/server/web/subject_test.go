package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/shell"
)

var routeParameter = regexp.MustCompile(`:[a-z]+`)

// No page about a missing subject is shown, and neither is the form of an action on it.
func TestNothingIsAskedAboutWhatThereIsNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client, member, lawyer := f.browser().signIn(f.client.Email), f.member(portal.Owner), f.lawyer()
	f.clock.Advance(time.Second)
	operator := f.operator(staff.Admin)
	e := echo.New()
	f.pages.Register(e)
	asked := 0
	for _, r := range e.Routes() {
		if r.Method != http.MethodGet || !strings.Contains(r.Path, ":") {
			continue
		}
		b := f.browser()
		switch {
		case strings.HasPrefix(r.Path, "/account"):
			b = client
		case strings.HasPrefix(r.Path, shell.LawyersDesk):
			b = lawyer.browser
		case strings.HasPrefix(r.Path, shell.OperatorDesk):
			b = operator.browser
		case strings.HasPrefix(r.Path, shell.DevelopersDesk), strings.HasPrefix(r.Path, "/staff"):
			b = member.browser
		}
		path := routeParameter.ReplaceAllString(strings.Replace(r.Path, ":app", f.app.ID, 1), "zzz_1")
		if path == strings.Replace(r.Path, ":app", f.app.ID, 1) {
			continue // only about the application
		}
		asked++
		if p := b.get(path); p.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", r.Path, p.StatusCode)
		}
	}
	if asked < 30 {
		t.Errorf("only %d pages", asked)
	}
}

// A character that no field accepts is named as it was sent.
func TestAFieldNamesTheCharacterThatItRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.member(portal.Owner)
	for sent, named := range map[string]string{"a\x00b": "U+0000", "a\x1ab": "U+001A", "a\u202eb": "U+202E"} {
		form := filled(w.get("/developers/new").form("/developers/new"), "name", sent, "redirects", redirectURI)
		w.post("/developers/new", form).want(t, http.StatusUnprocessableEntity, named)
	}
}
