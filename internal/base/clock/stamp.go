package clock

import (
	"fmt"
	"time"
)

// layout is RFC 3339 in UTC with exactly six digits of a second: all that the database keeps, and of one width, so that
// texts sort as their times do.
const layout = "2006-01-02T15:04:05.000000Z"

// Format writes t as every program reads it that gets times from us: API, webhooks, exports, attributes of pages.
func Format(t time.Time) string { return t.UTC().Format(layout) }

// Stamp is a time in JSON, written by [Format]. It is read from any RFC 3339 text.
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
