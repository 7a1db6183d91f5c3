package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

func (w *world) enable(app string, types ...Type) {
	w.t.Helper()
	w.tx(func(tx postgres.Tx) error { return w.svc.SetEnabledEvents(w.t.Context(), tx, app, types) })
}

func (w *world) client() string {
	w.t.Helper()
	id := w.db.Read().NewID("cli")
	w.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ($1, $1 || '@client.example', 'Demo Client', '', now(), now())`, id)
	return id
}

// An event about a client goes to the applications that enabled its type. It is not a test event, and is numbered
// separately from consultations.
func TestAnEventAboutAClientIsDeliveredToWhoTurnedItOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	r := newReceiver(t, status(http.StatusNoContent))
	app, secret := w.application(r.URL)
	off, _ := w.application(r.URL)
	other, _ := w.application(r.URL)
	client := w.client()
	w.enable(app, WalletToppedUp, ClientDisconnected)
	w.enable(other, ClientDisconnected)
	w.run(w.svc)
	for _, kind := range []Type{WalletToppedUp, ClientDisconnected} {
		w.tx(func(tx postgres.Tx) error {
			return w.svc.Tell(t.Context(), tx, client, kind, []string{app, off, other})
		})
	}
	list := w.settled(app, 1)
	if len(list) != 2 || list[0].Type != WalletToppedUp || list[0].Sequence != 1 ||
		list[1].Type != ClientDisconnected || list[1].Sequence != 2 || list[1].ClientID != client {
		t.Fatalf("deliveries %+v", list)
	}
	if n, m := len(w.deliveries(off)), len(w.settled(other, 1)); n != 0 || m != 1 {
		t.Errorf("%d deliveries to who turned nothing on, %d to who turned one on", n, m)
	}
	for _, p := range r.seen() {
		if p.header.Get(HeaderDelivery) != list[1].ID {
			continue
		}
		e, err := w.svc.Event(t.Context(), w.db.Read(), app, list[1].EventID)
		want := fmt.Sprintf(`{"id":%q,"type":"client.disconnected","createdAt":%q,"data":{"clientId":%q}}`,
			e.ID, clock.Format(e.CreatedAt), client)
		if err != nil || string(p.body) != want || e.Test() || p.header.Get(HeaderTest) != "" ||
			p.header.Get(HeaderSequence) != "2" {
			t.Errorf("sent %s with %v, event %+v, %v", p.body, p.header, e, err)
		}
		if err := Verify(secret, p.header.Get(HeaderSignature), p.body, p.at); err != nil {
			t.Error(err)
		}
	}
	w.tx(func(tx postgres.Tx) error {
		_, err := w.svc.Redeliver(t.Context(), tx, app, list[0].ID, true)
		return err
	})
	eventually(t, "sent again under another identifier", func() bool { return len(w.settled(app, 1)) == 3 })
}

func TestEnabledEventsAreSomeOfTheTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application("")
	for _, types := range [][]Type{{Created}, {WalletToppedUp, WalletToppedUp}, {""}} {
		if err := w.svc.SetEnabledEvents(t.Context(), w.db.Read(), app, types); !errors.Is(err, problem.ErrValidation) {
			t.Errorf("%v: %v", types, err)
		}
	}
	if err := w.svc.SetEnabledEvents(t.Context(), w.db.Read(), "app_nobody", nil); !errors.Is(err,
		problem.ErrNotFound) {
		t.Errorf("nobody's: %v", err)
	}
	w.enable(app, WalletToppedUp)
	w.enable(app)
	if e, err := w.svc.Endpoint(t.Context(), w.db.Read(), app); err != nil || len(e.EnabledEvents) != 0 {
		t.Errorf("endpoint %+v, %v", e, err)
	}
}

// Events written concurrently are numbered without gaps or duplicates.
func TestEventsAboutAClientAreNumberedOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clock.System{}, sandbox())
	apps := make([]string, 3)
	for i := range apps {
		apps[i], _ = w.application("")
		w.enable(apps[i], WalletToppedUp)
	}
	client := w.client()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			named := slices.Clone(apps)
			if i%2 == 1 {
				slices.Reverse(named)
			}
			w.tx(func(tx postgres.Tx) error { return w.svc.Tell(t.Context(), tx, client, WalletToppedUp, named) })
		})
	}
	all.Wait()
	for _, app := range apps {
		var numbers []string
		for _, d := range w.deliveries(app) {
			numbers = append(numbers, fmt.Sprint(d.Sequence))
		}
		if got := strings.Join(numbers, " "); got != "1 2 3 4 5 6 7 8 9 10 11 12" {
			t.Errorf("numbers %s", got)
		}
	}
}
