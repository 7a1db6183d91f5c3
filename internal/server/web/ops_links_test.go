package web

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/shell"
)

var href = regexp.MustCompile(`href="(/ops[^"]*)"`)

// No page of the desk offers its reader a link that is forbidden to them or leads nowhere.
func TestEveryLinkOfTheDeskIsForItsReader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, _ := f.opsDesk()
	for i, role := range staff.Roles() {
		w := f.join(staff.NewPerson{Kind: staff.Operator, Email: fmt.Sprintf("%s@partners.example", role),
			Name: "Olga Operator", Language: "en", Roles: staff.Roles()[i : i+1]})
		seen, queue := map[string]bool{}, []string{shell.OperatorDesk}
		read := func(path string) int {
			p := w.get(path)
			for _, m := range href.FindAllStringSubmatch(p.body, -1) {
				queue = append(queue, strings.ReplaceAll(m[1], "&amp;", "&"))
			}
			return p.StatusCode
		}
		for section, id := range subjects { // no list leads to all of them
			if section != "proposals" {
				read(addressOf(operators.Path(section, ":id"), map[string]string{section: id}, f.app.ID))
			}
		}
		for len(queue) > 0 {
			path := queue[0]
			if queue = queue[1:]; seen[path] {
				continue
			}
			seen[path] = true
			if status := read(path); status >= 400 {
				t.Errorf("%s is led to %s: %d", role, path, status)
			}
		}
		if len(seen) < 8 {
			t.Errorf("%s saw %d pages", role, len(seen))
		}
	}
}
