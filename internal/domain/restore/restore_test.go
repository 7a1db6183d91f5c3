package restore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/seal"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/restore"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/sms"
)

var by = operator.Act{Actor: "cli:demo", Reason: "A test"}

// shop is the set of services on one database.
type shop struct {
	*testing.T
	url           string
	db            *postgres.DB
	apps          *application.Service
	accounts      *account.Service
	wallet        *wallet.Service
	webhooks      *webhook.Service
	consultations *consultation.Service
	privacy       *privacy.Service
}

type nowhere struct{}

func (nowhere) Send(context.Context, mail.Message) error { return nil }

type noPhone struct{}

func (noPhone) Send(context.Context, sms.Message) error { return nil }

// open creates all services on the database at url, with the keys that all databases of the test share.
func open(t *testing.T, url string, box *seal.Box) *shop {
	t.Helper()
	s := &shop{T: t, url: url}
	log := slog.New(slog.DiscardHandler)
	var err error
	s.db, err = postgres.Open(t.Context(), url, postgres.Options{MaxConns: 4, Test: true})
	s.must(err)
	t.Cleanup(s.db.Close)
	q, err := queue.New(s.db, log)
	s.must(err)
	s.apps, s.accounts, s.wallet, s.webhooks = application.New(), account.New(box), wallet.New(), webhook.New(s.db, box,
		webhook.Config{Sandbox: true})
	lawyers, post := lawyer.New(box), mail.New(q, box, nowhere{})
	self, err := account.NewSelfService(account.SelfServiceDeps{DB: s.db, Accounts: s.accounts, Box: box, Queue: q,
		Mail: post, SMS: sms.New(s.db, q, box, noPhone{}, log), BaseURL: "https://partner.example",
		Opened: s.wallet.Open})
	s.must(err)
	tokens, err := oauth.New(t.Context(), s.db, box, s.accounts, s.apps, oauth.Config{Issuer: "https://partner.example",
		Audience: "https://partner.example/api/v1"})
	s.must(err)
	s.consultations = consultation.New(consultation.Deps{DB: s.db, Box: box, Accounts: s.accounts, Applications: s.apps,
		Catalog: catalog.New(), Wallet: s.wallet, Matching: matching.New(lawyers), Lawyers: lawyers,
		Webhooks: s.webhooks, Telephony: telephony.New(s.db, nil, nil, nil)})
	s.privacy, err = privacy.New(privacy.Deps{Accounts: s.accounts, SelfService: self, Access: access.New(s.db),
		OAuth: tokens, Wallet: s.wallet, Idempotency: idempotency.New(s.db, box), Mail: post,
		Payments: payment.New(s.db, log, s.wallet, payment.Config{BaseURL: "https://partner.example",
			Sandbox: true, NoticeSecret: "s"}),
		Consultations: s.consultations, Proposals: &operator.Service{Consultations: s.consultations}})
	s.must(err)
	return s
}

func newShop(t *testing.T) (*shop, *seal.Box) {
	t.Helper()
	box := sealtest.Box(t)
	return open(t, dbtest.URL(t), box), box
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) tx(f func(ctx context.Context, tx postgres.Tx) error) {
	s.Helper()
	s.must(s.db.InTx(s.Context(), func(tx postgres.Tx) error { return f(s.Context(), tx) }))
}

func (s *shop) exec(sql string, args ...any) {
	s.Helper()
	s.tx(func(ctx context.Context, tx postgres.Tx) error { return dbtest.Exec(ctx, tx, sql, args...) })
}

// asOwner runs a statement that the program's own role may not run.
func (s *shop) asOwner(sql string) {
	s.Helper()
	_, err := dbtest.Owner(s.T, s.db).Pool().Exec(s.Context(), sql)
	s.must(err)
}

func (s *shop) number(sql string, args ...any) (n int) {
	s.Helper()
	s.must(s.db.Pool().QueryRow(s.Context(), sql, args...).Scan(&n))
	return n
}

func (s *shop) application() (app application.Application) {
	s.Helper()
	s.tx(func(ctx context.Context, tx postgres.Tx) (err error) {
		app, _, err = s.apps.Create(ctx, tx, application.NewApplication{Name: "CRM",
			RedirectURIs: []string{"https://crm.example/cb"}, Scopes: application.AllScopes})
		if err == nil {
			_, err = s.webhooks.CreateEndpoint(ctx, tx, app.ID, "https://crm.example/hooks")
		}
		return err
	})
	return app
}

// client creates a client who can pay for two consultations.
func (s *shop) client(name string) (c account.Client) {
	s.Helper()
	s.tx(func(ctx context.Context, tx postgres.Tx) (err error) {
		c, err = s.accounts.Create(ctx, tx, account.NewClient{Email: name + "@client.example",
			Password: "correct horse", Name: "A Client", Phone: "+33639980002", PhoneVerified: true})
		if err != nil {
			return err
		}
		return errors.Join(s.wallet.Open(ctx, tx, c.ID), s.wallet.Adjust(ctx, tx, c.ID, 2*consultation.Price, "gift"))
	})
	return c
}

func (s *shop) create(app application.Application, c account.Client) (made consultation.Consultation) {
	s.Helper()
	s.tx(func(ctx context.Context, tx postgres.Tx) (err error) {
		made, err = s.consultations.Create(ctx, tx,
			consultation.CreateCommand{Request: consultation.Request{ApplicationID: app.ID, ClientID: c.ID,
				Competence: "FAMILY", Language: "FR", Subject: "Test"},
				Evidence: consultation.Evidence{RequestID: "req", IdempotencyKey: "key", Address: "192.0.2.1",
					UserAgent: "crm/1"}})
		return err
	})
	return made
}

func (s *shop) cancel(c consultation.Consultation) {
	s.Helper()
	s.tx(func(ctx context.Context, tx postgres.Tx) error {
		_, err := s.consultations.CancelForClient(ctx, tx, c.ClientID, c.ID)
		return err
	})
}

// Settle moves the numbers of open consultations and event lists past everything that partners may have seen. It ends
// sessions and leaves ended consultations alone. It does all of this or nothing, and can be run again.
func TestNumbersGoOnBehindThoseThatWereGiven(t *testing.T) {
	t.Parallel()
	s, _ := newShop(t)
	app, client := s.application(), s.client("one")
	open, ended := s.create(app, client), s.create(app, client)
	s.cancel(ended)
	s.tx(func(ctx context.Context, tx postgres.Tx) error {
		_, err := s.accounts.SignIn(ctx, tx, client.ID)
		return err
	})
	state := func() [4]int {
		return [4]int{s.number("SELECT event_seq FROM consultations WHERE id = $1", open.ID),
			s.number("SELECT event_seq FROM consultations WHERE id = $1", ended.ID),
			s.number("SELECT last_position FROM webhook_endpoints"), s.number("SELECT count(*) FROM browser_sessions")}
	}
	before, to := state(), time.Now()
	if before[3] != 1 {
		t.Fatalf("%d sessions", before[3])
	}
	if _, err := restore.Settle(t.Context(), s.db, nil, s.privacy, operator.Act{Actor: "cli:demo"},
		to); !errors.Is(err, operator.ErrNoReason) || state() != before {
		t.Errorf("without a reason: %v, %v", err, state())
	}
	for times := 1; times <= 2; times++ {
		r, err := restore.Settle(t.Context(), s.db, nil, s.privacy, by, to)
		want := [4]int{before[0] + times*webhook.SequencesAfterRestore, before[1], before[2] + times*1_000_000_000, 0}
		if got := state(); err != nil || got != want {
			t.Errorf("time %d: %v, want %v; %v", times, got, want, err)
		}
		if r.Compared || r.Consultations != 1 || r.Applications != 1 || r.SignedOut != 2-times || !r.To.Equal(to) ||
			len(r.Gone)+len(r.Repeated)+len(r.Erased)+len(r.Payments)+len(r.Acts) != 0 {
			t.Errorf("time %d: %+v", times, r)
		}
	}
	if entries, err := audit.List(t.Context(), s.db.Read(), "", 0, 10); err != nil || len(entries) != 2 ||
		entries[0].Action != "deployment.restored" {
		t.Errorf("audit: %+v, %v", entries, err)
	}
}

// The report lists what only the lost database knows: missing consultations, those that will be repeated, and payments
// in no wallet. It does not list what both databases know.
func TestWhatIsLostIsTold(t *testing.T) {
	t.Parallel()
	lost, box := newShop(t)
	app, client, other := lost.application(), lost.client("one"), lost.client("two")
	repeated, untouched := lost.create(app, client), lost.create(app, client)
	pay := func(id string, at time.Time) {
		lost.exec(`INSERT INTO topup_sessions (id, client_id, application_id, amount_cents, checkout_url, return_url, provider, status, created_at, expires_at, ended_at)
			VALUES ($1, $2, $3, 5000, 'https://pay.example', 'https://crm.example', 'sandbox', 'PAID', $4, $5, $4)`,
			id, client.ID, app.ID, at, at.Add(time.Hour))
	}
	to := time.Now()
	pay("top_before", to)
	restored, lost := split(lost, box)

	gone := lost.create(app, other)
	lost.cancel(repeated)
	pay("top_after", time.Now())

	r, err := restore.Settle(t.Context(), restored.db, lost.db, restored.privacy, by, to)
	restored.must(err)
	want := []consultation.Gone{{ID: gone.ID, ApplicationID: app.ID, ClientID: other.ID, Status: gone.Status}}
	if !r.Compared || !slices.Equal(r.Gone, want) || !slices.Equal(r.Repeated, []string{repeated.ID}) ||
		r.Consultations != 2 {
		t.Errorf("%+v; %s is open in both", r, untouched.ID)
	}
	if len(r.Payments) != 1 || r.Payments[0].ID != "top_after" || r.Payments[0].Amount != 5000 ||
		r.Payments[0].ClientID != client.ID {
		t.Errorf("payments: %+v", r.Payments)
	}
	if n := lost.number("SELECT count(*) FROM audit_entries"); n != 0 {
		t.Errorf("the lost database was written to: %d entries", n)
	}
}

// split closes a shop and opens two: one on a copy of its current database, one on the database itself.
func split(s *shop, box *seal.Box) (restored, lost *shop) {
	s.Helper()
	s.db.Close()
	return open(s.T, dbtest.CopyURL(s.T, s.url), box), open(s.T, s.url, box)
}

// brought marks a test database as restored. It uses partnerd.restored, because a recovery target belongs to a whole
// server; make drill covers that.
func (s *shop) brought(word string) {
	s.Helper()
	name := s.db.Pool().Config().ConnConfig.Database
	s.asOwner(fmt.Sprintf(`ALTER DATABASE %q SET partnerd.restored = '%s'`, name, word))
	s.db.Close()
	db, err := postgres.Open(s.Context(), s.url, postgres.Options{MaxConns: 4, Test: true})
	s.must(err)
	s.Cleanup(db.Close)
	s.db = db
}

// A restored database is rejected until it is settled, and again after a further restore. A database that was never
// restored is accepted.
func TestADatabaseThatWasBroughtBackIsRefusedUntilItIsSettled(t *testing.T) {
	t.Parallel()
	s, _ := newShop(t)
	check := func(want error) {
		t.Helper()
		if err := restore.Check(t.Context(), s.db.Read()); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	settle := func(by operator.Act) error {
		_, err := restore.Settle(t.Context(), s.db, nil, s.privacy, by, time.Now())
		return err
	}
	check(nil)
	s.must(settle(by))
	check(nil)
	s.brought("the first time")
	check(restore.ErrUnsettled)
	if err := settle(operator.Act{Actor: "cli:demo"}); !errors.Is(err, operator.ErrNoReason) {
		t.Errorf("without a reason: %v", err)
	}
	check(restore.ErrUnsettled)
	s.must(settle(by))
	check(nil)
	s.brought("the second time")
	check(restore.ErrUnsettled)
	if err := restore.Check(t.Context(), s.db.Read()); !strings.Contains(err.Error(),
		"partnerd.restored the second time, timeline 0") {
		t.Errorf("it does not say which setting: %v", err)
	}
	s.brought("")
	check(nil)
}

// A client who was erased after the restore point is erased again. If that fails, the database stays unsettled and the
// command is run again.
func TestADatabaseWithoutItsErasuresIsNotSettled(t *testing.T) {
	t.Parallel()
	lost, box := newShop(t)
	app, client := lost.application(), lost.client("one")
	lost.cancel(lost.create(app, client))
	lost.tx(func(ctx context.Context, tx postgres.Tx) error {
		return lost.wallet.Adjust(ctx, tx, client.ID, -2*consultation.Price, "paid out")
	})
	to := time.Now()
	restored, lost := split(lost, box)
	lost.tx(func(ctx context.Context, tx postgres.Tx) error { return lost.privacy.EraseAgain(ctx, tx, client.ID) })
	restored.brought("today")

	restored.asOwner(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	restored.asOwner(`CREATE TRIGGER no BEFORE UPDATE ON clients FOR EACH ROW WHEN (new.erased_at IS NOT NULL) EXECUTE FUNCTION no()`)
	if _, err := restore.Settle(t.Context(), restored.db, lost.db, restored.privacy, by, to); err == nil {
		t.Error("an erasure that fails is not told")
	}
	if err := restore.Check(t.Context(), restored.db.Read()); !errors.Is(err, restore.ErrUnsettled) {
		t.Errorf("settled without its erasure: %v", err)
	}
	restored.asOwner(`DROP TRIGGER no ON clients`)
	r, err := restore.Settle(t.Context(), restored.db, lost.db, restored.privacy, by, to)
	restored.must(err)
	if !slices.Equal(r.Erased, []string{client.ID}) || len(r.NotErased) != 0 {
		t.Errorf("%+v", r)
	}
	if n := restored.number("SELECT count(*) FROM clients WHERE erased_at IS NOT NULL AND id = $1", client.ID); n != 1 {
		t.Error("the client is not erased")
	}
	if n := restored.number("SELECT count(*) FROM audit_entries WHERE action = 'client.erase_again'"); n != 1 {
		t.Errorf("%d acts tell of it", n)
	}
	restored.must(restore.Check(t.Context(), restored.db.Read()))
}
