package account

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/password"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

func newService(t *testing.T) *Service {
	t.Helper()
	box := sealtest.Box(t)
	return New(box)
}

func create(t *testing.T, s *Service, db *postgres.DB, n NewClient) Client {
	t.Helper()
	var c Client
	err := db.InTx(t.Context(), func(tx postgres.Tx) (err error) {
		c, err = s.Create(t.Context(), tx, n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var demo = NewClient{Email: " Demo.Client@example.com ", Password: "a long password", Name: " Demo Client ",
	Phone: "06 12 34 56 78", PhoneVerified: true}

func TestCreatedClientCanBeReadAndCalled(t *testing.T) {
	t.Parallel()
	s, db := newService(t), dbtest.New(t)
	c := create(t, s, db, demo)
	got, err := s.Get(t.Context(), db.Read(), c.ID)
	if err != nil || got != c {
		t.Errorf("got %+v, want %+v (%v)", got, c, err)
	}
	if c.Email != "Demo.Client@example.com" || c.Name != "Demo Client" || !c.PhoneVerified || c.Disabled ||
		!strings.HasPrefix(c.ID, "cli_test_") {
		t.Errorf("client: %+v", c)
	}
	phone, ok, err := s.VerifiedPhone(t.Context(), db.Read(), c.ID)
	if phone != "+33612345678" || !ok || err != nil {
		t.Errorf("phone %q %v %v", phone, ok, err)
	}
	for _, id := range []string{"cli_test_unknown", "", "\x00", "\xff"} {
		if _, err := s.Get(t.Context(), db.Read(), id); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("get %q: %v", id, err)
		}
		if _, _, err := s.VerifiedPhone(t.Context(), db.Read(), id); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("phone of %q: %v", id, err)
		}
	}
}

func TestPhoneNumbersAndPasswordsAreNotReadableInTheDatabase(t *testing.T) {
	t.Parallel()
	s, db := newService(t), dbtest.New(t)
	c := create(t, s, db, demo)
	row, found, err := clientByID(t.Context(), db.Read(), c.ID)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	if bytes.Contains(row.PhoneSealed, []byte("612345678")) || !strings.HasPrefix(row.PasswordHash, "$argon2id$") {
		t.Errorf("row: %+v", row)
	}
}

func TestOneClientPerAddressWhateverItsCase(t *testing.T) {
	t.Parallel()
	s, db := newService(t), dbtest.New(t)
	create(t, s, db, demo)
	again := demo
	again.Email = "DEMO.CLIENT@EXAMPLE.COM"
	err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := s.Create(t.Context(), tx, again)
		return err
	})
	if !errors.Is(err, ErrEmailTaken) {
		t.Errorf("second client: %v", err)
	}
}

func TestPhoneIsGivenOnlyWhenVerified(t *testing.T) {
	t.Parallel()
	s, db := newService(t), dbtest.New(t)
	n := demo
	n.Phone, n.PhoneVerified = "", false
	c := create(t, s, db, n)
	for _, step := range []struct {
		phone    string
		verified bool
		want     string
	}{{"", false, ""}, {"+447700900123", false, ""}, {"+447700900123", true, "+447700900123"},
		{"0142685300", true, "+33142685300"}, {"0142685300", false, ""}, {"", false, ""}} {
		err := db.InTx(t.Context(),
			func(tx postgres.Tx) error { return s.SetPhone(t.Context(), tx, c.ID, step.phone, step.verified) })
		if err != nil {
			t.Fatal(err)
		}
		phone, ok, err := s.VerifiedPhone(t.Context(), db.Read(), c.ID)
		if phone != step.want || ok != (step.want != "") || err != nil {
			t.Errorf("%+v: %q %v %v", step, phone, ok, err)
		}
		if got, err := s.Get(t.Context(), db.Read(), c.ID); err != nil || got.PhoneVerified != ok {
			t.Errorf("%+v: profile says %v %v", step, got.PhoneVerified, err)
		}
	}
	for phone, verified := range map[string]bool{"": true, "abc": true, "+33899123456": true} {
		err := db.InTx(t.Context(),
			func(tx postgres.Tx) error { return s.SetPhone(t.Context(), tx, c.ID, phone, verified) })
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", phone, err)
		}
	}
}

func TestOnlyTheRightCredentialsSignIn(t *testing.T) {
	t.Parallel()
	s, db := newService(t), dbtest.New(t)
	c := create(t, s, db, demo)
	for _, email := range []string{"demo.client@example.com", " Demo.Client@EXAMPLE.com"} {
		if got, err := s.CheckPassword(t.Context(), db.Read(), email, demo.Password); err != nil || got.ID != c.ID {
			t.Errorf("%q: %+v %v", email, got, err)
		}
	}
	for _, bad := range [][2]string{{"demo.client@example.com", "A long password"}, {"demo.client@example.com", ""},
		{"nobody@example.com", demo.Password}, {"", ""}, {"\x00", demo.Password}, {"\xff", demo.Password},
		{"%", demo.Password}, {strings.Repeat("a", 1<<16), demo.Password}} {
		if _, err := s.CheckPassword(t.Context(), db.Read(), bad[0], bad[1]); !errors.Is(err, ErrBadCredentials) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	setDisabled(t, s, db, c.ID, true)
	if got, err := s.CheckPassword(t.Context(), db.Read(), demo.Email, demo.Password); !errors.Is(err, ErrDisabled) ||
		got.ID != c.ID {
		t.Errorf("disabled client: %v", err)
	}
	if _, err := s.CheckPassword(t.Context(), db.Read(), demo.Email,
		"A long password"); !errors.Is(err, ErrBadCredentials) {
		t.Errorf("disabled client, wrong password: %v", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s, db := newService(t), dbtest.NewWithClock(t, clk)
	c := create(t, s, db, demo)
	signIn := func() string {
		token, err := s.SignIn(t.Context(), db.Read(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	signedIn := func(token string) bool {
		got, err := s.Session(t.Context(), db.Read(), token)
		if err != nil && !errors.Is(err, ErrNoSession) {
			t.Fatal(err)
		}
		return err == nil && got.ID == c.ID
	}
	a, b := signIn(), signIn()
	if a == b || !signedIn(a) || !signedIn(b) || signedIn("") || signedIn(a+"x") || signedIn("\x00") {
		t.Error("sessions are not told apart")
	}
	for range 2 {
		if err := s.SignOut(t.Context(), db.Read(), a); err != nil {
			t.Fatal(err)
		}
	}
	if signedIn(a) || !signedIn(b) {
		t.Error("signing out did not end exactly its own session")
	}
	setDisabled(t, s, db, c.ID, true)
	if signedIn(b) {
		t.Error("a disabled client's session goes on")
	}
	setDisabled(t, s, db, c.ID, false)
	if signedIn(b) {
		t.Error("the session came back with the client")
	}
	b = signIn()
	clk.Advance(SessionLifetime - time.Microsecond)
	if !signedIn(b) {
		t.Error("ended early")
	}
	clk.Advance(time.Microsecond)
	if signedIn(b) {
		t.Error("lives longer than its lifetime")
	}
}

func TestImpossibleClientsAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*NewClient){
		"no address":           func(n *NewClient) { n.Email = "" },
		"no at sign":           func(n *NewClient) { n.Email = "example.com" },
		"display name":         func(n *NewClient) { n.Email = "Demo <demo@example.com>" },
		"two addresses":        func(n *NewClient) { n.Email = "a@example.com, b@example.com" },
		"long address":         func(n *NewClient) { n.Email = strings.Repeat("a", 250) + "@example.com" },
		"NUL in address":       func(n *NewClient) { n.Email = "a\x00@example.com" },
		"no name":              func(n *NewClient) { n.Name = "  " },
		"long name":            func(n *NewClient) { n.Name = strings.Repeat("é", maxNameLength+1) },
		"NUL in name":          func(n *NewClient) { n.Name = "a\x00" },
		"web address":          func(n *NewClient) { n.Name = "Pay at evil.com" },
		"at sign in name":      func(n *NewClient) { n.Name = "a@b" },
		"not UTF-8":            func(n *NewClient) { n.Name = "a\xff" },
		"two lines":            func(n *NewClient) { n.Name = "a\r\nb" },
		"escape in name":       func(n *NewClient) { n.Name = "a\x1b[31mb" },
		"line separator":       func(n *NewClient) { n.Name = "a\u2028b" },
		"turned direction":     func(n *NewClient) { n.Name = "a\u202egnp.exe" },
		"address of a host":    func(n *NewClient) { n.Email = "a@[127.0.0.1]" },
		"satellite":            func(n *NewClient) { n.Phone = "+881631234567" },
		"short password":       func(n *NewClient) { n.Password = "ééééééé" },
		"long password":        func(n *NewClient) { n.Password = strings.Repeat("a", password.MaxLength+1) },
		"verified, no phone":   func(n *NewClient) { n.Phone = "" },
		"no phone number":      func(n *NewClient) { n.Phone = "call me" },
		"emergency number":     func(n *NewClient) { n.Phone = "112" },
		"premium-rate number":  func(n *NewClient) { n.Phone = "+33899123456" },
		"number of the future": func(n *NewClient) { n.Phone = "+3361234567890" },
	} {
		n := demo
		spoil(&n)
		if _, err := checked(n); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := checked(demo); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func setDisabled(t *testing.T, s *Service, db *postgres.DB, clientID string, disabled bool) {
	t.Helper()
	if err := s.SetDisabled(t.Context(), db.Read(), clientID, disabled); err != nil {
		t.Fatal(err)
	}
}

func TestAMailedLinkDoesNotSurviveADisabledClient(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	c.askReset(client.Email)
	token := tokenOf(t, c.mail(1))
	setDisabled(t, c.Accounts, c.DB, client.ID, true)
	setDisabled(t, c.Accounts, c.DB, client.ID, false)
	if _, err := c.PendingReset(t.Context(), c.DB.Read(), token); !errors.Is(err, ErrBadLink) {
		t.Errorf("the link of before works: %v", err)
	}
}

// If the client is disabled just after the password was checked, no session remains that would work again once the
// client is enabled.
func TestSigningInWhileTheClientIsDisabledLeavesNoSession(t *testing.T) {
	t.Parallel()
	s, db := newService(t), dbtest.New(t)
	c := create(t, s, db, demo)
	for range 20 {
		var token string
		var both sync.WaitGroup
		both.Go(func() {
			err := db.InTx(t.Context(), func(tx postgres.Tx) (err error) {
				token, err = s.SignIn(t.Context(), tx, c.ID)
				return err
			})
			if err != nil && !errors.Is(err, ErrBadCredentials) {
				t.Error(err)
			}
		})
		both.Go(func() {
			if err := db.InTx(t.Context(),
				func(tx postgres.Tx) error { return s.SetDisabled(t.Context(), tx, c.ID, true) }); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		setDisabled(t, s, db, c.ID, false)
		if _, err := s.Session(t.Context(), db.Read(), token); !errors.Is(err, ErrNoSession) {
			t.Fatalf("signed in: %v", err)
		}
	}
}
