package books

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"partnerd/internal/audit"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
	"partnerd/internal/wallet"
)

// checkHour is the hour of the nightly examination, UTC.
const checkHour = 2

// CheckEvery is how often to call [Service.ExamineIfDue]. It is also how long one examination may take.
const CheckEvery = time.Hour

// EMoneyThreshold is the amount in cents above which a closed loop of prepaid money has to be declared to the
// supervisor. Operators are warned at four fifths of it, of the money outstanding and of twelve months' volume.
const EMoneyThreshold money.Cents = 100_000_000

// Check is the result of one examination of the books.
type Check struct {
	wallet.Figures
	StartedAt time.Time
	Duration  time.Duration // to the millisecond
	Findings  []string      // in plain words; empty when the books agree
}

// NearThreshold tells whether an amount has reached four fifths of [EMoneyThreshold].
func NearThreshold(amount money.Cents) bool { return amount >= EMoneyThreshold/5*4 }

// checkDue tells whether the books have not been examined since the last checkHour; last is zero when never.
func checkDue(last, now time.Time) bool {
	due := time.Date(now.Year(), now.Month(), now.Day(), checkHour, 0, 0, 0, time.UTC)
	if due.After(now) {
		due = due.AddDate(0, 0, -1)
	}
	return last.Before(due)
}

// Verify examines the books and the audit entries as of now and says in plain words what is wrong with them, at most
// some 3000 findings; none when every invariant of the packages wallet, books and audit holds.
func Verify(ctx context.Context, tx postgres.Tx) ([]string, error) {
	findings, err := wallet.Verify(ctx, tx)
	if err != nil {
		return nil, err
	}
	between, err := compare(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("verify the books: %w", err)
	}
	evidence, err := compareEvidence(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("verify the evidence: %w", err)
	}
	entries, err := audit.Verify(ctx, tx)
	return slices.Concat(findings, between, evidence, entries), err
}

// Service examines the books and keeps the results.
type Service struct {
	db  *postgres.DB
	log *slog.Logger
}

// New makes the service.
func New(db *postgres.DB, log *slog.Logger) *Service { return &Service{db, log} }

// Examine verifies the books and keeps the result.
func (s *Service) Examine(ctx context.Context) (c Check, err error) {
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		c, err = s.examine(ctx, tx)
		return err
	})
	return c, err
}

func (s *Service) examine(ctx context.Context, tx postgres.Tx) (c Check, err error) {
	c.StartedAt = tx.Now
	if c.Findings, err = Verify(ctx, tx); err != nil {
		return Check{}, err
	}
	if c.Figures, err = wallet.ReadFigures(ctx, tx); err != nil {
		return Check{}, err
	}
	c.Duration = max(0, s.db.Clock().Now().Sub(tx.Now)).Truncate(time.Millisecond)
	if err := insertCheck(ctx, tx, c); err != nil {
		return Check{}, fmt.Errorf("keep the result: %w", err)
	}
	return c, nil
}

// LastCheck returns the newest result; false when the books were never examined.
func (s *Service) LastCheck(ctx context.Context, tx postgres.Tx) (Check, bool, error) {
	c, found, err := readCheck(ctx, tx)
	if err != nil {
		return Check{}, false, fmt.Errorf("read the last examination: %w", err)
	}
	return c, found, nil
}

// ExamineIfDue examines the books when they were not examined since two o'clock at night (UTC), and logs the result. Of
// all that call it at once, in any process, one does the work.
func (s *Service) ExamineIfDue(ctx context.Context) error {
	last, _, err := s.LastCheck(ctx, s.db.Read())
	if err != nil || !checkDue(last.StartedAt, s.db.Clock().Now().UTC()) {
		return err
	}
	var c *Check
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		c = nil
		if mine, err := tryCheckLock(ctx, tx); err != nil || !mine {
			return err
		}
		last, _, err := s.LastCheck(ctx, tx)
		if err != nil || !checkDue(last.StartedAt, tx.Now) {
			return err
		}
		made, err := s.examine(ctx, tx)
		c = &made
		return err
	})
	if err != nil {
		return fmt.Errorf("examine the books: %w", err)
	}
	if c != nil {
		s.report(ctx, *c)
	}
	return nil
}

func (s *Service) report(ctx context.Context, c Check) {
	s.log.InfoContext(ctx, "books examined", "transactions", c.Transactions, "findings", len(c.Findings), "durationMs", c.Duration.Milliseconds(),
		"outstandingCents", c.Outstanding, "volumeCents", c.Volume, "heads", fmt.Sprintf("%x", c.Heads))
	for _, f := range c.Findings {
		s.log.ErrorContext(ctx, "the books are wrong", "finding", f)
	}
	if NearThreshold(c.Outstanding) || NearThreshold(c.Volume) {
		s.log.WarnContext(ctx, "prepaid money is near the threshold of declaration", "outstandingCents", c.Outstanding, "volumeCents", c.Volume,
			"thresholdCents", EMoneyThreshold)
	}
}
