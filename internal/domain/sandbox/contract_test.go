package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/telephony/twilio"
	"partnerd/internal/domain/telephony/twilio/twiliotest"
	"partnerd/internal/infra/postgres"
)

// Numbers of the two people called, and of the caller that they see.
const theClient, theLawyer, theCaller = "+33199000011", "+33199000022", "+33199000000"

const twilioAccount, twilioToken = "AC0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"

// switchboard is the call service with one provider and a manual clock.
type switchboard struct {
	*testing.T
	ctx      context.Context
	db       *postgres.DB
	clock    *clock.Manual
	service  *telephony.Service
	provider provider
	outcomes []telephony.Outcome
}

// provider is a driver with a simulated world behind it.
type provider interface {
	adapter() telephony.Adapter
	due()                    // carries out what is due
	next() (time.Time, bool) // when something happens next
	over()                   // fails if anyone is still on the line
}

type twoPeople struct{}

func (twoPeople) ClientNumber(context.Context, string) (string, error)   { return theClient, nil }
func (twoPeople) LawyerNumber(context.Context, string) (string, error)   { return theLawyer, nil }
func (twoPeople) LawyerLanguage(context.Context, string) (string, error) { return "EN", nil }
func (twoPeople) Application(context.Context, string) (string, error)    { return "CRM", nil }

func openSwitchboard(t *testing.T, connect func(*switchboard) provider) *switchboard {
	t.Helper()
	clk := clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 400e6, time.UTC))
	s := &switchboard{T: t, ctx: t.Context(), clock: clk, db: dbtest.NewWithClock(t, clk)}
	for _, sql := range []string{
		`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app', 'CRM', '{}', '{}', 'x', now(), now())`,
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli', 'c@example.com', 'Demo Client', 'x', now(), now())`,
		`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ('law', 'l@example.com', 'L', 'x', 'BUSY', now(), now())`,
		`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent,
			price_cents, phone_sealed, created_at, updated_at, search_started_at) VALUES ('con', 'app', 'cli', 'MATCHING', 'FAMILY', 'FR', 'x', false, 2000, 'x', now(), now(), now())`,
	} {
		if _, err := s.db.Pool().Exec(s.ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	s.provider = connect(s)
	s.service = telephony.New(s.db, s.provider.adapter(), twoPeople{}, silent)
	return s
}

// deliver handles an event as a consultation does.
func (s *switchboard) deliver(ctx context.Context, e telephony.Event) error {
	return s.db.InTx(ctx, func(tx postgres.Tx) error {
		if err := tx.Lock(ctx, "con"); err != nil {
			return err
		}
		_, outcomes, err := s.service.Apply(ctx, tx, e)
		if err == nil {
			tx.AfterCommit(func() { s.outcomes = append(s.outcomes, outcomes...) })
		}
		return err
	})
}

func (s *switchboard) place(record bool) telephony.Call {
	s.Helper()
	var c telephony.Call
	err := s.db.InTx(s.ctx, func(tx postgres.Tx) (err error) {
		c, err = s.service.Place(s.ctx, tx, telephony.Start{ConsultationID: "con", ClientID: "cli", LawyerID: "law",
			Attempt: 1, Record: record, Language: "FR"})
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// execute carries out the due commands.
func (s *switchboard) execute() {
	s.Helper()
	for {
		n, err := s.service.Execute(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// settle does everything that is due now.
func (s *switchboard) settle() {
	s.Helper()
	for range 4 {
		s.execute()
		s.provider.due()
	}
	if err := s.service.Poll(s.ctx, s.deliver); err != nil {
		s.Logf("poll: %v", err)
	}
	s.execute()
}

// pass advances the clock to the next thing that happens, by at most 10 s.
func (s *switchboard) pass() {
	s.Helper()
	now := s.clock.Now()
	next := now.Add(10 * time.Second)
	if at, ok := s.provider.next(); ok && at.Before(next) {
		next = at
	}
	if at := s.command(); at != nil && at.Before(next) {
		next = *at
	}
	s.clock.Advance(max(next.Sub(now), time.Millisecond))
}

// command returns when the next command can be carried out, or nil if there is none.
func (s *switchboard) command() (at *time.Time) {
	s.Helper()
	err := s.db.Pool().QueryRow(s.ctx, `SELECT (SELECT greatest(due_at, claimed_until) FROM call_commands WHERE done_at IS NULL ORDER BY position LIMIT 1)`).Scan(&at)
	if err != nil {
		s.Fatal(err)
	}
	return at
}

// play lets a call continue until it ends, or until the caller ends it after the line was lost for a minute.
func (s *switchboard) play(c telephony.Call) telephony.Call {
	s.Helper()
	for range 400 {
		s.settle()
		got, err := s.service.Get(s.ctx, s.db.Read(), c.ID)
		if err != nil {
			s.Fatal(err)
		}
		if got.State == telephony.Lost && s.clock.Now().Sub(*got.LostAt) > time.Minute {
			err := s.db.InTx(s.ctx, func(tx postgres.Tx) error {
				o, err := s.service.End(s.ctx, tx, c.ID, "line_lost")
				tx.AfterCommit(func() { s.outcomes = append(s.outcomes, o) })
				return err
			})
			if err != nil {
				s.Fatal(err)
			}
			continue
		}
		if got.State == telephony.Ended {
			for s.settle(); s.command() != nil; s.settle() {
				s.pass()
			}
			s.clock.Advance(30 * time.Second) // for anything late
			s.settle()
			s.provider.over()
			return got
		}
		s.pass()
	}
	s.Fatalf("the call does not end: %v", s.outcomes)
	return telephony.Call{}
}

// told describes the outcomes. sec is the duration of the last one.
func told(outcomes []telephony.Outcome) (text string, sec int) {
	var parts []string
	for _, o := range outcomes {
		parts = append(parts, strings.TrimSpace(string(o.Kind)+" "+o.Reason))
		sec = o.DurationSec
	}
	return strings.Join(parts, ", "), sec
}

// simulated is the provider of a sandbox.
type simulated struct {
	s     *switchboard
	calls *sandbox.Calls
}

func simulator(script sandbox.Script) func(*switchboard) provider {
	return func(s *switchboard) provider {
		return simulated{s, sandbox.NewCalls(s.db, func(string) sandbox.Script { return script }, silent)}
	}
}

func (p simulated) adapter() telephony.Adapter { return p.calls }
func (p simulated) over()                      {}
func (p simulated) due() {
	if _, err := p.calls.Deliver(p.s.ctx, p.s.deliver); err != nil {
		p.s.Fatal(err)
	}
}
func (p simulated) next() (time.Time, bool) {
	var at *time.Time
	if err := p.s.db.Pool().QueryRow(p.s.ctx, "SELECT min(due_at) FROM sandbox_call_steps WHERE done_at IS NULL").
		Scan(&at); err != nil {
		p.s.Fatal(err)
	}
	if at == nil {
		return time.Time{}, false
	}
	return *at, true
}

// rented is a driver with the stand-in of its provider.
type rented struct {
	s       *switchboard
	driver  *twilio.Driver
	standIn *twiliotest.Server
	base    string // base URL of callbacks
}

func standIn(script twiliotest.Script) func(*switchboard) provider {
	return func(s *switchboard) provider { return connectTwilio(s, script, silent, nil) }
}

// connectTwilio creates a driver. If tamper is not nil, it may change the requests to the provider.
func connectTwilio(s *switchboard, script twiliotest.Script, log *slog.Logger, tamper func(*http.Request)) rented {
	p := rented{s: s, standIn: twiliotest.New(twilioAccount, twilioToken, s.clock)}
	p.standIn.Play(script)
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tamper != nil {
			tamper(r)
		}
		p.standIn.ServeHTTP(w, r)
	}))
	s.Cleanup(remote.Close)
	var driver *twilio.Driver
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerNotice(s.T, driver, w, r)
	}))
	s.Cleanup(ours.Close)
	var err error
	driver, err = twilio.New(s.db, twilio.Config{AccountSID: twilioAccount, AuthToken: twilioToken, CallerID: theCaller,
		URL: remote.URL, BaseURL: ours.URL, Service: "Allo Droit"},
		s.deliver, log)
	if err != nil {
		s.Fatal(err)
	}
	p.driver, p.base = driver, ours.URL
	return p
}

// answerNotice handles a callback as the program's HTTP handler does.
func answerNotice(t *testing.T, driver *twilio.Driver, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, twilio.CallbackPath), "/")
	reply, err := driver.Handle(context.WithoutCancel(r.Context()), telephony.Notice{CommandID: parts[0],
		Kind: parts[1], Address: r.URL.RequestURI(), Body: body, Header: r.Header})
	if err != nil {
		t.Logf("notice of %s: %v", parts[1], err)
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, reply.Body)
}

func (p rented) adapter() telephony.Adapter { return p.driver }
func (p rented) due()                       { p.standIn.Due(p.s.ctx) }
func (p rented) next() (time.Time, bool)    { return p.standIn.Next() }

// over fails if anyone is still on the line or a wrong number was dialled.
func (p rented) over() {
	p.s.Helper()
	for _, c := range p.standIn.Calls() {
		if c.Status == "queued" || c.Status == "ringing" || c.Status == "in-progress" {
			p.s.Errorf("after the call the leg to %s is %s", c.To, c.Status)
		}
		if c.To != theClient && c.To != theLawyer {
			p.s.Errorf("%s was dialled", c.To)
		}
	}
}

func (p rented) dialled(number string) (n int) {
	for _, c := range p.standIn.Calls() {
		if c.To == number {
			n++
		}
	}
	return n
}

// failures translates the reasons of a script for the other provider.
var failures = map[string]string{telephony.NoAnswer: "no-answer", telephony.Busy: "busy", telephony.Carrier: "failed",
	telephony.Invalid: "invalid"}

// translated returns the same script for the stand-in.
func translated(s sandbox.Script) twiliotest.Script {
	sec := func(d time.Duration) twiliotest.Seconds { return twiliotest.Seconds(d.Seconds()) }
	return twiliotest.Script{
		Phones: map[string]twiliotest.Phone{
			theLawyer: {AnswerAfter: sec(s.LawyerAnswerAfter), Fails: failures[s.LawyerFails],
				Voicemail: s.LawyerVoicemail, Press: s.LawyerPress, PressAfter: sec(s.LawyerPressAfter),
				DropAfter: sec(s.LawyerDropAt), Restore: s.Restore, Mailbox: s.Mailbox,
				HangUpAfter: sec(s.LawyerHangUpAt)},
			theClient: {AnswerAfter: sec(s.AnswerAfter), Fails: failures[s.Fails], Voicemail: s.Voicemail,
				Press: s.Press, PressAfter: sec(s.PressAfter), DropAfter: sec(s.DropAt), Restore: s.Restore,
				Mailbox: s.Mailbox, HangUpAfter: sec(s.ClientHangUpAt)},
		},
		Duplicate: s.Duplicate, Reorder: s.Reorder,
	}
}

// talk returns a successful call that lasts until someone ends it.
func talk(change func(*sandbox.Script)) sandbox.Script {
	s := sandbox.DefaultScript("")
	if change != nil {
		change(&s)
	}
	return s
}

// contract lists scripts and their outcomes with every driver.
var contract = []struct {
	name   string
	script sandbox.Script
	want   string
	sec    int
}{
	{"the client hangs up", talk(func(s *sandbox.Script) { s.ClientHangUpAt = 90 * time.Second }),
		"STARTED, FINISHED by_client", 90},
	{"the lawyer hangs up", talk(func(s *sandbox.Script) { s.LawyerHangUpAt = 61 * time.Second }),
		"STARTED, FINISHED by_lawyer", 61},
	{"nobody hangs up", talk(nil), "STARTED, FINISHED by_provider", 1200},
	{"the lawyer does not answer", talk(func(s *sandbox.Script) { s.LawyerFails = telephony.NoAnswer }),
		"LAWYER_NOT_REACHED no_answer", 0},
	{"the lawyer is busy", talk(func(s *sandbox.Script) { s.LawyerFails = telephony.Busy }),
		"LAWYER_NOT_REACHED busy", 0},
	{"the lawyer has no such number", talk(func(s *sandbox.Script) { s.LawyerFails = telephony.Invalid }),
		"LAWYER_NOT_REACHED invalid", 0},
	{"the lawyer's carrier fails", talk(func(s *sandbox.Script) { s.LawyerFails = telephony.Carrier }),
		"LAWYER_NOT_REACHED carrier", 0},
	{"the lawyer's voicemail answers", talk(func(s *sandbox.Script) { s.LawyerVoicemail = true }),
		"LAWYER_NOT_REACHED voicemail", 0},
	{"the lawyer presses nothing", talk(func(s *sandbox.Script) { s.LawyerPress = "" }),
		"LAWYER_NOT_REACHED not_confirmed", 0},
	{"the lawyer presses another key", talk(func(s *sandbox.Script) { s.LawyerPress = "7" }),
		"LAWYER_NOT_REACHED not_confirmed", 0},
	{"the client does not answer", talk(func(s *sandbox.Script) { s.Fails = telephony.NoAnswer }),
		"NOT_REACHED no_answer", 0},
	{"the client is busy", talk(func(s *sandbox.Script) { s.Fails = telephony.Busy }), "NOT_REACHED busy", 0},
	{"the client has no such number", talk(func(s *sandbox.Script) { s.Fails = telephony.Invalid }),
		"NOT_REACHED invalid", 0},
	{"the client's carrier fails", talk(func(s *sandbox.Script) { s.Fails = telephony.Carrier }),
		"NOT_REACHED carrier", 0},
	{"a machine answers", talk(func(s *sandbox.Script) { s.Voicemail = true }), "NOT_REACHED voicemail", 0},
	{"the client presses nothing", talk(func(s *sandbox.Script) { s.Press = "" }), "NOT_REACHED not_confirmed", 0},
	{"the client presses another key", talk(func(s *sandbox.Script) { s.Press = "5" }), "NOT_REACHED not_confirmed", 0},
	{"the line drops and is restored",
		talk(func(s *sandbox.Script) { s.DropAt, s.LawyerHangUpAt = 30*time.Second, 40*time.Second }),
		"STARTED, DROPPED, RESTORED, FINISHED by_lawyer", 70},
	{"the line drops for good", talk(func(s *sandbox.Script) { s.DropAt, s.Restore = 30*time.Second, false }),
		"STARTED, DROPPED, FINISHED line_lost", 30},
	{"the lawyer's line drops and is restored",
		talk(func(s *sandbox.Script) { s.LawyerDropAt, s.ClientHangUpAt = 30*time.Second, 40*time.Second }),
		"STARTED, DROPPED, RESTORED, FINISHED by_client", 70},
	{"the lawyer's line drops, and his voicemail answers",
		talk(func(s *sandbox.Script) { s.LawyerDropAt, s.Mailbox = 30*time.Second, true }),
		"STARTED, DROPPED, FINISHED line_lost", 30},
}

// The same scripts have the same result with every driver: what happened, in which order, how long it lasted and who
// ended it. Duplicate or reordered callbacks change nothing.
func TestEveryDriverKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, tt := range contract {
		for name, network := range map[string]func(*sandbox.Script){
			"":                        func(*sandbox.Script) {},
			", doubled and reordered": func(s *sandbox.Script) { s.Duplicate, s.Reorder = true, true },
		} {
			script := tt.script
			network(&script)
			drivers := map[string]func(*switchboard) provider{"simulator": simulator(script),
				"twilio": standIn(translated(script))}
			for driver, connect := range drivers {
				t.Run(driver+": "+tt.name+name, func(t *testing.T) {
					t.Parallel()
					s := openSwitchboard(t, connect)
					s.play(s.place(false))
					got, sec := told(s.outcomes)
					if got != tt.want || sec < tt.sec-1 || sec > tt.sec+1 {
						t.Errorf("got %s after %d s, want %s after %d s", got, sec, tt.want, tt.sec)
					}
				})
			}
		}
	}
}

// A command that two processes carry out at the same time happens once, and neither process fails.
func TestTwinsOfACommandAreOne(t *testing.T) {
	t.Parallel()
	s := openSwitchboard(t, simulator(sandbox.Script{Duplicate: true}))
	call := s.place(false)
	for n := range 10 {
		leg := telephony.PlaceLeg{Command: telephony.Command{CommandID: fmt.Sprint("cmd_", n), CallID: call.ID},
			Role: telephony.Client, Timeout: time.Minute}
		var g errgroup.Group
		for range 8 {
			g.Go(func() error { return s.provider.adapter().PlaceLeg(s.ctx, leg) })
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		var steps int
		if err := s.db.Pool().QueryRow(s.ctx, "SELECT count(*) FROM sandbox_call_steps WHERE starts_with(id, $1)",
			leg.CommandID+":").Scan(&steps); err != nil || steps != 4 {
			t.Errorf("%d steps instead of 4: %v", steps, err)
		}
	}
}

// When callbacks are lost or late, the call's state is found by polling. The call starts, lasts and ends as if they had
// arrived.
func TestLostAndLateNoticesAreMadeUpFor(t *testing.T) {
	t.Parallel()
	hangUp := translated(talk(func(s *sandbox.Script) { s.ClientHangUpAt = 200 * time.Second }))
	short := translated(talk(func(s *sandbox.Script) { s.ClientHangUpAt = 10 * time.Second }))
	drop := translated(talk(func(s *sandbox.Script) { s.DropAt, s.LawyerHangUpAt = 30*time.Second, 90*time.Second }))
	machine := translated(talk(func(s *sandbox.Script) { s.Voicemail = true }))
	all := []string{"initiated", "ringing", "answered", "completed", "machine", "participant-join"}
	for name, tt := range map[string]struct {
		script twiliotest.Script
		lose   []string
		late   twiliotest.Seconds
		want   string
		sec    int
	}{
		"ringing lost":            {hangUp, []string{"ringing", "initiated"}, 0, "STARTED, FINISHED by_client", 200},
		"answered lost":           {hangUp, []string{"answered"}, 0, "STARTED, FINISHED by_client", 200},
		"joining lost":            {hangUp, []string{"participant-join"}, 0, "STARTED, FINISHED by_client", 200},
		"joining of a short talk": {short, []string{"participant-join"}, 0, "STARTED, FINISHED by_client", 10},
		"the end lost":            {hangUp, []string{"completed"}, 0, "STARTED, FINISHED by_client", 200},
		"all lost":                {hangUp, all, 0, "STARTED, FINISHED by_client", 200},
		"a drop, all lost": {drop, []string{"answered", "completed", "participant-join"}, 0,
			"STARTED, DROPPED, RESTORED, FINISHED by_lawyer", 120},
		"a machine, its sign lost":  {machine, []string{"machine"}, 0, "NOT_REACHED not_confirmed", 0},
		"all 4 s late":              {hangUp, nil, 4, "STARTED, FINISHED by_client", 200},
		"all 4 s late, a short one": {short, nil, 4, "STARTED, FINISHED by_client", 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.script.Lose, tt.script.Late = tt.lose, tt.late
			s := openSwitchboard(t, standIn(tt.script))
			s.play(s.place(false))
			got, sec := told(s.outcomes)
			if got != tt.want || sec < tt.sec-1 || sec > tt.sec+1 {
				t.Errorf("got %s after %d s, want %s after %d s", got, sec, tt.want, tt.sec)
			}
		})
	}
}
