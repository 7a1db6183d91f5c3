package books

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// checkHour is the hour of the nightly check, UTC.
const checkHour = 2

// CheckEvery is how often to call [Service.ExamineIfDue]. It also limits the duration of one check.
const CheckEvery = time.Hour

// EMoneyThreshold is the amount in cents above which prepaid money in a closed loop must be declared to the supervisor.
// Operators are warned at four fifths of it, for the money outstanding and for the volume of twelve months.
const EMoneyThreshold money.Cents = 100_000_000

// Check is the result of one ledger check.
type Check struct {
	wallet.Figures
	StartedAt time.Time
	Duration  time.Duration // in whole milliseconds
	Findings  []string      // in plain words; empty if the check found nothing
	Complete  bool          // whether everything was checked, not only what came after the last sealed check
}

// NearThreshold reports whether an amount has reached four fifths of [EMoneyThreshold].
func NearThreshold(amount money.Cents) bool { return amount >= EMoneyThreshold/5*4 }

// checkDue reports whether there was no check since the last checkHour; last is zero if there never was one.
func checkDue(last, now time.Time) bool {
	due := time.Date(now.Year(), now.Month(), now.Day(), checkHour, 0, 0, 0, time.UTC)
	if due.After(now) {
		due = due.AddDate(0, 0, -1)
	}
	return last.Before(due)
}

// Verify checks the ledger and the audit entries as of now. It returns about 3000 findings at most, in plain words, and
// none if every invariant of packages wallet, books and audit holds.
func Verify(ctx context.Context, tx postgres.Tx) ([]string, error) {
	return checkEverything(ctx, tx, func(string) {})
}

// part is a part of a check; its name is shown as progress.
type part struct {
	name string
	find func(context.Context, postgres.Tx) ([]string, error)
}

func checkEverything(ctx context.Context, tx postgres.Tx, begin func(part string)) ([]string, error) {
	return runParts(ctx, tx, begin, part{"ledger", wallet.Verify}, part{"consultations and payments", compare},
		part{"evidence", compareEvidence}, part{"audit", audit.Verify})
}

func runParts(ctx context.Context, tx postgres.Tx, begin func(part string),
	parts ...part,
) (findings []string, err error) {
	for i, p := range parts {
		begin(fmt.Sprintf("%d of %d: %s", i+1, len(parts), p.name))
		found, err := p.find(ctx, tx)
		if err != nil {
			return nil, fmt.Errorf("verify the ledger: %s: %w", p.name, err)
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// checkFresh checks what was written after since, and seals the ledger if it is correct.
func checkFresh(ctx context.Context, tx postgres.Tx, since mark) ([]string, error) {
	var moved wallet.Fresh
	return runParts(ctx, tx, func(string) {},
		part{"ledger", func(ctx context.Context, tx postgres.Tx) (_ []string, err error) {
			moved, err = wallet.VerifyFresh(ctx, tx)
			return moved.Findings, err
		}},
		part{"consultations and payments", func(ctx context.Context, tx postgres.Tx) ([]string, error) {
			return compareFresh(ctx, tx, moved, since)
		}},
		part{"evidence", func(ctx context.Context, tx postgres.Tx) ([]string, error) {
			return compareFreshEvidence(ctx, tx, since)
		}},
		part{"audit", audit.Verify})
}

// checkAndSeal checks everything, and seals the ledger if it is correct.
func checkAndSeal(ctx context.Context, tx postgres.Tx, begin func(part string)) ([]string, error) {
	broken, err := wallet.Seal(ctx, tx)
	if err != nil {
		return nil, err
	}
	findings, err := checkEverything(ctx, tx, begin)
	return append(findings, broken...), err
}

// wrong reports whether a finding means that the ledger is wrong. A refund rejected by its provider does not: it waits
// for a person.
func wrong(finding string) bool { return !strings.HasPrefix(finding, "refund ") }

// Service checks the ledger and stores the results.
type Service struct {
	db  *postgres.DB
	log *slog.Logger
}

// New creates the service.
func New(db *postgres.DB, log *slog.Logger) *Service { return &Service{db, log} }

// Examine checks what came after the last sealed check, and stores the result. Of what is sealed it checks only that
// the figures of every wallet follow from it.
func (s *Service) Examine(ctx context.Context) (Check, error) {
	return s.await(ctx, false, func(string) {})
}

// ExamineAll checks everything and stores the result. It calls begin before each part.
func (s *Service) ExamineAll(ctx context.Context, begin func(part string)) (Check, error) {
	return s.await(ctx, true, begin)
}

func (s *Service) await(ctx context.Context, complete bool, begin func(part string)) (c Check, err error) {
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		if err := awaitCheckLock(ctx, tx); err != nil {
			return fmt.Errorf("wait for another ledger check: %w", err)
		}
		c, err = s.examine(ctx, tx, complete, begin)
		return err
	})
	return c, err
}

func (s *Service) examine(ctx context.Context, tx postgres.Tx, complete bool,
	begin func(part string),
) (c Check, err error) {
	since, found, err := lastMark(ctx, tx)
	if err != nil {
		return Check{}, fmt.Errorf("read the last verified position: %w", err)
	}
	c.StartedAt, c.Complete = tx.Now, complete || !found
	reached, err := markNow(ctx, tx)
	if err != nil {
		return Check{}, fmt.Errorf("read the current position: %w", err)
	}
	if err := beginSealing(ctx, tx); err != nil {
		return Check{}, err
	}
	if c.Complete {
		c.Findings, err = checkAndSeal(ctx, tx, begin)
	} else {
		c.Findings, err = checkFresh(ctx, tx, since)
	}
	if err != nil {
		return Check{}, err
	}
	m := &reached
	if slices.ContainsFunc(c.Findings, wrong) {
		m = nil
		if err := undoSealing(ctx, tx); err != nil {
			return Check{}, err
		}
	}
	if c.Figures, err = wallet.ReadFigures(ctx, tx); err != nil {
		return Check{}, err
	}
	c.Duration = clock.Since(s.db.Clock(), tx.Now).Truncate(time.Millisecond)
	if err := insertCheck(ctx, tx, c, m); err != nil {
		return Check{}, fmt.Errorf("store the result: %w", err)
	}
	return c, nil
}

// LastCheck returns the newest result; false if there is none.
func (s *Service) LastCheck(ctx context.Context, tx postgres.Tx) (Check, bool, error) {
	c, found, err := readCheck(ctx, tx)
	if err != nil {
		return Check{}, false, fmt.Errorf("read the last ledger check: %w", err)
	}
	return c, found, nil
}

// ExamineIfDue runs a check if there was none since 02:00 UTC, and logs the result. Of concurrent calls, in any
// process, only one does the work.
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
		made, err := s.examine(ctx, tx, false, func(string) {})
		c = &made
		return err
	})
	if err != nil {
		return fmt.Errorf("check the ledger: %w", err)
	}
	if c != nil {
		s.report(ctx, *c)
	}
	return nil
}

func (s *Service) report(ctx context.Context, c Check) {
	s.log.InfoContext(ctx, "ledger checked", "transactions", c.Transactions, "findings", len(c.Findings),
		"durationMs", c.Duration.Milliseconds(), "outstandingCents", c.Outstanding, "volumeCents", c.Volume,
		"heads", fmt.Sprintf("%x", c.Heads))
	for _, f := range c.Findings {
		s.log.ErrorContext(ctx, "the ledger check found a problem", "finding", f)
	}
	if NearThreshold(c.Outstanding) || NearThreshold(c.Volume) {
		s.log.WarnContext(ctx, "prepaid money is near the declaration threshold", "outstandingCents", c.Outstanding,
			"volumeCents", c.Volume, "thresholdCents", EMoneyThreshold)
	}
}
