package consultation

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
)

// Each test makes records disagree, bypassing all guards. The client must be served immediately, the lawyer
// quarantined, and an operator notified.

// put writes a lawyer's state, and the queue that follows from it.
func (w *world) put(lawyerID string, state lawyer.State) {
	w.Helper()
	w.exec(`UPDATE lawyers SET state = $2, idle_since = created_at, left_at = CASE WHEN $2 IN ('OFFLINE', 'AWAY') THEN created_at END,
		left_reason = CASE WHEN $2 IN ('OFFLINE', 'AWAY') THEN 'RECORDS_DISAGREE' END WHERE id = $1`, lawyerID, state)
	w.exec(`UPDATE lawyer_pairs p SET idle_since = CASE WHEN l.state = 'AVAILABLE' THEN l.idle_since END
		FROM lawyers l WHERE l.id = $1 AND p.lawyer_id = l.id`, lawyerID)
}

func (w *world) expectIncidents(kind string, want int) {
	w.Helper()
	all := prometheus.NewRegistry()
	all.MustRegister(w.incidents)
	families, err := all.Gather()
	w.do(err)
	var got float64
	for _, f := range families {
		if len(f.GetMetric()) != len(incidentKinds) {
			w.Errorf("%d kinds are counted, of %d that are counted from 0", len(f.GetMetric()), len(incidentKinds))
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == kind {
				got += m.GetCounter().GetValue()
			}
		}
	}
	if got != float64(want) {
		w.Errorf("%v incidents %q, want %d", got, kind, want)
	}
}

// expectOutOfTheWay checks that no search finds the lawyer.
func (w *world) expectOutOfTheWay(lawyerID string) {
	w.Helper()
	w.expectLawyer(lawyerID, lawyer.Away)
	var places int
	err := w.DB.Pool().QueryRow(w.Context(), "SELECT count(idle_since) FROM lawyer_pairs WHERE lawyer_id = $1",
		lawyerID).Scan(&places)
	if err != nil || places != 0 {
		w.Errorf("%d places in queues, %v", places, err)
	}
}

// expectSearch checks what a worker of this process does immediately, without a sweep.
func (w *world) expectSearch(id, lawyerID string) {
	w.Helper()
	w.searchCommitted()
	if o := w.offerOf(lawyerID); o.ConsultationID != id {
		w.Errorf("%s was offered %s, want %s", lawyerID, o.ConsultationID, id)
	}
}

func (w *world) drain() {
	for len(w.words) > 0 {
		<-w.words
	}
}

func (w *world) another(phone string) {
	w.client = w.newClient(phone+"@example.org", phone, true, 10_000)
}

func TestNetsOfTheSearch(t *testing.T) { // offers_open_lawyer, consultations_one_per_lawyer
	t.Parallel()
	for name, prepare := range map[string]func(w *world, l string) (left string){
		"AVAILABLE with an open offer": func(w *world, l string) string {
			id := w.create()
			w.sweep()
			w.offerOf(l)
			return id
		},
		"AVAILABLE with an assigned consultation": func(w *world, l string) string { w.assigned(l); return "" },
		"AVAILABLE in call":                       func(w *world, l string) string { w.inCall(l); return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wrong := w.online()
			left := prepare(w, wrong)
			w.put(wrong, lawyer.Available)
			w.clock.Advance(time.Second)
			next, last := w.online(), w.online()
			w.another("+33612345601")
			id := w.create()
			if found, err := w.search(t.Context(), id); err != nil || !found {
				t.Fatalf("found %v, %v", found, err)
			}
			if o := w.offerOf(next); o.ConsultationID != id {
				t.Errorf("offered %s", o.ConsultationID)
			}
			w.expectOutOfTheWay(wrong)
			w.expectIncidents(lawyerQuarantined, 1)
			if left == "" {
				return
			}
			w.sweep() // the lawyer's offer goes to others without waiting for its 30 seconds
			w.sweep()
			if o := w.offerOf(last); o.ConsultationID != left {
				t.Errorf("offered %s, want %s", o.ConsultationID, left)
			}
		})
	}
}

// A lawyer who asks for work must not have any.
func TestNetsOfALawyerWhoSeeksWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	w.assigned(l)
	w.put(l, lawyer.Available)
	w.another("+33612345602")
	w.create()
	w.do(w.LawyerAvailable(t.Context(), l))
	w.expectOutOfTheWay(l)
	w.expectIncidents(lawyerQuarantined, 1)
}

// An open offer is no reason to quarantine the lawyers who are asked.
func TestNetsOfWorkThatIsOnOffer(t *testing.T) { // offers_open_consultation, offers_open_client
	t.Parallel()
	w := newWorld(t)
	w.online()
	first, second := w.create(), w.create()
	w.sweep()
	idle := w.online()
	for _, id := range []string{first, second} {
		if found, err := w.search(t.Context(), id); err != nil || found {
			t.Errorf("offered twice: %v, %v", found, err)
		}
	}
	w.expectLawyer(idle, lawyer.Available)
	w.expectIncidents(lawyerQuarantined, 0)
}

func TestNetsOfAnAcceptance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil    func(w *world, l, id string)
		incident string
		lawyer   lawyer.State
	}{
		"another consultation in hand": { // consultations_one_per_lawyer
			spoil: func(w *world, l, _ string) {
				w.exec("UPDATE consultations SET lawyer_id = $1 WHERE status = 'ASSIGNED'", l)
			}, incident: lawyerQuarantined, lawyer: lawyer.Away,
		},
		"not looking at an offer": {
			spoil:    func(w *world, l, _ string) { w.put(l, lawyer.Available) },
			incident: lawyerQuarantined, lawyer: lawyer.Away,
		},
		"a consultation with bad records": { // its next event exists already
			spoil: func(w *world, _, id string) {
				w.exec(
					`INSERT INTO webhook_events (id, application_id, consultation_id, sequence, type, body, created_at)
					SELECT 'evt_block', application_id, id, 4, 'consultation.matching', '{}', now() FROM consultations WHERE id = $1`, id,
				)
			}, incident: offerFailed, lawyer: lawyer.Available,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.assigned(w.online())
			l := w.online()
			w.another("+33612345603")
			id := w.create()
			w.sweep()
			offer := w.offerOf(l).ID
			next := w.online()
			c.spoil(w, l, id)
			w.drain()
			w.working.Store(true) // this process runs its searches
			if err := w.AcceptOffer(t.Context(), w.lease(l), offer); !errors.Is(err, matching.ErrOfferGone) {
				t.Fatalf("accept: %v", err)
			}
			w.expectLawyer(l, c.lawyer)
			if c.lawyer == lawyer.Away {
				w.expectOutOfTheWay(l)
			}
			w.expectIncidents(c.incident, 1)
			w.expectSearch(id, next)
		})
	}
}

// A leftover call on the client's line does not prevent a call to the client.
func TestNetsOfADial(t *testing.T) { // calls_one_per_client, calls_one_per_consultation
	t.Parallel()
	for name, left := range map[string]func(w *world, id string) string{
		"of the consultation": func(_ *world, id string) string { return id },
		"of another": func(w *world, _ string) string {
			other := w.create()
			_, err := w.cancelIt(other)
			w.do(err)
			return other
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			id := w.assigned(l)
			w.exec(`INSERT INTO calls (id, consultation_id, client_id, lawyer_id, attempt, state, record, language, started_at, last_event_at)
				VALUES ('cal_left', $1, $2, $3, 1, 'CLIENT_RINGING', false, 'fr', $4, $4)`,
				left(w, id), w.client, l, w.clock.Now())
			w.do(w.StartCall(t.Context(), w.lease(l), id))
			call, ok, err := w.Telephony.Active(t.Context(), w.DB.Read(), id)
			if err != nil || !ok || call.ID == "cal_left" {
				t.Errorf("call %+v, %v, %v", call, ok, err)
			}
			w.expectIncidents(strayCall, 1)
			old, err := w.Telephony.Get(t.Context(), w.DB.Read(), "cal_left")
			if err != nil || old.State != telephony.Ended {
				t.Errorf("what was left: %+v, %v", old, err)
			}
		})
	}
}

// A consultation recorded as in call while its client is joined on another call ends; the client's call goes on.
func TestNetsOfAJoinedCall(t *testing.T) { // consultations_one_call_per_client
	t.Parallel()
	w := newWorld(t)
	first := w.online()
	one := w.inCall(first)
	w.exec("UPDATE calls SET state = 'ENDED', ended_at = $2, outcome = 'FINISHED', bridged_at = NULL "+
		"WHERE consultation_id = $1", one, w.clock.Now())
	second := w.online()
	two := w.create()
	w.offerBesides(two, second)
	w.do(w.AcceptOffer(t.Context(), w.lease(second), w.offerOf(second).ID))
	w.confirmed(second, two)
	w.do(w.provider(two, telephony.Event{Kind: telephony.LegsJoined}))
	if a, b := w.read(one).Status, w.read(two).Status; a != CallEnded || b != InCall {
		t.Errorf("%s and %s", a, b)
	}
	w.expectLawyer(first, lawyer.WrapUp)
	w.expectIncidents(callNotKnown, 1)
}
