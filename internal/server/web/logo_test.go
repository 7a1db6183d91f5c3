package web

import (
	"bytes"
	"image"
	"image/png"
	"regexp"
	"strings"
	"testing"

	"partnerd/internal/server/web/shell"
)

func TestTheLogoIsTheOperators(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"nothing": "", "a page": "<html></html>", "text": "logo", "too large": "<svg>" + strings.Repeat(" ",
			shell.MaxLogo) +
			"</svg>",
	} {
		if _, err := shell.ReadLogo(strings.NewReader(content)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for kind, content := range map[string]string{
		"image/png":     picture.String(),
		"image/svg+xml": `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`,
	} {
		logo := must(shell.ReadLogo(strings.NewReader(content)))
		b := newFixture(t, func(d *services) { d.Name, d.Logo = "Droit Direct", logo }).browser()
		for _, path := range []string{"/", "/login", "/docs"} {
			p := b.get(path)
			p.want(t, 200, "Droit Direct</a>")
			m := regexp.MustCompile(`<img src="([^"]+)" alt="" height="28">`).FindStringSubmatch(p.body)
			if m == nil {
				t.Fatalf("%s has no logo", path)
			}
			got := b.get(m[1])
			if h := got.Header; got.body != content || h.Get("Content-Type") != kind ||
				h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"),
				"default-src 'none'") {
				t.Errorf("%s: %v", m[1], h)
			}
		}
	}
}
