package account

import (
	"encoding/base64"
	"testing"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
)

func (c *fixture) mark(client Client, before string) string {
	c.Helper()
	mark, err := c.Accounts.KnownBrowser(c.DB.Read(), c.client(client), before)
	if err != nil {
		c.Fatal(err)
	}
	return mark
}

func (c *fixture) knows(mark, email string) (browser string, ok bool) {
	c.Helper()
	browser, ok, err := c.Accounts.Knows(c.Context(), c.DB.Read(), mark, email)
	if err != nil {
		c.Fatal(err)
	}
	return browser, ok
}

// Otherwise an intruder's browser could guess at the new password with a separate count, and sign in unnoticed.
func TestABrowserIsUnknownAfterWhatPutsAnIntruderOut(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	for name, do := range map[string]func(){
		"recovery": func() {
			c.askReset(client.Email)
			token := tokenOf(t, c.letter(client.Email, "Choose a new"))
			c.ok(func(tx postgres.Tx) error {
				_, err := c.SelfService.Reset(t.Context(), tx, token, demo.Password, "en", Recovery{})
				return err
			})
		},
		"take-back": func() {
			undo := c.changeEmail(client, otherEmail)
			c.ok(func(tx postgres.Tx) error {
				_, err := c.UndoEmail(t.Context(), tx, undo, demo.Password, "en", Recovery{})
				return err
			})
		},
		"another password": func() {
			c.ok(func(tx postgres.Tx) error {
				_, err := c.ChangePassword(t.Context(), tx, client.ID, demo.Password, demo.Password, "", "en")
				return err
			})
		},
		"disabling": func() {
			for _, disabled := range []bool{true, false} {
				c.ok(func(tx postgres.Tx) error { return c.Accounts.SetDisabled(t.Context(), tx, client.ID, disabled) })
			}
		},
	} {
		mark := c.mark(client, "")
		if _, ok := c.knows(mark, client.Email); !ok {
			t.Fatalf("before %s it is unknown", name)
		}
		do()
		if _, ok := c.knows(mark, client.Email); ok {
			t.Errorf("after %s the browser is known", name)
		}
		if _, ok := c.knows(c.mark(client, mark), client.Email); !ok {
			t.Errorf("after %s and another sign-in it is unknown", name)
		}
	}
}

// A sign-in during a change of password used the previous password.
func TestAMarkIsOfTheSignInThatWasProven(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	c.ok(func(tx postgres.Tx) error {
		_, err := c.ChangePassword(t.Context(), tx, client.ID, demo.Password, newPassword, "", "en")
		return err
	})
	late, err := c.Accounts.KnownBrowser(c.DB.Read(), client, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.knows(late, client.Email); ok {
		t.Error("the browser is known")
	}
}

func TestABrowserIsKnownFor180DaysAndAcrossAChangeOfAddress(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	kin := create(t, c.Accounts, c.DB, NewClient{Email: "b@example.com", Password: demo.Password, Name: "B"})
	mark := c.mark(client, "")
	name, _ := c.knows(mark, client.Email)
	c.changeEmail(client, otherEmail)
	squatter := create(t, c.Accounts, c.DB, NewClient{Email: client.Email, Password: demo.Password, Name: "S"})
	if again, ok := c.knows(mark, " "+otherEmail); !ok || again != name || name == "" {
		t.Errorf("by the new address: %q %t, want %q", again, ok, name)
	}
	if _, ok := c.knows(mark, squatter.Email); ok {
		t.Error("it knows the account of whoever has the old address")
	}
	c.clock.Advance(KnownLifetime - time.Second)
	both := c.mark(kin, mark)
	if _, ok := c.knows(both, otherEmail); !ok {
		t.Error("unknown too early, or by the sign-in of another client")
	}
	c.clock.Advance(time.Second)
	if _, ok := c.knows(both, otherEmail); ok {
		t.Error("known for longer")
	}
	if again, ok := c.knows(both, kin.Email); !ok || again != name {
		t.Errorf("the other client's: %q %t", again, ok)
	}
}

func TestAMarkThatIsNotOursIsNone(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	old, err := c.Accounts.box.Seal(knownPlace, []byte(id.DigestOf(client.Email).String()+" bro_1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range []string{"", "x", "é", base64.RawURLEncoding.EncodeToString([]byte("sealed by nobody")),
		base64.RawURLEncoding.EncodeToString(old)} {
		if _, ok := c.knows(mark, client.Email); ok {
			t.Errorf("%q is taken for ours", mark)
		}
		if _, ok := c.knows(c.mark(client, mark), client.Email); !ok {
			t.Errorf("after %q and a sign-in the browser is unknown", mark)
		}
	}
}
