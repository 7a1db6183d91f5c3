package lawyer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// If a check is required, only lawyers with a valid check can go on duty. A lawyer on duty stays when the check
// expires.
func TestOnlyCheckedLawyersGoOnDuty(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 6, 1, 8, 30, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), service(t)
	made, err := create(t, db, s, valid())
	if err != nil {
		t.Fatal(err)
	}
	l := made.ID
	in := func(f func(tx postgres.Tx) error) error { return db.InTx(t.Context(), f) }
	on := func() error {
		return in(func(tx postgres.Tx) error { _, err := s.GoOnline(t.Context(), tx, l); return err })
	}
	set := func(bar, number string, d time.Duration) error {
		return in(func(tx postgres.Tx) error {
			return s.SetRegistration(t.Context(), tx, l, lawyer.Registration{Bar: bar, Number: number,
				CheckedUntil: tx.Now.Add(d)})
		})
	}
	if err := on(); err != nil {
		t.Errorf("where it does not matter: %v", err)
	}
	s.OnlyChecked()
	if err := on(); !errors.Is(err, lawyer.ErrUnchecked) {
		t.Errorf("never checked: %v", err)
	}
	for _, bad := range []struct {
		bar, number string
		d           time.Duration
	}{{"", "P1", time.Hour}, {"Paris", "P1", 0}, {"Paris", "P1", -time.Hour},
		{"Paris", "P1", lawyer.LongestCheck + time.Second}} {
		if err := set(bad.bar, bad.number, bad.d); !errors.Is(err, lawyer.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, number := range []string{" ", "P\x00", "P1\u202e", strings.Repeat("1", 21)} {
		if err := set("Paris", number, time.Hour); !errors.Is(err, lawyer.ErrBarNumber) {
			t.Errorf("number %q: %v", number, err)
		}
	}
	if err := set("Atlantis", "P1", time.Hour); !errors.Is(err, lawyer.ErrUnknownBar) {
		t.Errorf("unknown bar: %v", err)
	}
	if err := set(" saint etienne ", "P1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Registration(t.Context(), db.Read(), l); err != nil || r.Bar != "Saint-Étienne" {
		t.Errorf("%+v %v", r, err)
	}
	if err := set(" Paris ", "P1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Registration(t.Context(), db.Read(), l); err != nil || r.Bar != "Paris" || r.Number != "P1" ||
		!r.Checked(clk.Now()) {
		t.Errorf("%+v %v", r, err)
	}
	if err := on(); err != nil {
		t.Errorf("checked: %v", err)
	}
	clk.Advance(time.Hour)
	if got, err := s.Get(t.Context(), db.Read(), l); err != nil || got.State != lawyer.Available {
		t.Errorf("on duty when the check ran out: %+v %v", got, err)
	}
	if err := on(); !errors.Is(err, lawyer.ErrUnchecked) {
		t.Errorf("run out: %v", err)
	}
	if err := in(func(tx postgres.Tx) error {
		return s.SetRegistration(t.Context(), tx, "law_none", lawyer.Registration{Bar: "Paris", Number: "P1",
			CheckedUntil: tx.Now.Add(time.Hour)})
	}); !errors.Is(err, lawyer.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

// A number at a bar belongs to one lawyer, however it is spelled and whichever lawyer is first.
func TestANumberAtABarBelongsToOneLawyer(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	const n = 6
	ids := make([]string, n)
	for i := range ids {
		made, err := create(t, db, s,
			func() lawyer.NewLawyer { l := valid(); l.Email = fmt.Sprintf("l%d@bar.example", i); return l }())
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = made.ID
	}
	errs := make(chan error, n)
	for i, id := range ids {
		go func() {
			errs <- db.InTx(t.Context(), func(tx postgres.Tx) error {
				r := lawyer.Registration{Bar: "paris", Number: []string{"P 12", "p12", "P-12"}[i%3],
					CheckedUntil: tx.Now.Add(time.Hour)}
				return s.SetRegistration(t.Context(), tx, id, r)
			})
		}()
	}
	taken := 0
	for range ids {
		switch err := <-errs; {
		case errors.Is(err, lawyer.ErrBarTaken):
			taken++
		case err != nil:
			t.Error(err)
		}
	}
	if taken != n-1 {
		t.Errorf("%d of %d were refused", taken, n)
	}
}
