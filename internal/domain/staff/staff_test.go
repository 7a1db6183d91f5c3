package staff

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

const phrase = "a long phrase for the desk"

type house struct {
	*testing.T
	*Service
	db    *postgres.DB
	clock *clock.Manual
}

type nowhere struct{}

func (nowhere) Send(context.Context, mail.Message) error { return nil }

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, clock: clock.NewManual(time.Date(2026, 6, 1, 8, 30, 0, 0, time.UTC))}
	h.db = dbtest.NewWithClock(t, h.clock)
	box := sealtest.Box(t)
	q, err := queue.New(h.db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if h.Service, err = New(Deps{DB: h.db, Box: box, Queue: q, Mail: mail.New(q, box, nowhere{}),
		BaseURL: "https://partner.example"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) tx(do func(tx postgres.Tx) error) error { return h.db.InTx(h.Context(), do) }

func (h *house) ok(do func(tx postgres.Tx) error) {
	h.Helper()
	if err := h.tx(do); err != nil {
		h.Fatal(err)
	}
}

// invite returns a person and the token of the invitation.
func (h *house) invite() (p Person, token string) {
	h.Helper()
	h.ok(func(tx postgres.Tx) (err error) {
		p, token, err = h.Invite(h.Context(), tx, NewPerson{Kind: Operator, Email: "o@partners.example", Name: "O",
			Language: "en", Roles: []Role{Support}})
		return err
	})
	return p, tokenOf(token)
}

func tokenOf(link string) string { return link[strings.Index(link, "token=")+len("token="):] }

// member is a person who accepted the invitation and set up a device.
type member struct {
	Person
	secret   string
	recovery []string
	session  string
}

func (h *house) join() (m member) {
	h.Helper()
	var invitation string
	m.Person, invitation = h.invite()
	m.enrol(h, invitation)
	return m
}

func (m *member) enrol(h *house, invitation string) {
	h.Helper()
	h.ok(func(tx postgres.Tx) error {
		half, err := h.AcceptInvitation(h.Context(), tx, invitation, phrase, Device{})
		if err != nil {
			return err
		}
		f, _, err := h.SetUpFactor(h.Context(), tx, half)
		if err != nil {
			return err
		}
		m.secret = strings.ReplaceAll(f.Secret, " ", "")
		m.session, _, m.recovery, err = h.ConfirmFactor(h.Context(), tx, half, m.code(h), Device{})
		return err
	})
	h.clock.Advance(time.Minute) // past the code that was used
}

func (m *member) code(h *house) string {
	code, err := totp.GenerateCode(m.secret, h.clock.Now())
	if err != nil {
		h.Fatal(err)
	}
	return code
}

// half enters the password and returns the token of a session that waits for the second factor.
func (h *house) half(m member) (token string, err error) {
	proof, err := h.CheckPassword(h.Context(), h.db.Read(), m.Email, phrase)
	if err != nil {
		return "", err
	}
	err = h.tx(func(tx postgres.Tx) error { token, err = h.Begin(h.Context(), tx, proof, Device{}); return err })
	return token, err
}

func (h *house) enter(half, code string) error {
	return h.tx(func(tx postgres.Tx) error {
		_, _, err := h.EnterCode(h.Context(), tx, half, ReadCode(code), Device{})
		return err
	})
}

func (h *house) signedIn(token string) bool {
	h.Helper()
	_, err := h.Session(h.Context(), h.db.Read(), token)
	if err != nil && !errors.Is(err, ErrNoSession) {
		h.Fatal(err)
	}
	return err == nil
}

// atOnce runs n actions at the same time and counts the successes. All others must fail with one of faults.
func (h *house) atOnce(n int, act func(i int) error, faults ...error) int {
	h.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = act(i) })
	}
	all.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		expected := false
		for _, f := range faults {
			expected = expected || errors.Is(err, f)
		}
		if !expected {
			h.Error(err)
		}
	}
	return succeeded
}

const racers = 8

func TestACodeOfTheDeviceIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	halves := make([]string, racers)
	for i := range halves {
		var err error
		if halves[i], err = h.half(m); err != nil {
			t.Fatal(err)
		}
	}
	code := m.code(h)
	if n := h.atOnce(racers, func(i int) error { return h.enter(halves[i], code) }, ErrCode); n != 1 {
		t.Errorf("%d sign-ins by one code", n)
	}
	h.clock.Advance(30 * time.Second) // codes of the previous period are accepted in the next one
	half, err := h.half(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.enter(half, code); !errors.Is(err, ErrCode) {
		t.Errorf("the same code later: %v", err)
	}
	if err := h.enter(half, m.code(h)); err != nil {
		t.Errorf("the next code: %v", err)
	}
	if err := h.enter(half, m.recovery[0]); !errors.Is(err, ErrNoSession) {
		t.Errorf("the token of a step that is over: %v", err)
	}
}

func TestARecoveryCodeIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	halves := make([]string, racers)
	for i := range halves {
		halves[i], _ = h.half(m)
	}
	if n := h.atOnce(racers, func(i int) error { return h.enter(halves[i], m.recovery[4]) }, ErrCode); n != 1 {
		t.Errorf("%d sign-ins by one recovery code", n)
	}
	if n, err := h.RecoveryCodesLeft(t.Context(), h.db.Read(), m.ID); n != recoveryCodes-1 || err != nil {
		t.Errorf("%d codes left, %v", n, err)
	}
}

// One password entry allows one sign-in. Of several recovery codes entered for it, one is spent and the others stay.
func TestOneSignInComesOfOnePassword(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	half, err := h.half(m)
	if err != nil {
		t.Fatal(err)
	}
	signIns := make(chan int, 1)
	h.ok(func(tx postgres.Tx) error { // so that all have found the waiting session before one ends it
		if _, err := lockPerson(h.Context(), tx, m.ID); err != nil {
			return err
		}
		go func() {
			signIns <- h.atOnce(3, func(i int) error { return h.enter(half, m.recovery[i]) }, ErrNoSession)
		}()
		dbtest.AwaitWaiters(t, h.db, 3)
		return nil
	})
	if n := <-signIns; n != 1 {
		t.Errorf("%d sign-ins by one password", n)
	}
	if n, err := h.RecoveryCodesLeft(t.Context(), h.db.Read(), m.ID); n != recoveryCodes-1 || err != nil {
		t.Errorf("%d codes left, %v", n, err)
	}
	// includes the session of the invitation
	if n := h.count("SELECT count(*) FROM staff_sessions WHERE complete AND staff_id = $1", m.ID); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestAnInvitationIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, invitation := h.invite()
	accept := func(int) error {
		return h.tx(func(tx postgres.Tx) error {
			_, err := h.AcceptInvitation(t.Context(), tx, invitation, phrase, Device{})
			return err
		})
	}
	if err := h.tx(func(tx postgres.Tx) error {
		_, err := h.AcceptInvitation(t.Context(), tx, invitation, "short", Device{})
		return err
	}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a weak password: %v", err)
	}
	if n := h.atOnce(racers, accept, ErrBadLink); n != 1 {
		t.Errorf("%d used one invitation", n)
	}
	h = newHouse(t)
	_, invitation = h.invite()
	h.clock.Advance(InvitationLifetime)
	if err := accept(0); !errors.Is(err, ErrBadLink) {
		t.Errorf("after 72 hours: %v", err)
	}
}

// Someone who is disabled during a sign-in is not signed in afterwards, whichever comes first.
func TestDisablingCrossesASignIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	for range 10 {
		half, err := h.half(m)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := h.CheckPassword(t.Context(), h.db.Read(), m.Email, phrase)
		if err != nil {
			t.Fatal(err)
		}
		full, begun, code := "", "", m.code(h)
		h.atOnce(3, func(i int) error {
			return h.tx(func(tx postgres.Tx) (err error) {
				switch i {
				case 0:
					_, err = h.Disable(t.Context(), tx, m.ID)
				case 1:
					full, _, err = h.EnterCode(t.Context(), tx, half, ReadCode(code), Device{})
				default:
					begun, err = h.Begin(t.Context(), tx, proof, Device{})
				}
				return err
			})
		}, ErrNoSession, ErrBadCredentials)
		if n := h.count(`SELECT count(*) FROM staff_sessions`); n != 0 {
			t.Errorf("%d sessions of one who is disabled (%q, %q)", n, full, begun)
		}
		var link string
		h.ok(func(tx postgres.Tx) (err error) { _, link, err = h.Reinvite(t.Context(), tx, m.ID, ""); return err })
		m.enrol(h, tokenOf(link))
	}
}

func TestWhatEndsSessions(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *house, tx postgres.Tx, m member) error{
		"a new invitation": func(h *house, tx postgres.Tx, m member) error {
			_, _, err := h.Reinvite(h.Context(), tx, m.ID, "")
			return err
		},
		"disabling": func(h *house, tx postgres.Tx, m member) error {
			_, err := h.Disable(h.Context(), tx, m.ID)
			return err
		},
		"a new password": func(h *house, tx postgres.Tx, m member) error {
			return h.ChangePassword(h.Context(), tx, m.ID, phrase, phrase+"!", "")
		},
		"a password by mail": func(h *house, tx postgres.Tx, m member) error {
			_, err := h.Reset(h.Context(), tx, h.resetLink(tx, m.ID), phrase+"!", Device{})
			return err
		},
		"signing out":  func(h *house, tx postgres.Tx, m member) error { return h.SignOut(h.Context(), tx, m.session) },
		"half an hour": func(h *house, _ postgres.Tx, _ member) error { h.clock.Advance(IdleLifetime); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			m := h.join()
			half, err := h.half(m)
			if err != nil || !h.signedIn(m.session) || h.signedIn(half) {
				t.Fatalf("before: %v", err)
			}
			h.ok(func(tx postgres.Tx) error { return end(h, tx, m) })
			if h.signedIn(m.session) {
				t.Error("the session lasts")
			}
		})
	}
}

// resetLink returns the token of an emailed link.
func (h *house) resetLink(tx postgres.Tx, staffID string) (token string) {
	h.Helper()
	token = tx.NewSecret("lnk")
	if err := insertLink(h.Context(), tx, linkRow{TokenHash: id.DigestOf(token), Kind: kindReset, StaffID: staffID,
		ExpiresAt: tx.Now.Add(ResetLifetime)}); err != nil {
		h.Fatal(err)
	}
	return token
}

// count runs a query that returns a number.
func (h *house) count(query string, args ...any) (n int) {
	h.Helper()
	if err := h.db.Pool().QueryRow(h.Context(), query, args...).Scan(&n); err != nil {
		h.Fatal(err)
	}
	return n
}

// Someone who saw the QR code but did not confirm it cannot sign in once the password has changed.
func TestAnUnconfirmedFactorOpensNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var m member
	var half, invitation string
	m.Person, invitation = h.invite()
	setUp := func(half string) (secret string) {
		h.ok(func(tx postgres.Tx) error {
			f, _, err := h.SetUpFactor(t.Context(), tx, half)
			secret = strings.ReplaceAll(f.Secret, " ", "")
			return err
		})
		return secret
	}
	h.ok(func(tx postgres.Tx) (err error) {
		half, err = h.AcceptInvitation(t.Context(), tx, invitation, phrase, Device{})
		return err
	})
	if m.secret = setUp(half); m.secret != setUp(half) {
		t.Error("the picture is another one when the page is loaded again")
	}
	again, err := h.half(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{half, again} {
		if h.signedIn(token) {
			t.Error("the password alone signs in")
		}
		if err := h.enter(token, m.code(h)); !errors.Is(err, ErrCode) {
			t.Errorf("a code of a device that was not confirmed: %v", err)
		}
	}
	h.ok(func(tx postgres.Tx) (err error) {
		half, err = h.Reset(t.Context(), tx, h.resetLink(tx, m.ID), phrase, Device{})
		return err
	})
	if setUp(half) == m.secret {
		t.Error("the picture is the same after a reset")
	}
}

// Someone who knew the password first and saw a secret cannot use it against the owner, who sets up another one in
// another session.
func TestEachSessionSetsUpASecretOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var owner member
	var half, invitation string
	owner.Person, invitation = h.invite()
	h.ok(func(tx postgres.Tx) (err error) {
		half, err = h.AcceptInvitation(t.Context(), tx, invitation, phrase, Device{})
		return err
	})
	stranger := owner
	theirs, err := h.half(stranger)
	if err != nil {
		t.Fatal(err)
	}
	setUp := func(half string) (secret string) {
		h.ok(func(tx postgres.Tx) error {
			f, _, err := h.SetUpFactor(t.Context(), tx, half)
			secret = strings.ReplaceAll(f.Secret, " ", "")
			return err
		})
		return secret
	}
	confirm := func(half, code string) error {
		return h.tx(func(tx postgres.Tx) error {
			_, _, _, err := h.ConfirmFactor(t.Context(), tx, half, code, Device{})
			return err
		})
	}
	owner.secret, stranger.secret = setUp(half), setUp(theirs)
	if owner.secret == stranger.secret {
		t.Fatal("both sessions show one secret")
	}
	if err := confirm(half, stranger.code(h)); !errors.Is(err, ErrCode) {
		t.Errorf("a code of the other session's secret: %v", err)
	}
	if err := confirm(half, owner.code(h)); err != nil {
		t.Fatal(err)
	}
	h.clock.Advance(time.Minute)
	if err := confirm(theirs, stranger.code(h)); !errors.Is(err, ErrNoSession) {
		t.Errorf("a second device: %v", err)
	}
	for name, m := range map[string]member{"owner": owner, "stranger": stranger} {
		half, err := h.half(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.enter(half, m.code(h)); (err == nil) != (name == "owner") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reset link is emailed only to a person who can use it, at most five times an hour, whoever asks.
func TestResetsAreMailedSparingly(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	ask := func(email string) {
		raw, err := json.Marshal(resetRequest{email})
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := h.deps.Box.Seal(resetJob, raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.mailReset(t.Context(), sealed); err != nil {
			t.Fatal(err)
		}
	}
	mailed := func() int { return h.count(`SELECT count(*) FROM staff_links WHERE kind = 'RESET'`) }
	ask("nobody@partners.example")
	if n := mailed(); n != 0 {
		t.Errorf("%d links for nobody", n)
	}
	for range linksPerHour + 2 {
		ask(strings.ToUpper(m.Email))
	}
	if n := mailed(); n != linksPerHour {
		t.Errorf("%d links within an hour", n)
	}
	h.clock.Advance(time.Hour + time.Minute)
	h.ok(func(tx postgres.Tx) error { _, err := h.Disable(t.Context(), tx, m.ID); return err })
	ask(m.Email)
	h.ok(func(tx postgres.Tx) error { _, _, err := h.Reinvite(t.Context(), tx, m.ID, ""); return err })
	ask(m.Email)
	if n := mailed(); n != linksPerHour {
		t.Errorf("%d links, also for who is disabled or invited", n)
	}
}

// A challenge for one person, or for a registration, is not accepted for another.
func TestAChallengeIsOfOnePerson(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	var other Person
	var asked passkey.Challenge
	h.ok(func(tx postgres.Tx) (err error) {
		if other, _, err = h.Invite(t.Context(), tx, NewPerson{Kind: Operator, Email: "p@partners.example", Name: "P",
			Language: "en", Roles: []Role{Support}}); err != nil {
			return err
		}
		asked, err = h.BeginPasskey(t.Context(), tx, m.ID)
		return err
	})
	answer := []byte(`{}`)
	for name, try := range map[string]func(tx postgres.Tx) error{
		"registered by another": func(tx postgres.Tx) error {
			return h.AddPasskey(t.Context(), tx, other.ID, asked.Token, "Phone", answer)
		},
		"for a sign-in": func(tx postgres.Tx) error {
			_, _, err := h.PasskeySignIn(t.Context(), tx, asked.Token, answer, Device{})
			return err
		},
	} {
		h.ok(func(tx postgres.Tx) error {
			if err := try(tx); !errors.Is(err, passkey.ErrRefused) {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
		if n := h.count(`SELECT count(*) FROM staff_challenges`); n != 1 {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// Compares the shortest of several attempts, because other load only makes one longer. The test does not run in
// parallel for the same reason. It also gives hashes their full cost; with cheap ones no difference would show.
func TestAnUnknownAddressTakesAsLongAsAKnownOne(t *testing.T) {
	h := newHouse(t)
	password.Cheap(false)
	t.Cleanup(func() { password.Cheap(true) })
	m := h.join()
	emails := []string{m.Email, "nobody@partners.example", "no address"}
	shortest := map[string]time.Duration{}
	for range 10 {
		for _, email := range emails {
			began := time.Now()
			if _, err := h.CheckPassword(t.Context(), h.db.Read(), email,
				"a wrong phrase for it"); !errors.Is(err, ErrBadCredentials) {
				t.Fatal(err)
			}
			took := time.Since(began)
			if least, ok := shortest[email]; !ok || took < least {
				shortest[email] = took
			}
		}
	}
	for _, email := range emails[1:] {
		if shortest[email] < shortest[m.Email]/4 {
			t.Errorf("%q takes %v, a known address %v", email, shortest[email], shortest[m.Email])
		}
	}
}

func TestANewInvitationEndsEverything(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	var link string
	h.ok(func(tx postgres.Tx) (err error) { _, link, err = h.Reinvite(t.Context(), tx, m.ID, ""); return err })
	if _, err := h.half(m); !errors.Is(err, ErrBadCredentials) {
		t.Errorf("the old password: %v", err)
	}
	if n, err := h.RecoveryCodesLeft(t.Context(), h.db.Read(), m.ID); n != 0 || err != nil {
		t.Errorf("%d old recovery codes, %v", n, err)
	}
	old := m.secret
	if m.enrol(h, tokenOf(link)); m.secret == old {
		t.Error("the secret is the same")
	}
}

func TestASessionCarriesTheLease(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	m := h.join()
	s, err := h.Session(t.Context(), h.db.Read(), m.session)
	if err != nil {
		t.Fatal(err)
	}
	h.ok(func(tx postgres.Tx) error { return h.KeepLease(t.Context(), tx, s.ID, 7) })
	s, err = h.Session(t.Context(), h.db.Read(), m.session)
	if _, epoch := s.Lease(); err != nil || epoch != 7 {
		t.Errorf("epoch %d, %v", epoch, err)
	}
	if err := h.KeepLease(t.Context(), h.db.Read(), strings.Repeat("0", 64), 1); !errors.Is(err, ErrNoSession) {
		t.Errorf("a session that there is not: %v", err)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    Person
		may  []Role
		want bool
	}{
		{Person{Kind: Operator, Roles: []Role{Support}}, []Role{Support}, true},
		{Person{Kind: Operator, Roles: []Role{Support}}, []Role{Finance, Security}, false},
		{Person{Kind: Operator, Roles: []Role{Support}}, nil, true},
		{Person{Kind: Operator, Roles: []Role{Admin}}, []Role{Finance}, true},
		{Person{Kind: Lawyer}, nil, false},
	} {
		if got := c.p.May(c.may...); got != c.want {
			t.Errorf("%+v may %v: %t", c.p, c.may, got)
		}
	}
}

// A link works once, even for a transaction that began before the one that used it, for example after waiting for the
// person's row.
func TestALinkWorksOnceForWhoeverBeganBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var token string
	h.ok(func(tx postgres.Tx) error {
		_, link, err := h.Invite(t.Context(), tx, NewPerson{Kind: Operator, Email: "o@partners.example", Name: "O",
			Language: "en", Roles: []Role{Support}})
		_, token, _ = strings.Cut(link, "token=")
		return err
	})
	err := h.tx(func(before postgres.Tx) error {
		h.clock.Advance(time.Second)
		h.ok(func(tx postgres.Tx) error {
			_, err := h.AcceptInvitation(t.Context(), tx, token, phrase, Device{})
			return err
		})
		_, err := h.AcceptInvitation(t.Context(), before, token, "another long phrase for it", Device{})
		return err
	})
	if !errors.Is(err, ErrBadLink) {
		t.Errorf("used twice: %v", err)
	}
}
