package shell

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/text"
)

// Client pages show times in the zone of the service, pages of staff and partners in UTC, and the desk in the lawyer's
// zone. Each time names its zone, is a time element, and shows UTC on hover.

// zoneOf returns the time zone of a page that clients and staff share, by its path.
func zoneOf(path string) *time.Location {
	if strings.HasPrefix(path, "/staff/") {
		return time.UTC
	}
	return ServiceZone()
}

// TimeIn shows a time in a zone.
func TimeIn(lang string, zone *time.Location, t time.Time) template.HTML {
	return timeAs(lang, t, FormatDateIn(lang, zone, t))
}

// timeAs shows a time in the given words.
func timeAs(lang string, t time.Time, words string) template.HTML {
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, //nolint:gosec // escaped
		clock.Format(t), formatExact(lang, t), template.HTMLEscapeString(words)))
}

// formatExact formats a time to the second, in UTC.
func formatExact(lang string, t time.Time) string { return formatWith(lang, t.UTC(), "15:04:05 MST") }

// Wording returns a text with its arguments. It is HTML if one of them is a time.
func Wording(texts text.Catalogue, lang, key string, args []any) (any, error) {
	isHTML := func(arg any) bool {
		switch arg.(type) {
		case time.Time, template.HTML:
			return true
		}
		return false
	}
	if !slices.ContainsFunc(args, isHTML) {
		return texts.Get(lang, key, args...)
	}
	parts := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case time.Time:
			parts[i] = TimeIn(lang, time.UTC, arg)
		case string:
			parts[i] = template.HTMLEscapeString(arg)
		default:
			parts[i] = arg
		}
	}
	format, err := texts.Get(lang, key)
	return template.HTML(fmt.Sprintf(template.HTMLEscapeString(format), parts...)), err //nolint:gosec // escaped
}
