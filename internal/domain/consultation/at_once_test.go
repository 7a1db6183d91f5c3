package consultation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

// askedFor lists the lawyers with an open offer of the consultation, in the order of the slots.
func (w *world) askedFor(id string) (lawyers []string) {
	w.Helper()
	rows, err := w.DB.Pool().Query(w.Context(),
		"SELECT lawyer_id FROM offers WHERE consultation_id = $1 AND state = 'OPEN' ORDER BY slot", id)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var l string
		w.do(rows.Scan(&l))
		lawyers = append(lawyers, l)
	}
	w.do(rows.Err())
	return lawyers
}

func (w *world) expectOffered(id string, want ...string) {
	w.Helper()
	if got := w.askedFor(id); !slices.Equal(got, want) {
		w.Errorf("on offer to %v, want %v", got, want)
	}
}

// onlineInTurn adds n lawyers, each idle for a second less than the previous one.
func (w *world) onlineInTurn(n int) []string {
	w.Helper()
	ids := make([]string, n)
	for i := range ids {
		w.clock.Advance(time.Second)
		ids[i] = w.online()
	}
	return ids
}

// searchedInVain creates a consultation whose search is widened.
func (w *world) searchedInVain() string {
	w.Helper()
	id := w.create()
	w.clock.Advance(2 * time.Minute)
	return id
}

// places returns the time since which each lawyer has been in the queue; it is zero for a lawyer who is not in it.
func (w *world) places(lawyers ...string) []time.Time {
	w.Helper()
	out := make([]time.Time, len(lawyers))
	for i, l := range lawyers {
		var at *time.Time
		w.do(w.DB.Pool().QueryRow(w.Context(), "SELECT max(idle_since) FROM lawyer_pairs WHERE lawyer_id = $1", l).
			Scan(&at))
		if at != nil {
			out[i] = at.UTC()
		}
	}
	return out
}

func TestASearchThatGoesBadlyAsksThreeAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		badly func(w *world, id string, l []string)
		want  func(l []string) []string
	}{
		"two refusals": {func(w *world, id string, l []string) {
			for _, by := range l[:2] {
				w.do(w.DeclineOffer(t.Context(), w.lease(by), w.offerOf(by).ID, "busy"))
				w.sweep()
			}
		}, func(l []string) []string { return l[2:3] }},
		"three refusals": {func(w *world, id string, l []string) {
			for _, by := range l[:3] {
				w.do(w.DeclineOffer(t.Context(), w.lease(by), w.offerOf(by).ID, "busy"))
				w.sweep()
			}
		}, func(l []string) []string { return l[3:6] }},
		"two misses and what was given back": {func(w *world, id string, l []string) {
			w.pass(matching.OfferTime)
			w.sweep()
			w.do(w.AcceptOffer(t.Context(), w.lease(l[1]), w.offerOf(l[1]).ID))
			w.do(w.Withdraw(t.Context(), w.lease(l[1]), id, NotMyField))
			w.sweep()
			w.pass(matching.OfferTime)
			w.sweep()
		}, func(l []string) []string { return l[3:6] }},
		"almost two minutes": {func(w *world, id string, l []string) {
			w.do(w.DeclineOffer(t.Context(), w.lease(l[0]), w.offerOf(l[0]).ID, "busy"))
			w.clock.Advance(2*time.Minute - time.Microsecond - w.clock.Now().Sub(w.read(id).SearchStartedAt))
			w.do(w.Lawyers.Heartbeat(t.Context(), w.DB.Read(), w.lawyers...))
			w.sweep()
		}, func(l []string) []string { return l[1:2] }},
		"two minutes": {func(w *world, id string, l []string) {
			w.do(w.DeclineOffer(t.Context(), w.lease(l[0]), w.offerOf(l[0]).ID, "busy"))
			w.clock.Advance(2*time.Minute - w.clock.Now().Sub(w.read(id).SearchStartedAt))
			w.do(w.Lawyers.Heartbeat(t.Context(), w.DB.Read(), w.lawyers...))
			w.sweep()
		}, func(l []string) []string { return l[1:4] }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.onlineInTurn(7)
			id := w.create()
			w.sweep()
			c.badly(w, id, l)
			w.expectOffered(id, c.want(l)...)
		})
	}
}

// If there are fewer than three lawyers, all of them are asked. With more, the others stay free for other clients.
func TestThreeAtOnceTakesWhoIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.searchedInVain()
	l := w.onlineInTurn(2)
	w.sweep()
	w.expectOffered(id, l...)
	w.another("+33612345604")
	late := w.onlineInTurn(1)
	other := w.create()
	w.sweep()
	w.expectOffered(id, l...)
	w.expectOffered(other, late...)
}

func TestOfSeveralAcceptancesAtOnceOneWins(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.client = w.newClient("often@example.org", "+33612345605", true, 100_000)
			l := w.onlineInTurn(3)
			for range 12 {
				id := w.searchedInVain()
				w.do(w.Lawyers.Heartbeat(t.Context(), w.DB.Read(), w.lawyers...))
				before := w.places(l...)
				w.sweep()
				asked := w.askedFor(id)
				if len(asked) != 3 {
					t.Fatalf("on offer to %d", len(asked))
				}
				leases, offers := make([]lawyer.Lease, n), make([]string, n)
				for i := range n {
					leases[i], offers[i] = w.lease(asked[i]), w.offerOf(asked[i]).ID
				}
				won := 0
				for _, err := range atOnce(n,
					func(i int) error { return w.AcceptOffer(t.Context(), leases[i], offers[i]) }) {
					switch {
					case err == nil:
						won++
					case !errors.Is(err, matching.ErrOfferGone):
						t.Error(err)
					}
				}
				c := w.read(id)
				if won != 1 || c.Status != Assigned {
					t.Fatalf("%d won, %s", won, c.Status)
				}
				w.expectOffered(id)
				for i, at := range w.places(l...) {
					if l[i] == c.LawyerID {
						w.expectLawyer(l[i], lawyer.Busy)
					} else if w.expectLawyer(l[i], lawyer.Available); !at.Equal(before[i]) {
						t.Errorf("waits since %s, was %s", at, before[i])
					}
				}
				if got := w.events(id); got != started+" assigned[ASSIGNED]" {
					t.Errorf("events %s", got)
				}
				_, err := w.cancelIt(id)
				w.do(err)
			}
		})
	}
}

// If an acceptance, a cancellation and the expiry of the offers race, the first one wins. No lawyer keeps a stale offer
// or loses their place among the idle lawyers.
func TestThreeAtOnceRacesItsEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.client = w.newClient("often@example.org", "+33612345606", true, 100_000)
	l := w.onlineInTurn(3)
	seen := map[Status]int{}
	for i := range 24 {
		id := w.searchedInVain()
		for _, by := range l { // back from the offers missed in the previous round
			_, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), by)
			w.do(err)
			w.clock.Advance(time.Second)
		}
		w.sweep()
		asked := w.askedFor(id)
		if len(asked) != 3 {
			t.Fatalf("round %d: on offer to %d", i, len(asked))
		}
		leases, offers := make([]lawyer.Lease, 3), make([]string, 3)
		for n := range asked {
			leases[n], offers[n] = w.lease(asked[n]), w.offerOf(asked[n]).ID
		}
		if i%3 == 0 {
			w.exec("UPDATE offers SET expires_at = $2 WHERE consultation_id = $1 AND slot < 3", id, w.clock.Now())
		}
		for _, err := range atOnce(5, func(side int) error {
			switch (side + i) % 5 {
			case 0, 1:
				return w.AcceptOffer(t.Context(), leases[2-side%2], offers[2-side%2])
			case 2:
				if i%2 == 0 {
					return nil
				}
				_, err := w.cancelIt(id)
				return err
			case 3:
				return w.DeclineOffer(t.Context(), leases[0], offers[0], "busy")
			default:
				return errors.Join(w.expireOffers(t.Context())...)
			}
		}) {
			if err != nil && !errors.Is(err, matching.ErrOfferGone) {
				t.Error(err)
			}
		}
		seen[w.read(id).Status]++
		var wrong int
		w.do(w.DB.Pool().QueryRow(t.Context(), `SELECT count(*) FROM lawyers l WHERE
			(l.state = 'OFFERED') <> EXISTS (SELECT FROM offers o WHERE o.lawyer_id = l.id AND o.state = 'OPEN')
			OR (l.state = 'BUSY') <> EXISTS (SELECT FROM consultations c WHERE c.lawyer_id = l.id AND c.status = 'ASSIGNED')
			OR EXISTS (SELECT FROM lawyer_pairs p WHERE p.lawyer_id = l.id AND (p.idle_since IS NOT NULL) <> (l.state = 'AVAILABLE'))`).Scan(&wrong))
		w.do(w.DB.Pool().QueryRow(t.Context(), `SELECT $1 + count(*) FROM (SELECT FROM offers WHERE state = 'OPEN' GROUP BY consultation_id HAVING min(slot) > 1) o`, wrong).Scan(&wrong))
		if wrong != 0 {
			t.Fatalf("round %d: %d records disagree", i, wrong)
		}
		if c := w.read(id); !c.Status.Terminal() {
			_, err := w.cancelIt(id)
			w.do(err)
		}
	}
	if seen[Assigned] == 0 || seen[Cancelled] == 0 {
		t.Errorf("ended as %v", seen)
	}
}

// While any of the three offers is open, nothing else of the client is on offer, even after the first slot's offer has
// ended. The index enforces it, not only the search.
func TestAClientOfThreeOffersIsServedOneAtATime(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(w *world, first string){
		"refused": func(w *world, first string) {
			w.do(w.DeclineOffer(t.Context(), w.lease(first), w.offerOf(first).ID, "busy"))
		},
		"suspended": func(w *world, first string) {
			w.tx(func(tx postgres.Tx) error {
				_, err := w.SuspendLawyer(t.Context(), tx, first, lawyer.BySuspension)
				return err
			})
		},
		"missed": func(w *world, first string) {
			w.exec("UPDATE offers SET expires_at = $2 WHERE lawyer_id = $1 AND state = 'OPEN'", first, w.clock.Now())
			w.sweep()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.searchedInVain()
			second := w.create()
			l := w.onlineInTurn(4)
			w.sweep()
			w.expectOffered(id, l[:3]...)
			leave(w, l[0])
			w.expectOffered(id, l[1:3]...)
			w.sweep()
			w.expectOffered(second)
			w.tx(func(tx postgres.Tx) error { // as if the search had not looked
				offers, err := w.Matching.Offer(t.Context(), tx, matching.Work{ConsultationID: second,
					ClientID: w.client, Pair: matching.Pair{Competence: "FAMILY", Language: "FR"},
					Since: w.clock.Now()})
				if len(offers) > 0 {
					t.Errorf("offered besides: %v", offers)
				}
				return err
			})
			for _, by := range l[1:3] {
				w.do(w.DeclineOffer(t.Context(), w.lease(by), w.offerOf(by).ID, "busy"))
			}
			w.expectOffered(id)
			w.sweep()
			if n := len(w.askedFor(id)) + len(w.askedFor(second)); n != 1 {
				t.Errorf("%d offers to the last one who is free", n)
			}
		})
	}
}

// An earlier release accepts one of several offers and leaves the others open. Their lawyers did not miss them.
func TestWhatAnEarlierProgramLeftOpenIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.searchedInVain()
	l := w.onlineInTurn(3)
	w.sweep()
	w.exec("UPDATE offers SET state = 'ACCEPTED', ended_at = $2 WHERE lawyer_id = $1", l[0], w.clock.Now())
	w.exec("UPDATE lawyers SET state = 'BUSY' WHERE id = $1", l[0])
	w.exec("UPDATE consultations SET status = 'ASSIGNED', lawyer_id = $2, assigned_at = $3 WHERE id = $1",
		id, l[0], w.clock.Now())
	if err := w.AcceptOffer(t.Context(), w.lease(l[1]), w.offerOf(l[1]).ID); !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("accepted twice: %v", err)
	}
	w.pass(matching.OfferTime)
	for _, by := range l[1:] {
		w.expectLawyer(by, lawyer.Available)
	}
	w.expectLawyer(l[0], lawyer.Busy)
}

// An operator can see why a lawyer was asked, and the answer.
func TestStoryOfAConsultation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.onlineInTurn(5)
	id := w.create()
	w.sweep()
	w.clock.Advance(time.Second)
	w.do(w.DeclineOffer(t.Context(), w.lease(l[0]), w.offerOf(l[0]).ID, matching.ReasonConflict))
	w.clock.Advance(2 * time.Minute)
	w.do(w.Lawyers.Heartbeat(t.Context(), w.DB.Read(), w.lawyers...))
	w.sweep()
	w.do(w.AcceptOffer(t.Context(), w.lease(l[2]), w.offerOf(l[2]).ID))
	w.do(w.Withdraw(t.Context(), w.lease(l[2]), id, NotMyField))
	w.clock.Advance(SearchLimit)
	w.do(w.Lawyers.Heartbeat(t.Context(), w.DB.Read(), w.lawyers...))
	w.do(w.LawyerAvailable(t.Context(), l[4]))
	story, err := w.Matching.Story(t.Context(), w.DB.Read(), id)
	w.do(err)
	var got []string
	for _, c := range story {
		got = append(got, fmt.Sprintf("%d %s %d of %d %s %s %s %t %t", slices.Index(l, c.LawyerID), c.Why, c.QueuePlace,
			c.QueueSeen, c.Idle, c.State, c.Reason, c.ReturnedAt != nil, c.EndedAt != nil))
	}
	want := []string{
		"0 LONGEST_IDLE 1 of 5 4s DECLINED conflict_of_interest false true",
		"1 THREE_AT_ONCE 2 of 5 2m4s REVOKED  false true",
		"2 THREE_AT_ONCE 3 of 5 2m3s ACCEPTED not_my_field true true",
		"3 THREE_AT_ONCE 4 of 5 2m2s REVOKED  false true",
		"4 LAWYER_FREE 4 of 5 32m1s OPEN  false false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
