package account

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/password"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/sms"
)

const newPassword = "une phrase assez longue"

// counter is the self-service with its own database and clock, a working queue and an outbox.
type fixture struct {
	*testing.T
	*SelfService
	SelfServiceDeps
	clock  *clock.Manual
	mu     sync.Mutex
	mails  []mail.Message
	texts  []sms.Message
	opened []string
}

type mailbox struct{ c *fixture }

func (m mailbox) Send(_ context.Context, msg mail.Message) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.mails = append(m.c.mails, msg)
	return nil
}

type phones struct{ c *fixture }

func (p phones) Send(_ context.Context, msg sms.Message) error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.c.texts = append(p.c.texts, msg)
	return nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{T: t, clock: clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	db := dbtest.NewWithClock(t, c.clock)
	accounts, log := newService(t), slog.New(slog.DiscardHandler)
	q, err := queue.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	c.SelfService, err = NewSelfService(SelfServiceDeps{DB: db, Accounts: accounts, Box: accounts.box, Queue: q,
		Mail: mail.New(q, accounts.box, mailbox{c}), SMS: sms.New(db, q, accounts.box, phones{c}, log),
		BaseURL: "https://partner.example", Opened: func(_ context.Context, _ postgres.Tx, clientID string) error {
			c.opened = append(c.opened, clientID)
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	c.SelfServiceDeps = c.deps
	return c
}

// work runs the queue until the test ends.
func (c *fixture) work() *fixture {
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Queue.Run(ctx) }()
	c.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("queue: %v", err)
		}
	})
	return c
}

func (c *fixture) tx(do func(tx postgres.Tx) error) error {
	return c.DB.InTx(c.Context(), do)
}

func (c *fixture) ok(do func(tx postgres.Tx) error) {
	c.Helper()
	if err := c.tx(do); err != nil {
		c.Fatal(err)
	}
}

// mail waits for the n-th email, counted from 1.
func (c *fixture) mail(n int) mail.Message {
	c.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		c.mu.Lock()
		if len(c.mails) >= n {
			defer c.mu.Unlock()
			return c.mails[n-1]
		}
		c.mu.Unlock()
	}
	c.Fatalf("mail %d did not come", n)
	return mail.Message{}
}

// code waits for the n-th text message and returns its code.
func (c *fixture) code(n int) string {
	c.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		c.mu.Lock()
		if len(c.texts) >= n {
			defer c.mu.Unlock()
			return regexp.MustCompile(`\d{6}`).FindString(c.texts[n-1].Text)
		}
		c.mu.Unlock()
	}
	c.Fatalf("text message %d did not come", n)
	return ""
}

func tokenOf(t *testing.T, m mail.Message) string {
	t.Helper()
	link := regexp.MustCompile(`https://partner\.example/\S+`).FindString(m.Text)
	u, err := url.Parse(link)
	if err != nil || u.Query().Get("token") == "" {
		t.Fatalf("no link in %q", m.Text)
	}
	return u.Query().Get("token")
}

func (c *fixture) askSignUp(email string) {
	c.Helper()
	c.ok(func(tx postgres.Tx) error {
		return c.RequestSignUp(c.Context(), tx,
			SignUp{Email: email, Name: "New Client", Next: "/api/oauth/authorize?x=1"}, "fr")
	})
}

func (c *fixture) askReset(email string) {
	c.Helper()
	c.ok(func(tx postgres.Tx) error { return c.RequestReset(c.Context(), tx, email, "en") })
}

// atOnce runs f ten times in parallel and returns how often it succeeded; every failure must be want.
func atOnce(t *testing.T, want error, f func() error) (successes int) {
	t.Helper()
	var wg sync.WaitGroup
	results := make([]error, 10)
	for i := range results {
		wg.Go(func() { results[i] = f() })
	}
	wg.Wait()
	for _, err := range results {
		if err == nil {
			successes++
		} else if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	return successes
}

func TestSignUpNeedsTheMailAndWorksOnceUnderParallelTries(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	c.askSignUp(" New@Client.example ")
	m := c.mail(1)
	if m.To != "New@Client.example" || !strings.Contains(m.Text, "Bonjour") || strings.Contains(m.Text, "New Client") {
		t.Errorf("mail: %+v", m)
	}
	token := tokenOf(t, m)
	for range 2 { // looking does not use the link
		if up, err := c.PendingSignUp(t.Context(), c.DB.Read(), token); err != nil ||
			up.Email != "New@Client.example" || up.Name != "New Client" {
			t.Errorf("pending: %+v %v", up, err)
		}
	}
	if err := c.tx(func(tx postgres.Tx) error {
		_, _, err := c.SelfService.SignUp(t.Context(), tx, token, "short")
		return err
	}); !errors.Is(err, ErrInvalid) {
		t.Errorf("short password: %v", err)
	}
	n := atOnce(t, ErrBadLink, func() error {
		return c.tx(func(tx postgres.Tx) error {
			_, next, err := c.SelfService.SignUp(t.Context(), tx, token, newPassword)
			if err == nil && next != "/api/oauth/authorize?x=1" {
				t.Errorf("next %q", next)
			}
			return err
		})
	})
	if n != 1 || len(c.opened) != 1 {
		t.Errorf("%d sign-ups, %d wallets", n, len(c.opened))
	}
	if got, err := c.Accounts.CheckPassword(t.Context(), c.DB.Read(), "new@client.example", newPassword); err != nil ||
		got.ID != c.opened[0] {
		t.Errorf("sign-in: %+v %v", got, err)
	}
	if _, err := c.PendingSignUp(t.Context(), c.DB.Read(), token); !errors.Is(err, ErrBadLink) {
		t.Errorf("a used link: %v", err)
	}
}

func TestLinksRunOut(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	create(t, c.Accounts, c.DB, demo)
	c.askSignUp("new@client.example")
	signUp := tokenOf(t, c.mail(1))
	c.askReset(demo.Email)
	reset := tokenOf(t, c.mail(2))
	if _, err := c.PendingReset(t.Context(), c.DB.Read(), signUp); !errors.Is(err, ErrBadLink) {
		t.Errorf("a link of the other kind: %v", err)
	}
	c.clock.Advance(ResetLifetime - time.Microsecond)
	if _, err := c.PendingReset(t.Context(), c.DB.Read(), reset); err != nil {
		t.Errorf("early: %v", err)
	}
	c.clock.Advance(time.Microsecond)
	err := c.tx(func(tx postgres.Tx) error {
		_, err := c.SelfService.Reset(t.Context(), tx, reset, newPassword, "en", Recovery{})
		return err
	})
	if !errors.Is(err, ErrBadLink) {
		t.Errorf("reset too late: %v", err)
	}
	c.clock.Advance(SignUpLifetime - ResetLifetime)
	err = c.tx(func(tx postgres.Tx) error {
		_, _, err := c.SelfService.SignUp(t.Context(), tx, signUp, newPassword)
		return err
	})
	if !errors.Is(err, ErrBadLink) {
		t.Errorf("sign-up too late: %v", err)
	}
	c.clock.Advance(25 * time.Hour)
	if n, err := c.Purge(t.Context()); n != 2 || err != nil {
		t.Errorf("purged %d %v", n, err)
	}
}

// A request reveals nothing: it does the same before its response for a client and for a stranger.
func TestRequestsDoTheSameForClientsAndStrangers(t *testing.T) {
	t.Parallel()
	c := newFixture(t) // nothing processes the queue
	create(t, c.Accounts, c.DB, demo)
	var sizes []int
	for _, ask := range []func(){
		func() { c.askSignUp("demo.client@example.com") }, func() { c.askSignUp("demo.nobody@example.com") },
		func() { c.askReset("demo.client@example.com") }, func() { c.askReset("demo.nobody@example.com") },
	} {
		ask()
		var jobs, size, links int
		err := c.DB.Pool().QueryRow(t.Context(),
			`SELECT count(*), sum(length(args::text)), (SELECT count(*) FROM client_links) FROM river.river_job`).
			Scan(&jobs, &size, &links)
		if err != nil || links != 0 {
			t.Fatal(links, err)
		}
		sizes = append(sizes, size)
		if jobs != len(sizes) {
			t.Errorf("%d jobs after %d requests", jobs, len(sizes))
		}
	}
	if sizes[0] != sizes[1]-sizes[0] || sizes[2]-sizes[1] != sizes[3]-sizes[2] {
		t.Errorf("the requests leave different things behind: %v", sizes)
	}
	var readable int
	err := c.DB.Pool().QueryRow(t.Context(),
		`SELECT count(*) FROM river.river_job WHERE args::text LIKE '%example.com%'`).Scan(&readable)
	if err != nil || readable != 0 {
		t.Errorf("%d jobs tell the address: %v", readable, err)
	}
}

func TestMailsTellTheOwnerAloneWhetherThereIsAnAccount(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	c.askSignUp("demo.client@EXAMPLE.com")
	if m := c.mail(1); !strings.Contains(m.Subject, "déjà un compte") || strings.Contains(m.Text, "token=") ||
		m.To != client.Email {
		t.Errorf("mail to one who has an account: %+v", m)
	}
	c.askReset("nobody@example.com") // no email
	setDisabled(t, c.Accounts, c.DB, client.ID, true)
	c.askReset(client.Email)
	if m := c.mail(2); m.To != client.Email || !strings.Contains(m.Subject, "is disabled") ||
		strings.Contains(m.Text, "token=") {
		t.Errorf("mail to one who is disabled: %+v", m)
	}
	c.askSignUp("other@example.com")
	if m := c.mail(3); m.To != "other@example.com" {
		t.Errorf("mail: %+v", m)
	}
}

func TestAnAddressIsNotFloodedAndKinsDoNotShareTheLimit(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	create(t, c.Accounts, c.DB, demo)
	count := func() (n int) {
		if err := c.DB.Pool().QueryRow(t.Context(), `SELECT count(*) FROM client_links WHERE kind = 'RESET'`).
			Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	request := func(do func(context.Context, postgres.Tx, linkRequest) error, n int) {
		for range n {
			c.ok(func(tx postgres.Tx) error {
				return do(t.Context(), tx, linkRequest{Email: "demo.client@example.com", Name: "x", Lang: "en"})
			})
		}
	}
	request(c.mailSignUp, 7) // someone else's abuse
	request(c.mailReset, 7)
	if n := count(); n != linksPerHour {
		t.Errorf("%d links in an hour", n)
	}
	c.clock.Advance(time.Hour)
	request(c.mailReset, 1)
	if n := count(); n != linksPerHour+1 {
		t.Errorf("%d links after an hour", n)
	}
}

func TestResetSetsThePasswordOnceAndEndsEverySession(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	session, err := c.Accounts.SignIn(t.Context(), c.DB.Read(), client.ID)
	if err != nil {
		t.Fatal(err)
	}
	c.askReset(demo.Email)
	c.askReset(demo.Email)
	first, second := tokenOf(t, c.mail(1)), tokenOf(t, c.mail(2))
	n := atOnce(t, ErrBadLink, func() error {
		return c.tx(func(tx postgres.Tx) error {
			_, err := c.SelfService.Reset(t.Context(), tx, first, newPassword, "en", Recovery{})
			return err
		})
	})
	if n != 1 {
		t.Errorf("%d resets", n)
	}
	if _, err := c.PendingReset(t.Context(), c.DB.Read(), second); !errors.Is(err, ErrBadLink) {
		t.Errorf("another link lives on: %v", err)
	}
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), session); !errors.Is(err, ErrNoSession) {
		t.Errorf("a session lives on: %v", err)
	}
	for plain, want := range map[string]error{demo.Password: ErrBadCredentials, newPassword: nil} {
		if _, err := c.Accounts.CheckPassword(t.Context(), c.DB.Read(), demo.Email, plain); !errors.Is(err, want) {
			t.Errorf("%q: %v", plain, err)
		}
	}
	if m := c.mail(3); !strings.Contains(m.Subject, "your password was changed") ||
		!strings.Contains(m.Text, "/password/forgot") {
		t.Errorf("notice: %+v", m)
	}
}

func TestResetOfADisabledClientIsRefused(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	c.askReset(demo.Email)
	token := tokenOf(t, c.mail(1))
	setDisabled(t, c.Accounts, c.DB, client.ID, true)
	err := c.tx(func(tx postgres.Tx) error {
		_, err := c.SelfService.Reset(t.Context(), tx, token, newPassword, "en", Recovery{})
		return err
	})
	if !errors.Is(err, ErrBadLink) {
		t.Errorf("got %v", err)
	}
}

func TestChangingThePasswordEndsTheOtherSessions(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	mine, _ := c.Accounts.SignIn(t.Context(), c.DB.Read(), client.ID)
	other, _ := c.Accounts.SignIn(t.Context(), c.DB.Read(), client.ID)
	change := func(current, plain string) error {
		return c.tx(func(tx postgres.Tx) error {
			_, err := c.ChangePassword(t.Context(), tx, client.ID, current, plain, mine, "fr")
			return err
		})
	}
	for name, err := range map[string]error{
		"wrong": change("wrong password", newPassword), "absent": change("", newPassword),
	} {
		if !errors.Is(err, ErrBadCredentials) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, weak := range []string{"short", "Password123", strings.Repeat("x", password.MaxLength+1)} {
		if err := change(demo.Password, weak); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", weak, err)
		}
	}
	if err := change(demo.Password, newPassword); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), mine); err != nil {
		t.Errorf("own session: %v", err)
	}
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), other); !errors.Is(err, ErrNoSession) {
		t.Errorf("other session: %v", err)
	}
	if m := c.mail(1); !strings.Contains(m.Text, "votre mot de passe a été modifié") {
		t.Errorf("notice: %+v", m)
	}
}

func TestSessionsAreListedAndEndedByTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	stranger := create(t, c.Accounts, c.DB, NewClient{Email: "b@example.com", Password: demo.Password, Name: "B"})
	signIn := func(id, agent string) string {
		token, err := c.Accounts.SignInFrom(t.Context(), c.DB.Read(), id,
			Device{UserAgent: agent, Address: "192.0.2.7"})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	mine, other := signIn(client.ID, "Firefox\x00\xff"), signIn(client.ID, "Chrome")
	theirs := signIn(stranger.ID, "Safari")
	c.clock.Advance(2 * time.Minute)
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), mine); err != nil {
		t.Fatal(err)
	}
	list, err := c.Accounts.Sessions(t.Context(), c.DB.Read(), client.ID, mine)
	if err != nil || len(list) != 2 || !list[0].Current || list[1].Current || list[0].Device.UserAgent != "Firefox" ||
		list[0].Device.Address != "192.0.2.7" || list[0].LastUsedAt != c.clock.Now() ||
		list[0].SignedInAt != c.clock.Now().Add(-2*time.Minute) {
		t.Fatalf("list: %+v %v", list, err)
	}
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), list[0].ID); !errors.Is(err, ErrNoSession) {
		t.Errorf("the identifier of a session signs in: %v", err)
	}
	for _, id := range []string{list[1].ID, "", "zz", strings.Repeat("0", 64)} {
		if err := c.Accounts.EndSession(t.Context(), c.DB.Read(), stranger.ID, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), other); err != nil {
		t.Errorf("a stranger ended it: %v", err)
	}
	if err := c.Accounts.EndSession(t.Context(), c.DB.Read(), client.ID, list[1].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), other); !errors.Is(err, ErrNoSession) {
		t.Errorf("it goes on: %v", err)
	}
	signIn(client.ID, "Edge")
	if n, err := c.Accounts.EndOtherSessions(t.Context(), c.DB.Read(), client.ID, mine); n != 1 || err != nil {
		t.Errorf("ended %d %v", n, err)
	}
	for _, token := range []string{mine, theirs} {
		if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), token); err != nil {
			t.Errorf("ended too: %v", err)
		}
	}
	if at, err := c.Accounts.SignedInAt(t.Context(), c.DB.Read(), mine); err != nil ||
		at != c.clock.Now().Add(-2*time.Minute) {
		t.Errorf("signed in at %v %v", at, err)
	}
}
