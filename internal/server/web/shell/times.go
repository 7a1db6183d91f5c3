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

// Pages of clients show instants in the zone of the service, those of staff and partners in UTC, the desk in the
// lawyer's zone. Each names its zone, is a time element, and says the instant in UTC on hover.

// zoneOf is the zone of instants on a page that clients and staff share, by its path.
func zoneOf(path string) *time.Location {
	if strings.HasPrefix(path, "/staff/") {
		return time.UTC
	}
	return ServiceZone()
}

// TimeIn is an instant on a page, in a zone.
func TimeIn(lang string, zone *time.Location, t time.Time) template.HTML {
	return timeAs(lang, t, FormatDateIn(lang, zone, t))
}

// timeAs is an instant on a page that shows it as words.
func timeAs(lang string, t time.Time, words string) template.HTML {
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, //nolint:gosec // escaped
		clock.Format(t), formatExact(lang, t), template.HTMLEscapeString(words)))
}

// formatExact writes an instant to the second, in UTC.
func formatExact(lang string, t time.Time) string { return formatWith(lang, t.UTC(), "15:04:05 MST") }

// Wording is a text with its arguments put in; HTML when one of them is an instant.
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
