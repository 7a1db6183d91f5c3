package clock

import (
	"fmt"
	"time"
)

// layout is RFC 3339 in UTC with microseconds, the precision of the database. All texts have the same width, so they
// sort in order of time.
const layout = "2006-01-02T15:04:05.000000Z"

// Format formats t for all programs that receive times from us: API, webhooks, exports, attributes of pages.
func Format(t time.Time) string { return t.UTC().Format(layout) }

// Stamp is a time in JSON, formatted by [Format]. It can be parsed from any RFC 3339 text.
type Stamp time.Time

// MarshalJSON implements json.Marshaler.
func (s Stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("write time: year %d has no four digits", y)
	}
	return append(t.AppendFormat(append(make([]byte, 0, len(layout)+2), '"'), layout), '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Stamp) UnmarshalJSON(raw []byte) error { return (*time.Time)(s).UnmarshalJSON(raw) }
