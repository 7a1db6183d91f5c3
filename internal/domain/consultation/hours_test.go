package consultation

import (
	"errors"
	"testing"
	"time"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/infra/postgres"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestCallHours(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ zone, now, from, until string }{
		{"Europe/Paris", "2030-05-06T03:00:00Z", "2030-05-06T06:00:00Z", "2030-05-06T18:40:00Z"},
		{"Europe/Paris", "2030-05-06T12:00:00Z", "2030-05-06T06:00:00Z", "2030-05-06T18:40:00Z"},
		{"Europe/Paris", "2030-05-06T18:39:59Z", "2030-05-06T06:00:00Z", "2030-05-06T18:40:00Z"},
		{"Europe/Paris", "2030-05-06T18:40:00Z", "2030-05-07T06:00:00Z", "2030-05-07T18:40:00Z"},
		{"Europe/Paris", "2030-03-30T20:00:00Z", "2030-03-31T06:00:00Z", "2030-03-31T18:40:00Z"}, // summer time begins
		{"Europe/Paris", "2030-10-26T20:00:00Z", "2030-10-27T07:00:00Z", "2030-10-27T19:40:00Z"}, // summer time ends
		{"Pacific/Auckland", "2030-05-06T12:00:00Z", "2030-05-06T20:00:00Z", "2030-05-07T08:40:00Z"},
		// the previous day there
		{"America/Martinique", "2030-05-06T00:00:00Z", "2030-05-05T12:00:00Z", "2030-05-06T00:40:00Z"},
		{"Asia/Kolkata", "2030-12-31T23:00:00Z", "2031-01-01T02:30:00Z", "2031-01-01T15:10:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, tc.now)
		if err != nil {
			t.Fatal(err)
		}
		from, until := callHours(now, zone(t, tc.zone))
		if from.Format(time.RFC3339) != tc.from || until.Format(time.RFC3339) != tc.until {
			t.Errorf("%s in %s: %v to %v, want %s to %s", tc.now, tc.zone, from, until, tc.from, tc.until)
		}
	}
}

// TestEveryGuaranteeContainsADay goes through a year, with both clock changes, also in zones with unusual ones.
func TestEveryGuaranteeContainsADay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Paris", "America/Martinique", "Indian/Reunion", "Australia/Lord_Howe",
		"Africa/Casablanca", "America/St_Johns", "UTC"} {
		z := zone(t, name)
		for at := noon; at.Before(noon.AddDate(1, 0, 0)); at = at.Add(47 * time.Minute) {
			due, open := at.Add(CallbackGuarantee), time.Duration(0)
			for now := at; now.Before(due); {
				from, until := callHours(now, z)
				if h := from.In(z).Hour(); h != dayBegins || !until.After(from) || !now.Before(until) {
					t.Fatalf("%s at %v: hours %v to %v", name, now, from.In(z), until.In(z))
				}
				if from.Before(now) {
					from = now
				}
				end := until
				if end.After(due) {
					end = due
				}
				if end.After(from) {
					open += end.Sub(from)
				}
				now = until
			}
			if open < 11*time.Hour+40*time.Minute {
				t.Fatalf("%s: of the 24 hours from %v on, a callback may be offered in %v", name, at.In(z), open)
			}
		}
	}
}

func TestQuietAndCallable(t *testing.T) {
	t.Parallel()
	day := Consultation{CallbackDueAt: ptr(noon.Add(20 * time.Hour)), CallableFrom: ptr(noon),
		CallableUntil: ptr(noon.Add(time.Hour))}
	asked := day
	asked.CallbackDueAt = nil
	for _, tc := range []struct {
		name                       string
		c                          Consultation
		at                         time.Duration
		callable, outsideCallHours bool
	}{
		{"before the day", day, -time.Microsecond, false, true},
		{"at its beginning", day, 0, true, false},
		{"before the end", day, time.Hour - time.Microsecond, true, false},
		{"the last attempts", day, time.Hour, false, false},
		{"before 21:00", day, time.Hour + lastAttempts - time.Microsecond, false, false},
		{"at 21:00", day, time.Hour + lastAttempts, false, true},
		{"has just asked", asked, -time.Hour, false, false},
		{"no hours yet", Consultation{CallbackDueAt: day.CallbackDueAt}, 0, false, false},
	} {
		now := noon.Add(tc.at)
		if callable(tc.c, now) != tc.callable || outsideCallHours(tc.c, now) != tc.outsideCallHours {
			t.Errorf("%s: callable %v outside %v", tc.name, callable(tc.c, now), outsideCallHours(tc.c, now))
		}
	}
}

// at moves the clock to an hour and minute of this or the next day in Paris, with all lawyers present.
func (w *world) at(hour, minute int) {
	w.Helper()
	z := zone(w.T, "Europe/Paris")
	now := w.clock.Now().In(z)
	to := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, z)
	if to.Before(now) {
		to = to.AddDate(0, 0, 1)
	}
	w.pass(to.Sub(now))
}

func (w *world) offered(lawyerID string) bool {
	w.Helper()
	_, ok, err := w.Matching.OpenFor(w.Context(), w.DB.Read(), lawyerID)
	w.do(err)
	return ok
}

func TestCallbacksAreNotOfferedByNight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(20, 0)
	id := w.create()
	w.at(20, 30) // X4
	w.at(20, 41)
	l := w.online()
	for _, hour := range []int{21, 23, 3, 7} {
		w.at(hour, 59)
		if w.offered(l) {
			t.Fatalf("offered at %d:59", hour)
		}
		w.do(w.LawyerAvailable(t.Context(), l))
		if _, err := w.search(t.Context(), id); err != nil || w.offered(l) {
			t.Fatalf("offered at %d:59 to who looks for work (%v)", hour, err)
		}
	}
	w.at(8, 0)
	w.sweep()
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.expect(id, Assigned, "pending_callback[PENDING_CALLBACK] assigned[ASSIGNED]", 8000, 2000)
}

func TestWhoHasJustAskedIsServedByNight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(3, 0)
	l := w.online()
	id := w.assigned(l)
	w.confirmed(l, id)
	w.expect(id, Assigned, "assigned[ASSIGNED]", 8000, 2000)
}

// If the search ends at night, the open offer is revoked, because it is not an offer of a callback.
func TestTheNightTakesAnOfferBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, l, offer string){
		"by the timer": func(w *world, l, _ string) { w.sweep() },
		"by a late acceptance": func(w *world, l, offer string) {
			if err := w.AcceptOffer(w.Context(), w.lease(l), offer); !errors.Is(err, matching.ErrOfferGone) {
				w.Errorf("accepted: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.at(3, 0)
			id := w.create()
			w.pass(SearchLimit - 10*time.Second)
			l := w.online()
			w.sweep()
			offer := w.offerOf(l).ID
			w.clock.Advance(10 * time.Second)
			end(w, l, offer)
			w.expect(id, PendingCallback, "pending_callback[PENDING_CALLBACK]", 8000, 2000)
			w.expectLawyer(l, lawyer.Available)
		})
	}
}

// A callback whose last attempts do not fit into the day waits for the next day.
func TestAttemptsDoNotReachIntoTheNight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(19, 0)
	id := w.create()
	w.at(20, 39)
	l := w.online()
	w.sweep()
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.do(w.StartCall(t.Context(), w.lease(l), id))
	w.unreached(id)
	w.at(21, 0)
	w.expect(id, PendingCallback,
		"pending_callback[PENDING_CALLBACK] assigned[ASSIGNED] pending_callback[PENDING_CALLBACK]", 8000, 2000)
	w.expectLawyer(l, lawyer.Available)
	w.at(23, 0)
	if w.offered(l) {
		t.Error("offered by night")
	}
	w.at(8, 0)
	w.sweep()
	if !w.offered(l) {
		t.Error("not offered the next morning")
	}
}

func TestTheGuaranteeHoldsAcrossTheNight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(20, 50)
	id := w.create()
	w.at(21, 20)
	due := *w.read(id).CallbackDueAt
	w.at(8, 0)
	w.pass(due.Sub(w.clock.Now()) - time.Second)
	w.expect(id, PendingCallback, "pending_callback[PENDING_CALLBACK]", 8000, 2000)
	w.pass(time.Second)
	w.expect(id, Expired, "pending_callback[PENDING_CALLBACK] expired[EXPIRED] refunded[EXPIRED]", 10_000, 0)
}

func TestAClientWhoMovesIsCalledByThatDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(20, 0)
	w.create()
	w.at(23, 0)
	l := w.online()
	w.sweep()
	if w.offered(l) {
		t.Fatal("offered by night")
	}
	w.tx(func(tx postgres.Tx) error {
		if err := w.Accounts.SetTimeZone(t.Context(), tx, w.client, "America/Martinique"); err != nil { // 17:00 there
			return err
		}
		return w.ClientMoved(t.Context(), tx, w.client)
	})
	w.sweep()
	if !w.offered(l) {
		t.Error("not offered by the day of the new zone")
	}
}
