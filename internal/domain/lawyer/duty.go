package lawyer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// Hours is a period of a weekday in which a lawyer works every week, in their time zone.
type Hours struct {
	Weekday     time.Weekday
	From, Until int // minutes of the day, 0 to 1440; Until is exclusive
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // indexed by [time.Weekday]

// String formats h as [ParseHours] reads it.
func (h Hours) String() string {
	return fmt.Sprintf("%s %02d:%02d-%02d:%02d", weekdays[h.Weekday], h.From/60, h.From%60, h.Until/60, h.Until%60)
}

// Reasons to reject hours of duty.
var (
	ruleHours = problem.DeclareRule("hours", problem.IssueInvalidValue,
		`"%s" is not in the form mon-fri 09:00-12:30.`)
	ruleDay = problem.DeclareRule("hours.day", problem.IssueInvalidValue,
		`"%s" must end after it starts, on the same day.`)
	ruleOverlap = problem.DeclareRule("hours.overlap", problem.IssueInvalidValue,
		`"%s" overlaps other hours on the same day.`)
	ruleMany = problem.DeclareRule("hours.many", problem.IssueTooLong,
		"Has %d periods; at most %d per week are allowed.")
)

func refuseHours(why *problem.Rule, args ...any) error {
	return problem.Refuse(ErrInvalid, why.At("hours", args...))
}

// ParseHours parses a period on one weekday or on each day of a range, such as "mon-fri 09:00-12:30". A range may pass
// Sunday. It returns [ErrInvalid]. [Service.SetDuty] checks whether a period lies within its day.
func ParseHours(s string) (hours []Hours, err error) {
	days, times, ok := strings.Cut(strings.TrimSpace(s), " ")
	from, until, ok2 := strings.Cut(strings.TrimSpace(times), "-")
	var h Hours
	var ok3, ok4 bool
	h.From, ok3 = minuteOfDay(from)
	h.Until, ok4 = minuteOfDay(until)
	if !ok || !ok2 || !ok3 || !ok4 {
		return nil, refuseHours(ruleHours, problem.Shown(strings.TrimSpace(s)))
	}
	first, last, ranged := strings.Cut(days, "-")
	if !ranged {
		last = first
	}
	day, end := slices.Index(weekdays, strings.ToLower(first)), slices.Index(weekdays, strings.ToLower(last))
	if day < 0 || end < 0 {
		return nil, refuseHours(ruleHours, problem.Shown(strings.TrimSpace(s)))
	}
	for {
		h.Weekday = time.Weekday(day)
		hours = append(hours, h)
		if day == end {
			return hours, nil
		}
		day = (day + 1) % 7
	}
}

// minuteOfDay parses a time from 00:00 to 24:00.
func minuteOfDay(s string) (minutes int, ok bool) {
	h, m, _ := strings.Cut(s, ":")
	hour, err := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	if err != nil || err2 != nil || len(m) != 2 || minute > 59 || hour*60+minute > 24*60 {
		return 0, false
	}
	return int(hour*60 + minute), true
}

// Duty says when a lawyer may be woken. It does not restrict work: a lawyer can sign on at any time.
type Duty struct {
	TimeZone string  // IANA name; [DefaultTimeZone] for a new lawyer
	Hours    []Hours // of the week, from Monday; if empty, the lawyer is woken only on call
	OnCall   bool    // may also be woken outside the hours, for callbacks due soon
}

// DefaultTimeZone is the time zone of a lawyer for whom none was set.
const DefaultTimeZone = "Europe/Paris"

const maxHours = 28 // periods per week

// SetDuty replaces when a lawyer may be woken. It returns [ErrInvalid] for an unknown zone and for hours that are
// malformed, too many or overlapping, or [ErrNotFound].
func (s *Service) SetDuty(ctx context.Context, tx postgres.Tx, lawyerID string, d Duty) error {
	hours, err := d.checked()
	if err != nil {
		return err
	}
	known, err := zoneIsKnown(ctx, tx, d.TimeZone)
	if err != nil {
		return err
	}
	if !known {
		return refuseZone(d.TimeZone)
	}
	// of two concurrent calls the second replaces what the first wrote
	if _, err := get(ctx, tx, lawyerID, lockLawyer); err != nil {
		return err
	}
	s.Changed(tx, lawyerID)
	if err := write(ctx, tx, lawyerID, lawyerRow{TimeZone: d.TimeZone, OnCall: d.OnCall}, "time_zone",
		"on_call"); err != nil {
		return err
	}
	return replaceHours(ctx, tx, lawyerID, hours)
}

// Duty returns when a lawyer may be woken, or [ErrNotFound].
func (s *Service) Duty(ctx context.Context, tx postgres.Tx, lawyerID string) (Duty, error) {
	return duty(ctx, tx, lawyerID)
}

func refuseZone(zone string) error {
	if zone == "" {
		return problem.Refuse(ErrInvalid, problem.RuleRequired.At("zone"))
	}
	return problem.Refuse(ErrInvalid, problem.RuleZone.At("zone", problem.Shown(zone)))
}

// checked validates d and returns its hours in the order of the week.
func (d Duty) checked() ([]Hours, error) {
	if _, err := time.LoadLocation(d.TimeZone); err != nil || d.TimeZone == "" || d.TimeZone == "Local" {
		return nil, refuseZone(d.TimeZone)
	}
	if len(d.Hours) > maxHours {
		return nil, refuseHours(ruleMany, len(d.Hours), maxHours)
	}
	hours := slices.SortedFunc(slices.Values(d.Hours), func(a, b Hours) int {
		return cmp.Or(cmp.Compare(isoDay(a.Weekday), isoDay(b.Weekday)), cmp.Compare(a.From, b.From))
	})
	for i, h := range hours {
		if h.Weekday < time.Sunday || h.Weekday > time.Saturday {
			return nil, refuseHours(ruleHours, strconv.Itoa(int(h.Weekday)))
		}
		if h.From < 0 || h.Until > 24*60 || h.From >= h.Until {
			return nil, refuseHours(ruleDay, h.String())
		}
		if i > 0 && hours[i-1].Weekday == h.Weekday && hours[i-1].Until > h.From {
			return nil, refuseHours(ruleOverlap, h.String())
		}
	}
	return hours, nil
}

// isoDay returns the number of a weekday from Monday, 1, to Sunday, 7, as in the database.
func isoDay(d time.Weekday) int { return (int(d)+6)%7 + 1 }
