package lawyer

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

// Registration is a lawyer's registration at a bar, and how long our check of it is valid.
type Registration struct {
	Bar, Number  string    // empty if not recorded
	CheckedUntil time.Time // zero if never checked
	OtherBar     bool      // the bar is not one of [Bars], as the person who checked confirms
}

// Checked reports whether the check is valid at now.
func (r Registration) Checked(now time.Time) bool { return now.Before(r.CheckedUntil) }

// LastDay returns the last day on which the check is valid, at midnight UTC.
func (r Registration) LastDay() time.Time {
	return r.CheckedUntil.Add(-time.Nanosecond).UTC().Truncate(24 * time.Hour)
}

const (
	maxBar       = 100                  // code points of a bar's name
	LongestCheck = 400 * 24 * time.Hour // longest validity of a check
)

// ErrUnchecked is returned when a lawyer goes on duty without the required check ([Service.OnlyChecked]).
var ErrUnchecked = errors.New("the lawyer's bar registration is not checked, or its check has expired")

// Errors of [Service.SetRegistration].
var (
	ErrUnknownBar = errors.New("no bar with this name is known")
	ErrBarTaken   = errors.New("this number at this bar belongs to another lawyer")
	ErrBarNumber  = errors.New("a bar registration number has up to 20 letters, digits, spaces, dots, slashes and hyphens")
)

var barNumber = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z ./-]{0,19}$`)

// OnlyChecked lets lawyers go on duty only while the check of their bar registration is valid. Call it once, before any
// other method.
func (s *Service) OnlyChecked() { s.onlyChecked = true }

var ruleChecked = problem.DeclareRule("checked", problem.IssueInvalidValue,
	"Must be a future date, at most %d days from now.")

// SetRegistration records a lawyer's bar registration and how long the check is valid: from now, for at most
// [LongestCheck]. A known bar is stored with its name in [Bars]. A lawyer who is on duty stays on duty. It returns
// [ErrInvalid], [ErrUnknownBar], [ErrBarNumber], [ErrBarTaken] or [ErrNotFound].
func (s *Service) SetRegistration(ctx context.Context, tx postgres.Tx, lawyerID string, r Registration) error {
	r.Bar, r.Number = strings.TrimSpace(r.Bar), strings.TrimSpace(r.Number)
	issues := problem.Line("bar", r.Bar, maxBar, text.InName)
	if !r.Checked(tx.Now) || r.CheckedUntil.Sub(tx.Now) > LongestCheck {
		issues = append(issues, ruleChecked.At("until", int(LongestCheck.Hours()/24)))
	}
	if issues != nil {
		return problem.Refuse(ErrInvalid, issues...)
	}
	if !barNumber.MatchString(r.Number) {
		return ErrBarNumber
	}
	if known, ok := barByKey[barKey(r.Bar)]; ok {
		r.Bar = known
	} else if !r.OtherBar {
		return ErrUnknownBar
	}
	s.Changed(tx, lawyerID)
	err := write(ctx, tx, lawyerID, lawyerRow{Bar: r.Bar, BarNumber: r.Number,
		BarKey: barKey(r.Bar) + "/" + barKey(r.Number), BarCheckedUntil: &r.CheckedUntil},
		"bar", "bar_number", "bar_key", "bar_checked_until")
	if postgres.IsUnique(err, "lawyers_bar_key") {
		return ErrBarTaken
	}
	return err
}

// Registration returns a lawyer's bar registration, or [ErrNotFound].
func (s *Service) Registration(ctx context.Context, tx postgres.Tx, lawyerID string) (Registration, error) {
	return registration(ctx, tx, lawyerID)
}

// SameNumber returns another lawyer with the same number at any bar, or false if there is none.
func (s *Service) SameNumber(ctx context.Context, tx postgres.Tx,
	lawyerID, number string,
) (name, bar string, found bool, err error) {
	if number == "" {
		return "", "", false, nil
	}
	return sameNumber(ctx, tx, lawyerID, number)
}
