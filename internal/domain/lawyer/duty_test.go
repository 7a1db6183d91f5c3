package lawyer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

func TestDutyIsReplacedWhole(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	l, err := create(t, db, s, valid())
	if err != nil {
		t.Fatal(err)
	}
	set := func(id string, d lawyer.Duty) error {
		return db.InTx(t.Context(), func(tx postgres.Tx) error { return s.SetDuty(t.Context(), tx, id, d) })
	}
	is := func(want string) {
		t.Helper()
		if d, err := s.Duty(t.Context(), db.Read(), l.ID); err != nil || fmt.Sprint(d) != want {
			t.Errorf("%v, %v; want %s", d, err, want)
		}
	}
	is("{Europe/Paris [] false}")
	week := lawyer.Duty{TimeZone: "Pacific/Auckland", OnCall: true, Hours: []lawyer.Hours{
		{Weekday: time.Sunday, From: 0, Until: 1440}, {Weekday: time.Monday, From: 780, Until: 1080},
		{Weekday: time.Monday, From: 540, Until: 780}}}
	if err := set(l.ID, week); err != nil {
		t.Fatal(err)
	}
	is("{Pacific/Auckland [mon 09:00-13:00 mon 13:00-18:00 sun 00:00-24:00] true}")
	if err := set("law_none", week); !errors.Is(err, lawyer.ErrNotFound) {
		t.Errorf("no lawyer: %v", err)
	}
	many := lawyer.Duty{TimeZone: "UTC"}
	for i := range 29 {
		many.Hours = append(many.Hours, lawyer.Hours{Weekday: time.Tuesday, From: i, Until: i + 1})
	}
	one := func(h ...lawyer.Hours) lawyer.Duty { return lawyer.Duty{TimeZone: "UTC", Hours: h} }
	for what, d := range map[string]lawyer.Duty{
		"no zone": {}, "the machine's zone": {TimeZone: "Local"}, "unknown zone": {TimeZone: "Europe/Nowhere"},
		"bytes": {TimeZone: "UTC\x00"}, "too many": many, "empty": one(lawyer.Hours{From: 60, Until: 60}),
		"before the day": one(lawyer.Hours{From: -1, Until: 60}), "past it": one(lawyer.Hours{From: 0, Until: 1441}),
		"no day": one(lawyer.Hours{Weekday: 7, From: 0, Until: 60}), "overlap": one(lawyer.Hours{From: 0, Until: 61},
			lawyer.Hours{From: 60, Until: 90}),
	} {
		if err := set(l.ID, d); !errors.Is(err, lawyer.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	is("{Pacific/Auckland [mon 09:00-13:00 mon 13:00-18:00 sun 00:00-24:00] true}")
	if err := set(l.ID, lawyer.Duty{TimeZone: "Europe/Paris"}); err != nil {
		t.Fatal(err)
	}
	is("{Europe/Paris [] false}")
}

func TestParseHours(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mon-wed 09:00-12:30": "[mon 09:00-12:30 tue 09:00-12:30 wed 09:00-12:30]",
		"Sat-mon 8:00-24:00":  "[sat 08:00-24:00 sun 08:00-24:00 mon 08:00-24:00]",
		"sun 00:00-00:01":     "[sun 00:00-00:01]",
		"":                    "", "mon": "", "mon 9-12": "", "mon 09:00": "", "mon 09:00-24:01": "",
		"mon 09:60-10:00": "", "mon 9:5-10:00": "", "mon -1:00-10:00": "", "lundi 09:00-12:00": "",
		"mon-x 09:00-12:00": "",
	} {
		h, err := lawyer.ParseHours(text)
		if got := fmt.Sprint(h); (err == nil) != (want != "") || err == nil && got != want ||
			err != nil && !errors.Is(err, lawyer.ErrInvalid) {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
}
