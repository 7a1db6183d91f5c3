package account

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"

	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
)

var b64 = base64.RawURLEncoding

// authenticator is a device that holds one passkey.
type authenticator struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	id      []byte
	user    string // user handle, as given at registration
	counter uint32
	synced  bool // as most passkeys are, so the counter stays 0
	origin  string
}

func newAuthenticator(t *testing.T) *authenticator {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 16)
	rand.Read(id)
	return &authenticator{t: t, key: key, id: id, origin: "https://partner.example"}
}

func (a *authenticator) clientData(kind string, options json.RawMessage) []byte {
	var o struct {
		Challenge string
		User      struct{ ID string }
	}
	if err := json.Unmarshal(options, &o); err != nil {
		a.t.Fatal(err)
	}
	if o.User.ID != "" {
		a.user = o.User.ID
	}
	raw, _ := json.Marshal(map[string]any{"type": kind, "challenge": o.Challenge, "origin": a.origin,
		"crossOrigin": false})
	return raw
}

func (a *authenticator) data(flags byte, more ...byte) []byte {
	if !a.synced {
		a.counter++
	}
	rp := sha256.Sum256([]byte("partner.example"))
	out := append(rp[:], flags)
	out = binary.BigEndian.AppendUint32(out, a.counter)
	return append(out, more...)
}

func (a *authenticator) cbor(v any) []byte {
	raw, err := webauthncbor.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

// create answers navigator.credentials.create.
func (a *authenticator) create(c passkey.Challenge) []byte {
	client := a.clientData("webauthn.create", c.Options)
	public, err := a.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		a.t.Fatal(err)
	}
	cose := a.cbor(map[int]any{1: 2, 3: -7, -1: 1, -2: public[1:33], -3: public[33:]})
	attested := append(make([]byte, 16), 0, byte(len(a.id)))
	attested = append(append(attested, a.id...), cose...)
	object := a.cbor(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": a.data(0x45, attested...)})
	return a.answer(map[string]any{"clientDataJSON": b64.EncodeToString(client),
		"attestationObject": b64.EncodeToString(object)})
}

// get answers navigator.credentials.get.
func (a *authenticator) get(c passkey.Challenge, flags byte) []byte {
	client := a.clientData("webauthn.get", c.Options)
	data := a.data(flags)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, digest[:])
	if err != nil {
		a.t.Fatal(err)
	}
	return a.answer(map[string]any{"clientDataJSON": b64.EncodeToString(client),
		"authenticatorData": b64.EncodeToString(data), "signature": b64.EncodeToString(signature),
		"userHandle": a.user})
}

func (a *authenticator) answer(response map[string]any) []byte {
	id := b64.EncodeToString(a.id)
	raw, err := json.Marshal(map[string]any{"id": id, "rawId": id, "type": "public-key",
		"clientExtensionResults": map[string]any{}, "response": response})
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

const verified = 0x05 // user present, user verified

func (c *fixture) challenge(clientID string) (ch passkey.Challenge) {
	c.Helper()
	c.ok(func(tx postgres.Tx) (err error) {
		if clientID == "" {
			ch, err = c.BeginPasskeySignIn(c.Context(), tx)
		} else {
			ch, err = c.BeginPasskey(c.Context(), tx, clientID)
		}
		return err
	})
	return ch
}

func (c *fixture) addPasskey(clientID string, ch passkey.Challenge, answer []byte) error {
	return c.tx(func(tx postgres.Tx) error {
		return c.AddPasskey(c.Context(), tx, clientID, ch.Token, " My phone ", answer, "en")
	})
}

func (c *fixture) passkeySignIn(ch passkey.Challenge, answer []byte) (client Client, err error) {
	e := c.tx(func(tx postgres.Tx) error {
		client, _, err = c.PasskeySignIn(c.Context(), tx, ch.Token, answer)
		if errors.Is(err, passkey.ErrRefused) {
			return nil
		}
		return err
	})
	return client, errors.Join(err, e)
}

func TestAPasskeySignsItsOwnerInWithoutAName(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	a := newAuthenticator(t)
	a.synced = true
	ch := c.challenge(client.ID)
	if err := c.addPasskey(client.ID, ch, a.create(ch)); err != nil {
		t.Fatal(err)
	}
	if m := c.mail(1); !strings.Contains(m.Subject, "a passkey was added") {
		t.Errorf("notice: %+v", m)
	}
	c.clock.Advance(time.Hour)
	ch = c.challenge("")
	answer := a.get(ch, verified)
	if got, err := c.passkeySignIn(ch, answer); err != nil || got.ID != client.ID {
		t.Errorf("sign-in: %+v %v", got, err)
	}
	if _, err := c.passkeySignIn(ch, answer); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("the same answer again: %v", err)
	}
	list, err := c.Passkeys(t.Context(), c.DB.Read(), client.ID)
	if err != nil || len(list) != 1 || list[0].Name != "My phone" || list[0].LastUsedAt == nil ||
		!list[0].LastUsedAt.Equal(c.clock.Now()) {
		t.Fatalf("list: %+v %v", list, err)
	}
	stranger := create(t, c.Accounts, c.DB, NewClient{Email: "b@example.com", Password: demo.Password, Name: "B"})
	c.ok(func(tx postgres.Tx) error { return c.RemovePasskey(t.Context(), tx, stranger.ID, list[0].ID, "en") })
	ch = c.challenge("")
	if _, err := c.passkeySignIn(ch, a.get(ch, verified)); err != nil {
		t.Errorf("a stranger removed it: %v", err)
	}
	c.ok(func(tx postgres.Tx) error { return c.RemovePasskey(t.Context(), tx, client.ID, list[0].ID, "en") })
	ch = c.challenge("")
	if _, err := c.passkeySignIn(ch, a.get(ch, verified)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("after it was removed: %v", err)
	}
	if m := c.mail(2); !strings.Contains(m.Subject, "removed") {
		t.Errorf("notice: %+v", m)
	}
}

func TestAnswersThatAreNotThePasskeysAreRefused(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	a := newAuthenticator(t)
	for name, spoil := range map[string]func() ([]byte, passkey.Challenge){
		"no answer": func() ([]byte, passkey.Challenge) { ch := c.challenge(client.ID); return nil, ch },
		"other origin": func() ([]byte, passkey.Challenge) {
			x := *a
			x.origin = "https://evil.example"
			ch := c.challenge(client.ID)
			return x.create(ch), ch
		},
		"old challenge": func() ([]byte, passkey.Challenge) {
			ch := c.challenge(client.ID)
			c.clock.Advance(passkey.ChallengeLifetime)
			return a.create(ch), ch
		},
		"of a sign-in": func() ([]byte, passkey.Challenge) { ch := c.challenge(""); return a.create(ch), ch },
	} {
		answer, ch := spoil()
		if err := c.addPasskey(client.ID, ch, answer); !errors.Is(err, passkey.ErrRefused) {
			t.Errorf("register, %s: %v", name, err)
		}
	}
	ch := c.challenge(client.ID)
	if err := c.addPasskey(client.ID, ch, a.create(ch)); err != nil {
		t.Fatal(err)
	}
	ch = c.challenge(client.ID)
	if err := c.addPasskey(client.ID, ch, a.create(ch)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("registered twice: %v", err)
	}
	for name, spoil := range map[string]func(ch passkey.Challenge) []byte{
		"nonsense":     func(passkey.Challenge) []byte { return []byte("{") },
		"not verified": func(ch passkey.Challenge) []byte { return a.get(ch, 0x01) },
		"other origin": func(ch passkey.Challenge) []byte {
			x := *a
			x.origin = "https://evil.example"
			return x.get(ch, verified)
		},
		"other key": func(ch passkey.Challenge) []byte {
			x := *a
			x.key = newAuthenticator(t).key
			return x.get(ch, verified)
		},
		"nobody's": func(ch passkey.Challenge) []byte {
			x := newAuthenticator(t)
			x.user = a.user
			return x.get(ch, verified)
		},
		"other user": func(ch passkey.Challenge) []byte {
			x := *a
			x.user = b64.EncodeToString([]byte("cli_test_x"))
			return x.get(ch, verified)
		},
		"bad user": func(ch passkey.Challenge) []byte {
			x := *a
			x.user = b64.EncodeToString([]byte("\x00\xff"))
			return x.get(ch, verified)
		},
		"old challenge": func(passkey.Challenge) []byte { return a.get(c.challenge(""), verified) },
	} {
		ch := c.challenge("")
		if _, err := c.passkeySignIn(ch, spoil(ch)); !errors.Is(err, passkey.ErrRefused) {
			t.Errorf("sign in, %s: %v", name, err)
		}
	}
	ch = c.challenge("")
	a.counter = 0 // a copy of the device that was used less often
	if _, err := c.passkeySignIn(ch, a.get(ch, verified)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("counter went back: %v", err)
	}
	a.counter = 50
	setDisabled(t, c.Accounts, c.DB, client.ID, true)
	ch = c.challenge("")
	if _, err := c.passkeySignIn(ch, a.get(ch, verified)); !errors.Is(err, ErrDisabled) {
		t.Errorf("disabled client: %v", err)
	}
	ch = c.challenge("")
	a.counter = 0
	if _, err := c.passkeySignIn(ch, a.get(ch, verified)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("disabled client whose passkey was not shown: %v", err)
	}
}

func TestAChallengeIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	a := newAuthenticator(t)
	a.synced = true
	ch := c.challenge(client.ID)
	answer := a.create(ch)
	if n := atOnce(t, passkey.ErrRefused, func() error { return c.addPasskey(client.ID, ch, answer) }); n != 1 {
		t.Errorf("%d passkeys", n)
	}
	ch = c.challenge("")
	answer = a.get(ch, verified)
	if n := atOnce(t, passkey.ErrRefused, func() error { _, err := c.passkeySignIn(ch, answer); return err }); n != 1 {
		t.Errorf("%d sign-ins", n)
	}
}

func TestASiteWithoutANameHasNoPasskeys(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"http://127.0.0.1:8080": false, "http://[::1]:8080": false,
		"http://localhost:8080": true, "https://partner.example": true} {
		ring, err := passkey.NewRing(url, passkey.Tables{})
		if err != nil || ring.Offered() != want {
			t.Errorf("%s: %v %v", url, ring.Offered(), err)
		}
	}
}

// Challenges begun below the limit must not lead to more passkeys than the limit allows.
func TestAClientHasAtMostTwentyPasskeys(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	id := create(t, c.Accounts, c.DB, demo).ID
	results := make(chan error, passkey.Max+4)
	var adds []func() error
	for range cap(results) {
		a, ch := newAuthenticator(t), c.challenge(id)
		answer := a.create(ch)
		adds = append(adds, func() error { return c.addPasskey(id, ch, answer) })
	}
	for _, add := range adds {
		go func() { results <- add() }()
	}
	added := 0
	for range cap(results) {
		switch err := <-results; {
		case err == nil:
			added++
		case !errors.Is(err, passkey.ErrTooMany):
			t.Errorf("refused otherwise: %v", err)
		}
	}
	if list, err := c.Passkeys(t.Context(), c.DB.Read(), id); err != nil || len(list) != passkey.Max ||
		added != passkey.Max {
		t.Errorf("%d were added, %d are there (%v), want %d", added, len(list), err, passkey.Max)
	}
}

func TestRemovingAPasskeyEndsTheSessionsThatItOpened(t *testing.T) {
	t.Parallel()
	c := newFixture(t)
	client := create(t, c.Accounts, c.DB, demo)
	a := newAuthenticator(t)
	ch := c.challenge(client.ID)
	if err := c.addPasskey(client.ID, ch, a.create(ch)); err != nil {
		t.Fatal(err)
	}
	var passkey string
	ch = c.challenge("")
	c.ok(func(tx postgres.Tx) (err error) {
		_, passkey, err = c.PasskeySignIn(t.Context(), tx, ch.Token, a.get(ch, verified))
		return err
	})
	open := func(passkeyID string) (token string, err error) {
		err = c.tx(func(tx postgres.Tx) (err error) {
			token, err = c.Accounts.SignInFrom(t.Context(), tx, client.ID, Device{PasskeyID: passkeyID})
			return err
		})
		return token, err
	}
	byPasskey, err1 := open(passkey)
	byPassword, err2 := open("")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	c.ok(func(tx postgres.Tx) error { return c.RemovePasskey(t.Context(), tx, client.ID, passkey, "en") })
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), byPasskey); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session of the passkey: %v", err)
	}
	if _, err := c.Accounts.Session(t.Context(), c.DB.Read(), byPassword); err != nil {
		t.Errorf("the session of the password: %v", err)
	}
	if _, err := open(passkey); !errors.Is(err, ErrBadCredentials) {
		t.Errorf("a sign-in whose passkey was removed meanwhile: %v", err)
	}
}
