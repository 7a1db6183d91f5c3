package restore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/poll"
	"partnerd/internal/infra/postgres"
)

const (
	markEvery = time.Second
	markKept  = 30 * 24 * time.Hour // of a process that ended
)

// Witness notices that the database lacks what it acknowledged: after a failover to a standby that missed commits, a
// restore, a snapshot. It counts a row of its process up each second and remembers the count that was acknowledged,
// also in a file outside the database, so that the next process finds it. A commit that was acknowledged is on every
// standby that commits wait for, so a switch that loses nothing is silent. A loss that falls between two counts of
// every process is not noticed.
type Witness struct {
	db   *postgres.DB
	dir  string // of the marks of all processes that share the data folder
	log  *slog.Logger
	last Mark

	readOnly bool // the folder; said once
	noticed  atomic.Int64
}

// Mark is how far a process saw the database come.
type Mark struct {
	Database time.Time `json:"database"` // since when that keeps marks: another one's say nothing of it
	Process  string    `json:"process"`
	Count    int64     `json:"count"`
	At       time.Time `json:"at"`
}

// Loss is what a process found missing: what was written between two instants, at least.
type Loss struct {
	Process string    `json:"process"`
	Count   int64     `json:"count"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
}

// NewWitness makes the witness of a process; dir is for files that outlive it and the database.
func NewWitness(db *postgres.DB, dir string, log *slog.Logger) *Witness {
	return &Witness{db: db, dir: dir, log: log, last: Mark{Process: rand.Text()}}
}

// Begin compares the database with what earlier processes of this folder have seen. It refuses one that lacks more than
// a failover loses: that is a restore, and who is to be called, erased or paid must be settled before.
func (w *Witness) Begin(ctx context.Context) error {
	files, _ := filepath.Glob(filepath.Join(w.dir, "*.json"))
	var unsettled error
	for _, file := range files {
		seen, err := readFile(file)
		if err != nil {
			w.log.Warn("a mark of the database cannot be read", "file", file, "error", err)
			continue
		}
		loss, err := w.compare(ctx, seen)
		switch {
		case err != nil:
			return err
		case loss == nil:
			_ = os.Remove(file) // a process that lives writes it again
		case loss.Until.Sub(loss.From) > overlap:
			unsettled = fmt.Errorf("%w (it lacks what was written between %s and %s)",
				ErrUnsettled, clock.Format(loss.From), clock.Format(loss.Until))
		}
	}
	if unsettled != nil {
		return unsettled
	}
	return dropMarks(ctx, w.db.Read(), w.db.Clock().Now().Add(-markKept))
}

// compare records what the database lacks of a mark, and says so; nil when it lacks nothing, or that was settled.
func (w *Witness) compare(ctx context.Context, seen Mark) (lost *Loss, err error) {
	err = w.db.InTx(ctx, func(tx postgres.Tx) error {
		if lost, err = missing(ctx, tx, seen); err != nil || lost == nil {
			return err
		}
		return recordLoss(ctx, tx, *lost)
	})
	if err != nil || lost == nil {
		return nil, err
	}
	w.tell(*lost)
	return lost, nil
}

// missing is what the database lacks of a mark; nil for nothing, and for what was settled since.
func missing(ctx context.Context, tx postgres.Tx, seen Mark) (*Loss, error) {
	since, err := markedSince(ctx, tx)
	if err != nil || !seen.Database.Equal(since) || seen.At.Before(tx.Now.Add(-markKept)) {
		return nil, err
	}
	known, err := readMarkOf(ctx, tx, seen.Process)
	if err != nil || known.Count >= seen.Count {
		return nil, err
	}
	settledAt, err := lastSettled(ctx, tx)
	if err != nil || !seen.At.After(settledAt) {
		return nil, err
	}
	l := &Loss{Process: seen.Process, Count: seen.Count, From: known.At, Until: seen.At}
	if known.Count == 0 {
		l.From, err = newestMark(ctx, tx, seen.At)
	}
	return l, err
}

func (w *Witness) tell(l Loss) {
	w.noticed.Add(1)
	w.log.Error("the database went back: it lacks what was written and acknowledged, such as consultations and their "+
		"events. Run partnerd restored, "+
		"see DatabaseWentBack in .deploy/runbook.md", "lostFrom", clock.Format(l.From),
		"lostUntil", clock.Format(l.Until), "process", l.Process, "count", l.Count)
}

// Run counts until ctx ends.
func (w *Witness) Run(ctx context.Context) error {
	for {
		counting, cancel := context.WithTimeout(ctx, postgres.LostWithin)
		err := w.count(counting)
		cancel()
		if err != nil && !postgres.IsUnavailable(err) && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return err
		}
		if !poll.Pause(ctx, markEvery) {
			return nil
		}
	}
}

// count goes one further, and first looks whether the database still has what this process saw.
func (w *Witness) count(ctx context.Context) error {
	if w.last.Count > 0 {
		if _, err := w.compare(ctx, w.last); err != nil {
			return err
		}
	}
	next := w.last
	next.Count++
	err := w.db.InTx(ctx, func(tx postgres.Tx) (err error) {
		next.At = tx.Now
		if next.Database, err = markedSince(ctx, tx); err != nil {
			return err
		}
		return saveMark(ctx, tx, next)
	})
	if err != nil {
		return err
	}
	w.last = next
	w.keep(next)
	return nil
}

// keep writes the mark where the database does not reach.
func (w *Witness) keep(m Mark) {
	err := os.MkdirAll(w.dir, 0o700)
	if err == nil {
		err = writeFile(filepath.Join(w.dir, m.Process+".json"), m)
	}
	if err != nil && !w.readOnly {
		w.log.Warn("how far the database came is not kept outside it: a loss while no process runs will not be noticed",
			"error", err)
	}
	w.readOnly = err != nil
}

func writeFile(path string, m Mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readFile(path string) (m Mark, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // somebody else has looked at it
		return m, nil
	}
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(b, &m)
}

var (
	noticedMetric = prometheus.NewDesc("partnerd_database_went_back_total",
		"Times that this process found the database to lack what it had acknowledged.", nil, nil)
	unsettledMetric = prometheus.NewDesc("partnerd_database_unsettled",
		"Findings of that kind that nobody has dealt with (partnerd restored); 0 is right.", nil, nil)
)

const unsettledTimeout = 2 * time.Second

// Describe implements prometheus.Collector.
func (w *Witness) Describe(out chan<- *prometheus.Desc) {
	out <- noticedMetric
	out <- unsettledMetric
}

// Collect implements prometheus.Collector.
func (w *Witness) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(noticedMetric, prometheus.CounterValue, float64(w.noticed.Load()))
	ctx, cancel := context.WithTimeout(context.Background(), unsettledTimeout)
	defer cancel()
	losses, err := Unsettled(ctx, w.db.Read())
	if err != nil {
		out <- prometheus.NewInvalidMetric(unsettledMetric, err)
		return
	}
	out <- prometheus.MustNewConstMetric(unsettledMetric, prometheus.GaugeValue, float64(len(losses)))
}

// ErrNothingLost says that no process found the database to have gone back.
var ErrNothingLost = errors.New("no process found that the database went back: say the instant, with --to")

// LostSince is the instant since which something is lost that nobody has dealt with, or [ErrNothingLost].
func LostSince(ctx context.Context, tx postgres.Tx) (since time.Time, err error) {
	losses, err := Unsettled(ctx, tx)
	if err != nil {
		return since, err
	}
	if len(losses) == 0 {
		return since, ErrNothingLost
	}
	since = losses[0].From
	for _, l := range losses {
		if l.From.Before(since) {
			since = l.From
		}
	}
	return since, nil
}
