package web

import (
	"testing"
	"testing/fstest"

	"partnerd/internal/server/web/shell"
)

func TestLegalPagesAreTheOperators(t *testing.T) {
	t.Parallel()
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, folder := range map[string]fstest.MapFS{
		"no page": {"other.md": page("x")}, "one language": {"terms.fr.md": page("x")},
	} {
		if _, err := shell.ReadLegal(folder); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	legal := must(shell.ReadLegal(fstest.MapFS{"notice.en.md": page("# Who we are\n\n**A** <script>"),
		"notice.fr.md": page("Qui nous sommes")}))
	f := newFixture(t, func(d *services) {
		d.Name, d.Contact, d.Legal = "Droit Direct", "mailto:help@api.example",
			legal
	})
	b := f.browser()
	for _, path := range []string{"/", "/login", "/signup", "/docs", "/legal/notice"} {
		b.get(path).want(t, 200, "– Droit Direct</title>", `href="/legal/notice"`, `href="mailto:help@api.example"`)
	}
	b.get("/legal/notice").want(t, 200, "<h1>Who we are</h1>", "<strong>A</strong>")
	b.get("/legal/notice?lang=fr").want(t, 200, "<h1>Mentions légales</h1>", "Qui nous sommes")
	b.get("/legal/terms").want(t, 404)
	b.get("/docs/going-live?lang=en").want(t, 200, "help@api.example")
}
