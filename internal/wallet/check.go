package wallet

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"partnerd/internal/audit"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

const (
	checkHour = 2 // UTC: the hour of the nightly examination of the books
	checkPoll = time.Minute
)

// EMoneyThreshold is the amount in cents above which a closed loop of prepaid money has to be declared to the
// supervisor. Operators are warned at four fifths of it, of the money outstanding and of twelve months' volume.
const EMoneyThreshold money.Cents = 100_000_000

// Check is the result of one examination of the books.
type Check struct {
	StartedAt    time.Time
	Duration     time.Duration // to the millisecond
	Transactions int64         // in the ledger
	Outstanding  money.Cents   // what clients have in their wallets
	Volume       money.Cents   // topped up within twelve months
	Heads        []byte        // digest over the newest hash of every wallet: kept elsewhere, it seals the books
	Findings     []string      // in plain words; empty when the books agree
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
// some 1000 findings; none when every invariant of the package holds and every hold fits its consultation.
func (s *Service) Verify(ctx context.Context, tx postgres.Tx) ([]string, error) {
	findings, err := verifyBooks(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("verify the books: %w", err)
	}
	entries, err := audit.Verify(ctx, tx)
	return append(findings, entries...), err
}

// Examine verifies the books and keeps the result.
func (s *Service) Examine(ctx context.Context, db *postgres.DB) (c Check, err error) {
	err = db.InTx(ctx, func(tx postgres.Tx) error {
		c, err = s.examine(ctx, tx, db)
		return err
	})
	return c, err
}

func (s *Service) examine(ctx context.Context, tx postgres.Tx, db *postgres.DB) (Check, error) {
	c := Check{StartedAt: tx.Now}
	var err error
	if c.Findings, err = s.Verify(ctx, tx); err != nil {
		return Check{}, err
	}
	if err := readFigures(ctx, tx, &c); err != nil {
		return Check{}, fmt.Errorf("read figures: %w", err)
	}
	c.Duration = max(0, db.Clock().Now().Sub(tx.Now)).Truncate(time.Millisecond)
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

// RunChecks examines the books once a night (and at once where they never were) until ctx ends, then returns nil. Of
// all processes that run it one does the work.
func (s *Service) RunChecks(ctx context.Context, db *postgres.DB, log *slog.Logger) error {
	poll := time.NewTicker(checkPoll)
	defer poll.Stop()
	for {
		if err := s.checkIfDue(ctx, db, log); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
}

func (s *Service) checkIfDue(ctx context.Context, db *postgres.DB, log *slog.Logger) error {
	last, _, err := s.LastCheck(ctx, db.Read())
	if err != nil || !checkDue(last.StartedAt, db.Clock().Now().UTC()) {
		return err
	}
	var c Check
	var ran bool
	err = db.InTx(ctx, func(tx postgres.Tx) error {
		ran = false
		if mine, err := tryCheckLock(ctx, tx); err != nil || !mine {
			return err
		}
		last, _, err := s.LastCheck(ctx, tx)
		if err != nil || !checkDue(last.StartedAt, tx.Now) {
			return err
		}
		c, err = s.examine(ctx, tx, db)
		ran = err == nil
		return err
	})
	if err != nil {
		return fmt.Errorf("examine the books: %w", err)
	}
	if ran {
		report(ctx, log, c)
	}
	return nil
}

func report(ctx context.Context, log *slog.Logger, c Check) {
	log.InfoContext(ctx, "books examined", "transactions", c.Transactions, "findings", len(c.Findings), "durationMs", c.Duration.Milliseconds(),
		"outstandingCents", c.Outstanding, "volumeCents", c.Volume, "heads", fmt.Sprintf("%x", c.Heads))
	for _, f := range c.Findings {
		log.ErrorContext(ctx, "the books are wrong", "finding", f)
	}
	if NearThreshold(c.Outstanding) || NearThreshold(c.Volume) {
		log.WarnContext(ctx, "prepaid money is near the threshold of declaration", "outstandingCents", c.Outstanding, "volumeCents", c.Volume,
			"thresholdCents", EMoneyThreshold)
	}
}
