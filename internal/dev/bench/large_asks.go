package bench

import (
	"context"
	"time"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
)

// ask is something that the program does repeatedly.
type ask struct {
	name  string
	times int  // number of measurements; 0 means 12
	whole bool // reads whole tables by design
	do    func(ctx context.Context) error
}

// asks lists what the API, the engine, the dispatcher, the ledger check and the purges do, for clients of one part of
// the past.
func (r *largeRig) asks(p past) []ask {
	a, tx := r.app, r.app.DB.Read()
	now := tx.Now
	list := func(client string, f consultation.ListFilter, before consultation.Position) func(context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := a.Consultations.List(ctx, tx, readApplication, client, f, before, 20)
			return err
		}
	}
	deliveries := func(application string, f webhook.DeliveryFilter) func(context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := a.Webhooks.Deliveries(ctx, tx, application, f)
			return err
		}
	}
	events := func(application string, after int64) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := a.Webhooks.Events(ctx, application, after, 100)
			return err
		}
	}
	requests := func(f requestlog.Filter) func(context.Context) error {
		return func(ctx context.Context) error {
			f.Limit = 20
			_, _, err := a.Requests.List(ctx, tx, readApplication, f)
			return err
		}
	}
	purge := func(f func(context.Context) (int, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f(ctx); return err }
	}
	later := consultation.Position{CreatedAt: now.Add(-10 * 24 * time.Hour), ID: p.of(p.n / 2)}
	id := p.of(p.n / 50 * 50 / 2 / 50 * 50) // of the busy client
	return []ask{
		{name: "list", do: list(p.client(), consultation.ListFilter{}, consultation.Position{})},
		{name: "list, busy client", do: list(p.busy(), consultation.ListFilter{}, consultation.Position{})},
		{name: "list, later page", do: list(p.busy(), consultation.ListFilter{}, later)},
		{name: "list, frequent status", do: list(p.busy(), consultation.ListFilter{Status: consultation.Completed},
			consultation.Position{})},
		{name: "list, status of none", do: list(p.busy(), consultation.ListFilter{Status: consultation.Expired},
			consultation.Position{})},
		{name: "list, rare status", do: list(p.busy(), consultation.ListFilter{Status: consultation.Matching},
			consultation.Position{})},
		{name: "list, rare status, later page",
			do: list(p.busy(), consultation.ListFilter{Status: consultation.Matching}, later)},
		{name: "list, external reference", do: list(p.busy(), consultation.ListFilter{ExternalRef: "case-50"},
			consultation.Position{})},
		{name: "list, unknown reference", do: list(p.busy(), consultation.ListFilter{ExternalRef: "case-none"},
			consultation.Position{})},
		{name: "list, created between", do: list(p.busy(),
			consultation.ListFilter{CreatedAfter: now.Add(-12 * 24 * time.Hour),
				CreatedBefore: now.Add(-11 * 24 * time.Hour)}, consultation.Position{})},
		{name: "list, created before, rare status",
			do: list(p.busy(), consultation.ListFilter{Status: consultation.Matching,
				CreatedBefore: now.Add(-time.Hour)}, consultation.Position{})},
		{name: "read", do: func(ctx context.Context) error {
			_, err := a.Consultations.Get(ctx, tx, readApplication, p.busy(), id)
			return err
		}},
		{name: "client's list", do: func(ctx context.Context) error {
			_, _, err := a.Consultations.ListForClient(ctx, tx, p.busy(), consultation.Position{}, 20)
			return err
		}},
		{name: "client's open ones", do: func(ctx context.Context) error {
			_, err := a.Consultations.OpenOf(ctx, tx, p.client())
			return err
		}},
		{name: "wallet",
			do: func(ctx context.Context) error { _, err := a.Wallet.Balance(ctx, tx, p.busy()); return err }},
		{name: "wallet transactions", do: func(ctx context.Context) error {
			_, _, err := a.Wallet.Transactions(ctx, tx, p.busy(), 0, 20)
			return err
		}},
		{name: "wallet transactions, later page", do: func(ctx context.Context) error {
			_, _, err := a.Wallet.Transactions(ctx, tx, p.busy(), int64(p.n)/20, 20)
			return err
		}},
		{name: "wallet lines of the client's page", whole: true, do: func(ctx context.Context) error {
			_, _, err := a.Wallet.Lines(ctx, tx, p.client(), 0, 20)
			return err
		}},
		{name: "coverage", do: func(ctx context.Context) error {
			_, err := a.Consultations.TellCoverage(ctx, tx, readApplication, p.client(), "FAMILY", "FR")
			return err
		}},
		{name: "coverage, rare pair", do: func(ctx context.Context) error {
			_, err := a.Consultations.TellCoverage(ctx, tx, readApplication, p.client(), "BUSINESS", "PT")
			return err
		}},
		{name: "events", do: events(readApplication, 0)},
		{name: "events, later", do: events(readApplication, int64(p.part)*100_000_000+int64(p.n)/20)},
		{name: "events, a hundred never read", do: func(ctx context.Context) error {
			if err := r.forget(ctx, p, 100); err != nil {
				return err
			}
			r.watch.begin()
			return events(newsApplication, 0)(ctx)
		}},
		{name: "events before", do: func(ctx context.Context) error {
			_, err := a.Webhooks.EventsBefore(ctx, readApplication, 0, 50)
			return err
		}},
		{name: "event", do: func(ctx context.Context) error {
			_, err := a.Webhooks.Event(ctx, tx, readApplication, "evt_"+id+"_1")
			return err
		}},
		{name: "deliveries", do: deliveries(readApplication, webhook.DeliveryFilter{})},
		{name: "deliveries, later page", do: deliveries(readApplication,
			webhook.DeliveryFilter{Before: webhook.Position{CreatedAt: later.CreatedAt,
				ID: "dlv_" + later.ID + "_1"}})},
		{name: "deliveries, delivered", do: deliveries(readApplication,
			webhook.DeliveryFilter{State: webhook.Delivered})},
		{name: "deliveries, delivered, none", do: deliveries(deafApplication,
			webhook.DeliveryFilter{State: webhook.Delivered})},
		{name: "deliveries, failed", do: deliveries("app_large_7", webhook.DeliveryFilter{State: webhook.Failed})},
		{name: "deliveries, failed, none", do: deliveries("app_large_2",
			webhook.DeliveryFilter{State: webhook.Failed})},
		{name: "deliveries, pending, none", do: deliveries(readApplication,
			webhook.DeliveryFilter{State: webhook.Pending})},
		{name: "deliveries, pending", do: deliveries(deafApplication, webhook.DeliveryFilter{State: webhook.Pending})},
		{name: "deliveries, pending between, none", do: deliveries(readApplication,
			webhook.DeliveryFilter{State: webhook.Pending, From: now.Add(-12 * 24 * time.Hour),
				To: now.Add(-24 * time.Hour)})},
		{name: "deliveries of a consultation", do: deliveries(readApplication,
			webhook.DeliveryFilter{ConsultationID: id})},
		{name: "deliveries of an event", do: deliveries(readApplication,
			webhook.DeliveryFilter{EventID: "evt_" + id + "_2"})},
		{name: "deliveries between", do: deliveries(readApplication,
			webhook.DeliveryFilter{From: now.Add(-12 * 24 * time.Hour), To: now.Add(-11 * 24 * time.Hour)})},
		{name: "delivery with its attempts", do: func(ctx context.Context) error {
			if _, err := a.Webhooks.Delivery(ctx, tx, readApplication, "dlv_"+id+"_1"); err != nil {
				return err
			}
			_, err := a.Webhooks.Attempts(ctx, tx, readApplication, "dlv_"+id+"_1")
			return err
		}},
		{name: "health of an endpoint, a day", do: func(ctx context.Context) error {
			_, err := a.Webhooks.HealthOf(ctx, tx, readApplication, now.Add(-24*time.Hour))
			return err
		}},
		{name: "requests", do: requests(requestlog.Filter{})},
		{name: "requests, later page", do: requests(requestlog.Filter{Before: "req_" + later.ID})},
		{name: "requests, refused", do: requests(requestlog.Filter{Refused: true})},
		{name: "requests between", do: requests(requestlog.Filter{From: now.Add(-12 * 24 * time.Hour),
			To: now.Add(-11 * 24 * time.Hour)})},
		{name: "requests, refused between", do: requests(requestlog.Filter{Refused: true,
			From: now.Add(-12 * 24 * time.Hour), To: now.Add(-11 * 24 * time.Hour)})},
		{name: "request", do: func(ctx context.Context) error {
			_, err := a.Requests.Get(ctx, tx, readApplication, "req_"+id)
			return err
		}},
		{name: "inbox of a client", do: func(ctx context.Context) error {
			_, _, err := a.Inbox.List(ctx, tx, readApplication, sandbox.MessageFilter{ClientID: p.client()}, "", 20)
			return err
		}},

		{name: "sweep", do: a.Consultations.Sweep},
		{name: "sender and engine, a second", times: 1, do: func(ctx context.Context) error {
			ctx, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			err := a.Webhooks.Lead(ctx)
			if ctx.Err() != nil {
				return nil
			}
			return err
		}},
		{name: "sender, a second", times: 1, do: func(ctx context.Context) error {
			ctx, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			err := a.Webhooks.Run(ctx)
			if ctx.Err() != nil {
				return nil
			}
			return err
		}},

		{name: "books, everything", times: 1, whole: true, do: func(ctx context.Context) error {
			_, err := a.Books.ExamineAll(ctx, func(string) {})
			return err
		}},
		{name: "books, daily", times: 3, whole: true, do: func(ctx context.Context) error { return r.day(ctx, p) }},
		{name: "chain of the evidence", do: a.Consultations.ChainEvidence},

		{name: "purge of events", do: purge(a.Webhooks.Purge)},
		// The purge of requests works by ranges of pages; a small table is one range.
		{name: "purge of requests", whole: true, do: purge(a.Requests.Purge)},
		{name: "purge of keys", do: purge(a.Idempotency.Purge)},
		{name: "purge of messages", do: purge(a.Inbox.Purge)},
		{name: "purge of estimates", do: purge(a.Consultations.PurgeEstimates)},
		{name: "purge of grants", do: purge(a.OAuth.Purge)},
		{name: "purge of rate buckets",
			do: purge(func(ctx context.Context) (int, error) { return ratelimit.Purge(ctx, tx) })},
		{name: "purge of copies of notes",
			do: purge(func(ctx context.Context) (int, error) { return a.Notes.DropCopies(ctx, tx) })},
		{name: "purge of drafts",
			do: purge(func(ctx context.Context) (int, error) { return a.Notes.PurgeDrafts(ctx, tx) })},
	}
}
