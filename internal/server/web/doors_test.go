package web

import (
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/queue"
	"partnerd/internal/server/web/shell"
)

// doors.md names every form of a page and every action of an operator, and none that does not exist.
func TestDoorsNameEveryFormAndEveryAct(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	doors, exist := string(must(os.ReadFile("../../../openapi/spec/doors.md"))), map[string]bool{}
	for _, path := range f.posts() {
		if !strings.HasPrefix(path, shell.OperatorDesk+"/") {
			exist["page:"+path] = true
		}
	}
	for _, a := range f.pages.operators.Acts() {
		exist["act:"+a.Name] = true
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`((?:page|act):[^`]+)`").FindAllStringSubmatch(doors, -1) {
		named[m[1]] = true
	}
	for door := range exist {
		if !named[door] {
			t.Errorf("doors.md does not name %s", door)
		}
	}
	for door := range named {
		if !exist[door] {
			t.Errorf("doors.md names %s, which does not exist", door)
		}
	}
}

// posts returns the paths of all forms.
func (f *fixture) posts() (paths []string) {
	d, e := f.deps, echo.New()
	box := must(seal.OpenBox(must(seal.NewKey())))
	jobs := must(queue.New(f.db, slog.New(slog.DiscardHandler)))
	const site = "https://partners.example" // passkeys need a host name
	d.SelfService = must(account.NewSelfService(account.SelfServiceDeps{DB: f.db, Accounts: f.accounts, Box: box,
		Queue: jobs, Mail: f.post, BaseURL: site}))
	d.Staff = must(staff.New(staff.Deps{DB: f.db, Box: box, Queue: jobs, Mail: f.post, BaseURL: site}))
	must(New(d.all())).Register(e)
	for _, r := range e.Routes() {
		if r.Method == http.MethodPost {
			paths = append(paths, r.Path)
		}
	}
	return paths
}
