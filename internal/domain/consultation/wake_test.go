package consultation

import (
	"fmt"
	"testing"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// asleep adds absent lawyers for family law in French.
func (w *world) asleep(n int, d lawyer.Duty) []string {
	w.Helper()
	ids := make([]string, n)
	for i := range ids {
		w.count++
		w.tx(func(tx postgres.Tx) error {
			l, err := w.Lawyers.Create(w.Context(), tx,
				lawyer.NewLawyer{Email: fmt.Sprintf("lawyer%d@example.org", w.count), Name: "Demo Lawyer",
					Phone: "+33611111111", Competences: []string{"FAMILY"}, Languages: []string{"FR"}})
			ids[i] = l.ID
			if err != nil {
				return err
			}
			return w.Lawyers.SetDuty(w.Context(), tx, l.ID, d)
		})
	}
	return ids
}

// expectWoken compares how often each lawyer was woken, and checks that as many emails and text messages are waiting.
func (w *world) expectWoken(when string, want map[string]int) {
	w.Helper()
	rows, err := w.DB.Pool().Query(w.Context(), "SELECT lawyer_id, count(*) FROM lawyer_wakeups GROUP BY 1")
	w.do(err)
	got, sum := map[string]int{}, 0
	for rows.Next() {
		var id string
		var n int
		w.do(rows.Scan(&id, &n))
		got[id] = n
		sum += n
	}
	w.do(rows.Err())
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%s woken %v, want %v", when, got, want)
	}
	if mails, texts := w.mails(), w.jobs("sms"); mails != sum || texts != sum {
		w.Errorf("%s %d mails and %d text messages of %d wake-ups", when, mails, texts, sum)
	}
}

var allWeek = func() (h []lawyer.Hours) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		h = append(h, lawyer.Hours{Weekday: d, From: 12 * 60, Until: 18 * 60})
	}
	return h
}()

// Lawyers are woken in their hours, in their own time zone, or on call from four hours before the callback is due. No
// one is woken before the client may be called, or while a lawyer is present.
func TestLawyersAreWokenForCallbacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paris := w.asleep(1, lawyer.Duty{TimeZone: "Europe/Paris", Hours: allWeek})[0]
	w.asleep(1, lawyer.Duty{TimeZone: "Pacific/Auckland", Hours: allWeek}) // where it is night
	onCall := w.asleep(1, lawyer.Duty{TimeZone: "Europe/Paris", OnCall: true})[0]
	w.asleep(1, lawyer.Duty{TimeZone: "Europe/Paris"})
	id := w.create()
	w.sweep()
	w.expectWoken("while it is searched,", map[string]int{})
	w.pass(SearchLimit)
	w.sweep()
	w.expectWoken("as a callback,", map[string]int{paris: 1})
	w.pass(time.Hour)
	w.expectWoken("an hour later,", map[string]int{paris: 1})
	due := *w.read(id).CallbackDueAt
	w.pass(due.Add(-callbackOnCall - time.Microsecond).Sub(w.clock.Now()))
	w.expectWoken("more than four hours before,", map[string]int{paris: 1})
	w.clock.Advance(time.Microsecond)
	there := w.online()
	w.do(w.wakeAll())
	w.expectWoken("while somebody is there,", map[string]int{paris: 1})
	w.put(there, lawyer.Offline)
	w.sweep()
	w.expectWoken("four hours before,", map[string]int{paris: 1, onCall: 1})
}

func (w *world) wakeAll() error {
	for _, err := range w.wakeLawyers(w.Context()) {
		return err
	}
	return nil
}

// Three lawyers at a time are notified of a callback, the next ones a quarter of an hour later. No lawyer is notified
// twice about the same callback, more than three times a day or twice within an hour.
func TestWakingIsSparing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.client = w.newClient("often@example.org", "+33612345607", true, 100_000)
	l := w.asleep(4, lawyer.Duty{TimeZone: "Europe/Paris", Hours: allWeek})
	sum := func() (n int) {
		w.do(w.DB.Pool().QueryRow(t.Context(), "SELECT count(*) FROM lawyer_wakeups").Scan(&n))
		return n
	}
	w.create()
	w.pass(SearchLimit)
	w.sweep()
	w.pass(15*time.Minute - time.Second)
	if n := sum(); n != 3 {
		t.Errorf("%d woken at once", n)
	}
	w.pass(time.Second)
	w.expectWoken("then the last,", map[string]int{l[0]: 1, l[1]: 1, l[2]: 1, l[3]: 1})
	for range 4 {
		w.create()
	}
	w.pass(SearchLimit)
	w.sweep()
	if n := sum(); n != 4 {
		t.Errorf("%d after less than an hour", n)
	}
	for range 6 {
		w.pass(30 * time.Minute)
	}
	w.expectWoken("that day,", map[string]int{l[0]: 3, l[1]: 3, l[2]: 3, l[3]: 3})
}

func TestWhoRefusedItIsNotWokenForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.asleep(1, lawyer.Duty{TimeZone: "Europe/Paris", Hours: allWeek})[0]
	_, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
	w.do(err)
	w.create()
	w.sweep()
	w.do(w.DeclineOffer(t.Context(), w.lease(l), w.offerOf(l).ID, matching.ReasonConflict))
	w.put(l, lawyer.Offline)
	w.pass(SearchLimit)
	w.sweep()
	w.expectWoken("after a refusal,", map[string]int{})
}

// Several processes wake the same lawyers for several callbacks concurrently: each lawyer is notified once.
func TestWakingRaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.client = w.newClient("often@example.org", "+33612345607", true, 100_000)
	l := w.asleep(3, lawyer.Duty{TimeZone: "Europe/Paris", Hours: allWeek})
	const callbacks = 6
	for range callbacks {
		w.create()
	}
	w.clock.Advance(SearchLimit)
	for range 3 {
		if errs := w.fireTimers(t.Context()); errs != nil {
			t.Fatal(errs)
		}
	}
	work, err := waitingOf(t.Context(), w.DB.Read(), matching.Pair{Competence: "FAMILY", Language: "FR"}, "", callbacks)
	w.do(err)
	if len(work) != callbacks {
		t.Fatalf("%d callbacks wait", len(work))
	}
	for _, err := range atOnce(2*callbacks, func(i int) error { return w.wakeFor(t.Context(), work[i%callbacks].ID) }) {
		w.do(err)
	}
	w.expectWoken("at one moment,", map[string]int{l[0]: 1, l[1]: 1, l[2]: 1})
}
