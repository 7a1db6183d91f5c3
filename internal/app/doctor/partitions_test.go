package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/requestlog"
)

// TestPartitionsAreWatched checks that the metrics and the doctor show whether the coming partitions exist.
func TestPartitionsAreWatched(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	c := clock.NewManual(time.Now().UTC())
	db := dbtest.NewWithClock(t, c)
	all, err := postgres.Partitions(t.Context(), db.Read())
	if err != nil {
		t.Fatal(err)
	}
	c.Advance(all[len(all)-1].Begins.Sub(c.Now()) + time.Hour)
	r := prometheus.NewRegistry()
	r.MustRegister(partitions{db})
	look := func(ahead int, level Level, found string) {
		t.Helper()
		families, err := r.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%v, %v", families, err)
		}
		m := families[0].GetMetric()
		if len(m) != len(byTime) || m[0].GetLabel()[0].GetValue() != requestlog.Table ||
			m[0].GetGauge().GetValue() != float64(ahead) {
			t.Errorf("%v", m)
		}
		e := &examination{}
		e.partitions(t.Context(), db.Read())
		if len(e.found) != 1 || e.found[0].Check != "partitions" || e.found[0].Level != level ||
			!strings.Contains(e.found[0].Found, found) {
			t.Errorf("%+v", e.found)
		}
	}
	write := func(at time.Time) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(),
			`INSERT INTO api_requests (application_id, id, at, method, path, status, duration_us, keyed, replayed)
			VALUES ('app_1', $2, $1, 'GET', '/', 200, 1, false, false)`, at, at.String()); err != nil {
			t.Fatal(err)
		}
	}
	keep := func() {
		t.Helper()
		if _, err := postgres.KeepPartitions(t.Context(), db, requestlog.Table, requestlog.Retention); err != nil {
			t.Fatal(err)
		}
	}
	look(0, Warn, "api_requests has partitions for 0 of the coming weeks")
	keep()
	look(postgres.PartitionsAhead, OK, "api_requests has partitions for 4 of the coming weeks")
	write(c.Now())
	goes := c.Now().Truncate(7 * 24 * time.Hour).Add(7*24*time.Hour + requestlog.Retention)
	look(postgres.PartitionsAhead, OK, "its oldest rows are dropped on "+goes.Format(time.DateOnly))
	c.Advance(3 * 7 * 24 * time.Hour)
	look(1, Warn, "for 1 of the coming weeks")
	keep()
	c.Advance(goes.Sub(c.Now()))
	keep()
	look(postgres.PartitionsAhead, OK, "for 4 of the coming weeks")
	write(goes.Add(-requestlog.Retention)) // the start of the following week
	c.Advance(9*24*time.Hour - time.Hour)
	if err := addOnly(t, db); err != nil {
		t.Fatal(err)
	}
	look(postgres.PartitionsAhead, OK, "its oldest rows are dropped on "+goes.Add(7*24*time.Hour).Format(time.DateOnly))
	c.Advance(2 * time.Hour)
	look(postgres.PartitionsAhead, Warn,
		"its oldest rows are dropped on "+goes.Add(7*24*time.Hour).Format(time.DateOnly))
	keep()
	look(postgres.PartitionsAhead, OK, "for 4 of the coming weeks")
}

// addOnly creates the coming partitions and drops nothing.
func addOnly(t *testing.T, db *postgres.DB) error {
	_, err := postgres.KeepPartitions(t.Context(), db, requestlog.Table, 1000*requestlog.Retention)
	return err
}
