package sandbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/infra/postgres"
)

func (h *house) own(competences ...string) sandbox.CrewLawyer {
	h.Helper()
	return must[sandbox.CrewLawyer](h.T)(h.newLawyer(sandbox.NewCrewLawyer{Name: "Own Lawyer", Competences: competences,
		Languages: []string{"FR"}}))
}

func (h *house) newLawyer(n sandbox.NewCrewLawyer) (made sandbox.CrewLawyer, err error) {
	err = h.db.InTx(h.ctx,
		func(tx postgres.Tx) error { made, err = h.crews.Create(h.ctx, tx, "test", h.app.ID, n); return err })
	return made, err
}

func (h *house) text(sql string, args ...any) (v string) {
	h.Helper()
	if err := h.db.Pool().QueryRow(h.ctx, sql, args...).Scan(&v); err != nil {
		h.Fatal(err)
	}
	return v
}

func (h *house) lawyerOf(id string) string {
	h.Helper()
	return h.text("SELECT coalesce(lawyer_id, '') FROM consultations WHERE id = $1", id)
}

// An application with one lawyer is served only by that lawyer, one consultation at a time. The lawyer serves no other
// application, and the shared lawyers do not serve this one.
func TestOwnLawyersServeTheirApplicationAlone(t *testing.T) {
	clk := newClock()
	h := open(t, clk, nil)
	mine, app := h.own("FAMILY"), h.app
	first, second := h.create(h.client(1), "FR", false), h.create(h.client(2), "FR", false)
	foreign := h.create(h.client(3), "EN", false) // in a language the lawyer does not speak
	h.tx(func(tx postgres.Tx) (err error) {
		h.app, _, err = h.applications.Create(h.ctx, tx, application.NewApplication{Name: "Other CRM",
			RedirectURIs: []string{"https://other.example/cb"}})
		return err
	})
	others := []string{h.create(h.client(4), "FR", false), h.create(h.client(5), "FR", false),
		h.create(h.client(6), "FR", false)}
	h.app = app
	h.until(clk, 500*time.Millisecond, 2*time.Minute, func() bool {
		return h.is(first, consultation.Completed)() && h.is(second, consultation.Completed)() &&
			h.is(others[2], consultation.Completed)()
	})
	for _, id := range []string{first, second} {
		if by := h.lawyerOf(id); by != mine.ID {
			t.Errorf("%s was served by %s, not by %s", id, by, mine.ID)
		}
	}
	for _, id := range others {
		if by := h.lawyerOf(id); by == mine.ID || !h.is(id, consultation.Completed)() {
			t.Errorf("another application's is %s, by %s", h.standing(id).Status, by)
		}
	}
	if !h.is(foreign, consultation.Matching)() ||
		h.text("SELECT count(*)::text FROM offers WHERE consultation_id = $1", foreign) != "0" {
		t.Errorf("what he does not serve is %s", h.standing(foreign).Status)
	}
	coverage, err := h.consultations.Coverage(h.ctx, h.db.Read(), app.ID, "FAMILY", "FR")
	if err != nil || coverage.LawyersOnline != 1 {
		t.Errorf("coverage %+v, %v", coverage, err)
	}
}

// A lawyer who is away gets no offers until made available again, but finishes the current case.
func TestAnOwnLawyerGoesAndComesBack(t *testing.T) {
	clk := newClock()
	h := open(t, clk, nil)
	mine := h.own("FAMILY")
	busy := h.create(h.client(1), "FR", false)
	h.until(clk, 200*time.Millisecond, time.Minute, h.is(busy, consultation.Assigned))
	if err := h.crews.SetAvailable(h.ctx, "test", h.app.ID, mine.ID, false); err != nil {
		t.Fatal(err)
	}
	waiting := h.create(h.client(2), "FR", false)
	h.until(clk, 500*time.Millisecond, time.Minute, h.is(busy, consultation.Completed))
	for range 40 { // a minute and a half, after which no one renews the lawyer's presence
		clk.Advance(3 * time.Second)
		h.play()
	}
	if !h.is(waiting, consultation.Matching)() || h.lawyerOf(busy) != mine.ID {
		t.Errorf("while he is away it is %s", h.standing(waiting).Status)
	}
	if state := h.text("SELECT state FROM lawyers WHERE id = $1", mine.ID); state != "OFFLINE" {
		t.Errorf("after two minutes away he is %s", state)
	}
	if err := h.crews.SetAvailable(h.ctx, "test", h.app.ID, mine.ID, true); err != nil {
		t.Fatal(err)
	}
	h.until(clk, 500*time.Millisecond, time.Minute, h.is(waiting, consultation.Completed))
}

// After its last own lawyer is deleted, an application returns to the shared lawyers, with everything waiting. The
// lawyer finishes the current case and is gone.
func TestTheLastOwnLawyerLeavesNothingBehind(t *testing.T) {
	clk := newClock()
	h := open(t, clk, nil)
	mine := h.own("FAMILY")
	served, waiting := h.create(h.client(1), "FR", false), h.create(h.client(2), "FR", false)
	h.until(clk, 200*time.Millisecond, time.Minute,
		func() bool { return h.is(served, consultation.Assigned)() || h.is(waiting, consultation.Assigned)() })
	if h.is(waiting, consultation.Assigned)() {
		served, waiting = waiting, served
	}
	if err := h.crews.Delete(h.ctx, "test", h.app.ID, mine.ID); err != nil {
		t.Fatal(err)
	}
	if err := h.crews.Delete(h.ctx, "test", h.app.ID, mine.ID); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
	h.until(clk, 500*time.Millisecond, time.Minute,
		func() bool { return h.is(served, consultation.Completed)() && h.is(waiting, consultation.Completed)() })
	if h.lawyerOf(served) != mine.ID || h.lawyerOf(waiting) == mine.ID {
		t.Errorf("served by %s and %s, he is %s", h.lawyerOf(served), h.lawyerOf(waiting), mine.ID)
	}
	for range 5 {
		clk.Advance(time.Second)
		h.play()
	}
	if state := h.text("SELECT state FROM lawyers WHERE id = $1", mine.ID); state != "AWAY" {
		t.Errorf("he is %s", state)
	}
	if list := must[[]sandbox.CrewLawyer](t)(h.crews.List(h.ctx, h.db.Read(), h.app.ID)); len(list) != 0 {
		t.Errorf("listed %v", list)
	}
	again := h.create(h.client(3), "FR", false)
	h.until(clk, 500*time.Millisecond, time.Minute, h.is(again, consultation.Completed))
}

// A consultation started while the last lawyer is being deleted is still served. The deletion either sees it, or it
// starts without that lawyer.
func TestNothingIsStrandedWhenTheLastOwnLawyerGoes(t *testing.T) {
	h := open(t, clock.System{}, nil)
	var clients []string
	for n := range 4 {
		clients = append(clients, h.client(n))
	}
	for round := range 10 {
		mine := h.own("FAMILY")
		var g errgroup.Group
		begin := make(chan struct{})
		for _, client := range clients {
			g.Go(func() error {
				<-begin
				return h.db.InTx(h.ctx, func(tx postgres.Tx) error {
					_, err := h.consultations.Create(h.ctx, tx,
						consultation.CreateCommand{Request: consultation.Request{ApplicationID: h.app.ID,
							ClientID: client, Competence: "FAMILY", Language: "FR", Subject: "A question"},
							Evidence: consultation.Evidence{RequestID: "req", IdempotencyKey: fmt.Sprint(round),
								Address: "192.0.2.1", UserAgent: "test"}})
					return err
				})
			})
		}
		g.Go(func() error {
			<-begin
			return h.crews.Delete(h.ctx, "test", h.app.ID, mine.ID)
		})
		close(begin)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := h.text("SELECT count(*)::text FROM consultations WHERE crew IS NOT NULL"); n != "0" {
			t.Fatalf("round %d: %s consultations wait for nobody", round, n)
		}
	}
}

func TestAnApplicationHasTwentyLawyersAtMost(t *testing.T) {
	h := open(t, newClock(), nil)
	var g errgroup.Group
	g.SetLimit(4)
	refused := make(chan error, sandbox.MaxLawyers+5)
	for range sandbox.MaxLawyers + 5 {
		g.Go(func() error {
			_, err := h.newLawyer(sandbox.NewCrewLawyer{Name: "Own Lawyer", Competences: []string{"TAX"},
				Languages: []string{"AR"}})
			if errors.Is(err, sandbox.ErrLimit) {
				refused <- err
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	list := must[[]sandbox.CrewLawyer](t)(h.crews.List(h.ctx, h.db.Read(), h.app.ID))
	if len(list) != sandbox.MaxLawyers || len(refused) != 5 {
		t.Errorf("%d lawyers, %d refused", len(list), len(refused))
	}
	for name, n := range map[string]sandbox.NewCrewLawyer{
		"no name":     {Competences: []string{"TAX"}, Languages: []string{"AR"}},
		"a code":      {Name: "x", Competences: []string{"TAX", "MAGIC"}, Languages: []string{"AR"}},
		"no language": {Name: "x", Competences: []string{"TAX"}},
	} {
		if err := h.crews.Delete(h.ctx, "test", h.app.ID, list[0].ID); err != nil &&
			!errors.Is(err, problem.ErrNotFound) {
			t.Fatal(err)
		}
		if _, err := h.newLawyer(n); !errors.Is(err, problem.ErrValidation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.crews.SetAvailable(h.ctx, "test", "app_other", list[1].ID, false); !errors.Is(err,
		problem.ErrNotFound) {
		t.Errorf("another's: %v", err)
	}
	if err := h.crews.Delete(h.ctx, "test", "app_other", list[1].ID); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("another's: %v", err)
	}
}
