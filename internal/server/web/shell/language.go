package shell

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"partnerd/internal/base/text"
	"partnerd/internal/server/web/forms"
)

// Languages of the pages. The first one serves visitors who prefer none of them.
var Languages = text.Languages

// LanguageNames maps the code of a language to its name in that language.
var LanguageNames = map[string]string{"en": "English", "fr": "Français"}

var matcher = language.NewMatcher([]language.Tag{language.English, language.French})

const languageCookie = "lang"

// ChooseLanguage stores the language that a link requested.
func (p *Shell) ChooseLanguage(c echo.Context) {
	lang := c.QueryParam("lang")
	if LanguageNames[lang] == "" {
		return
	}
	p.KeepLanguage(c, lang)
}

// KeepLanguage stores a language for this browser's pages.
func (p *Shell) KeepLanguage(c echo.Context, lang string) {
	c.Set(languageCookie, lang)
	c.SetCookie(&http.Cookie{Name: languageCookie, Value: lang, Path: "/", MaxAge: 365 * 24 * 3600,
		Secure: p.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// ChosenLanguage returns the language chosen for this browser by a link or at a sign-in. It returns false if none was
// chosen.
func (p *Shell) ChosenLanguage(c echo.Context) (lang string, ok bool) {
	if lang, ok := c.Get(languageCookie).(string); ok {
		return lang, true
	}
	k, err := c.Cookie(languageCookie)
	if err != nil || LanguageNames[k.Value] == "" {
		return "", false
	}
	return k.Value, true
}

// Language returns the language of the current link, else that of the cookie, else the one the browser prefers.
func (p *Shell) Language(c echo.Context) string {
	if lang, ok := p.ChosenLanguage(c); ok {
		return lang
	}
	tags, _, err := language.ParseAcceptLanguage(c.Request().Header.Get("Accept-Language"))
	if err != nil {
		return Languages[0]
	}
	_, i, _ := matcher.Match(tags...)
	return Languages[i]
}

// LoadTexts reads the texts of all pages. An error means that the program was built incorrectly.
func LoadTexts() (text.Catalogue, error) {
	all := text.Catalogue{}
	for _, name := range []string{"texts.json", "texts_account.json", "texts_staff.json", "texts_desk.json",
		"texts_ops.json", "texts_developers.json", "texts_rules.json"} {
		b, err := Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read texts: %w", err)
		}
		part, err := text.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for key, wordings := range part {
			if all[key] != nil {
				return nil, fmt.Errorf("%s repeats %s", name, key)
			}
			all[key] = wordings
		}
	}
	return all, nil
}

var monthNames = [...]string{"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
	"octobre", "novembre", "décembre"}

func formatMonth(lang string, t time.Time) string {
	if lang != "fr" {
		return t.Format("January 2006")
	}
	return fmt.Sprint(monthNames[t.Month()-1], " ", t.Year())
}

// ServiceZone is the time zone of the service. Client pages use it unless the browser knows a better one.
var ServiceZone = sync.OnceValue(func() *time.Location {
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil { // the zones are embedded in the program, see package account
		return time.UTC
	}
	return zone
})

// FormatDate formats a day and time for people, in the zone of the service.
func FormatDate(lang string, t time.Time) string { return FormatDateIn(lang, ServiceZone(), t) }

// FormatDateIn formats a day and time for people, in a given zone.
func FormatDateIn(lang string, zone *time.Location, t time.Time) string {
	return formatWith(lang, t.In(zone), "15:04 MST")
}

// formatWith formats the day of t for people, and its time in the given layout. It keeps the zone of t.
func formatWith(lang string, t time.Time, layout string) string {
	if lang != "fr" {
		return formatDay(lang, t) + ", " + t.Format(layout)
	}
	return formatDay(lang, t) + " à " + t.Format(layout)
}

// formatDay formats the day of t for people. It keeps the zone of t.
func formatDay(lang string, t time.Time) string {
	if lang != "fr" {
		return t.Format("2 January 2006")
	}
	day := fmt.Sprint(t.Day())
	if t.Day() == 1 {
		day = "1er"
	}
	return fmt.Sprintf("%s %s %d", day, monthNames[t.Month()-1], t.Year())
}

// FormatCount formats a non-negative whole number in groups of three digits.
func FormatCount(lang string, n int64) string {
	digits, group := strconv.FormatInt(n, 10), ","
	if lang == "fr" {
		group = "\u202f"
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + group + digits[at:]
	}
	return digits
}

// formatPercent formats a percentage with two decimals. It never rounds up to 100.
func formatPercent(lang string, p float64) string {
	text := strconv.FormatFloat(math.Floor(p*100)/100, 'f', 2, 64)
	if lang == "fr" {
		return strings.Replace(text, ".", ",", 1) + "\u00a0%"
	}
	return text + "%"
}

// LanguageField asks for a language.
func LanguageField(lang string) forms.Field {
	f := forms.Field{Name: "tongue", Label: "ops.field.tongue", Type: "select", Of: "language"}
	for _, l := range text.Languages {
		f.Options = append(f.Options, forms.Option{Value: l, Text: LanguageNames[l], Chosen: l == lang})
	}
	return f
}
