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
	markKept  = 30 * 24 * time.Hour // marks of ended processes
)

// Witness detects that the database has lost acknowledged commits, for example after a restore, a snapshot or a
// failover to an incomplete standby.
//
// Each second it increments a counter in its process's row and remembers the acknowledged count. It also keeps the
// count in a file outside the database for the next process. An acknowledged commit is on every standby that commits
// wait for, so a failover without loss reports nothing. A loss that falls between two counts of every process is not
// detected.
type Witness struct {
	db   *postgres.DB
	dir  string // marks of all processes that share the data folder
	log  *slog.Logger
	last Mark

	readOnly bool // the folder cannot be written; logged once
	noticed  atomic.Int64
}

// Mark is how far a process saw the database advance.
type Mark struct {
	Database time.Time `json:"database"` // when it began to keep marks; other databases differ
	Process  string    `json:"process"`
	Count    int64     `json:"count"`
	At       time.Time `json:"at"`
}

// Loss is what a process found missing: at least everything written between From and Until.
type Loss struct {
	Process string    `json:"process"`
	Count   int64     `json:"count"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
}

// NewWitness creates the witness of a process. dir holds files that outlive the process and the database.
func NewWitness(db *postgres.DB, dir string, log *slog.Logger) *Witness {
	return &Witness{db: db, dir: dir, log: log, last: Mark{Process: rand.Text()}}
}

// Begin compares the database with what earlier processes of this folder saw. It returns [ErrUnsettled] if more is
// missing than a failover can lose. That is a restore, which must be settled before anyone is called, erased or paid.
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
			_ = os.Remove(file) // a running process writes it again
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

// compare records and logs what the database lacks of a mark. It returns nil if nothing is missing or the loss was
// settled.
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
	w.logLoss(*lost)
	return lost, nil
}

// missing returns what the database lacks of a mark, or nil if nothing is missing or the loss was settled.
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

func (w *Witness) logLoss(l Loss) {
	w.noticed.Add(1)
	w.log.Error("the database went back: it lacks what was written and acknowledged, such as consultations and their "+
		"events. Run partnerd restored, "+
		"see DatabaseWentBack in .deploy/runbook.md", "lostFrom", clock.Format(l.From),
		"lostUntil", clock.Format(l.Until), "process", l.Process, "count", l.Count)
}

// Run counts every second until ctx ends.
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

// count increments the counter, after checking that the database still has everything this process saw.
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

// keep writes the mark to a file outside the database.
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
	if errors.Is(err, fs.ErrNotExist) { // another process has removed it
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

// ErrNothingLost is returned if no process found that the database went back.
var ErrNothingLost = errors.New("no process found that the database went back: say the instant, with --to")

// LostSince returns the earliest time since which data is missing and unsettled, or [ErrNothingLost].
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
