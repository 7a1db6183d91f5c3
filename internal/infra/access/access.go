package access

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"partnerd/internal/base/poll"
	"partnerd/internal/infra/postgres"
)

// Category is a part of a client's account.
type Category string

// The parts that applications can use.
const (
	Profile       Category = "profile"
	Wallet        Category = "wallet"
	Consultations Category = "consultations"
	Notes         Category = "notes" // note previews
)

// Categories lists all categories in the order in which they are displayed.
var Categories = []Category{Profile, Wallet, Consultations, Notes}

const (
	// Interval is how often counts are written.
	Interval = 5 * time.Second

	retentionMonths = 13
	perStatement    = 1000 // counts
)

// Count is how often an application used a category on a day.
type Count struct {
	ApplicationID string
	Category      Category
	Day           time.Time // start of the day, UTC
	Uses          int64
	LastAt        time.Time
}

type key struct {
	clientID, applicationID string
	category                Category
	day                     int64 // days since 1970
}

type tally struct {
	uses   int64
	lastAt time.Time
}

// Log counts uses. It is safe for concurrent use.
type Log struct {
	db *postgres.DB

	mu      sync.Mutex
	pending map[key]tally
}

// New returns a log. The caller must run [Log.Run] and call [Log.Flush] at the end.
func New(db *postgres.DB) *Log { return &Log{db: db, pending: map[key]tally{}} }

// Count adds one use.
func (l *Log) Count(clientID, applicationID string, c Category, now time.Time) {
	k := key{clientID, applicationID, c, now.Unix() / int64(24*time.Hour/time.Second)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[k] = l.pending[k].plus(tally{1, now})
}

func (t tally) plus(o tally) tally {
	if o.lastAt.After(t.lastAt) {
		t.lastAt = o.lastAt
	}
	t.uses += o.uses
	return t
}

// Run writes the counts every [Interval] until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	for poll.Pause(ctx, Interval) {
		if err := l.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Flush writes what was counted so far. Counts that cannot be written are kept.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	counted := l.pending
	l.pending = make(map[key]tally, len(counted))
	l.mu.Unlock()
	rows := make([]row, 0, len(counted))
	for k, t := range counted {
		rows = append(rows, row{k, t})
	}
	// Every process uses the same order, so that they wait for each other without deadlocks.
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.clientID, b.clientID), cmp.Compare(a.applicationID, b.applicationID),
			cmp.Compare(a.category, b.category), cmp.Compare(a.day, b.day))
	})
	var errs []error
	for some := range slices.Chunk(rows, perStatement) {
		if err := l.db.InTx(ctx, func(tx postgres.Tx) error { return add(ctx, tx, some) }); err != nil {
			errs = append(errs, err)
			l.putBack(some)
		}
	}
	return errors.Join(errs...)
}

func (l *Log) putBack(rows []row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		l.pending[r.key] = l.pending[r.key].plus(r.tally)
	}
}

// Of returns the client's counts since the start of a day, newest day first.
func (l *Log) Of(ctx context.Context, tx postgres.Tx, clientID string, since time.Time) ([]Count, error) {
	return counts(ctx, tx, clientID, since)
}

// Kept returns the start of the oldest day that the log still has at now.
func Kept(now time.Time) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, -retentionMonths, 0)
}

// Erase deletes the log of a client whose profile was erased earlier in tx. tx must hold the client's lock.
func (l *Log) Erase(ctx context.Context, tx postgres.Tx, clientID string) error {
	return deleteOf(ctx, tx, clientID)
}

// Purge deletes days older than 13 months.
func (l *Log) Purge(ctx context.Context) (int, error) {
	tx := l.db.Read()
	return deleteBefore(ctx, tx, Kept(tx.Now))
}
