package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const sandboxConsultations = "/api/platform/v1/sandbox/consultations/"

// runTo requests a status repeatedly until it is reached.
func (w *world) runTo(t testing.TB, p *partner, id, status string) (advanced time.Duration) {
	t.Helper()
	for range 5 {
		r := w.play(t, p, http.MethodPost, sandboxConsultations+id+"/run", object{"status": status})
		r.is(t, "run to "+status, http.StatusOK, "")
		v := r.value()
		advanced += time.Duration(v["advancedSeconds"].(float64)) * time.Second
		if v["reached"] == true {
			if v["status"] != status || v["id"] != id {
				t.Errorf("run to %s: %s", status, r)
			}
			return advanced
		}
	}
	t.Fatalf("%s does not become %s", id, status)
	return 0
}

// TestAConsultationIsRunToEveryStatus: a consultation can be run from every status to every status reachable from it.
// It takes real steps with exactly their events, and stays there. Unreachable statuses are rejected, and other
// applications are not affected.
func TestAConsultationIsRunToEveryStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers, withIncidents)
	other := w.partner(t, "CRM Other")
	untouched := w.link(t, other, w.client(t, "untouched", true, 10_000))
	still := untouched.create(t, "externalRef", "scenario:no_lawyer")
	const called = " call_started call_ended"
	t.Run("each", func(t *testing.T) {
		for _, tt := range []struct{ by, events string }{
			{"MATCHING", ""},
			{"PENDING_CALLBACK", " pending_callback"},
			{"ASSIGNED", " assigned"},
			{"IN_CALL", " assigned call_started"},
			{"CALL_ENDED", " assigned" + called},
			{"COMPLETED", " assigned" + called + " note_available completed"},
			{"CANCELLED", " cancelled refunded"},
			{"EXPIRED", " pending_callback expired refunded"},
			{"ASSIGNED MATCHING ASSIGNED PENDING_CALLBACK ASSIGNED PENDING_CALLBACK COMPLETED",
				" assigned matching assigned matching pending_callback assigned pending_callback assigned" + called +
					" note_available completed"},
			{"PENDING_CALLBACK CANCELLED", " pending_callback cancelled refunded"},
			{"PENDING_CALLBACK EXPIRED", " pending_callback expired refunded"},
			{"ASSIGNED CANCELLED", " assigned cancelled refunded"},
			{"ASSIGNED EXPIRED", " assigned expired refunded"},
			{"ASSIGNED IN_CALL CALL_ENDED COMPLETED", " assigned" + called + " note_available completed"},
			{"IN_CALL EXPIRED", " assigned" + called + " expired refunded"},
			{"CALL_ENDED EXPIRED", " assigned" + called + " expired refunded"},
		} {
			t.Run(tt.by, func(t *testing.T) {
				t.Parallel()
				name := strings.ReplaceAll(strings.ToLower(tt.by), " ", "-")
				p := w.partner(t, "CRM "+name)
				s := w.link(t, p, w.client(t, strings.ReplaceAll(name, "_", "-")[:min(30, len(name))]+"-x", true,
					10_000))
				id := s.create(t, "externalRef", "scenario:no_lawyer").ID
				last := ""
				for _, last = range strings.Fields(tt.by) {
					w.runTo(t, p, id, last)
					if again := w.runTo(t, p, id, last); again != 0 {
						t.Errorf("asked again for %s, %s pass", last, again)
					}
				}
				if last != "COMPLETED" && last != "CANCELLED" && last != "EXPIRED" {
					w.advance(t, p, time.Minute)
					w.runTo(t, p, id, last)
				}
				p.receiver.awaitAll(t, id, started+tt.events)
				for _, gone := range map[string][]string{"PENDING_CALLBACK": {"MATCHING"},
					"IN_CALL":    {"MATCHING", "PENDING_CALLBACK", "ASSIGNED", "CANCELLED"},
					"CALL_ENDED": {"IN_CALL", "CANCELLED"},
					"COMPLETED":  {"MATCHING", "CALL_ENDED", "EXPIRED", "CANCELLED"},
					"CANCELLED":  {"MATCHING", "EXPIRED", "COMPLETED"}, "EXPIRED": {"CANCELLED", "ASSIGNED"}}[last] {
					r := w.play(t, p, http.MethodPost, sandboxConsultations+id+"/run", object{"status": gone})
					r.is(t, last+" to "+gone, http.StatusConflict, "STATUS_UNREACHABLE")
					if !strings.Contains(r.value()["message"].(string), last) {
						t.Errorf("%s to %s: %s", last, gone, r)
					}
				}
				p.receiver.awaitAll(t, id, started+tt.events)
			})
		}
	})
	if c := untouched.read(t, still.ID); c.Status != "MATCHING" || c.CreatedAt != still.CreatedAt {
		t.Errorf("another application's: %s, created %v", c.Status, c.CreatedAt)
	}
}

func TestWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	s := w.link(t, a, w.client(t, "c1", true, 10_000))
	id := s.create(t, "externalRef", "scenario:no_lawyer").ID
	for _, status := range []string{"DRAFT", "completed", "", "DONE"} {
		w.play(t, a, http.MethodPost, sandboxConsultations+id+"/run", object{"status": status}).is(t, "run to "+status,
			http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	}
	w.play(t, a, http.MethodPost, sandboxConsultations+id+"/run", object{}).is(t, "run to nothing",
		http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	w.play(t, b, http.MethodPost, sandboxConsultations+id+"/run", object{"status": "COMPLETED"}).is(t, "another's",
		http.StatusNotFound, "NOT_FOUND")
	w.play(t, a, http.MethodPost, sandboxConsultations+"con_nothing/run", object{"status": "COMPLETED"}).is(t, "none",
		http.StatusNotFound, "NOT_FOUND")
	w.play(t, a, http.MethodPost, sandboxConsultations+"%00/run", object{"status": "COMPLETED"}).is(t, "no identifier",
		http.StatusNotFound, "NOT_FOUND")
	if c := s.read(t, id); c.Status != "MATCHING" {
		t.Errorf("it is %s", c.Status)
	}
}
