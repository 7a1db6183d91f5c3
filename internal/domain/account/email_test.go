package account

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

const otherEmail = "new.address@example.com"

// letter waits for an email to an address whose subject contains some words, and removes it.
func (c *fixture) letter(to, subject string) mail.Message {
	c.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		c.mu.Lock()
		i := slices.IndexFunc(c.mails,
			func(m mail.Message) bool { return m.To == to && strings.Contains(m.Subject, subject) })
		if i >= 0 {
			m := c.mails[i]
			c.mails = slices.Delete(c.mails, i, i+1)
			c.mu.Unlock()
			return m
		}
		c.mu.Unlock()
	}
	c.Fatalf("no mail to %s about %q", to, subject)
	return mail.Message{}
}

func (c *fixture) requestEmail(client Client, email, current string) error {
	return c.tx(func(tx postgres.Tx) error { return c.RequestEmail(c.Context(), tx, client.ID, email, current, "en") })
}

// askEmail returns the token emailed to the new address.
func (c *fixture) askEmail(client Client, email string) string {
	c.Helper()
	if err := c.requestEmail(client, email, demo.Password); err != nil {
		c.Fatal(err)
	}
	return tokenOf(c.T, c.letter(email, "Confirm your new"))
}

func (c *fixture) confirmEmail(client Client, token string) error {
	return c.tx(func(tx postgres.Tx) error {
		_, err := c.ConfirmEmail(c.Context(), tx, client.ID, token, "en")
		return err
	})
}

// changeEmail returns the token emailed to the old address.
func (c *fixture) changeEmail(client Client, email string) string {
	c.Helper()
	old := c.client(client).Email
	if err := c.confirmEmail(client, c.askEmail(client, email)); err != nil {
		c.Fatal(err)
	}
	return tokenOf(c.T, c.letter(old, "address was changed"))
}

func (c *fixture) undoEmail(token string) error {
	return c.tx(func(tx postgres.Tx) error {
		_, err := c.UndoEmail(c.Context(), tx, token, newPassword, "en", Recovery{})
		return err
	})
}

func (c *fixture) client(client Client) Client {
	c.Helper()
	now, err := c.Accounts.Get(c.Context(), c.DB.Read(), client.ID)
	if err != nil {
		c.Fatal(err)
	}
	return now
}

// openLinks counts the valid links of a kind.
func (c *fixture) openLinks(kind string) (n int) {
	c.Helper()
	err := c.DB.Pool().QueryRow(c.Context(), `SELECT count(*) FROM client_links WHERE kind = $1 AND expires_at > $2`,
		kind, c.clock.Now()).Scan(&n)
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// behind starts do while first has run but not committed.
func (c *fixture) behind(first func(tx postgres.Tx) error, do func() error) error {
	c.Helper()
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.tx(func(tx postgres.Tx) error {
			err := first(tx)
			close(begun)
			<-release
			return err
		})
	}()
	<-begun
	done := make(chan error, 1)
	go func() { done <- do() }()
	dbtest.AwaitWaiters(c, c.DB, 1)
	close(release)
	if err := <-ended; err != nil {
		c.Fatal(err)
	}
	return <-done
}

func TestAnAddressIsChangedThroughItsMailboxOnce(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	stranger := create(t, c.Accounts, c.DB, NewClient{Email: "b@example.com", Password: demo.Password, Name: "B"})
	if err := c.requestEmail(client, " "+otherEmail+" ", demo.Password); err != nil {
		t.Fatal(err)
	}
	m := c.letter(otherEmail, "Confirm your new")
	if strings.Contains(m.Text, client.Name) {
		t.Errorf("the mail to an address that nobody has confirmed names the client: %q", m.Text)
	}
	if n := c.letter(client.Email, "change of your email address was requested"); strings.Contains(n.Text, "token=") {
		t.Errorf("the notice holds a link: %q", n.Text)
	}
	token := tokenOf(t, m)
	for range 2 { // looking does not use the link
		if email, err := c.PendingEmail(t.Context(), c.DB.Read(), client.ID, token); err != nil || email != otherEmail {
			t.Errorf("pending: %q %v", email, err)
		}
	}
	if _, err := c.PendingEmail(t.Context(), c.DB.Read(), stranger.ID, token); !errors.Is(err, ErrBadLink) {
		t.Errorf("a stranger sees it: %v", err)
	}
	if err := c.confirmEmail(stranger, token); !errors.Is(err, ErrBadLink) {
		t.Errorf("a stranger used it: %v", err)
	}
	if n := atOnce(t, ErrBadLink, func() error { return c.confirmEmail(client, token) }); n != 1 {
		t.Errorf("%d confirmations", n)
	}
	for email, want := range map[string]error{client.Email: ErrBadCredentials, strings.ToUpper(otherEmail): nil} {
		if _, err := c.Accounts.CheckPassword(t.Context(), c.DB.Read(), email, demo.Password); !errors.Is(err, want) {
			t.Errorf("sign-in with %s: %v", email, err)
		}
	}
	if n := c.openLinks(kindUndoEmail); n != 1 {
		t.Errorf("%d links to undo it", n)
	}
	if m := c.letter(client.Email, "address was changed"); !strings.Contains(m.Text, "/email/undo?") {
		t.Errorf("mail to the old address: %q", m.Text)
	}
}

func TestAChangeOfAddressNeedsThePassword(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	for name, err := range map[string]error{
		"wrong": c.requestEmail(client, otherEmail, "wrong password"), "none": c.requestEmail(client, otherEmail, ""),
	} {
		if !errors.Is(err, ErrBadCredentials) {
			t.Errorf("%s password: %v", name, err)
		}
	}
	if err := c.requestEmail(client, "nonsense", demo.Password); !errors.Is(err, ErrInvalid) ||
		errors.Is(err, ErrSameEmail) {
		t.Errorf("no address: %v", err)
	}
	if err := c.requestEmail(client, client.Email, "wrong password"); !errors.Is(err, ErrSameEmail) {
		t.Errorf("the same address: %v", err)
	}
	setDisabled(t, c.Accounts, c.DB, client.ID, true)
	if err := c.requestEmail(client, otherEmail, demo.Password); !errors.Is(err, ErrBadCredentials) {
		t.Errorf("disabled: %v", err)
	}
	var jobs int
	if err := c.DB.Pool().QueryRow(t.Context(), `SELECT count(*) FROM river.river_job`).Scan(&jobs); err != nil ||
		jobs != 0 {
		t.Errorf("%d jobs: %v", jobs, err)
	}
}

// A request for a taken address reveals nothing about its account; only the owner and the old address are notified.
func TestATakenAddressIsToldToItsOwnerAlone(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	owner := create(t, c.Accounts, c.DB, NewClient{Email: "old.address@example.com",
		Password: demo.Password, Name: "B"})
	sizes := []int{0}
	for _, email := range []string{otherEmail, owner.Email} { // of equal length
		if err := c.requestEmail(client, email, demo.Password); err != nil {
			t.Fatal(err)
		}
		var size, links int
		err := c.DB.Pool().QueryRow(t.Context(),
			`SELECT sum(length(args::text)), (SELECT count(*) FROM client_links) FROM river.river_job`).
			Scan(&size, &links)
		if err != nil || links != 0 {
			t.Fatal(links, err)
		}
		sizes = append(sizes, size)
	}
	if sizes[1] != sizes[2]-sizes[1] {
		t.Errorf("the requests leave different things behind: %v", sizes)
	}
	c.work()
	if m := c.letter(owner.Email, "already has an account"); strings.Contains(m.Text, "token=") {
		t.Errorf("mail to the owner: %q", m.Text)
	}
	for range 2 {
		c.letter(client.Email, "was requested")
	}
}

// A request is void once the password changes or the account is disabled, whatever the timing of the queue.
func TestARequestForAnAddressEndsWithThePassword(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	for name, end := range map[string]func(tx postgres.Tx, client Client) error{
		"password": func(tx postgres.Tx, client Client) error {
			_, err := c.ChangePassword(t.Context(), tx, client.ID, demo.Password, newPassword, "", "en")
			return err
		},
		"disabled": func(tx postgres.Tx, client Client) error {
			return c.Accounts.SetDisabled(t.Context(), tx, client.ID, true)
		},
		"erased": func(tx postgres.Tx, client Client) error {
			_, err := c.Accounts.Erase(t.Context(), tx, client.ID)
			return err
		},
	} {
		client := create(t, c.Accounts, c.DB, NewClient{Email: name + "@example.com",
			Password: demo.Password, Name: "A"})
		row, _, err := clientByID(t.Context(), c.DB.Read(), client.ID)
		if err != nil {
			t.Fatal(err)
		}
		r := linkRequest{Email: "to." + name + "@example.com", ClientID: client.ID, Password: passwordDigest(row),
			Lang: "en"}
		request := func() error { return c.tx(func(tx postgres.Tx) error { return c.mailEmail(t.Context(), tx, r) }) }
		if err := request(); err != nil || c.openLinks(kindEmail) != 1 {
			t.Fatalf("before: %v, %d links", err, c.openLinks(kindEmail))
		}
		if err := c.behind(func(tx postgres.Tx) error { return end(tx, client) }, request); err != nil {
			t.Fatal(err)
		}
		if n := c.openLinks(kindEmail); n != 0 {
			t.Errorf("%s: %d links work", name, n)
		}
	}
}

func TestAddressesAndClientsHaveAFewRequestsAnHourAndOneLinkCounts(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	request := func(client Client, email string) {
		row, _, err := clientByID(t.Context(), c.DB.Read(), client.ID)
		if err != nil {
			t.Fatal(err)
		}
		c.ok(func(tx postgres.Tx) error {
			return c.mailEmail(t.Context(), tx, linkRequest{Email: email, ClientID: client.ID,
				Password: passwordDigest(row), Lang: "en"})
		})
	}
	all := func() (n int) {
		if err := c.DB.Pool().QueryRow(t.Context(), `SELECT count(*) FROM client_links WHERE kind = 'EMAIL'`).
			Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	client := create(t, c.Accounts, c.DB, demo)
	for i := range 7 {
		request(client, string(rune('a'+i))+"@new.example")
	}
	if n, open := all(), c.openLinks(kindEmail); n != linksPerHour || open != 1 {
		t.Errorf("one client: %d links, of which %d work", n, open)
	}
	c.clock.Advance(time.Hour)
	for i := range 7 {
		request(create(t, c.Accounts, c.DB, NewClient{Email: string(rune('a'+i)) + "@example.com",
			Password: demo.Password, Name: "A"}), otherEmail)
	}
	if n := all(); n != 2*linksPerHour {
		t.Errorf("one address: %d links", n-linksPerHour)
	}
	request(client, "late@new.example")
	if n := all(); n != 2*linksPerHour+1 {
		t.Errorf("after an hour: %d links", n-2*linksPerHour)
	}
}

// A link that waits for confirmation ends with another request, a new password, the end of the account, or when it
// expires.
func TestAnUnconfirmedAddressEndsWithMuch(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	for name, end := range map[string]func(client Client){
		"another": func(client Client) { c.askEmail(client, "another."+otherEmail) },
		"reset": func(client Client) {
			c.askReset(client.Email)
			token := tokenOf(t, c.letter(client.Email, "Choose a new"))
			c.ok(func(tx postgres.Tx) error {
				_, err := c.SelfService.Reset(t.Context(), tx, token, newPassword, "en", Recovery{})
				return err
			})
		},
		"disabled": func(client Client) {
			c.ok(func(tx postgres.Tx) error { return c.Accounts.SetDisabled(t.Context(), tx, client.ID, true) })
			c.ok(func(tx postgres.Tx) error { return c.Accounts.SetDisabled(t.Context(), tx, client.ID, false) })
		},
		"erased": func(client Client) {
			c.ok(func(tx postgres.Tx) error { _, err := c.Accounts.Erase(t.Context(), tx, client.ID); return err })
		},
		"time": func(Client) { c.clock.Advance(EmailLifetime) },
	} {
		client := create(t, c.Accounts, c.DB, NewClient{Email: name + "@example.com",
			Password: demo.Password, Name: "A"})
		token := c.askEmail(client, name+"."+otherEmail)
		if name != "time" {
			c.clock.Advance(time.Second)
		}
		end(client)
		if err := c.confirmEmail(client, token); !errors.Is(err, ErrBadLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A confirmation that waits for another action on the account sees its effects.
func TestAConfirmationComesBeforeOrAfterWhatEndsIt(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	for name, end := range map[string]func(tx postgres.Tx, clientID string) error{
		"password": func(tx postgres.Tx, clientID string) error {
			_, err := c.ChangePassword(t.Context(), tx, clientID, demo.Password, newPassword, "", "en")
			return err
		},
		"disabled": func(tx postgres.Tx, clientID string) error {
			return c.Accounts.SetDisabled(t.Context(), tx, clientID, true)
		},
		"erased": func(tx postgres.Tx, clientID string) error {
			_, err := c.Accounts.Erase(t.Context(), tx, clientID)
			return err
		},
	} {
		client := create(t, c.Accounts, c.DB, NewClient{Email: name + "@example.com",
			Password: demo.Password, Name: "A"})
		token := c.askEmail(client, name+"."+otherEmail)
		err := c.behind(func(tx postgres.Tx) error { return end(tx, client.ID) },
			func() error { return c.confirmEmail(client, token) })
		if !errors.Is(err, ErrBadLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
	client := create(t, c.Accounts, c.DB, demo)
	undo := c.changeEmail(client, otherEmail)
	err := c.behind(func(tx postgres.Tx) error { return c.Accounts.SetDisabled(t.Context(), tx, client.ID, true) },
		func() error { return c.undoEmail(undo) })
	if !errors.Is(err, ErrBadLink) {
		t.Errorf("undone while disabled: %v", err)
	}
}

func TestAnAddressBecomesOneAccountsWhoeverConfirmsFirst(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	for range 3 {
		email := c.DB.Read().NewSecret("x")[:20] + "@example.com"
		var results []func() error
		for range 2 {
			client := create(t, c.Accounts, c.DB, NewClient{Email: c.DB.Read().NewSecret("y")[:20] + "@example.com",
				Password: demo.Password, Name: "A"})
			token := c.askEmail(client, email)
			results = append(results, func() error { return c.confirmEmail(client, token) })
		}
		c.askSignUp(email)
		signUp := tokenOf(t, c.letter(email, "Confirmez votre adresse"))
		results = append(results, func() error {
			return c.tx(func(tx postgres.Tx) error {
				_, _, err := c.SelfService.SignUp(t.Context(), tx, signUp, newPassword)
				return err
			})
		})
		outcomes := make(chan error)
		for _, do := range results {
			go func() { outcomes <- do() }()
		}
		won := 0
		for range results {
			if err := <-outcomes; err == nil {
				won++
			} else if !errors.Is(err, ErrEmailTaken) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d accounts have one address", won)
		}
	}
}

// A reset link goes to the account's current address, and to none of its earlier ones.
func TestAResetDoesNotOutliveTheAddress(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	c.askReset(client.Email)
	reset := tokenOf(t, c.letter(client.Email, "Choose a new"))
	token := c.askEmail(client, otherEmail)
	err := c.behind(func(tx postgres.Tx) error {
		_, err := c.ConfirmEmail(t.Context(), tx, client.ID, token, "en")
		return err
	}, func() error {
		return c.tx(func(tx postgres.Tx) error {
			return c.mailReset(t.Context(), tx, linkRequest{Email: client.Email, Lang: "en"})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.PendingReset(t.Context(), c.DB.Read(), reset); !errors.Is(err, ErrBadLink) {
		t.Errorf("the link of before: %v", err)
	}
	if n := c.openLinks(kindReset); n != 0 {
		t.Errorf("%d links to reset the password", n)
	}
	c.askReset(otherEmail)
	c.letter(otherEmail, "Choose a new")
}

// The password given for a change must be current when the change is made; a password that a concurrent reset replaced
// is rejected.
func TestAReplacedPasswordChangesNothing(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	err := c.behind(func(tx postgres.Tx) error {
		locked, err := c.Accounts.Lock(t.Context(), tx, client.ID)
		if err != nil {
			return err
		}
		_, err = c.setPassword(t.Context(), tx, locked, newPassword, "", "en")
		return err
	}, func() error {
		return c.tx(func(tx postgres.Tx) error {
			_, err := c.ChangePassword(t.Context(), tx, client.ID, demo.Password, "the password of a thief", "", "en")
			return err
		})
	})
	if !errors.Is(err, ErrBadCredentials) {
		t.Errorf("got %v", err)
	}
}

func TestAChangeOfAddressIsUndoneFromTheOldMailboxOnce(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	undo := c.changeEmail(client, otherEmail)
	session, err := c.Accounts.SignIn(t.Context(), c.DB.Read(), client.ID)
	if err != nil {
		t.Fatal(err)
	}
	c.askReset(otherEmail)
	reset := tokenOf(t, c.letter(otherEmail, "Choose a new"))
	pending := c.askEmail(client, "third@example.com")
	if got, email, err := c.PendingUndo(t.Context(), c.DB.Read(), undo); err != nil || email != client.Email ||
		got.ID != client.ID {
		t.Errorf("pending: %+v %q %v", got, email, err)
	}
	c.clock.Advance(time.Second)
	weak := c.tx(func(tx postgres.Tx) error {
		_, err := c.UndoEmail(t.Context(), tx, undo, "short", "en", Recovery{})
		return err
	})
	if !errors.Is(weak, ErrInvalid) {
		t.Errorf("weak password: %v", weak)
	}
	if n := atOnce(t, ErrBadLink, func() error { return c.undoEmail(undo) }); n != 1 {
		t.Errorf("undone %d times", n)
	}
	if got := c.client(client); got.Email != client.Email {
		t.Errorf("the address is %s", got.Email)
	}
	c.letter(client.Email, "your password was changed")
	c.letter(otherEmail, "was undone")
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), session); !errors.Is(err, ErrNoSession) {
		t.Errorf("a session lives on: %v", err)
	}
	if _, err := c.Accounts.CheckPassword(t.Context(), c.DB.Read(), client.Email, newPassword); err != nil {
		t.Errorf("sign-in: %v", err)
	}
	if _, err := c.PendingReset(t.Context(), c.DB.Read(), reset); !errors.Is(err, ErrBadLink) {
		t.Errorf("a reset of the other address lives on: %v", err)
	}
	if err := c.confirmEmail(client, pending); !errors.Is(err, ErrBadLink) {
		t.Errorf("another change lives on: %v", err)
	}
}

// A thief who changes the address twice owns the second undo link; the first one prevails.
func TestUndoingAChangeEndsTheLinksOfLaterOnesAlone(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	first := c.changeEmail(client, "thief@example.com")
	c.clock.Advance(time.Second)
	second := c.changeEmail(client, "thief.again@example.com")
	c.clock.Advance(time.Second)
	if err := c.undoEmail(second); err != nil {
		t.Fatal(err)
	}
	if got := c.client(client); got.Email != "thief@example.com" {
		t.Errorf("the address is %s", got.Email)
	}
	if err := c.undoEmail(first); err != nil {
		t.Errorf("the older link ended: %v", err)
	}

	other := create(t, c.Accounts, c.DB, NewClient{Email: "b@example.com", Password: demo.Password, Name: "B"})
	first = c.changeEmail(other, "thief@example.com")
	c.clock.Advance(time.Second)
	second = c.changeEmail(other, "thief.again@example.com")
	c.clock.Advance(time.Second)
	if err := c.undoEmail(first); err != nil {
		t.Fatal(err)
	}
	if err := c.undoEmail(second); !errors.Is(err, ErrBadLink) {
		t.Errorf("the newer link lives on: %v", err)
	}
	if got := c.client(other); got.Email != other.Email {
		t.Errorf("the address is %s", got.Email)
	}
}

func TestUndoOutlivesPasswordsAndDisablingAndEndsWithTimeAndErasure(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	undo := c.changeEmail(client, otherEmail)
	c.ok(func(tx postgres.Tx) error {
		_, err := c.ChangePassword(t.Context(), tx, client.ID, demo.Password, "the password of a thief", "", "en")
		return err
	})
	c.ok(func(tx postgres.Tx) error { return c.Accounts.SetDisabled(t.Context(), tx, client.ID, true) })
	if _, _, err := c.PendingUndo(t.Context(), c.DB.Read(), undo); !errors.Is(err, ErrBadLink) {
		t.Errorf("shown while disabled: %v", err)
	}
	if err := c.undoEmail(undo); !errors.Is(err, ErrBadLink) {
		t.Errorf("used while disabled: %v", err)
	}
	c.ok(func(tx postgres.Tx) error { return c.Accounts.SetDisabled(t.Context(), tx, client.ID, false) })
	c.clock.Advance(UndoLifetime - time.Microsecond)
	if n, err := c.Purge(t.Context()); err != nil || n != 1 { // the link that confirmed the address
		t.Errorf("purged %d %v", n, err)
	}
	if _, _, err := c.PendingUndo(t.Context(), c.DB.Read(), undo); err != nil {
		t.Errorf("early: %v", err)
	}
	c.clock.Advance(time.Microsecond)
	if err := c.undoEmail(undo); !errors.Is(err, ErrBadLink) {
		t.Errorf("too late: %v", err)
	}

	erased := create(t, c.Accounts, c.DB, NewClient{Email: "b@example.com", Password: demo.Password, Name: "B"})
	undo = c.changeEmail(erased, "b.new@example.com")
	c.clock.Advance(UndoLifetime)
	c.ok(func(tx postgres.Tx) error { _, err := c.Accounts.Erase(t.Context(), tx, erased.ID); return err })
	if err := c.undoEmail(undo); !errors.Is(err, ErrBadLink) {
		t.Errorf("erased: %v", err)
	}
	var left int
	if err := c.DB.Pool().QueryRow(t.Context(), `SELECT count(*) FROM client_links WHERE client_id = $1`, erased.ID).
		Scan(&left); err != nil || left != 0 {
		t.Errorf("%d links of an erased client: %v", left, err)
	}
}

// Someone who took over an account and changed its address cannot erase it to get rid of the owner, not even at the
// very moment of the change.
func TestNothingIsErasedWhileAnEarlierAddressCanTakeTheAccountBack(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	erase := func() error {
		return c.tx(func(tx postgres.Tx) error { _, err := c.Accounts.Erase(t.Context(), tx, client.ID); return err })
	}
	var open TakeBackError
	token := c.askEmail(client, otherEmail)
	err := c.behind(func(tx postgres.Tx) error {
		_, err := c.ConfirmEmail(t.Context(), tx, client.ID, token, "en")
		return err
	}, erase)
	until := c.clock.Now().Add(UndoLifetime)
	if !errors.As(err, &open) || !open.Until.Equal(until) {
		t.Errorf("at the moment of the change: %v", err)
	}
	undo := tokenOf(t, c.letter(client.Email, "address was changed"))
	c.clock.Advance(UndoLifetime - time.Microsecond)
	if err := erase(); !errors.As(err, &open) || !open.Until.Equal(until) {
		t.Errorf("just before the link runs out: %v", err)
	}
	if err := c.undoEmail(undo); err != nil {
		t.Fatal(err)
	}
	if err := erase(); err != nil {
		t.Errorf("once the link is used: %v", err)
	}
}

// While an address can take the account back, its owner is notified of what happens to the account.
func TestAnEarlierAddressIsToldAsLongAsItCanTakeTheAccountBack(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	c.changeEmail(client, otherEmail)
	c.changeEmail(client, strings.ToUpper(client.Email))
	c.clock.Advance(time.Second)
	c.changeEmail(client, "third@example.com")
	tell := func(application string) {
		c.ok(func(tx postgres.Tx) error {
			return c.NotifyLink(t.Context(), tx, c.client(client), "en", application, "app_1")
		})
	}
	tell("One")
	c.letter("third@example.com", "application One")
	c.letter(otherEmail, "application One")
	m := c.letter(strings.ToUpper(client.Email), "application One") // the same address as client.Email
	if !strings.Contains(m.Text, "recover the account") ||
		!strings.Contains(m.Text, c.clock.Now().Add(UndoLifetime).Format("2006-01-02 15:04")) ||
		strings.Contains(m.Text, "token=") {
		t.Errorf("the notice: %q", m.Text)
	}
	c.clock.Advance(UndoLifetime)
	tell("Two")
	c.letter("third@example.com", "application Two")
	tell("Three")
	c.letter("third@example.com", "application Three")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.mails {
		if strings.Contains(m.Subject, "application") {
			t.Errorf("one too many: to %s about %s", m.To, m.Subject)
		}
	}
}

// A former address is free. Another client who takes it keeps it, and the undo link works only once it is free again.
func TestAnAddressThatWasGivenUpIsFree(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	undo := c.changeEmail(client, otherEmail)
	c.askSignUp(client.Email)
	signUp := tokenOf(t, c.letter(client.Email, "Confirmez votre adresse"))
	var second Client
	c.ok(func(tx postgres.Tx) (err error) {
		second, _, err = c.SelfService.SignUp(t.Context(), tx, signUp, newPassword)
		return err
	})
	if err := c.undoEmail(undo); !errors.Is(err, ErrEmailTaken) {
		t.Errorf("got %v", err)
	}
	if got := c.client(client); got.Email != otherEmail {
		t.Errorf("the address is %s", got.Email)
	}
	c.ok(func(tx postgres.Tx) error { _, err := c.Accounts.Erase(t.Context(), tx, second.ID); return err })
	if err := c.undoEmail(undo); err != nil {
		t.Errorf("once it is free again: %v", err)
	}

	third := create(t, c.Accounts, c.DB, NewClient{Email: "c@example.com", Password: demo.Password, Name: "C"})
	token := c.askEmail(third, "wanted@example.com") // an address taken before it is confirmed
	create(t, c.Accounts, c.DB, NewClient{Email: "Wanted@example.com", Password: demo.Password, Name: "D"})
	if err := c.confirmEmail(third, token); !errors.Is(err, ErrEmailTaken) {
		t.Errorf("got %v", err)
	}
}

func TestAPhoneIsVerifiedAcrossAChangeOfAddress(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	c.ok(func(tx postgres.Tx) error {
		return c.SendCode(t.Context(), tx, client.ID, "06 39 98 00 02", demo.Password, "en")
	})
	code := c.code(1)
	c.changeEmail(client, otherEmail)
	c.ok(func(tx postgres.Tx) error {
		result, err := c.EnterCode(t.Context(), tx, client.ID, code, "en")
		if result != CodeRight {
			t.Errorf("the code is %s", result)
		}
		return err
	})
	c.letter(otherEmail, "phone number was changed")
}

// A link that has ended does not work in a transaction that began earlier, for example one that waited for the client's
// row.
func TestALinkThatHasEndedIsNoGoodToWhoeverBeganBefore(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	token := c.askEmail(client, otherEmail)
	err := c.tx(func(before postgres.Tx) error {
		c.clock.Advance(time.Second)
		err := c.tx(func(tx postgres.Tx) error { return c.Accounts.SetDisabled(t.Context(), tx, client.ID, true) })
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.PendingEmail(t.Context(), before, client.ID, token)
		return err
	})
	if !errors.Is(err, ErrBadLink) {
		t.Errorf("%v", err)
	}
}
