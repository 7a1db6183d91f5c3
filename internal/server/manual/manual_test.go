package manual

import (
	"encoding/xml"
	"html"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
		if got := string(rendered(src, renderOptions{prefix: "x-"}).html); got != want {
			t.Errorf("%q:\n got %q\nwant %q", src, got, want)
		}
	}
}

const base = "https://api.example"

// facts returns the facts of a sandbox or of a live deployment.
func facts(sandbox bool) Facts {
	f := Facts{Base: base, Partner: openapi.Published(openapi.Partner, base),
		Platform: openapi.Published(openapi.Platform, base), Changelog: openapi.Changelog, Waiver: "2026-12",
		Portal: "/developers", Contact: "help@api.example", Security: "security@api.example", Steps: []Step{
			{To: "DRAFT", Trigger: "create"}, {From: "DRAFT", To: "MATCHING", Trigger: "authorize", Money: "HOLD",
				Events: []string{"consultation.matching"}},
			{From: "MATCHING", To: "CANCELLED", Trigger: "cancel", Money: "RELEASE"},
		}}
	if sandbox {
		f.Player = openapi.Published(openapi.Sandbox, base)
	}
	return f
}

func TestTheReferenceCoversTheWholeContracts(t *testing.T) {
	t.Parallel()
	site := must(New(facts(true), "en"))[0]
	for _, c := range []struct {
		first                string
		contract             []byte
		operations, webhooks int
	}{{"/docs/reference", openapi.Partner, 15, 13}, {"/docs/platform", openapi.Platform, 11, 2},
		{"/docs/sandbox", openapi.Sandbox, 1, 0}} {
		first, _ := site.Find(c.first)
		count := map[string]int{}
		s := must(readSpec(c.contract))
		for _, section := range []string{"paths", "webhooks"} {
			for path, item := range s.root.get(section).pairs() {
				for method, op := range item.pairs() {
					id := op.text("operationId")
					count[section]++
					p, ok := site.Find(c.first + "/" + slug(op.get("tags").texts()[0]))
					if !ok || !strings.Contains(string(p.Body), `<h2 id="`+id+`">`) ||
						!strings.Contains(string(p.Body), "<code>"+path+"</code>") ||
						!strings.Contains(p.Markdown, path+"`") {
						t.Errorf("%s %s (%s) is not on %s", method, path, id, p.Path)
					}
					if !strings.Contains(string(first.Body), `href="`+p.Path+"#"+id+`"`) {
						t.Errorf("%s does not lead to %s", first.Path, id)
					}
					for status, r := range op.get("responses").pairs() {
						if !strings.Contains(string(p.Body), `id="`+id+"-"+status+`"`) {
							t.Errorf("%s: response %s is missing", id, status)
						}
						for _, code := range r.resolve().errorCodes() {
							if !strings.Contains(string(p.Body), "<code>"+code+"</code>") {
								t.Errorf("%s: error code %s is missing", id, code)
							}
						}
					}
				}
			}
		}
		if count["paths"] < c.operations || count["webhooks"] != c.webhooks {
			t.Errorf("%s: the contract has %v operations", c.first, count)
		}
	}
}

// The documentation explains every error code. Each code that occurs has its cause and remedy in every language, and no
// other code has.
func TestEveryErrorCodeHasItsCauseAndItsRemedy(t *testing.T) {
	t.Parallel()
	f := facts(true)
	known, occurs := must(problems()), map[string]bool{}
	for _, e := range allCodes(must(readAll(f))) {
		occurs[e.Code] = true
		for _, lang := range []string{"en", "fr"} {
			if about := known[e.Code][lang]; about.Cause == "" || about.Remedy == "" {
				t.Errorf("problems.json does not say in %q why %s is answered and what to do", lang, e.Code)
			}
		}
	}
	for code := range known {
		if !occurs[code] {
			t.Errorf("problems.json has %s, which no contract has", code)
		}
	}
	for _, site := range must(New(f, "en", "fr")) {
		page, _ := site.Find("/docs/errors")
		for code := range occurs {
			if n := strings.Count(string(page.Body), "><code>"+code+"</code> <a"); n != 1 {
				t.Errorf("%s: %s has %d headings", site.Lang, code, n)
			}
		}
	}
}

// An error code that a guide links to leads to its own entry.
func TestErrorCodesInGuidesLinkToTheirEntries(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile("\\[`(\\w+)`\\]\\(/docs/errors([^)]*)\\)")
	for _, site := range must(New(facts(true), "en", "fr")) {
		codes, _ := site.Find("/docs/errors")
		found := 0
		for _, p := range site.Pages {
			for _, m := range link.FindAllStringSubmatch(p.Markdown, -1) {
				found++
				if !strings.Contains(string(codes.Body),
					`<h3 id="`+strings.TrimPrefix(m[2], "#")+`"><code>`+m[1]+"</code>") {
					t.Errorf("%s %s: %s does not lead to its entry", site.Lang, p.Path, m[0])
				}
			}
		}
		if found < 15 {
			t.Errorf("%s: %d links to error codes", site.Lang, found)
		}
	}
}

// The tables of events have every type of the contracts with its statuses, when it is sent and what to do then, in each
// language, and no other type.
func TestEveryEventTypeIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	f := facts(true)
	known, occurs := must(knownEvents()), map[string]string{}
	for _, m := range must(readAll(f)) {
		for _, o := range m.webhooks() {
			occurs[o.Path] = strings.Join(statusesOf(o), "`, `")
		}
	}
	for name := range known {
		if _, ok := occurs[name]; !ok {
			t.Errorf("events.json has %s, which no contract has", name)
		}
	}
	if len(occurs) != 15 {
		t.Errorf("the contracts have %d event types", len(occurs))
	}
	for _, site := range must(New(f, "en", "fr")) {
		page, _ := site.Find("/docs/webhooks")
		for name, statuses := range occurs {
			about := known[name][site.Lang]
			if about.When == "" || about.Do == "" {
				t.Errorf("events.json does not say in %q when %s is sent and what to do", site.Lang, name)
			}
			row := regexp.MustCompile(`(?m)^\| \[` + "`" + regexp.QuoteMeta(name) + "`" + `\]\(/docs/[^)]*\) \| .*\|$`).
				FindString(page.Markdown)
			if row == "" || !strings.Contains(row, statuses) {
				t.Errorf("%s: the row of %s is %q; its statuses are %q", site.Lang, name, row, statuses)
			}
		}
	}
}

func statusesOf(o operation) []string {
	i := slices.IndexFunc(o.Body, func(r row) bool { return r.Name == "data.status" })
	if i < 0 {
		return nil
	}
	return o.Body[i].Values
}

// The recipe about end reasons has every value of the contract, and no other.
func TestEveryEndReasonHasAText(t *testing.T) {
	t.Parallel()
	f := facts(true)
	reasons := must(readSpec(f.Partner)).root.get("components", "schemas", "EndReason", "enum").texts()
	for _, site := range must(New(f, "en", "fr")) {
		page, _ := site.Find("/docs/recipes")
		var rows []string
		for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| [^|]+ \\| [“«\"][^|]+ \\|$").
			FindAllStringSubmatch(page.Markdown, -1) {
			rows = append(rows, m[1])
		}
		if len(reasons) == 0 || !slices.Equal(rows, reasons) {
			t.Errorf("%s: the recipe has %v, the contract %v", site.Lang, rows, reasons)
		}
	}
}

// The words that the specification's glossary gives for pages are in the public glossary, in both languages.
func TestTheGlossariesAgree(t *testing.T) {
	t.Parallel()
	terms := map[string]string{}
	sites := must(New(facts(true), "en", "fr"))
	var both [2][]string
	for i, site := range sites {
		page, _ := site.Find("/docs/glossary")
		for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(page.Markdown, -1) {
			both[i] = append(both[i], strings.ReplaceAll(m[1], "’", "'"))
		}
	}
	if len(both[0]) < 25 || len(both[0]) != len(both[1]) {
		t.Fatalf("%d terms in English and %d in French", len(both[0]), len(both[1]))
	}
	for i, term := range both[0] {
		if terms[term] != "" {
			t.Errorf("%s is explained twice", term)
		}
		terms[term] = both[1][i]
	}
	raw, err := os.ReadFile("../../../openapi/spec/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || cells[0] == "| word" || cells[2] == "|" {
			continue
		}
		for _, pair := range strings.Split(strings.TrimSuffix(cells[2], " |"), "; ") {
			found++
			if english, french, _ := strings.Cut(pair, " · "); terms[english] != french {
				t.Errorf("the glossary of the specification has %q; the public one has %q for it", pair, terms[english])
			}
		}
	}
	if found < 25 {
		t.Errorf("the glossary of the specification has %d public terms", found)
	}
}

// Every entry of the changelog has its anchor on the page, and is in the feed with it.
func TestEveryChangeHasAnAnchorAndIsInTheFeed(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []bool{true, false} {
		f := facts(sandbox)
		all := must(f.changes())
		var feed struct {
			ID      string `xml:"id"`
			Updated string `xml:"updated"`
			Entries []struct {
				ID      string `xml:"id"`
				Title   string `xml:"title"`
				Content string `xml:"content"`
			} `xml:"entry"`
		}
		if err := xml.Unmarshal(must(NewFeed(f)), &feed); err != nil {
			t.Fatal(err)
		}
		if len(all) < 40 || len(feed.Entries) != len(all) || feed.ID != base+Feed ||
			feed.Updated != all[0].At.Format(time.RFC3339) {
			t.Errorf("%d entries, and a feed of %d: %s %s", len(all), len(feed.Entries), feed.ID, feed.Updated)
		}
		for _, site := range must(New(f, "en", "fr")) {
			page, _ := site.Find("/docs/changelog")
			for i, c := range all {
				if !strings.Contains(string(page.Body), `<li id="`+c.ID+`">`) {
					t.Errorf("%s: the page has no #%s", site.Lang, c.ID)
				}
				if e := feed.Entries[i]; e.ID != base+"/docs/changelog#"+c.ID || !strings.HasSuffix(e.Title, c.Title) ||
					!strings.HasPrefix(e.Content, "<p>") {
					t.Errorf("entry %s is %+v in the feed", c.ID, e)
				}
				if !sandbox && strings.HasPrefix(c.API, "Sandbox") || strings.HasPrefix(c.API, "Desk") {
					t.Errorf("%s is shown (sandbox %v)", c.ID, sandbox)
				}
			}
		}
	}
}

func TestAChangeWithoutAPlaceStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		"- **Title.** Before a date.", "### 2026-13-02\n\n#### Added\n- **Title.** No date.",
		"### 2026-01-02\n- **Title.** Before a kind.",
		"### 2026-01-02\n\n#### Added\n- Without a title.", "### 2026-01-02\n\n#### Added\nNo entry.",
		"### 2026-01-02\n\n#### Added\n- **Title.** One.\n- **Title.** Another one.",
	} {
		f := facts(true)
		f.Changelog = "# Changes\n\n## Partner API 1.0.0\n\n" + part + "\n"
		if _, err := New(f, "en"); err == nil {
			t.Errorf("%q was accepted", part)
		}
	}
}

// Every link within the documentation leads to a page and to a heading, in both languages and both environments, and no
// identifier occurs twice on a page.
func TestEveryLinkOfTheDocumentationLeadsSomewhere(t *testing.T) {
	t.Parallel()
	elsewhere := regexp.MustCompile(`^(/docs/changelog\.atom|/openapi(/platform|/sandbox)?\.(yaml|json)|/llms\.txt|/\.well-known/security\.txt|/status|/signup|/developers|/legal/waiver(/2026-12)?(\?lang=(en|fr))?)$`)
	for _, sandbox := range []bool{true, false} {
		for _, site := range must(New(facts(sandbox), "en", "fr")) {
			ids := map[string]map[string]bool{}
			for _, p := range site.Pages {
				ids[p.Path] = map[string]bool{}
				for _, m := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(string(p.Body), -1) {
					if ids[p.Path][m[1]] {
						t.Errorf("%s %s has %s twice", site.Lang, p.Path, m[1])
					}
					ids[p.Path][m[1]] = true
				}
			}
			for _, p := range site.Pages {
				for _, h := range p.Heads {
					if !ids[p.Path][h.ID] {
						t.Errorf("%s %s has no %s", site.Lang, p.Path, h.ID)
					}
				}
				for _, m := range regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(string(p.Body), -1) {
					link := strings.TrimPrefix(html.UnescapeString(m[1]), base)
					path, anchor, _ := strings.Cut(link, "#")
					if path == "" {
						path = p.Path
					}
					switch known := ids[path]; {
					case known == nil && !elsewhere.MatchString(link), !sandbox && strings.Contains(link, "/sandbox"):
						t.Errorf("%s %s (sandbox %v) leads to %s, which is nothing", site.Lang, p.Path, sandbox, link)
					case anchor != "" && !known[anchor]:
						t.Errorf("%s %s leads to %s, where there is no such heading", site.Lang, p.Path, link)
					}
				}
			}
		}
	}
}

// A link to a heading works in both languages.
func TestEveryGuideHasItsTwin(t *testing.T) {
	t.Parallel()
	sites := must(New(facts(true), "en", "fr"))
	files := must(fs.Glob(guideFiles, "guides/*/*.md"))
	if len(files) != 2*len(guides) {
		t.Errorf("%d files for %d guides in two languages", len(files), len(guides))
	}
	levels := regexp.MustCompile(`<h([1-6])(?: id="([^"]+)")?`)
	for i, en := range sites[0].Pages {
		fr := sites[1].Pages[i]
		if !en.English && (en.Path != fr.Path || en.Title == fr.Title && en.Title != "Documentation" &&
			en.Title != "Webhooks" && en.Title != "Pagination" || en.Summary == fr.Summary) {
			t.Errorf("%s %q has no twin, or one that is not translated: %s %q", en.Path, en.Title, fr.Path, fr.Title)
		}
		a, b := levels.FindAllStringSubmatch(string(en.Body), -1), levels.FindAllStringSubmatch(string(fr.Body), -1)
		if !slices.EqualFunc(a, b, func(x, y []string) bool { return slices.Equal(x[1:], y[1:]) }) {
			t.Errorf("%s: the headings differ:\n%v\n%v", en.Path, a, b)
		}
		for _, p := range []Page{en, fr} {
			if p.Summary == "" || strings.Contains(p.Markdown, "<no value>") || !strings.HasPrefix(p.Markdown, "# ") &&
				!p.English {
				t.Errorf("%s: %.200s", p.Path, p.Markdown)
			}
		}
	}
}

func TestTheLongPagesAnchorsAreOnTheFirstPages(t *testing.T) {
	t.Parallel()
	site := must(New(facts(true), "en"))[0]
	for path, anchors := range map[string][]string{
		"/docs": {"the-way-through", "conventions", "idempotency", "errors", "scopes", "tag-oauth",
			"createConsultation", "createConsultation-409", "createConsultation-curl", "tag-webhooks",
			"tag-webhooks-answering", "tag-webhooks-looking-after-your-endpoint",
			"tag-webhooks-verifying-the-signature", "verify", "verify-php", "onConsultationCompleted", "error-codes"},
		"/docs/platform": {"authentication", "tag-endpoint", "setEndpoint", "operations"},
		"/docs/sandbox":  {"tag-clock", "advanceClock"},
	} {
		page, _ := site.Find(path)
		for _, id := range anchors {
			if !strings.Contains(string(page.Body), ` id="`+id+`"`) {
				t.Errorf("%s has no #%s any more", path, id)
			}
		}
	}
}

// Headings were renamed; links to their earlier anchors still lead to them.
func TestEarlierAnchorsOfGuidesAreStillThere(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []bool{true, false} {
		for _, site := range must(New(facts(sandbox), "en", "fr")) {
			for path, anchors := range map[string]string{
				"/docs": "where-to-begin how-it-fits-together",
				"/docs/quickstart": "1-get-an-application 2-link-a-client 3-make-sure-that-the-client-can-start " +
					"4-receive-webhooks 5-start-a-consultation 6-follow-it-to-the-end",
				"/docs/going-live": "before what-changes how-to-get-there afterwards",
				"/docs/linking":    "the-steps scopes who-the-client-is ending-a-link when-it-goes-wrong",
				"/docs/tokens": "using-an-access-token refreshing-without-losing-the-client " +
					"ready-made-for-typescript-and-python when-a-refresh-is-refused credentials-of-the-application",
				"/docs/wallet":      "what-happens-to-the-money topping-up disputes-and-chargebacks the-waiver",
				"/docs/life":        "the-states the-times-that-matter why-it-ended cancelling the-note",
				"/docs/idempotency": "how-to what-comes-back when-to-repeat",
				"/docs/errors":      "what-an-error-looks-like which-to-repeat codes",
				"/docs/webhooks": "a-receiver-that-is-right verify-the-signature code go javascript-node-js python php " +
					"duplicates order-and-the-race-with-the-201 events-about-clients retries tracing " +
					"when-your-endpoint-is-disabled",
				"/docs/pagination": "how-to what-to-rely-on",
				"/docs/limits":     "calls sizes times",
				"/docs/testing": map[bool]string{
					true: "what-is-simulated-here let-time-pass choose-what-happens go-to-a-status run-to-a-status " +
						"test-clients-and-their-messages lawyers-of-your-own from-the-command-line ",
					false: "where-the-sandbox-is ",
				}[sandbox] + "what-to-try-before-you-go-live",
			} {
				page, _ := site.Find(path)
				for _, id := range strings.Fields(anchors) {
					if !strings.Contains(string(page.Body), ` id="`+id+`"`) {
						t.Errorf("%s %s (sandbox %v) has no #%s", site.Lang, path, sandbox, id)
					}
				}
			}
		}
	}
}

func TestSearchFindsWordsWhateverTheirAccents(t *testing.T) {
	t.Parallel()
	sites := must(New(facts(true), "en", "fr"))
	for _, tt := range []struct {
		site       Site
		query, url string
	}{
		{sites[0], "INSUFFICIENT_FUNDS", "/docs/errors#insufficient-funds"}, {sites[0], "start a consultation",
			"/docs/reference/consultations#createConsultation"},
		{sites[0], "race 201", "/docs/webhooks#event-ordering"},
		{sites[1], "DOUBLONS", "/docs/webhooks#duplicates"}, {sites[1], "cle d'idempotence", "/docs/idempotency"},
		{sites[0], "externalRef", "/docs/webhooks#event-ordering"},
	} {
		hits := tt.site.Search(tt.query)
		i := slices.IndexFunc(hits, func(h Hit) bool { return strings.HasPrefix(h.URL, tt.url) })
		if i < 0 || len(hits) > maxHits {
			t.Errorf("%q does not find %s in %d hits: %+v", tt.query, tt.url, len(hits), hits)
			continue
		}
		if h := hits[i]; h.Match != "" && !strings.HasPrefix(fold(tt.query), fold(h.Match)) {
			t.Errorf("%q marks %q", tt.query, h.Match)
		}
	}
	for _, nothing := range []string{
		"", "   ", "xyzzy", "consultation xyzzy", "\x00", strings.Repeat("a ", 10_000) + "xyzzy",
	} {
		if hits := sites[0].Search(nothing); len(hits) > 0 && !strings.HasPrefix(nothing, "a ") {
			t.Errorf("%q finds %+v", nothing, hits)
		}
	}
}

// Every heading of every contract is found by its own words, in the documentation of both languages, and the hit leads
// to its place.
func TestEveryHeadingOfAContractIsFoundByItsWords(t *testing.T) {
	t.Parallel()
	heading := regexp.MustCompile(`(?s)<h[12](?: id="([^"]*)")?>(.*?)</h[12]>`)
	markup := regexp.MustCompile(`(?s)<a class="anchor".*?</a>|<[^>]*>`)
	for _, site := range must(New(facts(true), "en", "fr")) {
		asked := 0
		for _, p := range site.Pages {
			if p.Section != Reference {
				continue
			}
			for _, m := range heading.FindAllStringSubmatch(string(p.Body), -1) {
				title := strings.TrimSpace(html.UnescapeString(markup.ReplaceAllString(m[2], " ")))
				asked++
				hits := site.Search(title)
				if !slices.ContainsFunc(hits, func(h Hit) bool { return h.URL == p.Path || h.URL == p.Path+"#"+m[1] }) {
					t.Errorf("%s: %q does not find %s#%s: %+v", site.Lang, title, p.Path, m[1], hits)
				}
			}
			if hits := site.Search(p.Title); !slices.ContainsFunc(hits, func(h Hit) bool { return h.URL == p.Path }) {
				t.Errorf("%s: the title %q does not find %s", site.Lang, p.Title, p.Path)
			}
		}
		if asked < 60 {
			t.Errorf("%s: %d headings were found: the test cannot read the pages", site.Lang, asked)
		}
	}
}

// Words of readers and typing errors lead to the right hits.
func TestSearchUnderstandsReaders(t *testing.T) {
	t.Parallel()
	sites := must(New(facts(true), "en", "fr"))
	for _, tt := range []struct {
		site       Site
		query, url string
	}{
		{sites[0], "testing time", "/docs/sandbox/clock"}, {sites[1], "temps", "/docs/sandbox/clock"},
		{sites[0], "chargeback", "/docs/wallet#disputes-and-chargebacks"},
		{sites[0], "dispute", "/docs/wallet#disputes-and-chargebacks"},
		{sites[1], "litige", "/docs/wallet#disputes-and-chargebacks"},
		{sites[0], "idempotnecy", "/docs/idempotency"}, {sites[0], "signatrue", "/docs/webhooks"},
		{sites[1], "portefeuile", "/docs/wallet"},
		{sites[0], "retry", "/docs/idempotency#when-to-retry"}, {sites[1], "retry", "/docs/idempotency#when-to-retry"},
		{sites[0], "webhook endpoint", "/docs/platform/endpoint"},
		{sites[0], "webhok endpoint", "/docs/platform/endpoint"},
		{sites[1], "endpoint webhook", "/docs/webhooks"}, {sites[0], "repeat request", "/docs/errors"},
		{sites[0], "gdpr", "/docs/security#erasure"}, {sites[1], "rgpd", "/docs/security#erasure"},
		{sites[0], "unlink", "/docs/linking#disconnect-a-client"}, {sites[0], "playground", "/docs/try"},
		{sites[0], "rotate secret", "/docs/recipes#rotate-both-secrets"}, {sites[1], "annulation", "/docs/life"},
	} {
		if hits := tt.site.Search(tt.query); !slices.ContainsFunc(hits,
			func(h Hit) bool { return strings.HasPrefix(h.URL, tt.url) }) {
			t.Errorf("%s: %q does not find %s in %+v", tt.site.Lang, tt.query, tt.url, hits)
		}
	}
}

func TestABrokenContractStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "a: [", "paths: {/x: {get: {operationId: x, tags: [Nowhere]}}}"} {
		f := facts(true)
		f.Partner = []byte(src)
		if _, err := New(f, "en"); err == nil {
			t.Errorf("%q was accepted", src)
		}
	}
}
