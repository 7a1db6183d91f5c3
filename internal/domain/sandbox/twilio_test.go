package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/telephony/twilio"
	"partnerd/internal/domain/telephony/twilio/twiliotest"
	"partnerd/internal/infra/postgres"
)

// mortal is a driver whose process dies at its nth command: before it, or after it but before its result is stored.
type mortal struct {
	telephony.Adapter
	kill   func()
	at     int
	after  bool
	number int
}

var errKilled = errors.New("killed")

func (m *mortal) die(send func() error) error {
	m.number++
	if m.number != m.at {
		return send()
	}
	if m.after {
		_ = send()
	}
	m.kill()
	return errKilled
}

func (m *mortal) PlaceLeg(ctx context.Context, c telephony.PlaceLeg) error {
	return m.die(func() error { return m.Adapter.PlaceLeg(ctx, c) })
}
func (m *mortal) Play(ctx context.Context, c telephony.Play) error {
	return m.die(func() error { return m.Adapter.Play(ctx, c) })
}
func (m *mortal) Collect(ctx context.Context, c telephony.Collect) error {
	return m.die(func() error { return m.Adapter.Collect(ctx, c) })
}
func (m *mortal) Bridge(ctx context.Context, c telephony.Bridge) error {
	return m.die(func() error { return m.Adapter.Bridge(ctx, c) })
}
func (m *mortal) Hangup(ctx context.Context, c telephony.Hangup) error {
	return m.die(func() error { return m.Adapter.Hangup(ctx, c) })
}

// A process may die at any command, before the provider receives it or before its response is stored. Another process
// then continues: no one is dialled twice or left on the line, and the call starts and ends.
func TestNobodyIsDialledTwiceWhoeverDies(t *testing.T) {
	t.Parallel()
	script := translated(talk(nil))
	script.Phones[theLawyer] = twiliotest.Phone{AnswerAfter: 1, Press: "1", PressAfter: 2, HangUpAfter: 120}
	script.Phones[theClient] = twiliotest.Phone{AnswerAfter: 1, Press: "1", PressAfter: 2}
	const commands = 9 // lawyer, prompt, digits, bridge, the same for the client, hang-up
	for _, lost := range [][]string{
		nil, {"initiated", "ringing", "answered", "completed", "participant-join", "machine"},
	} {
		for at := 1; at <= commands; at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("command %d, sent %v, notices lost %v", at, after, lost != nil), func(t *testing.T) {
					t.Parallel()
					script := script
					script.Lose = lost
					s := openSwitchboard(t, standIn(script))
					board := s.provider.(rented)
					ctx, kill := context.WithCancel(s.ctx)
					m := &mortal{Adapter: board.driver, kill: kill, at: at, after: after}
					dying := telephony.New(s.db, m, twoPeople{}, silent)
					c := s.place(false)
					for ctx.Err() == nil {
						if _, err := dying.Execute(ctx); err != nil && ctx.Err() == nil {
							t.Fatal(err)
						}
						board.due()
						if ctx.Err() == nil {
							if err := s.service.Poll(s.ctx, s.deliver); err != nil {
								t.Logf("poll: %v", err)
							}
							s.pass()
						}
					}
					s.play(c)
					got, _ := told(s.outcomes)
					// The person who answered waits in silence for 33 s, and another process takes over after 30 s.
					// They may have hung up.
					gone := got == map[bool]string{true: "LAWYER_NOT_REACHED hung_up",
						false: "NOT_REACHED hung_up"}[at <= 4] ||
						got == map[bool]string{true: "LAWYER_NOT_REACHED not_confirmed",
							false: "NOT_REACHED not_confirmed"}[at <= 4]
					waiting := at >= 2 && at <= 4 || at >= 6 && at <= 8
					if got != "STARTED, FINISHED by_lawyer" && !(waiting && gone) {
						t.Errorf("got %s", got)
					}
					rung := 1
					if strings.HasPrefix(got, "LAWYER_NOT_REACHED") {
						rung = 0
					}
					if board.dialled(theLawyer) != 1 || board.dialled(theClient) != rung {
						t.Errorf("the lawyer was dialled %d times, the client %d: %s",
							board.dialled(theLawyer), board.dialled(theClient), got)
					}
				})
			}
		}
	}
}

// The response to a dial may be lost. The call is recognised by its first callback, or found in the list of calls.
func TestALostAnswerDialsNobodyTwice(t *testing.T) {
	t.Parallel()
	base := translated(talk(func(s *sandbox.Script) { s.ClientHangUpAt = 90 * time.Second }))
	all := []string{"initiated", "ringing", "answered", "completed", "participant-join", "machine"}
	for name, change := range map[string]func(*twiliotest.Script){
		"known by a notice":                   func(*twiliotest.Script) {},
		"found in the list":                   func(s *twiliotest.Script) { s.Lose = all },
		"found in the list, listed 5 s later": func(s *twiliotest.Script) { s.Lose, s.ListAfter = all, 5 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := base
			script.LoseAnswers = 2 // both legs
			change(&script)
			s := openSwitchboard(t, standIn(script))
			s.play(s.place(false))
			if got, _ := told(s.outcomes); got != "STARTED, FINISHED by_client" {
				t.Errorf("got %s", got)
			}
			board := s.provider.(rented)
			for _, number := range []string{theLawyer, theClient} {
				if n := board.dialled(number); n != 1 {
					t.Errorf("%s was dialled %d times", number, n)
				}
			}
		})
	}
}

// The remaining gap: the provider accepts the call, sends no callback and lists it late. Then both legs ring, and the
// second is hung up at its first callback.
func TestASecondLegOfTheSameCommandIsHungUp(t *testing.T) {
	t.Parallel()
	script := translated(talk(func(s *sandbox.Script) { s.ClientHangUpAt = 90 * time.Second }))
	script.Phones[theLawyer] = twiliotest.Phone{AnswerAfter: 27, Press: "1"}
	script.LoseAnswers, script.ListAfter, script.Late = 1, 60, 25
	s := openSwitchboard(t, standIn(script))
	s.play(s.place(false))
	board := s.provider.(rented)
	if n := board.dialled(theLawyer); n != 2 {
		t.Fatalf("the lawyer was dialled %d times: the window is not tried", n)
	}
	talked := 0
	for _, c := range board.standIn.Calls() {
		if c.To == theLawyer && c.Status == "completed" {
			talked++
		}
	}
	if got, _ := told(s.outcomes); got != "STARTED, FINISHED by_client" || talked != 1 {
		t.Errorf("got %s, with %d legs of the lawyer answered", got, talked)
	}
}

// A leg that is to end before its call is known ends at its first callback.
func TestACallThatIsCancelledWhileAnAnswerIsOutstandingEnds(t *testing.T) {
	t.Parallel()
	script := translated(talk(nil))
	script.Phones[theLawyer] = twiliotest.Phone{AnswerAfter: 15}
	script.LoseAnswers, script.Late = 1, 3
	s := openSwitchboard(t, standIn(script))
	c := s.place(false)
	s.execute()
	if err := s.db.InTx(s.ctx,
		func(tx postgres.Tx) error { return s.service.Hangup(s.ctx, tx, c.ID, "cancelled") }); err != nil {
		t.Fatal(err)
	}
	s.play(c)
	board := s.provider.(rented)
	if board.dialled(theLawyer) != 1 || board.dialled(theClient) != 0 {
		t.Errorf("dialled: %d and %d", board.dialled(theLawyer), board.dialled(theClient))
	}
}

// Prompts are in the lawyer's language and in the language of the client's consultation. Recording is neither announced
// nor requested, even with consent, because this driver cannot record. The provider also gets the time limits.
func TestWhatTheProviderIsTold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := openSwitchboard(t, func(s *switchboard) provider {
		script := translated(talk(func(s *sandbox.Script) { s.ClientHangUpAt = 30 * time.Second }))
		return connectTwilio(s, script,
			slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), nil)
	})
	s.play(s.place(true))
	calls := s.provider.(rented).standIn.Calls()
	if len(calls) != 2 {
		t.Fatalf("%d legs", len(calls))
	}
	lawyer, client := calls[0], calls[1]
	if lawyer.To != theLawyer || client.To != theClient || len(lawyer.Said) != 1 ||
		lawyer.Said[0] != "This is Allo Droit, about a consultation requested via CRM. Press 1 to be connected "+
			"to your client." {
		t.Errorf("dialled %s, who heard %q, then %s", lawyer.To, lawyer.Said, client.To)
	}
	if len(client.Said) != 1 || client.Said[0] != "Ici Allo Droit. Un avocat vous appelle au sujet de votre "+
		"consultation demandée via CRM. Appuyez sur 1 pour lui parler." {
		t.Errorf("the client heard %q", client.Said)
	}
	all := strings.Join(append(lawyer.Documents, client.Documents...), "\n")
	for _, never := range []string{theLawyer, theClient, theLawyer[1:], theClient[1:], "enregistr", `record="record`} {
		if strings.Contains(all, never) {
			t.Errorf("the provider is told %q in %s", never, all)
		}
	}
	if !strings.Contains(client.Documents[len(client.Documents)-1], `timeLimit="1200"`) {
		t.Errorf("the talk has no limit in %q", client.Documents)
	}
	for _, never := range []string{theLawyer[1:], theClient[1:], twilioToken} {
		if strings.Contains(log.String(), never) {
			t.Errorf("the log has %s: %s", never, log.String())
		}
	}
}

// An earlier version of the program admitted a lawyer's leg to the conference on answer. Such a leg continues. The
// lawyer is still asked to press 1 before the client is rung. A lawyer who has rejoined an ongoing call stays in it.
func TestALegOfTheProgramBeforeGoesOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*sandbox.Script)
		lose   []string
		want   string
		sec    int
	}{
		"in setup": {func(s *sandbox.Script) { s.ClientHangUpAt = 90 * time.Second }, nil,
			"STARTED, FINISHED by_client", 90},
		"nobody presses 1": {func(s *sandbox.Script) { s.LawyerPress = "" }, nil,
			"LAWYER_NOT_REACHED not_confirmed", 0},
		"after a drop": {func(s *sandbox.Script) { s.LawyerDropAt, s.ClientHangUpAt = 30*time.Second, 40*time.Second },
			nil, "STARTED, DROPPED, RESTORED, FINISHED by_client", 70},
		"after a drop, joining lost": {func(s *sandbox.Script) {
			s.LawyerDropAt, s.ClientHangUpAt = 30*time.Second, 100*time.Second
		},
			[]string{"participant-join"}, "STARTED, DROPPED, RESTORED, FINISHED by_client", 130},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSwitchboard(t, func(s *switchboard) provider {
				script := translated(talk(tt.change))
				script.Lose = tt.lose
				return connectTwilio(s, script, silent, func(r *http.Request) {
					if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/Calls.json") {
						return
					}
					if err := r.ParseForm(); err != nil || r.PostForm.Get("To") != theLawyer {
						return
					}
					parts := strings.Split(r.PostForm.Get("StatusCallback"), "/")
					command := parts[len(parts)-2]
					var room string
					if err := s.db.Pool().
						QueryRow(s.ctx, "UPDATE twilio_legs SET prompt = NULL WHERE command_id = $1 RETURNING call_id",
							command).Scan(&room); err != nil {
						t.Error(err)
					}
					r.PostForm.Set("Twiml",
						fmt.Sprintf(
							`<Response><Dial><Conference startConferenceOnEnter="false" endConferenceOnExit="false"
						statusCallback="%s/conference" statusCallbackEvent="join">%s</Conference></Dial></Response>`,
							strings.TrimSuffix(r.PostForm.Get("StatusCallback"), "/status"), room,
						))
				})
			})
			s.play(s.place(false))
			if got, sec := told(s.outcomes); got != tt.want || sec < tt.sec-1 || sec > tt.sec+1 {
				t.Errorf("got %s after %d s, want %s after %d s", got, sec, tt.want, tt.sec)
			}
		})
	}
}

// A leg answered by a machine ends when the next one is placed, and causes no further leg while that one rings.
func TestALegThatWasReplacedPlacesNoOther(t *testing.T) {
	t.Parallel()
	s := openSwitchboard(t, standIn(translated(talk(func(s *sandbox.Script) {
		s.LawyerAnswerAfter, s.LawyerDropAt, s.Mailbox = 20*time.Second, 30*time.Second, true
	}))))
	s.play(s.place(false))
	if n := s.provider.(rented).dialled(theLawyer); n != 3 {
		t.Errorf("in the minute after the drop the lawyer was dialled %d times, want 2", n-1)
	}
}

// A callback counts only with the account's signature over its exact URL and body.
func TestOnlySignedNoticesCount(t *testing.T) {
	t.Parallel()
	s := openSwitchboard(t, standIn(translated(talk(nil))))
	s.place(false)
	s.execute()
	board := s.provider.(rented)
	leg, sid := "", board.standIn.Calls()[0].SID
	if err := s.db.Pool().QueryRow(s.ctx, "SELECT command_id FROM twilio_legs").Scan(&leg); err != nil {
		t.Fatal(err)
	}
	path := twilio.CallbackPath + leg + "/status"
	good := map[string][]string{"AccountSid": {twilioAccount}, "CallSid": {sid}, "CallStatus": {"in-progress"},
		"Timestamp": {"Mon, 05 Jan 2026 09:00:00 +0000"}}
	with := func(field, value string) map[string][]string {
		form := map[string][]string{}
		for k, v := range good {
			form[k] = v
		}
		form[field] = []string{value}
		return form
	}
	for name, tt := range map[string]struct {
		form   map[string][]string
		signed map[string][]string
		token  string
		path   string
		want   error
	}{
		"right":           {good, good, twilioToken, path, nil},
		"another token":   {good, good, "another", path, telephony.ErrSignature},
		"another status":  {with("CallStatus", "completed"), good, twilioToken, path, telephony.ErrSignature},
		"a field more":    {with("Digits", "1"), good, twilioToken, path, telephony.ErrSignature},
		"another address": {good, good, twilioToken, path + "?a=b", telephony.ErrSignature},
		"another account": {with("AccountSid", "AC1"), with("AccountSid", "AC1"), twilioToken, path,
			telephony.ErrMalformed},
		"no call": {with("CallSid", "\x00"), with("CallSid", "\x00"), twilioToken, path,
			telephony.ErrMalformed},
		"an unknown leg": {good, good, twilioToken, twilio.CallbackPath + "cmd_unknown/status",
			telephony.ErrUnknown},
		"an unknown kind":      {good, good, twilioToken, twilio.CallbackPath + leg + "/other", telephony.ErrMalformed},
		"no time and a status": {with("Timestamp", "\xff"), with("Timestamp", "\xff"), twilioToken, path, nil},
	} {
		address := board.base + tt.path
		if name == "another address" {
			address = board.base + path
		}
		parts := strings.Split(strings.TrimPrefix(tt.path, twilio.CallbackPath), "/")
		kind, _, _ := strings.Cut(parts[1], "?")
		_, err := board.driver.Handle(s.ctx, telephony.Notice{CommandID: parts[0], Kind: kind, Address: tt.path,
			Body:   []byte(url.Values(tt.form).Encode()),
			Header: http.Header{"X-Twilio-Signature": {twiliotest.Sign(tt.token, address, tt.signed)}}})
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}
