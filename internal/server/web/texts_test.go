package web

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/status"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/access"
	"partnerd/internal/server/manual"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/shell"
)

var verbs = regexp.MustCompile(`%[sd]`)

func TestEveryTextExistsInBothLanguagesWithTheSameArguments(t *testing.T) {
	t.Parallel()
	for key, wordings := range must(shell.LoadTexts()) {
		if len(wordings) != len(shell.Languages) {
			t.Errorf("%s has %d languages", key, len(wordings))
		}
		for _, lang := range shell.Languages {
			if strings.TrimSpace(wordings[lang]) == "" {
				t.Errorf("%s has no text in %q", key, lang)
			}
			if !slices.Equal(verbs.FindAllString(wordings[lang], -1), verbs.FindAllString(wordings["en"], -1)) {
				t.Errorf("%s takes other arguments in %q", key, lang)
			}
		}
	}
}

// usedKeys are the keys named in templates, and those that the program composes.
func usedKeys(t *testing.T) map[string]bool {
	used := map[string]bool{}
	literal := regexp.MustCompile(`\bt "([^"]+)"`)
	for _, name := range must(fs.Glob(shell.Files, "templates/*.html")) {
		for _, m := range literal.FindAllStringSubmatch(string(must(shell.Files.ReadFile(name))), -1) {
			used[m[1]] = true
		}
	}
	for _, s := range consultation.Statuses()[1:] {
		used[clients.StatusKey(s, "")] = true
	}
	for _, why := range clients.EndsOfExpired {
		used[clients.StatusKey(consultation.Expired, why)] = true
	}
	for _, why := range append(slices.Clone(clients.EndsOfExpired), consultation.CancelledByPartner,
		consultation.CancelledByClient, consultation.CancelledByUs) {
		used[operators.EndCell(why).Key] = true
	}
	for _, key := range clients.AdjustmentKeys {
		used[key] = true
	}
	for _, m := range []wallet.Type{wallet.TopUp, wallet.Capture, wallet.Refund} {
		used["movement."+string(m)] = true
	}
	for _, s := range wallet.LineStates() {
		if s != wallet.Booked {
			used["line.HOLD."+string(s)] = true
		}
	}
	used["line.TOPUP.BOOKED"] = true
	for _, key := range []string{"signup.sent", "forgot.sent", "email.sent", "erase.done", "dev.signup.sent"} {
		used[key+".title"], used[key+".text"] = true, true
	}
	maps.Copy(used, namedKeys(t))
	maps.Copy(used, operators.ReasonKeys)
	used["ops.line.of."+string(telephony.Lawyer)], used["ops.line.of."+string(telephony.Client)] = true, true
	for _, r := range problem.Rules() {
		used["rule."+r.Key] = true
	}
	for key := range must(shell.LoadTexts()) {
		used[key] = used[key] || strings.HasPrefix(key, "rule.code.") // see TestEveryRuleHasItsWords
	}
	for _, act := range (&operators.Pages{}).Acts() {
		used["ops.do."+act.Name], used["ops.do."+act.Name+".text"], used["ops.do."+act.Name+".done"] = true, true, true
	}
	for _, r := range (&operators.Pages{}).Reads() {
		if r.Section == r.Path {
			used["ops.section."+cmp.Or(strings.TrimPrefix(strings.TrimPrefix(r.Path, shell.OperatorDesk), "/"),
				"board")] = true
		}
	}
	for _, s := range []status.State{status.Operational, status.Limited, status.Unavailable} {
		used["status.is."+string(s)] = true
		used["status.state."+string(s)] = s != status.Limited
	}
	for _, part := range status.Parts() {
		used["status.part."+string(part)] = true
	}
	for _, page := range shell.LegalPages {
		used["legal."+page] = true
	}
	for _, act := range ofSandbox().Acts() {
		used["dev.do."+act.Name], used["dev.do."+act.Name+".text"], used["dev.do."+act.Name+".done"] = true, true, true
	}
	for _, r := range ofSandbox().Reads() {
		if r.Section == r.Path {
			used["dev.section."+cmp.Or(strings.TrimPrefix(strings.TrimPrefix(r.Path, developers.Path(":app")), "/"),
				"overview")] = true
		}
	}
	for _, found := range conformance.Findings() {
		used["dev.saw."+found] = true
	}
	for _, r := range portal.Roles() {
		used["dev.role."+string(r)] = true
	}
	for _, found := range []webhook.Finding{webhook.SignatureRight, webhook.SignatureOld, webhook.HeaderMalformed,
		webhook.BodyChanged, webhook.SecretDiffers, webhook.SignatureMismatch, webhook.PreviousSecret} {
		used["dev.finding."+string(found)] = true
	}
	used[developers.Finding(webhook.Check{Finding: webhook.BodyChanged}).Finding] = true
	for _, s := range manual.Sections() {
		used["docs.section."+string(s)] = true
	}
	for _, r := range staff.Roles() {
		used["ops.role."+string(r)] = true
	}
	for _, o := range operators.CloseReasons().Options {
		used[o.Text] = true
	}
	for _, p := range []operator.Proposal{
		{Kind: operator.Refund}, {Kind: operator.Adjustment}, {Kind: operator.Refund, Close: consultation.TooShort},
	} {
		used[operators.KindKey(p)] = true
	}
	for _, w := range []matching.Why{matching.LongestIdle, matching.LawyerFree, matching.ThreeAtOnce, matching.ByHand} {
		used["ops.because."+string(w)] = true
	}
	for _, why := range lawyer.Reasons() {
		used["desk.left."+string(why)] = true
	}
	for _, kind := range []string{"event", "offer", "answer", "returned", "call", "report", "callend", "money", "act",
		"proposal", "proposalend"} {
		used["ops.line."+kind] = true
	}
	for _, category := range access.Categories {
		used[clients.UseView{Category: category}.Label()] = true
	}
	for prefix, names := range map[string]string{"desk.presence.": "OFFLINE AVAILABLE OFFERED BUSY WRAP_UP AWAY",
		"ops.code.": "MATCHING PENDING_CALLBACK ASSIGNED IN_CALL CALL_ENDED COMPLETED CANCELLED EXPIRED OPEN " +
			"ACCEPTED DECLINED REVOKED CONFIRMED REFUSED PENDING DELIVERED FAILED OFFLINE AVAILABLE OFFERED BUSY " +
			"WRAP_UP AWAY INVITED ACTIVE DISABLED TOPUP HOLD RELEASE CAPTURE REFUND ADJUSTMENT LEG_RINGING " +
			"LEG_ANSWERED LEG_MACHINE LEG_DIGITS LEG_FAILED BRIDGED UNBRIDGED ENDED RECORDING_READY STARTED DROPPED " +
			"RESTORED FINISHED NOT_REACHED LAWYER_NOT_REACHED ABORTED",
		"desk.missed.":    "busy no_answer invalid carrier voicemail not_confirmed hung_up timeout",
		"desk.callstate.": "LAWYER_RINGING LAWYER_CONFIRMING CLIENT_RINGING CONFIRMING BRIDGING BRIDGED LOST ENDED",
		"desk.reason.":    "wrong_person technical_fault too_short"} {
		for _, name := range strings.Fields(names) {
			used[prefix+name] = true
		}
	}
	for _, m := range regexp.MustCompile(`"(desk\.[a-z.]+)" \$\.CSRF`).
		FindAllStringSubmatch(string(must(shell.Files.ReadFile("templates/desk.html")))+
			string(must(shell.Files.ReadFile("templates/desk_callbacks.html")))+
			string(must(shell.Files.ReadFile("templates/layout.html"))), -1) {
		used[m[1]] = true
	}
	for _, s := range application.AllScopes {
		used["scope."+string(s)] = true
	}
	for _, c := range conformance.Checks {
		used["dev.exam."+c.Name] = true
	}
	for _, name := range sandbox.Scenarios() {
		used["dev.scenario."+name] = true
	}
	used["dev.message."+sandbox.Email], used["dev.message."+sandbox.TextMessage] = true, true
	for _, item := range []string{
		"redirect", "contact", "endpoint", "signature", "duplicates", "unknown", "gone", "events", "refresh", "retry",
	} {
		used["dev.item."+item] = true
	}
	for _, s := range []clients.CheckoutState{
		clients.CheckoutOpen, clients.CheckoutProcessing, clients.CheckoutPaid, clients.CheckoutCancelled,
		clients.CheckoutExpired,
	} {
		used["checkout.title."+string(s)], used["checkout.text."+string(s)] = true, true
	}
	for _, e := range []string{
		"400", "401", "403", "404", "405", "409", "429", "500", "503", "other", "authorize", "role",
	} {
		used["error."+e+".title"], used["error."+e+".text"] = true, true
	}
	for _, key := range []string{"home.title", "login.title", "login.title.error", "login.failed", "login.stale",
		"form.stale", "login.throttled", "consent.title", "consent.title.error", "apps.title", "ops.title"} {
		used[key] = true
	}
	return used
}

// namedKeys are the keys that the program names literally, and their variants for pages that show an error.
func namedKeys(t *testing.T) map[string]bool {
	known, named := must(shell.LoadTexts()), map[string]bool{}
	literal := regexp.MustCompile(`"([a-z0-9-]+(?:\.[a-z0-9-]+)+)"`)
	for _, name := range must(filepath.Glob("*/*.go")) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range literal.FindAllStringSubmatch(string(must(os.ReadFile(name))), -1) {
			for _, key := range []string{m[1], m[1] + ".error"} {
				if known[key] != nil {
					named[key] = true
				}
			}
		}
	}
	return named
}

func TestTextsAndUsesAgree(t *testing.T) {
	t.Parallel()
	known, used := must(shell.LoadTexts()), usedKeys(t)
	for key, yes := range used {
		if yes && known[key] == nil {
			t.Errorf("%s is used and has no text", key)
		}
	}
	for key := range known {
		if !used[key] {
			t.Errorf("%s has a text and no use", key)
		}
	}
}

func TestNoTemplateHasScriptInlineStyleOrForeignResources(t *testing.T) {
	t.Parallel()
	// both from our own origin
	const script, logo = `<script src="{{.}}" defer></script>`, `{{with site.Logo}}<img src="{{.}}" alt="" height="28">`
	forbidden := regexp.MustCompile(`(?i)<script|<style|\sstyle=|\son[a-z]+=|javascript:|<iframe|<img|src="http`)
	for _, name := range must(fs.Glob(shell.Files, "templates/*.html")) {
		source := string(must(shell.Files.ReadFile(name)))
		if name == "templates/layout.html" {
			source = strings.Replace(strings.Replace(source, script, "", 1), logo, "", 1)
		}
		if m := forbidden.FindString(source); m != "" {
			t.Errorf("%s contains %q", name, m)
		}
	}
}

func TestLanguageIsTheLinksThenTheCookiesThenTheBrowsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for header, want := range map[string]string{
		"": "en", "de-DE,de;q=0.9": "en", "fr-CA,fr;q=0.8,en;q=0.5": "fr", "en-GB,fr;q=0.5": "en",
		"de,fr;q=0.7,en;q=0.3": "fr", ";;;": "en", "fr": "fr",
	} {
		b := f.browser()
		b.header.Set("Accept-Language", header)
		if p := b.get("/login"); !strings.Contains(p.body, `<html lang="`+want+`">`) ||
			p.Header.Get("Content-Language") != want {
			t.Errorf("Accept-Language %q gives %q, want %q", header, p.Header.Get("Content-Language"), want)
		}
	}
	b := f.browser()
	b.get("/?lang=fr").want(t, 200, `<html lang="fr">`, `"?lang=en"`)
	b.get("/login").want(t, 200, `<html lang="fr">`, "Se connecter")
	b.get("/login?lang=xx").want(t, 200, `<html lang="fr">`)
	b.get("/login?lang=en").want(t, 200, `<html lang="en">`)
	b.get("/nowhere").want(t, 404, `<html lang="en">`, "Page not found")
}

// A stranger can choose the path of one of our "not found" pages.
func TestTheLanguageLinkStaysOnTheSiteWhateverThePath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"//evil.example/login", "/.//evil.example/", `/\evil.example`, "/login"} {
		p := f.browser().get(path + "?lang=en&a=1")
		href := regexp.MustCompile(`href="([^"]*lang=fr[^"]*)"`).FindStringSubmatch(p.body)
		if href == nil || href[1] != "?a=1&amp;lang=fr" {
			t.Errorf("%s: the link is %q", path, href)
		}
	}
}

func TestDatesAreReadable(t *testing.T) {
	t.Parallel()
	first := newFixtureTime(1)
	for lang, want := range map[string]string{"en": "1 June 2026, 10:30 CEST", "fr": "1er juin 2026 à 10:30 CEST"} {
		if got := shell.FormatDate(lang, first); got != want {
			t.Errorf("%s: %q, want %q", lang, got, want)
		}
	}
	if got := shell.FormatDate("fr", newFixtureTime(2)); got != "2 juin 2026 à 10:30 CEST" {
		t.Error(got)
	}
}

// The documentation explains every step that can move a consultation.
func TestTheDocumentationNamesEveryStepOfAConsultation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, lang := range shell.Languages {
		b := f.browser()
		b.header.Set("Accept-Language", lang)
		twin, page := b.get("/docs/life.md"), b.get("/docs/life")
		for _, s := range consultation.Steps() {
			row := regexp.MustCompile(fmt.Sprintf(
				"(?m)^\\| (–|`%s`) \\| [^|]{8,} \\| `%s` \\| [^|]+ \\| `consultation[^|]* \\|$", s.From, s.To,
			))
			if !row.MatchString(twin.body) {
				t.Errorf("%s: no row for %s in %s", lang, s.Trigger, s.From)
			}
			if n := strings.Count(page.body, ">"+string(s.To)+"</text>"); n != 1 {
				t.Errorf("%s: %s is drawn %d times", lang, s.To, n)
			}
		}
	}
}

// The catalogue of events has the status that each event has by the table of states.
func TestTheCatalogueOfEventsFollowsTheStates(t *testing.T) {
	t.Parallel()
	p := newFixture(t).browser().get("/docs/webhooks.md")
	for _, s := range consultation.Steps() {
		for _, e := range s.Events {
			row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| \\[`%s`\\].* \\| [^|]*`%s`[^|]* \\| [^|]* \\|$",
				regexp.QuoteMeta(string(e)), s.To))
			if !row.MatchString(p.body) {
				t.Errorf("no row says that %s is sent in %s", e, s.To)
			}
		}
	}
}

func TestTheDocumentationInMarkdownAndItsSearch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	p := b.get("/docs/webhooks.md")
	p.want(t, 200, "# Webhooks", "hmac.Equal")
	if got := p.Header.Get("Content-Type"); got != "text/markdown; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	b.get("/docs/webhooks").want(t, 200, `<link rel="canonical" href="`+f.base+`/docs/webhooks">`,
		`href="/docs/webhooks.md"`, `id="duplicates"`)
	b.get("/docs/webhooks?lang=fr").want(t, 200, `id="duplicates"`, "Doublons")
	b.get("/docs/search?q=doublons").want(t, 200, `href="/docs/webhooks#duplicates"`, "<mark>")
	b.get("/docs/search?q=%3Cscript%3E%22&lang=en").want(t, 200, "No results")
	b.get("/docs/search?q=%ff%00").want(t, 200)
	b.get("/llms.txt").want(t, 200, f.base+"/docs/quickstart.md")
	feed := b.get("/docs/changelog.atom")
	feed.want(t, 200, "<feed xmlns=", f.base+"/docs/changelog#2026-11-24-consent-per-redirect-uri")
	if got := feed.Header.Get("Content-Type"); got != "application/atom+xml; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	b.get("/docs/nothing").want(t, 404)
	b.get("/legal/waiver?lang=fr").want(t, 302)
}

func TestDocumentationIsRevalidatedByETag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.browser()
	etag := b.get("/docs").Header.Get("ETag")
	b.header.Set("If-None-Match", etag)
	if p := b.get("/docs"); p.StatusCode != 304 || p.body != "" {
		t.Errorf("status %d with %d bytes for ETag %s", p.StatusCode, len(p.body), etag)
	}
}

// French output has non-breaking spaces before : ; ! ? » and after « (package text inserts them). A wallet has one
// name.
func TestFrenchTextsAreSetAsFrenchIs(t *testing.T) {
	t.Parallel()
	breaks := regexp.MustCompile(`[ \t][:;!?»]|«[ \t]|[\p{L}\p{N})][!?;»]|«[\p{L}\p{N}]`)
	markup := regexp.MustCompile("https?://[^ ]*|`[^`]*`|&[a-z]+;|<[^>]*>")
	for key, wordings := range must(shell.LoadTexts()) {
		if at := breaks.FindString(markup.ReplaceAllString(wordings["fr"], " ")); at != "" {
			t.Errorf("%s: %q in %q", key, at, wordings["fr"])
		}
		if strings.Contains(strings.ToLower(wordings["fr"]), "porte-monnaie") {
			t.Errorf("%s: a wallet is a portefeuille: %q", key, wordings["fr"])
		}
	}
}

// A client page shows each time in the zone of the service and names the zone. It also gives the browser what it needs
// to show its own.
func TestClientsReadLocalTime(t *testing.T) {
	t.Parallel()
	instant := regexp.MustCompile(`<time datetime="[^"]*T[^"]*"[^>]*>([^<]*)</time>`)
	shown := 0
	everyPage(newFixture(t), func(name string, p page) {
		client := strings.Contains(name, "client /") || strings.Contains(name, "/checkout/")
		if !client || strings.Contains(name, "/statement/") { // the months of a statement are those of UTC
			return
		}
		for _, m := range instant.FindAllStringSubmatch(p.body, -1) {
			shown++
			if !strings.HasSuffix(m[1], " CEST") && !strings.HasSuffix(m[1], " CET") ||
				!strings.Contains(p.body, `<script src="/assets/local.`) {
				t.Errorf("%s shows %q", name, m[1])
			}
		}
	})
	if shown == 0 {
		t.Error("no page shows an instant")
	}
}
