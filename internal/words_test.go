package internal

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// banned are words that people who read our texts do not use, or know for something else, by language: a pattern, and
// what to write instead. Letters of either case match.
var banned = map[string][][2]string{
	"en": {
		{`(creat\w*|make|have) an access`, "sign up; an account"},
		{`let\w* (its |your )?time pass|(become|get)s? older`, "advance the clock"},
		{`(some|no|any|every)body`, "someone, no one, anyone, everyone"},
		{`any more\b`, "no longer"},
		{`meanwhile`, "leave it out, or: in the meantime"},
		{`at once`, "immediately, or: at the same time"},
		{`e-mails?|mailbox\w*`, "email"},
		{`(by|a|the|each|every|another|this|your) mails?|mailed|mails`, "email"},
		{`examin\w+`, "check, test, verify"},
		{`the books`, "the ledger"},
		{`(given|taken|gives?|takes?) back`, "refunded, released"},
		{`present (password|key|secret)`, "current"},
		{`the ones? before|the (page|secret|version|key) before[.,;]`, "previous"},
		{`by hand`, "manually"},
		{`(public|secret|private) half`, "public key, private key"},
		{`base address(es)?`, "base URL"},
		{`identifiers?`, "ID"},
		{`small letters`, "lowercase"},
		{`white space`, "whitespace"},
		{`digits of a second`, "milliseconds, microseconds"},
		{`quotas?`, "rate limit"},
		{`receivers?`, "endpoint (the URL), handler (the code)"},
		{`repetitions?`, "retry"},
		{`to send again`, "redeliver"},
		{`(of|than) (yours|ours) (alone|only)|such thing of yours`, "belongs to another application"},
		{`that is none|which is none`, "invalid"},
		{`what came of (it|them)`, "result, outcome"},
		{`in vain|anew|afresh|for ever|is sought`, "failed, again, permanently, searched for"},
		{`shut out|kept out|let in`, "disable, block, reinstate"},
		{`twins?`, "Markdown version, duplicate"},
		{`he|she|him|his|hers?`, "they, them, their"},
		{`works in part`, "degraded"},
		{`entry at the bar`, "bar registration"},
		{`look into`, "check"},
		{`leaves the house|of the house`, "is shared"},
		{`instants?`, "time, point in time"},
		{`whoever`, "name who"},
		{`may everything`, "has all permissions"},
	},
	"fr": {
		{`cré\w+ un accès`, "créer un compte"},
		{`(la|les|une|des|cette|ces|sa|ses) portées?`, "autorisation"},
		{`courriels?`, "e-mail"},
		{`rafraîch\w+|jetons? de renouvellement`, "actualiser, jeton d’actualisation"},
		{`API bac à sable|API plateforme`, "Sandbox API, Platform API"},
		{`vieilli\w*|(laisser|faire|faites|laissez) passer le temps`, "avancer l’horloge"},
		{`restitu\w+|rendre l.argent|argent rendu`, "remboursé, libéré"},
		{`scell\w+`, "chiffrer"},
		{`moitié (publique|secrète|privée)`, "clé publique, clé privée"},
		{`jouée?s?|jouez`, "simulé"},
		{`(est|sont) (jamais |toujours )?répondue?s?`, "renvoyer une réponse"},
		{`quitte la maison`, "est transmis"},
		{`dissoci\w+`, "retirer l’accès"},
		{`(la|les|une|des|cette|ces|sa|ses) fautes?`, "erreur"},
		{`quotas?`, "limite"},
		{`en réel|environnement réel`, "production"},
		{`mails?`, "e-mail"},
	},
}

var (
	codeSpan   = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	linkTarget = regexp.MustCompile(`\]\([^)\s]*\)|https?://\S+|<[a-z/][^>]*>`)
	helpTag    = regexp.MustCompile(`help:"((?:[^"\\]|\\.)*)"`)
)

// TestTextsHaveNoBannedWords looks at everything that is shown or sent: pages, mails and text messages, guides, the
// descriptions of the contracts, and the help of the commands.
func TestTextsHaveNoBannedWords(t *testing.T) {
	t.Parallel()
	texts := readTexts(t)
	for language, least := range map[string]int{"en": 3000, "fr": 1500} {
		if len(texts[language]) < least {
			t.Errorf("%s: only %d texts found", language, len(texts[language]))
		}
		for _, rule := range banned[language] {
			word := wordsOf(rule[0])
			for place, text := range texts[language] {
				for _, found := range word.FindAllStringSubmatchIndex(text, -1) {
					around := strings.ToValidUTF8(text[max(found[2]-60, 0):min(found[3]+60, len(text))], "")
					t.Errorf("%s (%s): “%s” in …%s…; write: %s", place, language, text[found[2]:found[3]],
						strings.Join(strings.Fields(around), " "), rule[1])
				}
			}
		}
	}
}

// wordsOf finds what a pattern of banned words matches as whole words, in its first group.
func wordsOf(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[^\pL\d_-])(` + pattern + `)(?:[^\pL\d_]|$)`)
}

// TestBannedWordsAreFound shows that the patterns find what they are for.
func TestBannedWordsAreFound(t *testing.T) {
	t.Parallel()
	for text, rule := range map[string]string{
		"New here? Create an access": banned["en"][0][0],
		"Nobody but him.":            banned["en"][2][0],
		"Send it by mail":            banned["en"][7][0],
		"Créez un accès":             banned["fr"][0][0],
	} {
		if !wordsOf(rule).MatchString(text) {
			t.Errorf("%q does not find %q", rule, text)
		}
	}
}

// readTexts returns what people read, without code, by language and place.
func readTexts(t *testing.T) map[string]map[string]string {
	t.Helper()
	texts := map[string]map[string]string{"en": {}, "fr": {}}
	add := func(language, place, text string) {
		text = codeSpan.ReplaceAllString(text, "…")
		texts[language][place] = linkTarget.ReplaceAllString(text, "")
	}
	files := func(patterns ...string) (names []string) {
		for _, pattern := range patterns {
			found, err := filepath.Glob(pattern)
			if err != nil || len(found) == 0 {
				t.Fatalf("%s: nothing found: %v", pattern, err)
			}
			names = append(names, found...)
		}
		return names
	}
	read := func(name string) []byte {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for _, name := range files("server/web/shell/texts*.json", "base/text/messages.json") {
		var catalog map[string]map[string]string
		if err := json.Unmarshal(read(name), &catalog); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for key, text := range catalog {
			add("en", name+" "+key, text["en"])
			add("fr", name+" "+key, text["fr"])
		}
	}
	var problems map[string]map[string]map[string]string
	if err := json.Unmarshal(read("server/manual/problems.json"), &problems); err != nil || len(problems) == 0 {
		t.Fatalf("problems.json: %d, %v", len(problems), err)
	}
	for code, languages := range problems {
		for language, parts := range languages {
			for part, text := range parts {
				add(language, "problems.json "+code+" "+part, text)
			}
		}
	}
	for _, language := range []string{"en", "fr"} {
		for _, name := range files("server/manual/guides/" + language + "/*.md") {
			add(language, name, string(read(name)))
		}
	}
	for _, name := range files("../openapi/*.yaml") {
		var document yaml.Node
		if err := yaml.Unmarshal(read(name), &document); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		eachDescription(&document, func(line int, text string) { add("en", fmt.Sprintf("%s:%d", name, line), text) })
	}
	for _, name := range files("../cmd/*/*.go", "app/config/*.go") {
		for n, line := range strings.Split(string(read(name)), "\n") {
			if m := helpTag.FindStringSubmatch(line); m != nil {
				add("en", fmt.Sprintf("%s:%d", name, n+1), m[1])
			}
		}
	}
	return texts
}

// eachDescription calls f with every text of a contract that people read.
func eachDescription(n *yaml.Node, f func(line int, text string)) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 &&
			slices.Contains([]string{"summary", "description", "title"}, child.Value) &&
			n.Content[i+1].Kind == yaml.ScalarNode {
			f(n.Content[i+1].Line, n.Content[i+1].Value)
		}
		eachDescription(child, f)
	}
}

var subject = regexp.MustCompile(`^[a-z0-9][a-z0-9/.-]*(, [a-z0-9][a-z0-9/.-]*)*: [^A-Z\s]\S*( \S+)+$`)

// notImperative begin subjects that say what is so now, not what the commit does.
var notImperative = regexp.MustCompile(`: (a|an|the|one|what|who|which|that|every|each|no|all|(add|fix|chang|remov|mov|renam|us)(ed|ing)|` +
	`made|kept|(add|fix|make|keep|say|show|give|take|use|mend|hold|tell|write|run|let|remove|move)s) `)

// TestCommitSubjects looks at the commits since this rule: "area: imperative", at most 72 characters. Clones without
// history have nothing to look at.
func TestCommitSubjects(t *testing.T) {
	t.Parallel()
	first, err := exec.Command("git", "log", "--diff-filter=A", "--format=%H", "--", "words_test.go").Output()
	if err != nil {
		t.Skip("no history here: ", err)
	}
	began := strings.Fields(string(first))
	if len(began) == 0 {
		t.Skip("the rule is not committed yet")
	}
	out, err := exec.Command("git", "log", "--no-merges", "--format=%s", began[len(began)-1]+"..HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	for s := range strings.Lines(string(out)) {
		if fault := subjectFault(strings.TrimSpace(s)); fault != "" {
			t.Errorf("%q: %s", strings.TrimSpace(s), fault)
		}
	}
}

func subjectFault(s string) string {
	switch {
	case len([]rune(s)) > 72:
		return fmt.Sprintf("%d characters; at most 72 are allowed", len([]rune(s)))
	case !subject.MatchString(s):
		return "not “area: imperative”, in lowercase after the colon"
	case notImperative.MatchString(s):
		return "not in the imperative: say what the commit does"
	}
	return ""
}

func TestSubjectsAreJudged(t *testing.T) {
	t.Parallel()
	for s, right := range map[string]bool{
		"books: detect a seal changed together with its wallet": true,
		"httpapi, web: name the field in each error":            true,
		"Books: detect a changed seal":                          false,
		"books: Detect a changed seal":                          false,
		"books: a changed seal is found":                        false,
		"books: detects a changed seal":                         true, // only frequent verbs are known
		"books: added a check":                                  false,
		"detect a changed seal":                                 false,
		"books: " + strings.Repeat("a", 73):                     false,
	} {
		if fault := subjectFault(s); (fault == "") != right {
			t.Errorf("%q: %q", s, fault)
		}
	}
}
