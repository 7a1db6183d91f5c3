package web

import (
	"context"
	"log/slog"
	"net/url"
	"regexp"
	"sync"
	"time"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/sms"
)

// outbox collects the emails and text messages that are sent.
type outbox struct {
	mu    sync.Mutex
	mails []mail.Message
	texts []sms.Message
}

type mailOut struct{ *outbox }

func (o mailOut) Send(_ context.Context, m mail.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mails = append(o.mails, m)
	return nil
}

type textOut struct{ *outbox }

func (o textOut) Send(_ context.Context, m sms.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.texts = append(o.texts, m)
	return nil
}

var newDrop = sync.OnceValue(func() *seal.Drop {
	public, _, err := seal.NewKeyPair()
	if err != nil {
		panic(err)
	}
	return must(seal.OpenDrop(public))
})

func (f *fixture) newServices(box *seal.Box) {
	log := slog.New(slog.DiscardHandler)
	f.queue = must(queue.New(f.db, log))
	f.post, f.catalog = mail.New(f.queue, box, mailOut{&f.outbox}), catalog.New()
	f.self = must(account.NewSelfService(account.SelfServiceDeps{DB: f.db, Accounts: f.accounts, Box: box,
		Queue: f.queue, Mail: f.post, SMS: sms.New(f.db, f.queue, box, textOut{&f.outbox}, log), BaseURL: f.base,
		Opened: f.wallet.Open}))
	f.staff = must(staff.New(staff.Deps{DB: f.db, Box: box, Queue: f.queue, Mail: f.post, BaseURL: f.base}))
	f.lawyers = lawyer.New(box)
	f.webhooks = webhook.New(f.db, box, webhook.Config{Sandbox: true})
	offers, calls := matching.New(f.lawyers), telephony.New(f.db, nil, nil, nil)
	f.notes = note.New(box, newDrop())
	f.consultations = consultation.New(consultation.Deps{DB: f.db, Box: box, Accounts: f.accounts, Applications: f.apps,
		Catalog: f.catalog, Wallet: f.wallet, Matching: offers, Lawyers: f.lawyers, Webhooks: f.webhooks,
		Notes: f.notes, Telephony: calls, Mail: f.post})
	f.operators = &operator.Service{DB: f.db, Sandbox: true, Accounts: f.accounts, SelfService: f.self,
		Applications: f.apps, OAuth: f.oauth, Wallet: f.wallet, Payments: f.payments, Webhooks: f.webhooks,
		Lawyers: f.lawyers, Consultations: f.consultations, Matching: offers, Telephony: calls, Staff: f.staff,
		Mail: f.post}
	f.desk = desk.New(desk.Deps{DB: f.db, Staff: f.staff, Lawyers: f.lawyers, Consultations: f.consultations,
		Notes: f.notes, Logger: log})
}

// work runs the queue until the test ends.
func (f *fixture) work() *fixture {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.queue.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Errorf("queue: %v", err)
		}
	})
	return f
}

// mail waits for the n-th email, counted from 1.
func (f *fixture) mail(n int) mail.Message {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		f.outbox.mu.Lock()
		if len(f.outbox.mails) >= n {
			defer f.outbox.mu.Unlock()
			return f.outbox.mails[n-1]
		}
		f.outbox.mu.Unlock()
	}
	f.t.Fatalf("mail %d did not come", n)
	return mail.Message{}
}

// code waits for the n-th text message and returns its code.
func (f *fixture) code(n int) string {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		f.outbox.mu.Lock()
		if len(f.outbox.texts) >= n {
			defer f.outbox.mu.Unlock()
			return regexp.MustCompile(`\d{6}`).FindString(f.outbox.texts[n-1].Text)
		}
		f.outbox.mu.Unlock()
	}
	f.t.Fatalf("text message %d did not come", n)
	return ""
}

// linkIn returns the path and query of the link in an email.
func (f *fixture) linkIn(m mail.Message) string {
	f.t.Helper()
	u := must(url.Parse(regexp.MustCompile(`https?://\S+`).FindString(m.Text)))
	if u.Query().Get("token") == "" {
		f.t.Fatalf("no link in %q", m.Text)
	}
	return u.RequestURI()
}

// start begins a consultation. The client pays for it with 20 of 50 euros.
func (f *fixture) start() consultation.Consultation {
	f.t.Helper()
	var c consultation.Consultation
	f.tx(func(tx postgres.Tx) {
		ctx := f.t.Context()
		if err := f.accounts.SetPhone(ctx, tx, f.client.ID, "+33639980002", true); err != nil {
			f.t.Fatal(err)
		}
		if err := f.wallet.Adjust(ctx, tx, f.client.ID, 5000, "test"); err != nil {
			f.t.Fatal(err)
		}
		var err error
		c, err = f.consultations.Create(ctx, tx,
			consultation.CreateCommand{Request: consultation.Request{ApplicationID: f.app.ID, ClientID: f.client.ID,
				Competence: "FAMILY", Subject: "Separation & custody", Description: "What to do?\nSecond line.",
				ExternalRef: "case-7"},
				Evidence: consultation.Evidence{RequestID: "req_1", IdempotencyKey: "k", Address: "192.0.2.1",
					UserAgent: "crm/1"}})
		if err != nil {
			f.t.Fatal(err)
		}
	})
	return c
}
