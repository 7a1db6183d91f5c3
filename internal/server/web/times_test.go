package web

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/text"
	"partnerd/internal/server/web/shell"
)

var (
	timeElement = regexp.MustCompile(`<time datetime="([^"]+)"( title="([^"]*)")?>([^<]*)</time>`)
	hiddenParts = regexp.MustCompile(
		`(?s)<(script|style|pre|textarea|title)\b.*?</(script|style|pre|textarea|title)>|<[^>]*>`,
	)
	machineTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d`)
	clockTime   = regexp.MustCompile(`\d\d:\d\d(:\d\d)?\s+([A-Z]{3,4}\b|[+-]\d\d)`)
	utcTitle    = regexp.MustCompile(`^\d+(er)? \p{L}+ \d{4}(,| à) \d\d:\d\d:\d\d UTC$`)
	day         = regexp.MustCompile(`^\d+(er)? \p{L}+ \d{4}$`)
)

// untold returns the times on a page that are not in the format of [shell.TimeIn]. It checks every page that a test
// loads.
func untold(body string) (faults []string) {
	for _, m := range timeElement.FindAllStringSubmatch(body, -1) {
		shown := html.UnescapeString(m[4])
		if _, err := time.Parse(time.RFC3339, m[1]); err != nil && !day.MatchString(shown) {
			faults = append(faults, fmt.Sprintf("%q is no instant", m[0]))
		}
		if !day.MatchString(shown) && !utcTitle.MatchString(html.UnescapeString(m[3])) {
			faults = append(faults, fmt.Sprintf("%q does not say the instant in UTC", m[0]))
		}
		if machineTime.MatchString(shown) {
			faults = append(faults, fmt.Sprintf("%q is for machines", m[0]))
		}
	}
	seen := html.UnescapeString(hiddenParts.ReplaceAllString(timeElement.ReplaceAllString(body, ""), " "))
	for _, form := range []*regexp.Regexp{machineTime, clockTime} {
		for _, found := range form.FindAllString(seen, -1) {
			faults = append(faults, fmt.Sprintf("%q is in no time element", found))
		}
	}
	return faults
}

func TestTimesInWordingsAreElementsAndTheRestIsEscaped(t *testing.T) {
	t.Parallel()
	texts := text.Catalogue{"x": {"en": "<%s> at %s, %d", "fr": "<%s> le %s, %d"}}
	at := time.Date(2026, 12, 31, 23, 30, 15, 0, time.UTC)
	element := `<time datetime="2026-12-31T23:30:15.000000Z" title="`
	for _, c := range []struct {
		lang string
		at   any
		want string
	}{
		{"en", at,
			"&lt;a&amp;b&gt; at " + element + `31 December 2026, 23:30:15 UTC">31 December 2026, 23:30 UTC</time>, 2`},
		{"fr", shell.TimeIn("fr", shell.ServiceZone(), at),
			"&lt;a&amp;b&gt; le " + element +
				`31 décembre 2026 à 23:30:15 UTC">1er janvier 2027 à 00:30 CET</time>, 2`},
		{"en", "<noon>", "<a&b> at <noon>, 2"},
	} {
		got, err := shell.Wording(texts, c.lang, "x", []any{"a&b", c.at, 2})
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%v %v, want %s", got, err, c.want)
		}
	}
	if faults := untold(
		"<p>2026-12-31T23:30:15Z</p><p>31 December 2026, 23:30 UTC</p><pre>2026-12-31T23:30:15Z</pre>",
	); len(faults) != 2 {
		t.Error(strings.Join(faults, "\n"))
	}
}
