package status

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

var today = time.Date(2026, 6, 15, 0, 0, 0, 0, time.UTC)

func exec(t *testing.T, db *postgres.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool().Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Several workers that count the same minute at the same time count it once.
func TestAMinuteIsCountedOnce(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	first := today.Add(23*time.Hour + 57*time.Minute)
	for minute := range 5 {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := db.InTx(t.Context(), func(tx postgres.Tx) error {
					return count(t.Context(), tx, first.Add(time.Duration(minute)*time.Minute))
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	rows, err := read(t.Context(), db.Read(), today)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := rows[today], rows[today.AddDate(0, 0, 1)]; a.Minutes != 3 || b.Minutes != 2 ||
		!a.FirstMinute.Equal(first) || !b.FirstMinute.Equal(first.Add(3*time.Minute)) {
		t.Errorf("%+v", rows)
	}
}

// Days that were not measured are not reported as measured. A day without a row between measured days has zero minutes.
func TestDaysTellWhatWasMeasured(t *testing.T) {
	t.Parallel()
	now := today.Add(10*time.Hour + 30*time.Second)
	since := today.AddDate(0, 0, -3).Add(6 * time.Hour)
	rows := map[time.Time]dayRow{today.AddDate(0, 0, -3): {Minutes: 1000}, today.AddDate(0, 0, -1): {Minutes: 1440},
		today: {Minutes: 600}}
	list := days(rows, &since, now)
	if len(list) != Kept || !list[Kept-1].Date.Equal(today) {
		t.Fatalf("%d days, the last %v", len(list), list[len(list)-1])
	}
	for back, want := range map[int]Day{
		5: {}, 4: {}, 3: {Measured: true, Minutes: 1000, Of: 18 * 60}, 2: {Measured: true, Of: 1440},
		1: {Measured: true, Minutes: 1440, Of: 1440}, 0: {Measured: true, Minutes: 600, Of: 601},
	} {
		want.Date = today.AddDate(0, 0, -back)
		if got := list[Kept-1-back]; got != want {
			t.Errorf("%d days ago: %+v, want %+v", back, got, want)
		}
	}
	for _, d := range days(nil, nil, now) {
		if d.Measured || d.Counted {
			t.Errorf("%+v", d)
		}
	}
}

// A day is summed up once; later changes to its data do not change the sum.
func TestADayIsSummedUpOnce(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	exec(t, db, `INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app', 'CRM', '{}', '{}', '', $1, $1)`, today)
	exec(t, db, `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli', 'c@example.com', 'Client', '', $1, $1)`, today)
	exec(t, db, `INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ('law', 'l@example.com', 'Lawyer', '', 'OFFLINE', $1, $1)`, today)
	add := func(n int, created time.Time, call time.Duration, endReason *string) {
		t.Helper()
		var started, expired *time.Time
		status := "MATCHING"
		if call > 0 {
			at := created.Add(call)
			started, status = &at, "COMPLETED"
		}
		if endReason != nil {
			at := created.Add(25 * time.Hour)
			expired, status = &at, "EXPIRED"
		}
		exec(t, db, `INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents, phone_sealed,
				created_at, updated_at, search_started_at, lawyer_id, assigned_at, call_started_at, call_ended_at, completed_at, duration_sec, expired_at, end_reason, refunded_cents, refunded_at)
			VALUES ($1, 'app', 'cli', $2, 'TAX', 'FR', '', false, 2000, '', $3, $3, $3, CASE WHEN $4::timestamptz IS NOT NULL THEN 'law' END, $4, $4, $4, $4, CASE WHEN $4::timestamptz IS NOT NULL THEN 60 END, $5, $6, CASE WHEN $5::timestamptz IS NOT NULL THEN 2000 END, $5)`,
			fmt.Sprint("con_", n), status, created, started, expired, endReason)
	}
	missed := "GUARANTEE_MISSED"
	add(1, today.Add(time.Hour), 30*time.Minute, nil)
	add(2, today.Add(2*time.Hour), 5*time.Hour, nil)
	add(3, today.Add(3*time.Hour), 0, &missed)
	add(4, today.Add(-time.Second), time.Minute, nil)
	for i, lag := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 900 * time.Millisecond} {
		event, delivery, at := fmt.Sprint("evt_", i), fmt.Sprint("dlv_", i), today.Add(time.Hour)
		exec(t, db, `INSERT INTO webhook_events (id, application_id, type, sequence, body, created_at) VALUES ($1, 'app', 'consultation.created', $2, '{}', $3)`, event, i+1, at)
		exec(t, db, `INSERT INTO webhook_deliveries (id, event_id, application_id, state, sequence, attempts, next_at, created_at, ended_at) VALUES ($1, $2, 'app', 'DELIVERED', $3, 1, $4, $4, $4)`, delivery, event, i+1, at)
		exec(t, db, `INSERT INTO webhook_attempts (delivery_id, attempt, started_at, duration_ms, status_code) VALUES ($1, 1, $2, 5, 200)`, delivery, at.Add(lag))
	}
	again := func() Promises {
		t.Helper()
		if err := db.InTx(t.Context(), func(tx postgres.Tx) error { return sum(t.Context(), tx, today) }); err != nil {
			t.Fatal(err)
		}
		rows, err := read(t.Context(), db.Read(), today)
		if err != nil {
			t.Fatal(err)
		}
		return rows[today].promises()
	}
	got := again()
	if *got.LagMedianMS != 200 || *got.Lag95thMS < 800 || *got.Lag95thMS > 900 {
		t.Errorf("lag %v and %v ms", *got.LagMedianMS, *got.Lag95thMS)
	}
	got.LagMedianMS, got.Lag95thMS = nil, nil
	if want := (Promises{Asked: 3, Within30m: 1, Within24h: 2, Breaches: 1, Events: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	add(5, today.Add(4*time.Hour), time.Minute, nil)
	if got := again(); got.Asked != 3 {
		t.Errorf("the day changed: %+v", got)
	}
}

// Days before the first counted minute are not summed up, because nothing is known about them.
func TestDaysAreSummedFromTheFirstMinuteOn(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	s := &Service{DB: db}
	counted := func() (n int) {
		t.Helper()
		if err := s.Sum(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := read(t.Context(), db.Read(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.CountedAt != nil {
				n++
			}
		}
		return n
	}
	if n := counted(); n != 0 {
		t.Errorf("%d days are summed up before the first minute", n)
	}
	first := dayOf(db.Clock().Now()).AddDate(0, 0, -5).Add(time.Hour)
	if err := db.InTx(t.Context(), func(tx postgres.Tx) error { return count(t.Context(), tx, first) }); err != nil {
		t.Fatal(err)
	}
	if n := counted(); n != 4 {
		t.Errorf("%d days are summed up, want those from five days ago to two", n)
	}
}
