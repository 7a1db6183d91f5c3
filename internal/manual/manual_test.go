package manual

import (
	"html"
	"strings"
	"testing"

	"partnerd/openapi"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"plain <b> & \"q\"":                 "<p>plain &lt;b&gt; &amp; &quot;q&quot;</p>\n",
		"## A B, c\ntext\nmore":             "<h2 id=\"x-a-b-c\">A B, c</h2>\n<p>text\nmore</p>\n",
		"text:\n- a `<i>`\n  b\n- **c**":    "<p>text:</p>\n<ul>\n<li>a <code>&lt;i&gt;</code>\nb</li>\n<li><strong>c</strong></li>\n</ul>\n",
		"1. a\n2. b\n   c\n\nend":           "<ol>\n<li>a</li>\n<li>b\nc</li>\n</ol>\n<p>end</p>\n",
		"does not exist:\n404. A method":    "<p>does not exist:\n404. A method</p>\n",
		"[x](https://a.example/?b&c)":       "<p><a href=\"https://a.example/?b&amp;c\">x</a></p>\n",
		"[x](javascript:alert)":             "<p><a href=\"\">x</a></p>\n",
		"```\na < b\n\nc\n```\nz":           "<pre tabindex=\"0\"><code>a &lt; b\n\nc</code></pre>\n<p>z</p>\n",
		"<script>alert(1)</script>":         "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n",
		"<div>\n\n<!-- a\n-->":              "<p>&lt;div&gt;</p>\n<p>&lt;!-- a\n--&gt;</p>\n",
		"| A | B |\n|---|---|\n| 1 | `2` |": "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">A</th><th scope=\"col\">B</th></tr>\n</thead>\n<tbody>\n<tr><td>1</td><td><code>2</code></td></tr>\n</tbody></table></div>\n",
	}
	for src, want := range cases {
		if got := string(markdown(src, "x-", 0)); got != want {
			t.Errorf("%q:\n got %q\nwant %q", src, got, want)
		}
	}
}

func TestTheManualsCoverTheWholeContracts(t *testing.T) {
	t.Parallel()
	const base = "https://api.example"
	for _, tt := range []struct {
		place           Place
		contract        []byte
		paths, webhooks int
		want, never     []string
	}{
		{Partner, openapi.Partner, 15, 13, []string{base + "/api/v1/consultations", "hmac.Equal", "timingSafeEqual", "compare_digest", "hash_equals",
			`href="/docs/platform"`, `href="/openapi.yaml"`}, nil},
		{Platform, openapi.Platform, 11, 0, []string{base + "/api/platform/v1/endpoint", "-u '<client id>:<client secret>'",
			`href="/docs"`, `href="/openapi/platform.yaml"`}, []string{"Bearer"}},
		{Sandbox, openapi.Sandbox, 1, 0, []string{base + "/api/platform/v1/sandbox/clock/advance", `href="/docs"`, `href="/openapi/sandbox.yaml"`}, []string{"Bearer"}},
	} {
		body := string(must(Render(tt.place, tt.contract, base)))
		for _, text := range tt.want {
			if !strings.Contains(html.UnescapeString(body), text) {
				t.Errorf("%s does not say %q", tt.place.Path, text)
			}
		}
		for _, text := range tt.never {
			if strings.Contains(body, text) {
				t.Errorf("%s says %q", tt.place.Path, text)
			}
		}
		if count := checkCoverage(t, body, tt.contract); count["paths"] < tt.paths || count["webhooks"] != tt.webhooks {
			t.Errorf("%s: the contract has %v operations", tt.place.Path, count)
		}
	}
}

// checkCoverage looks for every operation, response and error code of a contract, and counts the operations.
func checkCoverage(t *testing.T, body string, contract []byte) map[string]int {
	t.Helper()
	count := map[string]int{}
	s := must(readSpec(contract))
	for _, section := range []string{"paths", "webhooks"} {
		for path, item := range s.root.get(section).pairs() {
			for method, op := range item.pairs() {
				id := op.text("operationId")
				count[section]++
				if !strings.Contains(body, `<h3 id="`+id+`">`) || !strings.Contains(body, `href="#`+id+`"`) ||
					!strings.Contains(body, "<code>"+path+"</code>") {
					t.Errorf("%s %s (%s) is not in the documentation and its contents", method, path, id)
				}
				for status, r := range op.get("responses").pairs() {
					if !strings.Contains(body, `id="`+id+"-"+status+`"`) {
						t.Errorf("%s: response %s is missing", id, status)
					}
					for _, code := range r.resolve().errorCodes() {
						if !strings.Contains(body, "<td><code>"+code+"</code></td>") {
							t.Errorf("error code %s is missing from the table", code)
						}
					}
				}
			}
		}
	}
	return count
}

func TestABrokenContractStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "a: [", "paths: {/x: {get: {operationId: x, tags: [Nowhere]}}}"} {
		if _, err := Render(Partner, []byte(src), "http://localhost"); err == nil {
			t.Errorf("%q was accepted", src)
		}
	}
}
