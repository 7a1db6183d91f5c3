package lawyer_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

func service(t *testing.T) *lawyer.Service {
	t.Helper()
	box := sealtest.Box(t)
	return lawyer.New(box)
}

func valid() lawyer.NewLawyer {
	return lawyer.NewLawyer{Email: "lawyer@example.com", Name: "A Lawyer", Phone: "+33199000001",
		Competences: []string{"TAX", "FAMILY", "TAX"}, Languages: []string{"FR", "EN"}}
}

func create(t *testing.T, db *postgres.DB, s *lawyer.Service, n lawyer.NewLawyer) (l lawyer.Lawyer, err error) {
	t.Helper()
	err = db.InTx(t.Context(), func(tx postgres.Tx) (err error) {
		l, err = s.Create(t.Context(), tx, n)
		return err
	})
	return l, err
}

func TestCreateWritesEveryPairAndSealsThePhone(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	l, err := create(t, db, s, valid())
	if err != nil {
		t.Fatal(err)
	}
	var pairs, plain int
	var hash string
	err = db.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM lawyer_pairs WHERE lawyer_id = l.id),
		position('199000001' in encode(phone_sealed, 'escape')), password_hash FROM lawyers l WHERE id = $1`,
		l.ID).Scan(&pairs, &plain, &hash)
	if err != nil || pairs != 4 || plain != 0 || hash != "!" {
		t.Errorf("%d pairs, phone in the clear at %d, hash %.10s, %v; want 4, 0, and none", pairs, plain, hash, err)
	}
	if phone, err := s.Phone(t.Context(), db.Read(), l.ID); err != nil || phone != "+33199000001" {
		t.Errorf("phone %q, %v", phone, err)
	}
	if _, err := create(t, db, s,
		func() lawyer.NewLawyer { n := valid(); n.Email = "LAWYER@example.com"; return n }()); !errors.Is(err,
		lawyer.ErrEmailTaken) {
		t.Errorf("the same address in capitals: %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	tests := []struct {
		name   string
		change func(*lawyer.NewLawyer)
		want   error
		says   string
	}{
		{"unknown codes",
			func(n *lawyer.NewLawyer) { n.Competences = []string{"TAX", "MAGIC"}; n.Languages = []string{"XX"} },
			lawyer.ErrUnknownCode, `competences: "MAGIC" is not in the catalogue.: languages: "XX"`},
		{"no language", func(n *lawyer.NewLawyer) { n.Languages = nil }, lawyer.ErrInvalid, "language"},
		{"no address", func(n *lawyer.NewLawyer) { n.Email = "nobody" }, lawyer.ErrInvalid, "email"},
		{"no phone", func(n *lawyer.NewLawyer) { n.Phone = "" }, lawyer.ErrInvalid, "phone"},
		{"phone of a country", func(n *lawyer.NewLawyer) { n.Phone = "0199000001" }, lawyer.ErrInvalid, "phone"},
		{"web address", func(n *lawyer.NewLawyer) { n.Name = "Pay at evil.com" }, lawyer.ErrInvalid, "name"},
		{"no name", func(n *lawyer.NewLawyer) { n.Name = " " }, lawyer.ErrInvalid, "name"},
	}
	for _, tt := range tests {
		n := valid()
		tt.change(&n)
		if _, err := create(t, db, s, n); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v that names %q", tt.name, err, tt.want, tt.says)
		}
	}
}

// A lawyer of an older release without a phone number cannot wait for work until they have one.
func TestNobodyWorksWithoutAPhone(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	n := valid()
	n.Simulated = true
	l, err := create(t, db, s, n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool().Exec(t.Context(), "UPDATE lawyers SET phone_sealed = NULL WHERE id = $1", l.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GoOnline(t.Context(), db.Read(), l.ID); !errors.Is(err, lawyer.ErrNoPhone) {
		t.Errorf("signed on: %v", err)
	}
	if back, err := s.ReturnIdle(t.Context(), db.Read(), l.ID); err != nil || len(back) != 0 {
		t.Errorf("brought back: %v, %v", back, err)
	}
	if err := s.SetPhone(t.Context(), db.Read(), l.ID, "12"); !errors.Is(err, lawyer.ErrInvalid) {
		t.Errorf("no number: %v", err)
	}
	if err := s.SetPhone(t.Context(), db.Read(), "law_0", "+33199000002"); !errors.Is(err, lawyer.ErrNotFound) {
		t.Errorf("no lawyer: %v", err)
	}
	if err := s.SetPhone(t.Context(), db.Read(), l.ID, "+33199000002"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GoOnline(t.Context(), db.Read(), l.ID); err != nil {
		t.Errorf("with a number: %v", err)
	}
}

func TestStateChangesAreGuarded(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	l, err := create(t, db, s, valid())
	if err != nil {
		t.Fatal(err)
	}
	tx := db.Read()
	if err := s.SetState(t.Context(), tx, l.ID, []lawyer.State{lawyer.Busy, lawyer.Away},
		lawyer.On(lawyer.WrapUp)); !errors.Is(err, lawyer.ErrState) {
		t.Errorf("from a state that it is not in: %v", err)
	}
	lease, err := s.GoOnline(t.Context(), tx, l.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetState(t.Context(), tx, l.ID, []lawyer.State{lawyer.Available}, lawyer.On(lawyer.Busy)); err != nil {
		t.Fatal(err)
	}
	if err := s.GoOffline(t.Context(), tx, lease); !errors.Is(err, lawyer.ErrState) {
		t.Errorf("signing off with work in hand: %v", err)
	}
	if _, err := s.GoOnline(t.Context(), tx, l.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), tx, l.ID); err != nil || got.State != lawyer.Busy {
		t.Errorf("a new connection moved a busy lawyer to %s, %v", got.State, err)
	}
}

func TestPresenceIsALease(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), service(t)
	l, err := create(t, db, s, valid())
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.GoOnline(t.Context(), db.Read(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.GoOnline(t.Context(), db.Read(), l.ID)
	if err != nil || second.Epoch <= first.Epoch {
		t.Fatalf("leases %v, %v, %v", first, second, err)
	}
	clk.Advance(lawyer.PresenceFresh)
	if err := s.Beat(t.Context(), db.Read(), first); !errors.Is(err, lawyer.ErrLeaseLost) {
		t.Errorf("the older connection's beat: %v", err)
	}
	if got, err := s.Get(t.Context(), db.Read(), l.ID); err != nil || got.Fresh(clk.Now()) {
		t.Errorf("after %s of silence: fresh %v, %v", lawyer.PresenceFresh, got.Fresh(clk.Now()), err)
	}
	if err := s.Beat(t.Context(), db.Read(), second); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), db.Read(), l.ID); err != nil || !got.Fresh(clk.Now()) {
		t.Errorf("after a beat: %+v, %v", got, err)
	}
}

// A lawyer absent for longer than the lease loses their place in the queue, and the old connection is rejected. A
// consultation in hand is not lost by that alone.
func TestAbsenceCostsThePlace(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), service(t)
	leases := map[string]lawyer.Lease{}
	sign := func(email string) string {
		n := valid()
		n.Email = email
		l, err := create(t, db, s, n)
		if err != nil {
			t.Fatal(err)
		}
		if leases[l.ID], err = s.GoOnline(t.Context(), db.Read(), l.ID); err != nil {
			t.Fatal(err)
		}
		return l.ID
	}
	waits, pauses, works := sign("a@example.com"), sign("b@example.com"), sign("c@example.com")
	for id, to := range map[string]lawyer.Move{pauses: lawyer.Off(lawyer.MissedOffer), works: lawyer.On(lawyer.Busy)} {
		if err := s.SetState(t.Context(), db.Read(), id, []lawyer.State{lawyer.Available}, to); err != nil {
			t.Fatal(err)
		}
	}
	after := func(d time.Duration, want map[string]lawyer.State, lost int) {
		t.Helper()
		clk.Advance(d)
		if _, err := s.SignOffLost(t.Context(), db.Read()); err != nil {
			t.Fatal(err)
		}
		for id, state := range want {
			if got, err := s.Get(t.Context(), db.Read(), id); err != nil || got.State != state {
				t.Errorf("%s is %s, %v; want %s", got.Email, got.State, err, state)
			}
		}
		if ids, err := s.BusyLost(t.Context(), db.Read()); err != nil || len(ids) != lost {
			t.Errorf("lost with work in hand: %v, %v", ids, err)
		}
	}
	after(lawyer.LeaseLost, map[string]lawyer.State{waits: lawyer.Available, pauses: lawyer.Away, works: lawyer.Busy},
		0)
	after(time.Microsecond, map[string]lawyer.State{waits: lawyer.Offline, pauses: lawyer.Offline, works: lawyer.Busy},
		1)
	if err := s.Beat(t.Context(), db.Read(), leases[waits]); !errors.Is(err, lawyer.ErrLeaseLost) {
		t.Errorf("a beat of the old connection: %v", err)
	}
	var queued int
	if err := db.Pool().QueryRow(t.Context(), "SELECT count(idle_since) FROM lawyer_pairs").Scan(&queued); err != nil ||
		queued != 0 {
		t.Errorf("%d places in queues, %v", queued, err)
	}
	back := sign("d@example.com")
	clk.Advance(lawyer.LeaseLost + time.Second) // without a sweep in between
	for _, id := range []string{waits, back} {
		if _, err := s.GoOnline(t.Context(), db.Read(), id); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(t.Context(), db.Read(), id); err != nil || got.State != lawyer.Available ||
			!got.IdleSince.Equal(clk.Now()) {
			t.Errorf("%s came back %s, idle since %s, %v", got.Email, got.State, got.IdleSince, err)
		}
	}
}

// A shift is a period in which a lawyer was neither OFFLINE nor AWAY. Only one shift is open at a time.
func TestShiftsAreTheTimesOnDuty(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	clk := clock.NewManual(start)
	db, s := dbtest.NewWithClock(t, clk), service(t)
	l, err := create(t, db, s, valid())
	if err != nil {
		t.Fatal(err)
	}
	tx := func() postgres.Tx { return db.Read() }
	var lease lawyer.Lease
	on := func() error { lease, err = s.GoOnline(t.Context(), tx(), l.ID); return err }
	move := func(from lawyer.State, to lawyer.Move) func() error {
		return func() error { return s.SetState(t.Context(), tx(), l.ID, []lawyer.State{from}, to) }
	}
	idle := func() error { _, err := s.ReturnIdle(t.Context(), tx(), l.ID); return err }
	lost := func() error {
		clk.Advance(2 * lawyer.LeaseLost)
		_, err := s.SignOffLost(t.Context(), tx())
		return err
	}
	inTx := func(f func(tx postgres.Tx) error) func() error {
		return func() error { return db.InTx(t.Context(), f) }
	}
	for _, step := range []struct {
		name string
		do   func() error
		want string // shifts after the step, as start-end in minutes
	}{
		{"signs on", on, "0-"},
		{"connects again", on, "0-"},
		{"an offer", move(lawyer.Available, lawyer.On(lawyer.Offered)), "0-"},
		{"accepts", move(lawyer.Offered, lawyer.On(lawyer.Busy)), "0-"},
		{"wants a pause", func() error { return s.Pause(t.Context(), tx(), lease) }, "0-"},
		{"writes the note", move(lawyer.Busy, lawyer.On(lawyer.WrapUp)), "0-"},
		{"and pauses", move(lawyer.WrapUp, lawyer.On(lawyer.Available)), "0-6"},
		{"comes back", on, "0-6 7-"},
		{"misses an offer", func() error {
			return errors.Join(move(lawyer.Available, lawyer.On(lawyer.Offered))(),
				move(lawyer.Offered, lawyer.Off(lawyer.MissedOffer))())
		}, "0-6 7-8"},
		{"is brought back", idle, "0-6 7-8 9-"},
		{"pauses", func() error { return errors.Join(on(), s.Pause(t.Context(), tx(), lease)) }, "0-6 7-8 9-10"},
		{"comes back again", on, "0-6 7-8 9-10 11-"},
		{"signs off", inTx(func(tx postgres.Tx) error { return s.GoOffline(t.Context(), tx, lease) }),
			"0-6 7-8 9-10 11-12"},
		{"and on", on, "0-6 7-8 9-10 11-12 13-"},
		{"is lost", lost, "0-6 7-8 9-10 11-12 13-16"},
		{"signs on after that", on, "0-6 7-8 9-10 11-12 13-16 17-"},
		{"is suspended",
			inTx(func(tx postgres.Tx) error { return s.Suspend(t.Context(), tx, l.ID, lawyer.BySuspension, false) }),
			"0-6 7-8 9-10 11-12 13-16 17-18"},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var got string
		err := db.Pool().QueryRow(t.Context(), `SELECT string_agg(concat(extract(epoch FROM from_at - $2)::int / 60, '-', extract(epoch FROM until_at - $2)::int / 60), ' ' ORDER BY id)
			FROM lawyer_shifts WHERE lawyer_id = $1`, l.ID, start).Scan(&got)
		if err != nil || got != step.want {
			t.Errorf("%s: shifts %q, %v; want %q", step.name, got, err, step.want)
		}
		clk.Advance(time.Minute)
	}
	clk.Advance(13 * 31 * 24 * time.Hour)
	if err := errors.Join(inTx(func(tx postgres.Tx) error { return s.Resume(t.Context(), tx, l.ID) })(),
		on()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PurgeShifts(t.Context(), tx()); err != nil || n != 6 {
		t.Errorf("%d shifts purged, %v; want the 6 of last year and not the one that goes on", n, err)
	}
}

// However connections, pauses and sign-offs interleave: one shift is open if the lawyer ends up on duty, otherwise
// none.
func TestShiftsSurviveWhatMeets(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	l, err := create(t, db, s, valid())
	if err != nil {
		t.Fatal(err)
	}
	acts := []func(tx postgres.Tx) error{
		func(tx postgres.Tx) error { _, err := s.GoOnline(t.Context(), tx, l.ID); return err },
		func(tx postgres.Tx) error { _, err := s.GoOnline(t.Context(), tx, l.ID); return err },
		func(tx postgres.Tx) error {
			now, err := s.Get(t.Context(), tx, l.ID)
			if err == nil {
				err = s.Pause(t.Context(), tx, lawyer.Lease{LawyerID: l.ID, Epoch: now.LeaseEpoch})
			}
			return err
		},
		func(tx postgres.Tx) error {
			now, err := s.Get(t.Context(), tx, l.ID)
			if err == nil {
				err = s.GoOffline(t.Context(), tx, lawyer.Lease{LawyerID: l.ID, Epoch: now.LeaseEpoch})
			}
			return err
		},
	}
	for round := range 40 {
		var all sync.WaitGroup
		for _, act := range acts {
			all.Go(func() {
				err := db.InTx(t.Context(), act)
				// another goroutine was faster
				if err != nil && !errors.Is(err, lawyer.ErrLeaseLost) && !errors.Is(err, lawyer.ErrState) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var open, onDuty int
		err := db.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM lawyer_shifts WHERE until_at IS NULL),
			(SELECT count(*) FROM lawyers WHERE state NOT IN ('OFFLINE', 'AWAY'))`).Scan(&open, &onDuty)
		if err != nil || open != onDuty {
			t.Fatalf("round %d: %d shifts go on, on duty %d, %v", round, open, onDuty, err)
		}
	}
}

// 70,000 lawyers are more than a statement may have parameters, so this must not use one parameter per lawyer.
func TestAnyNumberOfLawyersBeatsAndIsSignedOff(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), service(t)
	const n = 70_000
	for _, sql := range []string{
		`INSERT INTO lawyers (id, email, name, password_hash, phone_sealed, state, idle_since, created_at, updated_at)
			SELECT 'law_' || n, n || '@example.com', 'L', '!', '\x00', 'AVAILABLE', $1, $1, $1 FROM generate_series(1, 70000) n`,
		`INSERT INTO lawyer_presence SELECT id, $1 FROM lawyers`,
	} {
		if _, err := db.Pool().Exec(t.Context(), sql, clk.Now()); err != nil {
			t.Fatal(err)
		}
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("law_", i+1)
	}
	clk.Advance(lawyer.LeaseLost + time.Second)
	if err := s.Heartbeat(t.Context(), db.Read(), ids[1000:]...); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = s.SignOffLost(t.Context(), db.Read()); err != nil {
			t.Fatal(err)
		}
	}
	var off int
	err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM lawyers WHERE state = 'OFFLINE'").Scan(&off)
	if err != nil || off != 1000 {
		t.Errorf("%d signed off, %v; want the 1000 who did not beat", off, err)
	}
}

func TestNobodySignsInAsASimulatedLawyer(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), service(t)
	n := valid()
	n.Simulated = true
	l, err := create(t, db, s, n)
	if err != nil {
		t.Fatal(err)
	}
	var hash string
	if err := db.Pool().QueryRow(t.Context(), "SELECT password_hash FROM lawyers WHERE id = $1", l.ID).
		Scan(&hash); err != nil || strings.HasPrefix(hash, "$") {
		t.Errorf("hash %q, %v; want none", hash, err)
	}
	if ids, err := s.Simulated(t.Context(), db.Read()); err != nil || len(ids) != 1 || ids[0] != l.ID {
		t.Errorf("simulated %v, %v", ids, err)
	}
}
