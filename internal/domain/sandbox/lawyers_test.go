package sandbox_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/language"

	"partnerd/internal/base/clock"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/telephony"
)

const (
	begun    = "created payment_authorized matching assigned"
	complete = begun + " call_started call_ended note_available completed"
	unserved = begun + " expired refunded"
)

func newClock() *clock.Manual { return clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)) }

// With all parts running as in the program, a consultation of a served pair completes by itself.
func TestAConsultationCompletesByItself(t *testing.T) {
	h := open(t, clock.System{}, nil)
	h.run(0)
	client := h.client(1)
	begin := h.db.Clock().Now()
	id := h.create(client, "FR", false)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for h.standing(id).Status != string(consultation.Completed) {
		<-poll.C
		if h.db.Clock().Now().Sub(begin) > 20*time.Second {
			t.Fatalf("after 20 s it is %+v with %s", h.standing(id), h.events(id))
		}
	}
	t.Logf("completed after %s", h.db.Clock().Now().Sub(begin))
	if got := h.events(id); got != complete {
		t.Errorf("events %s, want %s", got, complete)
	}
	if s := h.standing(id); s.Duration < 3 || s.Duration > 6 {
		t.Errorf("the call lasted %d s, want about 4", s.Duration)
	}
	if b := h.balance(client); b.Balance != 18000 || b.Held != 0 {
		t.Errorf("wallet %+v, want 180 EUR and nothing held", b)
	}
	preview := must[note.Preview](t)(h.consultations.Note(h.ctx, h.db.Read(), h.app.ID, client, id))
	if preview.Text == "" {
		t.Error("no preview")
	}
	h.verifyBooks()
}

// Everything is decided from the database: recreating all services before every turn changes nothing. Only the lawyer's
// and the client's own numbers are dialled.
func TestARestartAtAnyMomentChangesNothing(t *testing.T) {
	clk := newClock()
	h := open(t, clk, nil)
	id := h.create(h.client(1), "EN", false)
	h.until(clk, 300*time.Millisecond, 30*time.Second, func() bool {
		h.start()
		return h.is(id, consultation.Completed)()
	})
	if got := h.events(id); got != complete {
		t.Errorf("events %s, want %s", got, complete)
	}
	if d := h.wires.dialled; len(d) != 2 || !strings.HasPrefix(d[0], "LAWYER +3319900") ||
		d[1] != "CLIENT "+clientPhone {
		t.Errorf("dialled %v", d)
	}
}

func TestAClientWhoIsNeverReachedIsCalledThreeTimesAndGetsTheMoneyBack(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Script){
		"no answer":       func(s *sandbox.Script) { s.Fails = telephony.NoAnswer },
		"busy":            func(s *sandbox.Script) { s.Fails = telephony.Busy },
		"carrier":         func(s *sandbox.Script) { s.Fails = telephony.Carrier },
		"voicemail":       func(s *sandbox.Script) { s.Voicemail = true },
		"presses nothing": func(s *sandbox.Script) { s.Press = "" },
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			script := sandbox.DefaultScript("")
			change(&script)
			h := open(t, clk, func(string) sandbox.Script { return script })
			client := h.client(1)
			id := h.create(client, "FR", false)
			h.until(clk, time.Second, 10*time.Second, h.is(id, consultation.Assigned))
			h.until(clk, 5*time.Second, 20*time.Minute, h.is(id, consultation.Expired))
			if got := h.events(id); got != unserved {
				t.Errorf("events %s, want %s", got, unserved)
			}
			if b := h.balance(client); b.Available != 20000 || b.Held != 0 {
				t.Errorf("wallet %+v, want everything back", b)
			}
			if got, want := h.dials(id), []int{0, 300, 900}; !slices.Equal(got, want) {
				t.Errorf("dialled after %v s, want about %v", got, want)
			}
			h.verifyBooks()
		})
	}
}

// dials returns when each call of a consultation began, in seconds after the first, rounded down to 10.
func (h *house) dials(id string) []int {
	h.Helper()
	rows, err := h.db.Pool().Query(h.ctx, `SELECT started_at FROM calls WHERE consultation_id = $1 ORDER BY started_at`,
		id)
	if err != nil {
		h.Fatal(err)
	}
	defer rows.Close()
	var after []int
	var first time.Time
	for rows.Next() {
		var at time.Time
		if err := rows.Scan(&at); err != nil {
			h.Fatal(err)
		}
		if first.IsZero() {
			first = at
		}
		after = append(after, int(at.Sub(first).Seconds())/10*10)
	}
	return after
}

func TestRepeatedAndReorderedEventsChangeNothing(t *testing.T) {
	clk := newClock()
	script := sandbox.DefaultScript("")
	script.Duplicate, script.Reorder = true, true
	script.DropAt = 2 * time.Second
	h := open(t, clk, func(string) sandbox.Script { return script })
	id := h.create(h.client(1), "FR", false)
	h.until(clk, 100*time.Millisecond, time.Minute, h.is(id, consultation.Completed))
	if got := h.events(id); got != complete {
		t.Errorf("events %s, want %s", got, complete)
	}
	// 2 s until the drop, whose event overtook that of the start, and about 4 s after the restoration.
	if s := h.standing(id); s.Duration < 6 || s.Duration > 7 {
		t.Errorf("the call lasted %d s, want 6", s.Duration)
	}
	var again int
	err := h.db.Pool().QueryRow(h.ctx,
		"SELECT count(*) FROM sandbox_call_steps WHERE id LIKE '%:again' AND done_at IS NOT NULL").Scan(&again)
	if err != nil || again < 6 {
		t.Errorf("%d events were repeated, %v", again, err)
	}
}

func TestALineThatDropsIsRestored(t *testing.T) {
	clk := newClock()
	script := sandbox.DefaultScript("")
	script.DropAt, script.AnswerAfter = 2*time.Second, 20*time.Second
	h := open(t, clk, func(string) sandbox.Script { return script })
	id := h.create(h.client(1), "FR", false)
	h.until(clk, 500*time.Millisecond, 2*time.Minute, h.is(id, consultation.Completed))
	if s := h.standing(id); s.Duration != 6 {
		t.Errorf("the call lasted %d s, want 2 + 4 without the time in between", s.Duration)
	}
	if got := h.events(id); got != complete {
		t.Errorf("events %s, want %s", got, complete)
	}
}

func TestALineThatIsNotRestoredEndsTheCallAfterThreeMinutes(t *testing.T) {
	clk := newClock()
	script := sandbox.DefaultScript("")
	script.DropAt, script.Restore = 2*time.Second, false
	h := open(t, clk, func(string) sandbox.Script { return script })
	id := h.create(h.client(1), "FR", false)
	h.until(clk, 500*time.Millisecond, time.Minute, h.is(id, consultation.InCall))
	joined := clk.Now()
	h.until(clk, time.Second, 5*time.Minute, h.is(id, consultation.CallEnded))
	if after := clk.Now().Sub(joined); after < 3*time.Minute || after > 3*time.Minute+5*time.Second {
		t.Errorf("ended after %s", after)
	}
	if s := h.standing(id); s.Duration != 2 {
		t.Errorf("the call lasted %d s, want 2", s.Duration)
	}
}

func TestTheLongestCallIs20Minutes(t *testing.T) {
	clk := newClock()
	h := open(t, clk, nil)
	h.pace.Talk = 25 * time.Minute
	h.start()
	id := h.create(h.client(1), "FR", false)
	h.until(clk, time.Second, time.Minute, h.is(id, consultation.InCall))
	h.until(clk, 5*time.Second, 26*time.Minute, h.is(id, consultation.Completed))
	if s := h.standing(id); s.Duration < 1195 || s.Duration > 1200 {
		t.Errorf("the call lasted %d s, want at most 1200", s.Duration)
	}
}

func TestWhoeverHangsUpEndsTheCall(t *testing.T) {
	for name, script := range map[string]sandbox.Script{
		"lawyer": {LawyerPress: "1", Press: "1", LawyerHangUpAt: 3 * time.Second},
		"client": {LawyerPress: "1", Press: "1", ClientHangUpAt: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			h := open(t, clk, func(string) sandbox.Script { return script })
			h.pace.Talk = time.Hour
			h.start()
			id := h.create(h.client(1), "FR", false)
			h.until(clk, 500*time.Millisecond, time.Minute, h.is(id, consultation.Completed))
			if s := h.standing(id); s.Duration != 3 {
				t.Errorf("the call lasted %d s, want 3", s.Duration)
			}
		})
	}
}

// Two replicas simulate the same lawyers for more consultations than lawyers, several of them for one client. Each
// consultation completes once, and no client is in two calls at a time.
func TestManyConsultationsAndTwoReplicas(t *testing.T) {
	clk := newClock()
	h := open(t, clk, nil)
	second := sandbox.NewLawyers(h.db, h.consultations, h.lawyers, silent)
	var ids []string
	for n := range 10 {
		client := h.client(n)
		for range 3 {
			ids = append(ids, h.create(client, "FR", false))
		}
	}
	h.until(clk, 500*time.Millisecond, 10*time.Minute, func() bool {
		if _, err := second.Turn(h.ctx); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(ids, func(id string) bool { return !h.is(id, consultation.Completed)() })
	})
	for _, id := range ids {
		if got := h.events(id); got != complete {
			t.Errorf("events of %s: %s", id, got)
		}
	}
	var busy int
	err := h.db.Pool().QueryRow(h.ctx,
		`SELECT count(*) FROM calls a JOIN calls b ON a.client_id = b.client_id AND a.id < b.id
		AND a.started_at < b.ended_at AND b.started_at < a.ended_at`).Scan(&busy)
	if err != nil || busy != 0 {
		t.Errorf("%d pairs of calls overlap, %v", busy, err)
	}
	h.verifyBooks()
}

func TestSimulatedLawyersServeWhatTheyShould(t *testing.T) {
	clk := newClock()
	h := open(t, clk, nil)
	h.play()
	match := matching.New(h.lawyers)
	for _, c := range must[[]catalog.Entry](t)(catalog.New().Competences(h.ctx, h.db.Read(), language.English)) {
		for _, l := range must[[]catalog.Entry](t)(catalog.New().Languages(h.ctx, h.db.Read(), language.English)) {
			got := must[matching.Coverage](t)(match.Coverage(h.ctx, h.db.Read(),
				matching.Pair{Competence: c.Code, Language: l.Code}, "", matching.Waits{}))
			switch {
			case (l.Code == "FR" || l.Code == "EN") && got.LawyersOnline < 14:
				t.Errorf("%s %s: %d lawyers", c.Code, l.Code, got.LawyersOnline)
			case (c.Code == "IP" || c.Code == "TAX") && (l.Code == "AR" || l.Code == "PT") && got.Available:
				t.Errorf("%s %s is served, so waiting cannot be seen", c.Code, l.Code)
			}
		}
	}
}
