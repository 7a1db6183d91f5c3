package report_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/report"
	"partnerd/internal/infra/postgres"
)

var (
	day    = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	whole  = report.Period{From: day, Until: day.AddDate(0, 0, 2)}
	family = matching.Pair{Competence: "FAMILY", Language: "FR"}
	tax    = matching.Pair{Competence: "TAX", Language: "EN"}
)

// at returns a time on the first day, such as "08:30". Hours from 24 on fall on later days.
func at(hour string) time.Time {
	var h, m int
	if _, err := fmt.Sscanf(hour, "%d:%d", &h, &m); err != nil {
		panic(err)
	}
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute)
}

type house struct {
	*testing.T
	db *postgres.DB
	n  int
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, db: dbtest.New(t)}
	h.exec(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app', 'CRM', '{}', '{}', '', $1, $1)`, day)
	h.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli', 'c@example.com', 'Client', '', $1, $1)`, day)
	return h
}

func (h *house) exec(sql string, args ...any) {
	h.Helper()
	if _, err := h.db.Pool().Exec(h.Context(), sql, args...); err != nil {
		h.Fatalf("%s: %v", sql, err)
	}
}

func (h *house) lawyer(id string, pairs ...matching.Pair) {
	h.Helper()
	h.exec(`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ($1, $1 || '@example.com', 'Lawyer', '', 'OFFLINE', $2, $2)`, id, day)
	for _, p := range pairs {
		h.exec(`INSERT INTO lawyer_pairs (competence, language, lawyer_id) VALUES ($1, $2, $3)`,
			p.Competence, p.Language, id)
	}
}

// shift stores a shift. An empty until means that it is still going on.
func (h *house) shift(lawyerID, from, until string) {
	h.Helper()
	var end *time.Time
	if until != "" {
		t := at(until)
		end = &t
	}
	h.exec(`INSERT INTO lawyer_shifts (lawyer_id, from_at, until_at) VALUES ($1, $2, $3)`, lawyerID, at(from), end)
}

// one describes a consultation. A zero field means that the step did not happen.
type one struct {
	pair     matching.Pair
	created  string
	told     bool
	estimate int // seconds; 0 means unknown
	waited   time.Duration
	rang     time.Duration // from creation to the start of the call
	status   string        // COMPLETED if empty
	lawyer   string
	over     time.Duration // from creation to the note
}

func (h *house) add(list ...one) {
	h.Helper()
	for _, o := range list {
		h.n++
		id, created := fmt.Sprint("con_", h.n), at(o.created)
		later := func(d time.Duration) *time.Time {
			if d == 0 {
				return nil
			}
			t := created.Add(d)
			return &t
		}
		if o.status == "" {
			o.status = "COMPLETED"
		}
		var estimate *int
		if o.estimate > 0 {
			estimate = &o.estimate
		}
		var toldAt, ended *time.Time
		if o.told {
			toldAt = &created
		}
		if o.status == "CANCELLED" {
			ended = later(time.Hour)
		}
		if o.lawyer == "" {
			o.lawyer = "someone"
		}
		var lawyerID *string
		if o.waited > 0 {
			lawyerID = &o.lawyer
		}
		h.exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents, phone_sealed,
				created_at, updated_at, search_started_at, estimate_sec, estimate_told_at, first_assigned_at, assigned_at, lawyer_id, call_started_at, call_ended_at, duration_sec,
				completed_at, cancelled_at, refunded_cents, refunded_at)
			VALUES ($1, 'app', 'cli', $2, $3, $4, '', false, 2000, '', $5, $5, $5, $6, $7, $8, $8, $9, $10, $10, CASE WHEN $10::timestamptz IS NOT NULL THEN 60 END,
				$11, $12, CASE WHEN $12::timestamptz IS NOT NULL THEN 2000 END, $12)`,
			id, o.status, o.pair.Competence, o.pair.Language, created, estimate, toldAt, later(o.waited), lawyerID,
			later(o.rang), later(o.over), ended)
		if o.waited > 0 {
			h.exec(`INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at, ended_at) VALUES ($1, $1, 'cli', $2, 'ACCEPTED', $3, $4, $4)`,
				id, o.lawyer, created, created.Add(o.waited))
		}
	}
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.lawyer("someone")
	served := func(p matching.Pair, created string, estimate int, waited time.Duration) one {
		return one{pair: p, created: created, told: true, estimate: estimate, waited: waited,
			rang: waited + time.Minute, over: waited + time.Hour}
	}
	unknown := served(family, "09:00", 0, time.Minute)
	h.add(served(family, "08:00", 100, 80*time.Second), served(family, "08:10", 30, 90*time.Second),
		served(tax, "08:20", 10, 5*time.Second), served(tax, "33:00", 1800, 3*time.Hour), unknown,
		one{pair: tax, created: "09:00", told: true, estimate: 10, status: "CANCELLED"},
		one{pair: tax, created: "09:01", told: true, estimate: 10, status: "MATCHING"},
		one{pair: tax, created: "09:02", waited: time.Second, rang: time.Minute, over: time.Hour}, // no estimate
		served(family, "48:00", 1, 2*time.Second))                                                 // outside the period
	c, err := report.Calibrate(t.Context(), h.db.Read(), whole)
	if err != nil {
		t.Fatal(err)
	}
	compare := func(name string, got report.Estimates, ratio float64, want report.Estimates) {
		t.Helper()
		if (got.MedianRatio == nil) != (ratio == 0) || got.MedianRatio != nil &&
			math.Abs(*got.MedianRatio-ratio) > 1e-9 {
			t.Errorf("%s: median ratio %v, want %v", name, got.MedianRatio, ratio)
		}
		if got.MedianRatio = nil; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	compare("all", c.All, (1.0/3+1.25)/2, report.Estimates{Told: 7, Unknown: 1, Open: 1, Unserved: 1, Served: 4,
		NotLonger: 2, Long: 3, Within: 1})
	if len(c.ByPair) != 2 || c.ByPair[0].Pair != family || c.ByPair[1].Pair != tax || len(c.ByHour) != 2 ||
		c.ByHour[0].Hour != 8 || c.ByHour[1].Hour != 9 {
		t.Fatalf("%+v", c)
	}
	compare("family", c.ByPair[0].Estimates, (1.25+1.0/3)/2, report.Estimates{Told: 3, Unknown: 1, Served: 2,
		NotLonger: 1, Long: 2, Within: 1})
	compare("eight o'clock", c.ByHour[0].Estimates, 1.25, report.Estimates{Told: 3, Served: 3, NotLonger: 2,
		Long: 2, Within: 1})
	compare("nine o'clock", c.ByHour[1].Estimates, 1.0/6, report.Estimates{Told: 4, Unknown: 1, Open: 1, Unserved: 1,
		Served: 1, Long: 1})
	if c, err := report.Calibrate(t.Context(), h.db.Read(), report.Period{From: at("100:00"),
		Until: at("101:00")}); err != nil || c.All.Told != 0 || len(c.ByPair) != 0 {
		t.Errorf("of nothing: %+v, %v", c, err)
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.lawyer("a", family)
	h.lawyer("b", family, tax)
	h.lawyer("idler") // has no pair
	h.shift("idler", "00:00", "")
	h.shift("a", "08:00", "10:00")
	h.shift("b", "09:00", "12:00")
	h.shift("a", "23:00", "25:00") // across midnight
	h.shift("b", "47:30", "")      // beyond the end of the period
	h.add(one{pair: family, created: "08:30", waited: time.Minute, rang: 2 * time.Minute,
		over: 30 * time.Minute, lawyer: "a"},
		one{pair: family, created: "11:00", waited: 20 * time.Minute, rang: 31 * time.Minute, over: time.Hour,
			lawyer: "b"},
		one{pair: family, created: "12:00", waited: 23 * time.Hour, rang: 25 * time.Hour, over: 26 * time.Hour,
			lawyer: "a"},
		one{pair: family, created: "13:00", status: "CANCELLED"}, one{pair: family, created: "14:00",
			status: "MATCHING"},
		// no one serves this pair
		one{pair: matching.Pair{Competence: "IP", Language: "PT"}, created: "14:00", status: "CANCELLED"})
	h.exec(`INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at, ended_at) VALUES ('missed', 'con_5', 'cli', 'b', 'EXPIRED', $1, $2, $2)`, at("09:00"), at("09:30"))
	// Lawyer a has the third consultation in hand from the offer until its note, within the shift across midnight.
	got, err := report.Coverage(t.Context(), h.db.Read(), whole)
	if err != nil {
		t.Fatal(err)
	}
	hours := func(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
	want := []report.Cover{
		{Pair: family, OnDuty: hours(4 + 2 + 0.5), Idle: hours(0.5 + 1 + 1 + 0.5),
			Consultations: report.Consultations{Asked: 5, Within30m: 1, Within24h: 2, Served: 3, Unserved: 1}},
		{Pair: matching.Pair{Competence: "IP", Language: "PT"},
			Consultations: report.Consultations{Asked: 1, Unserved: 1}},
		{Pair: tax, OnDuty: hours(3.5), Idle: hours(1.5 + 0.5)},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("got  %+v\nwant %+v", got[i], w)
		}
	}
	if got[0].Open() != 1 {
		t.Errorf("%d wait", got[0].Open())
	}
}

func TestFairness(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.lawyer("a", family)
	h.lawyer("b", family)
	h.lawyer("c", family, tax)
	h.lawyer("brief", family)
	for _, id := range []string{"a", "b", "c"} {
		h.shift(id, "08:00", "10:00")
	}
	h.shift("b", "32:00", "34:00")
	h.shift("brief", "08:00", "08:59")
	call := func(lawyer string, p matching.Pair, created string) one {
		return one{pair: p, created: created, waited: time.Minute, rang: 2 * time.Minute, over: 30 * time.Minute,
			lawyer: lawyer}
	}
	late := call("c", tax, "00:00")
	// created the day before
	late.waited, late.rang, late.over = 8*time.Hour+time.Minute, 8*time.Hour+2*time.Minute, 8*time.Hour+30*time.Minute
	h.add(call("a", family, "08:00"), call("a", family, "08:30"), call("a", family, "09:00"),
		call("b", family, "08:00"), call("c", family, "09:00"), call("brief", family, "08:00"), late)
	got, err := report.Fairness(t.Context(), h.db.Read(), report.Period{From: at("06:00"), Until: at("54:00")})
	if err != nil || len(got) != 2 || got[0].Pair != family || got[1].Pair != tax {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(got[0].Lawyers) != 3 || got[0].Lawyers[1] != (report.Share{LawyerID: "b", Calls: 1, Alone: true,
		OnDuty: 4 * time.Hour, Idle: 3*time.Hour + 30*time.Minute}) {
		t.Errorf("%+v", got[0].Lawyers)
	}
	s := got[0].Summary()
	if s.Lawyers != 3 || s.Calls != 5 || s.Least != 0.25 || s.Most != 1.5 || s.Alone != 2 || s.Gini == nil ||
		s.GiniAlone == nil {
		t.Fatalf("%+v", s)
	}
	if math.Abs(*s.GiniAlone-(1.5-0.25)/(2*(1.5+0.25))) > 1e-9 ||
		math.Abs(*s.Gini-(2*(0.25+2*0.5+3*1.5)/(3*2.25)-4.0/3)) > 1e-9 {
		t.Errorf("Gini %v, of those with this pair alone %v", *s.Gini, *s.GiniAlone)
	}
	if math.Abs(s.IdleShare-(0.5+3.5+1)/8) > 1e-9 {
		t.Errorf("idle for %v of the time", s.IdleShare)
	}
	if s := got[1].Summary(); s.Calls != 1 || s.Alone != 0 || s.GiniAlone != nil {
		t.Errorf("tax: %+v", s)
	}
	if s := (report.Fair{}).Summary(); s.Gini != nil || s.Lawyers != 0 {
		t.Errorf("of nobody: %+v", s)
	}
}

func TestGini(t *testing.T) {
	t.Parallel()
	for want, x := range map[float64][]float64{0.75: {0, 0, 0, 1}, 0: {2, 2, 2}, 0.25: {3, 1}} {
		if g := report.Gini(x); g == nil || math.Abs(*g-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", x, g, want)
		}
	}
	if report.Gini(nil) != nil || report.Gini([]float64{0, 0}) != nil {
		t.Error("nothing is spread evenly")
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	now := at("36:00")
	for name, tc := range map[string]struct {
		from, until time.Time
		want        report.Period
	}{
		"a week to now":  {want: report.Period{From: now.AddDate(0, 0, -7), Until: now}},
		"to now":         {from: day, want: report.Period{From: day, Until: now}},
		"the week to it": {until: day, want: report.Period{From: day.AddDate(0, 0, -7), Until: day}},
		"92 days":        {from: now.AddDate(0, 0, -92), want: report.Period{From: now.AddDate(0, 0, -92), Until: now}},
		"too long":       {from: now.AddDate(0, 0, -93)},
		"the future":     {until: now.Add(time.Second)},
		"backwards":      {from: day, until: day},
		"from tomorrow":  {from: now.Add(time.Hour)},
	} {
		got, err := report.Between(tc.from, tc.until, now)
		if got != tc.want || (err != nil) != (tc.want == report.Period{}) ||
			err != nil && !errors.Is(err, report.ErrPeriod) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
