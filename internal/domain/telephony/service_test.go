package telephony_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

const clientNumber, lawyerNumber = "+33199000011", "+33199000022"

// provider records its commands. If fail is set, it may reject them.
type provider struct {
	mu     sync.Mutex
	said   []string
	ids    []string
	fail   func(what string) error
	report []telephony.Event
}

func (p *provider) take(c telephony.Command, what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		if err := p.fail(what); err != nil {
			return err
		}
	}
	p.said, p.ids = append(p.said, what), append(p.ids, c.CommandID)
	return nil
}

func (p *provider) PlaceLeg(_ context.Context, c telephony.PlaceLeg) error {
	return p.take(c.Command, fmt.Sprintf("place %s %s %s %v", c.Role, c.To, c.Timeout, c.MachineDetection))
}
func (p *provider) Bridge(_ context.Context, c telephony.Bridge) error {
	return p.take(c.Command, fmt.Sprintf("bridge %s %s", c.Role, c.MaxDuration))
}
func (p *provider) Play(_ context.Context, c telephony.Play) error {
	return p.take(c.Command, fmt.Sprintf("play %s %s %s", c.Role, c.Prompt, c.Language))
}
func (p *provider) Collect(_ context.Context, c telephony.Collect) error {
	return p.take(c.Command, fmt.Sprintf("collect %s %d %s", c.Role, c.Digits, c.Timeout))
}
func (p *provider) Hangup(_ context.Context, c telephony.Hangup) error {
	return p.take(c.Command, "hang up "+c.Reason)
}
func (p *provider) Report(context.Context, string) ([]telephony.Event, error) { return p.report, nil }

type people struct{}

func (people) ClientNumber(context.Context, string) (string, error)   { return clientNumber, nil }
func (people) LawyerNumber(context.Context, string) (string, error)   { return lawyerNumber, nil }
func (people) LawyerLanguage(context.Context, string) (string, error) { return "EN", nil }
func (people) Application(context.Context, string) (string, error)    { return "CRM", nil }

type fixture struct {
	*testing.T
	ctx   context.Context
	clock *clock.Manual
	db    *postgres.DB
	p     *provider
	s     *telephony.Service
}

func setUp(t *testing.T) *fixture {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	f := &fixture{T: t, ctx: t.Context(), clock: clk, db: dbtest.NewWithClock(t, clk), p: &provider{}}
	f.s = telephony.New(f.db, f.p, people{}, slog.New(slog.DiscardHandler))
	for _, sql := range []string{
		`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app', 'CRM', '{}', '{}', 'x', now(), now())`,
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli', 'c@example.com', 'Demo Client', 'x', now(), now())`,
		`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ('law', 'l@example.com', 'L', 'x', 'BUSY', now(), now())`,
		`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent,
				price_cents, phone_sealed, created_at, updated_at, search_started_at)
			SELECT 'con_' || n, 'app', 'cli', 'MATCHING', 'FAMILY', 'FR', 'x', false, 2000, 'x', now(), now(), now() FROM generate_series(1, 2) n`,
	} {
		if _, err := f.db.Pool().Exec(f.ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fixture) place(consultation string, record bool) (c telephony.Call, err error) {
	f.Helper()
	err = f.db.InTx(f.ctx, func(tx postgres.Tx) (err error) {
		c, err = f.s.Place(f.ctx, tx, telephony.Start{ConsultationID: consultation, ClientID: "cli", LawyerID: "law",
			Attempt: 1, Record: record, Language: "FR"})
		if errors.Is(err, telephony.ErrLineBusy) {
			if _, _, after := f.s.Active(f.ctx, tx, consultation); after != nil {
				f.Errorf("the transaction is lost: %v", after)
			}
		}
		return err
	})
	return c, err
}

func (f *fixture) mustPlace(record bool) telephony.Call {
	f.Helper()
	c, err := f.place("con_1", record)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) apply(e telephony.Event) []telephony.OutcomeKind {
	f.Helper()
	var kinds []telephony.OutcomeKind
	err := f.db.InTx(f.ctx, func(tx postgres.Tx) error {
		_, outcomes, err := f.s.Apply(f.ctx, tx, e)
		kinds = nil
		for _, o := range outcomes {
			kinds = append(kinds, o.Kind)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return kinds
}

// work carries out everything that is due.
func (f *fixture) work() {
	f.Helper()
	for {
		n, err := f.s.Execute(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func (f *fixture) wantSaid(want ...string) {
	f.Helper()
	if !slices.Equal(f.p.said, want) {
		f.Errorf("the provider was told %q, want %q", f.p.said, want)
	}
}

func (f *fixture) event(c telephony.Call, id string, kind telephony.EventKind, role telephony.Role) telephony.Event {
	return telephony.Event{ID: id, CallID: c.ID, Kind: kind, Role: role, At: f.clock.Now()}
}

// lawyerReady makes the lawyer answer and press 1.
func (f *fixture) lawyerReady(c telephony.Call) {
	f.Helper()
	f.apply(f.event(c, "1", telephony.LegAnswered, telephony.Lawyer))
	f.work()
	press := f.event(c, "1a", telephony.LegDigits, telephony.Lawyer)
	press.Digits = "1"
	f.apply(press)
}

func (f *fixture) talk(record bool) telephony.Call {
	f.Helper()
	c := f.mustPlace(record)
	f.work()
	f.lawyerReady(c)
	f.work()
	f.apply(f.event(c, "2", telephony.LegAnswered, telephony.Client))
	f.work()
	press := f.event(c, "3", telephony.LegDigits, telephony.Client)
	press.Digits = "1"
	f.apply(press)
	f.work()
	if got := f.apply(f.event(c, "4", telephony.LegsJoined, "")); !slices.Equal(got,
		[]telephony.OutcomeKind{telephony.Started}) {
		f.Fatalf("joining meant %v", got)
	}
	f.work()
	return c
}

var setup = []string{"place LAWYER +33199000022 30s true", "play LAWYER lawyer EN", "collect LAWYER 1 20s",
	"bridge LAWYER 20m0s", "place CLIENT +33199000011 30s true", "play CLIENT confirm FR", "collect CLIENT 1 20s",
	"bridge CLIENT 20m0s"}

func TestACallDialsTheLawyerThenTheClientsNumberAndNobodyElse(t *testing.T) {
	f := setUp(t)
	c := f.talk(false)
	f.wantSaid(setup...)
	f.clock.Advance(90 * time.Second)
	over := f.event(c, "5", telephony.CallOver, "")
	if got := f.apply(over); !slices.Equal(got, []telephony.OutcomeKind{telephony.Finished}) {
		t.Errorf("the end meant %v", got)
	}
	if got, err := f.s.Get(f.ctx, f.db.Read(), c.ID); err != nil || got.DurationSec(f.clock.Now()) != 90 {
		t.Errorf("lasted %d s, %v", got.DurationSec(f.clock.Now()), err)
	}
	f.work()
	f.wantSaid(append(slices.Clone(setup), "hang up by_provider")...) // ends any leg still on the line
}

// Nothing is recorded, even if recording was allowed, or if an earlier version queued the command.
func TestNothingIsRecorded(t *testing.T) {
	f := setUp(t)
	c := f.talk(true)
	if !c.Record {
		t.Error("the call does not say that recording was allowed")
	}
	if _, err := f.db.Pool().Exec(f.ctx, `INSERT INTO call_commands (id, call_id, kind, args, due_at) VALUES ('cmd_before', $1, 'START_RECORDING', '{}', $2)`,
		c.ID, f.clock.Now()); err != nil {
		t.Fatal(err)
	}
	f.work()
	f.wantSaid(setup...)
	var done bool
	if err := f.db.Pool().
		QueryRow(f.ctx, "SELECT done_at IS NOT NULL AND attempts = 1 FROM call_commands WHERE id = 'cmd_before'").
		Scan(&done); err != nil || !done {
		t.Errorf("the command of before is not done: %v", err)
	}
}

func TestARepeatedEventMeansNothing(t *testing.T) {
	f := setUp(t)
	c := f.talk(false)
	for _, e := range []telephony.Event{
		f.event(c, "2", telephony.LegAnswered, telephony.Client), f.event(c, "4", telephony.LegsJoined, ""),
	} {
		if got := f.apply(e); got != nil {
			t.Errorf("%s again meant %v", e.Kind, got)
		}
	}
	f.work()
	f.wantSaid(setup...)
}

func TestOneCallPerClientAtATime(t *testing.T) {
	f := setUp(t)
	c := f.mustPlace(false)
	for _, con := range []string{"con_1", "con_2"} {
		if _, err := f.place(con, false); !errors.Is(err, telephony.ErrLineBusy) {
			t.Errorf("a second call for %s: %v", con, err)
		}
	}
	f.work()
	err := f.db.InTx(f.ctx, func(tx postgres.Tx) error { return f.s.Hangup(f.ctx, tx, c.ID, "cancelled") })
	if err != nil {
		t.Fatal(err)
	}
	f.work()
	f.wantSaid(setup[0], "hang up cancelled")
	if _, err := f.place("con_2", false); err != nil {
		t.Errorf("after the hang-up: %v", err)
	}
}

func TestACallThatIsOverBeforeItIsDialledDialsNobody(t *testing.T) {
	f := setUp(t)
	c := f.mustPlace(false)
	err := f.db.InTx(f.ctx, func(tx postgres.Tx) error {
		o, err := f.s.End(f.ctx, tx, c.ID, "cancelled")
		if o.Kind != telephony.Aborted {
			t.Errorf("ended as %s", o.Kind)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.work()
	f.wantSaid("hang up cancelled")
}

func TestAFailedCommandIsTriedAgainWithItsIdAndWithoutTheNumberInTheRecord(t *testing.T) {
	f := setUp(t)
	f.p.fail = func(what string) error { return errors.New("no trunk for " + what) }
	f.mustPlace(false)
	f.work()
	f.work() // not due again yet
	var fault, id string
	var tries int
	err := f.db.Pool().QueryRow(f.ctx, "SELECT id, attempts, last_error FROM call_commands").Scan(&id, &tries, &fault)
	if err != nil || tries != 1 || !strings.Contains(fault, "no trunk") || strings.Contains(fault, "99000022") {
		t.Errorf("%d tries, %q, %v; want one and no number", tries, fault, err)
	}
	f.p.fail = nil
	f.clock.Advance(time.Minute)
	f.work()
	f.wantSaid(setup[0])
	if !slices.Equal(f.p.ids, []string{id}) {
		t.Errorf("carried out as %v, want %s", f.p.ids, id)
	}
	var plain int
	if err := f.db.Pool().QueryRow(f.ctx, "SELECT count(*) FROM call_commands WHERE args::text LIKE '%99000%'").
		Scan(&plain); err != nil || plain != 0 {
		t.Errorf("%d commands hold a number, %v", plain, err)
	}
}

// A worker that died while carrying out a command delays only its call, and only until its claim ends.
func TestCommandsSurviveAWorkerThatDied(t *testing.T) {
	f := setUp(t)
	f.mustPlace(false)
	dead, kill := context.WithCancel(f.ctx)
	f.p.fail = func(string) error { kill(); return errors.New("cut off") }
	if _, err := f.s.Execute(dead); !errors.Is(err, context.Canceled) {
		t.Fatalf("the dead worker: %v", err)
	}
	f.p.fail = nil
	f.work()
	f.wantSaid()
	f.clock.Advance(time.Minute)
	f.work()
	f.wantSaid(setup[0])
}

func TestParallelWorkersCarryOutEachCommandOnce(t *testing.T) {
	f := setUp(t)
	f.mustPlace(false)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := f.s.Execute(f.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f.wantSaid(setup[0])
}

// A leg that cannot be restored may report this several times: a machine, no key, an end. It is placed again once, and
// not at all if the line is restored first.
func TestALegIsPlacedAgainOnce(t *testing.T) {
	f := setUp(t)
	c := f.talk(false)
	parted := f.event(c, "5", telephony.LegsParted, "")
	parted.By = telephony.Lawyer
	f.apply(parted)
	f.work()
	f.apply(f.event(c, "6", telephony.LegAnswered, telephony.Lawyer))
	f.work()
	again := append(slices.Clone(setup), setup[:3]...)
	f.wantSaid(again...)
	f.apply(f.event(c, "7", telephony.LegMachine, telephony.Lawyer))
	f.apply(f.event(c, "8", telephony.LegDigits, telephony.Lawyer))
	f.apply(f.event(c, "9", telephony.LegFailed, telephony.Lawyer))
	f.clock.Advance(15 * time.Second)
	f.work()
	again = append(again, setup[0])
	f.wantSaid(again...)
	f.apply(f.event(c, "10", telephony.LegMachine, telephony.Lawyer))
	f.apply(f.event(c, "11", telephony.LegsJoined, ""))
	f.clock.Advance(time.Minute)
	f.work()
	f.wantSaid(again...)
}

// The desk shows why the lawyer was paused: the phone was not answered, or no one pressed 1.
func TestMissedIsTheLastCallThatTheLawyerDidNotTake(t *testing.T) {
	f := setUp(t)
	since := f.clock.Now()
	missed := func(since time.Time) (telephony.Call, bool) {
		t.Helper()
		c, found, err := f.s.Missed(f.ctx, f.db.Read(), "law", since)
		if err != nil {
			t.Fatal(err)
		}
		return c, found
	}
	c := f.mustPlace(false)
	f.lawyerReady(c)
	f.apply(f.event(c, "2", telephony.LegFailed, telephony.Client))
	if _, found := missed(since); found {
		t.Error("the client's silence counts as the lawyer's")
	}
	c = f.mustPlace(false)
	f.apply(f.event(c, "1", telephony.LegAnswered, telephony.Lawyer))
	f.apply(f.event(c, "2", telephony.LegDigits, telephony.Lawyer))
	if got, found := missed(since); !found || got.ID != c.ID || got.Reason != telephony.NotConfirmed {
		t.Errorf("got %v %+v", found, got)
	}
	if _, found := missed(f.clock.Now().Add(time.Second)); found {
		t.Error("found one from before")
	}
}

func TestASilentCallIsAskedAbout(t *testing.T) {
	f := setUp(t)
	c := f.mustPlace(false)
	f.work()
	f.p.report = []telephony.Event{f.event(c, "1", telephony.LegAnswered, telephony.Lawyer)}
	var got []telephony.Event
	poll := func() {
		t.Helper()
		err := f.s.Poll(f.ctx, func(_ context.Context, e telephony.Event) error { got = append(got, e); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	f.clock.Advance(telephony.Silence - time.Second)
	poll()
	if len(got) != 0 {
		t.Errorf("asked too early")
	}
	f.clock.Advance(time.Second)
	poll()
	poll()
	if len(got) != 1 || got[0].ID != "1" {
		t.Errorf("got %v, want the lost notice once", got)
	}
}

func TestAttemptsCountsCallsThatDidNotReachTheClient(t *testing.T) {
	f := setUp(t)
	for range 2 {
		c := f.mustPlace(false)
		f.lawyerReady(c)
		fail := f.event(c, "2", telephony.LegFailed, telephony.Client)
		fail.Reason = telephony.Busy
		f.apply(fail)
	}
	c := f.mustPlace(false)
	f.apply(f.event(c, "1", telephony.LegFailed, telephony.Lawyer))
	if n, err := f.s.Attempts(f.ctx, f.db.Read(), "con_1"); err != nil || n != 2 {
		t.Errorf("%d attempts, %v; want 2", n, err)
	}
	if err := f.db.InTx(f.ctx, func(tx postgres.Tx) error {
		_, _, err := f.s.Apply(f.ctx, tx, telephony.Event{ID: "1", CallID: "cal_unknown", Kind: telephony.CallOver})
		return err
	}); !errors.Is(err, telephony.ErrNoCall) {
		t.Errorf("an unknown call: %v", err)
	}
}

// An event that does not change the call is stored once, and counts as a sign that the provider has the call.
func TestAnEventThatSaysNothingIsKept(t *testing.T) {
	f := setUp(t)
	c := f.mustPlace(false)
	f.clock.Advance(3 * time.Second)
	ahead := telephony.Event{ID: "1", CallID: c.ID, Kind: telephony.LegRinging, Role: telephony.Lawyer,
		At: f.clock.Now().Add(time.Minute)}
	for _, e := range []telephony.Event{
		ahead, ahead, {ID: "2", CallID: c.ID, Kind: telephony.LegRinging, At: c.StartedAt.Add(-time.Minute)},
	} {
		if !e.SaysNothing() {
			t.Errorf("%s says something", e.Kind)
		}
		if of, err := f.s.Heard(f.ctx, f.db.Read(), e); of != "law" || err != nil {
			t.Errorf("the lawyer is %q: %v", of, err)
		}
	}
	told, err := f.s.History(f.ctx, f.db.Read(), "con_1")
	if err != nil || len(told) != 1 || len(told[0].Events) != 2 {
		t.Fatalf("told: %+v, %v", told, err)
	}
	if at := told[0].Events[0].At; !at.Equal(c.StartedAt) {
		t.Errorf("what was before the call is at %s", at)
	}
	if at := told[0].Events[1].At; !at.Equal(f.clock.Now()) {
		t.Errorf("what is to come is at %s", at)
	}
	if now, err := f.s.Get(f.ctx, f.db.Read(), c.ID); err != nil || now.State != c.State ||
		!now.LastEventAt.Equal(f.clock.Now()) {
		t.Errorf("the call: %+v, %v", now, err)
	}
	for fault, e := range map[error]telephony.Event{
		telephony.ErrNoCall: {ID: "1", CallID: "cal_unknown", Kind: telephony.LegRinging},
		nil:                 {CallID: c.ID, Kind: telephony.LegRinging},
	} {
		if _, err := f.s.Heard(f.ctx, f.db.Read(), e); err == nil || fault != nil && !errors.Is(err, fault) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
