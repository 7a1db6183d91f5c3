package web

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
)

// languages of the pages; the first serves visitors who prefer none of them.
var languages = text.Languages

var languageNames = map[string]string{"en": "English", "fr": "Français"}

var matcher = language.NewMatcher([]language.Tag{language.English, language.French})

const languageCookie = "lang"

// chooseLanguage remembers the language that a link asked for.
func (p *Pages) chooseLanguage(c echo.Context) {
	lang := c.QueryParam("lang")
	if languageNames[lang] == "" {
		return
	}
	p.keepLanguage(c, lang)
}

// keepLanguage lets the browser's pages have a language from now on.
func (p *Pages) keepLanguage(c echo.Context, lang string) {
	c.Set(languageCookie, lang)
	c.SetCookie(&http.Cookie{Name: languageCookie, Value: lang, Path: "/", MaxAge: 365 * 24 * 3600,
		Secure: p.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// chosenLanguage is what this browser was told to show, by a link or at a sign-in; false when nobody chose.
func (p *Pages) chosenLanguage(c echo.Context) (lang string, ok bool) {
	if lang, ok := c.Get(languageCookie).(string); ok {
		return lang, true
	}
	k, err := c.Cookie(languageCookie)
	if err != nil || languageNames[k.Value] == "" {
		return "", false
	}
	return k.Value, true
}

// language is that of the link just followed, else of the cookie, else the one the browser prefers.
func (p *Pages) language(c echo.Context) string {
	if lang, ok := p.chosenLanguage(c); ok {
		return lang
	}
	tags, _, err := language.ParseAcceptLanguage(c.Request().Header.Get("Accept-Language"))
	if err != nil {
		return languages[0]
	}
	_, i, _ := matcher.Match(tags...)
	return languages[i]
}

func loadTexts() (text.Catalogue, error) {
	all := text.Catalogue{}
	for _, name := range []string{"texts.json", "texts_account.json", "texts_staff.json", "texts_desk.json",
		"texts_ops.json", "texts_developers.json", "texts_rules.json"} {
		b, err := files.ReadFile(name)
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

// serviceZone is where the service is: for instants on pages of clients where the browser says no other.
var serviceZone = sync.OnceValue(func() *time.Location {
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil { // the zones are in the program, see package account
		return time.UTC
	}
	return zone
})

// formatDate writes a day and a time in the zone of the service for people.
func formatDate(lang string, t time.Time) string { return formatDateIn(lang, serviceZone(), t) }

func formatDateIn(lang string, zone *time.Location, t time.Time) string {
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

// formatCount writes a whole number that is not negative, in groups of three digits.
func formatCount(lang string, n int64) string {
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
