package restore

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/postgres"
)

// lookout is a witness whose log can be read.
type lookout struct {
	*testing.T
	*Witness
	said *bytes.Buffer
}

func openAt(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 2, Test: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func newLookout(t *testing.T, db *postgres.DB, dir string) *lookout {
	said := &bytes.Buffer{}
	return &lookout{t, NewWitness(db, dir, slog.New(slog.NewTextHandler(said, nil))), said}
}

func (l *lookout) counts(times int) {
	l.Helper()
	for range times {
		if err := l.count(l.Context()); err != nil {
			l.Fatal(err)
		}
	}
}

// told checks how often the witness reported that the database went back, in its log and in its metric.
func (l *lookout) told(want int) {
	l.Helper()
	if got := strings.Count(l.said.String(), "level=ERROR msg=\"the database went back"); got != want ||
		l.noticed.Load() != int64(want) {
		l.Errorf("said %d times, counted %d, want %d: %s", got, l.noticed.Load(), want, l.said)
	}
}

func unsettled(t *testing.T, db *postgres.DB, want int) []Loss {
	t.Helper()
	losses, err := Unsettled(t.Context(), db.Read())
	if err != nil || len(losses) != want {
		t.Fatalf("%d losses are to be dealt with, want %d: %+v, %v", len(losses), want, losses, err)
	}
	return losses
}

// settle records what [Settle] records.
func settle(t *testing.T, db *postgres.DB) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		return operator.Act{Actor: "cli:demo", Reason: "A test"}.Record(t.Context(), tx, restored, "now", nil)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A process that is pointed at a copy of the database without its latest commits reports the loss once, with the
// period. The database keeps the loss until it is settled, and the process continues to count.
func TestADatabaseThatWentBackIsNoticed(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	first := openAt(t, url)
	w := newLookout(t, first, t.TempDir())
	if err := w.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.counts(3)
	kept := w.last
	first.Close()
	behind := dbtest.CopyURL(t, url)
	w.db = openAt(t, url)
	w.counts(2)
	lost := w.last

	w.db = openAt(t, behind)
	w.counts(1)
	w.told(1)
	want := Loss{Process: w.last.Process, Count: lost.Count, From: kept.At, Until: lost.At}
	if got := unsettled(t, w.db, 1)[0]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if since, err := LostSince(t.Context(), w.db.Read()); err != nil || !since.Equal(kept.At) {
		t.Errorf("since %s, %v", since, err)
	}
	w.counts(2)
	w.told(1)
	later := newLookout(t, w.db, w.dir)
	if err := later.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	later.counts(1)
	later.told(0)
	if got := gauge(t, later.Witness, "partnerd_database_unsettled"); got != 1 {
		t.Errorf("%v are unsettled", got)
	}

	settle(t, w.db)
	unsettled(t, w.db, 0)
	if _, err := LostSince(t.Context(), w.db.Read()); !errors.Is(err, ErrNothingLost) {
		t.Errorf("settled: %v", err)
	}
	if got := gauge(t, later.Witness, "partnerd_database_unsettled"); got != 0 {
		t.Errorf("settled: %v are unsettled", got)
	}
}

func gauge(t *testing.T, w *Witness, name string) float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(w)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// The data folder keeps what ended processes saw. The next process finds what the database lacks. If that is more than
// a failover can lose, it does not start until the loss is settled.
func TestTheNextProcessNoticesToo(t *testing.T) {
	t.Parallel()
	db, dir := dbtest.New(t), t.TempDir()
	ended := newLookout(t, db, dir)
	ended.counts(1)
	now := db.Clock().Now()
	path := filepath.Join(dir, ended.last.Process+".json")
	further := func(at time.Time) {
		t.Helper()
		m := ended.last
		m.Count, m.At = m.Count+100, at
		if err := writeFile(path, m); err != nil {
			t.Fatal(err)
		}
	}
	further(now.Add(3 * time.Second))
	for range 2 {
		next := newLookout(t, db, dir)
		if err := next.Begin(t.Context()); err != nil {
			t.Errorf("refused after a failover: %v", err)
		}
		next.told(1)
		unsettled(t, db, 1)
	}
	if err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		return dbtest.Exec(t.Context(), tx, "UPDATE database_marks SET marked_at = $1 WHERE process <> ''",
			now.Add(-time.Hour))
	}); err != nil {
		t.Fatal(err)
	}
	if err := newLookout(t, db, dir).Begin(t.Context()); !errors.Is(err, ErrUnsettled) {
		t.Errorf("a restore is not refused: %v", err)
	}
	further(now)
	settle(t, db)
	next := newLookout(t, db, dir)
	if err := next.Begin(t.Context()); err != nil {
		t.Errorf("refused, although it was dealt with: %v", err)
	}
	next.told(0)
	unsettled(t, db, 0)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the mark is kept: %v", err)
	}
}

// None of these changes is reported as a loss.
func TestWhatIsNoLossIsSilent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w *lookout){
		"a restart":                          func(*testing.T, *lookout) {},
		"a commit that was not acknowledged": func(_ *testing.T, w *lookout) { w.last.Count-- },
		"tables that were made again": func(t *testing.T, w *lookout) {
			if err := w.db.InTx(t.Context(), func(tx postgres.Tx) error {
				if err := dbtest.Exec(t.Context(), tx, "DELETE FROM database_marks"); err != nil {
					return err
				}
				return dbtest.Exec(t.Context(), tx, "INSERT INTO database_marks VALUES ('', 1, now())")
			}); err != nil {
				t.Fatal(err)
			}
		},
		"another database with this folder": func(_ *testing.T, w *lookout) {
			w.last.Database, w.last.Count = w.last.Database.Add(time.Hour), 100
		},
		"a process that ended long ago": func(_ *testing.T, w *lookout) {
			w.last.Process, w.last.At = "gone", w.last.At.Add(-markKept-time.Hour)
		},
		"a file that cannot be read": func(t *testing.T, w *lookout) {
			if err := os.WriteFile(filepath.Join(w.dir, "other.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a folder that cannot be written": func(_ *testing.T, w *lookout) { w.dir = "/dev/null/marks" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, dir := dbtest.New(t), t.TempDir()
			one, two := newLookout(t, db, dir), newLookout(t, db, dir)
			for range 3 {
				one.counts(1)
				two.counts(1)
			}
			change(t, one)
			if err := writeFile(filepath.Join(dir, one.last.Process+".json"), one.last); err != nil {
				t.Fatal(err)
			}
			next := newLookout(t, db, dir)
			if err := next.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			next.counts(2)
			one.counts(2)
			two.counts(2)
			for _, w := range []*lookout{one, two, next} {
				w.told(0)
			}
			unsettled(t, db, 0)
		})
	}
}

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, markRow{}, lossRow{})
}
