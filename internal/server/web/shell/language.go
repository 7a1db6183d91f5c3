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

// Languages of the pages; the first serves visitors who prefer none of them.
var Languages = text.Languages

// LanguageNames are the names of the languages of the pages, by code.
var LanguageNames = map[string]string{"en": "English", "fr": "Français"}

var matcher = language.NewMatcher([]language.Tag{language.English, language.French})

const languageCookie = "lang"

// ChooseLanguage remembers the language that a link asked for.
func (p *Shell) ChooseLanguage(c echo.Context) {
	lang := c.QueryParam("lang")
	if LanguageNames[lang] == "" {
		return
	}
	p.KeepLanguage(c, lang)
}

// KeepLanguage lets the browser's pages have a language from now on.
func (p *Shell) KeepLanguage(c echo.Context, lang string) {
	c.Set(languageCookie, lang)
	c.SetCookie(&http.Cookie{Name: languageCookie, Value: lang, Path: "/", MaxAge: 365 * 24 * 3600,
		Secure: p.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// ChosenLanguage is what this browser was told to show, by a link or at a sign-in; false when nobody chose.
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

// Language is that of the link just followed, else of the cookie, else the one the browser prefers.
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

// LoadTexts reads the texts of all pages; an error means that the program was built wrong.
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

// ServiceZone is where the service is: for instants on pages of clients where the browser says no other.
var ServiceZone = sync.OnceValue(func() *time.Location {
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil { // the zones are in the program, see package account
		return time.UTC
	}
	return zone
})

// FormatDate writes a day and a time in the zone of the service for people.
func FormatDate(lang string, t time.Time) string { return FormatDateIn(lang, ServiceZone(), t) }

// FormatDateIn writes a day and a time in a zone for people.
func FormatDateIn(lang string, zone *time.Location, t time.Time) string {
	return formatWith(lang, t.In(zone), "15:04 MST")
}

// formatWith writes the day of t and its time as layout says, in the zone it has, for people.
func formatWith(lang string, t time.Time, layout string) string {
	if lang != "fr" {
		return formatDay(lang, t) + ", " + t.Format(layout)
	}
	return formatDay(lang, t) + " à " + t.Format(layout)
}

// formatDay writes the day of t, in the zone it has, for people.
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

// FormatCount writes a whole number that is not negative, in groups of three digits.
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

// formatPercent writes a share of 100 with two digits, never rounded up to all.
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
