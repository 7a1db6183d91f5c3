package lawyer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"partnerd/internal/postgres"
)

// Registration is where a lawyer is entered, and until when somebody here has checked that.
type Registration struct {
	Bar, Number  string    // empty when nobody has said
	CheckedUntil time.Time // zero when it was never checked
}

// Checked tells whether the check counts at now.
func (r Registration) Checked(now time.Time) bool { return now.Before(r.CheckedUntil) }

const (
	maxBar       = 100                  // code points of a bar's name, and of a number
	LongestCheck = 400 * 24 * time.Hour // for which an entry counts as checked
)

// ErrUnchecked refuses duty where only checked lawyers may work ([Service.OnlyChecked]).
var ErrUnchecked = errors.New("the lawyer's entry at the bar is not checked, or was too long ago")

// OnlyChecked has lawyers go on duty only while their entry at the bar is checked. It is set once, before anything happens.
func (s *Service) OnlyChecked() { s.onlyChecked = true }

// SetRegistration records where a lawyer is entered and until when the check counts: from now on, and at most for [LongestCheck].
// Who is on duty stays there. It returns [ErrInvalid] or [ErrNotFound].
func (s *Service) SetRegistration(ctx context.Context, tx postgres.Tx, lawyerID string, r Registration) error {
	r.Bar, r.Number = strings.TrimSpace(r.Bar), strings.TrimSpace(r.Number)
	switch {
	case !fits(r.Bar) || !fits(r.Number):
		return fmt.Errorf("%w: the bar and the number there have 1 to %d printable characters", ErrInvalid, maxBar)
	case !r.Checked(tx.Now) || r.CheckedUntil.Sub(tx.Now) > LongestCheck:
		return fmt.Errorf("%w: a check counts until a day to come, %d days at most", ErrInvalid, int(LongestCheck.Hours()/24))
	}
	s.Changed(tx, lawyerID)
	return write(ctx, tx, lawyerID, lawyerRow{Bar: r.Bar, BarNumber: r.Number, BarCheckedUntil: &r.CheckedUntil}, "bar", "bar_number", "bar_checked_until")
}

// Registration returns where a lawyer is entered, or [ErrNotFound].
func (s *Service) Registration(ctx context.Context, tx postgres.Tx, lawyerID string) (Registration, error) {
	return registration(ctx, tx, lawyerID)
}

func fits(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxBar && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
