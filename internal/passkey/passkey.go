// Package passkey speaks WebAuthn for those who keep passkeys of people: it makes the questions that a browser puts to a
// device, and judges the answers. Whoever asks keeps the challenge meanwhile, and lets it be answered once.
package passkey

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// ErrRefused says that an answer does not belong to the challenge, or to no passkey of the person.
var ErrRefused = errors.New("the passkey was not accepted")

// Site is what passkeys are bound to: the name of a site. Each verifies its user.
type Site struct{ w *webauthn.WebAuthn }

// New returns nil for a site that has no name because its address is one of the network: it cannot offer passkeys.
func New(baseURL string) (*Site, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("read base URL: %w", err)
	}
	if net.ParseIP(u.Hostname()) != nil || u.Hostname() == "" {
		return nil, nil
	}
	residentKey := true
	w, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "partnerd", RPOrigins: []string{u.Scheme + "://" + u.Host}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{RequireResidentKey: &residentKey, ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired},
	})
	if err != nil {
		return nil, fmt.Errorf("set up passkeys: %w", err)
	}
	return &Site{w}, nil
}

// Holder is whose passkeys there are.
type Holder struct {
	ID, Email, Name string
	Kept            []json.RawMessage // of the passkeys
}

// Question is what a browser is asked: Options of navigator.credentials, with bytes as base64url, and the Challenge that the
// answer is judged by.
type Question struct{ Options, Challenge json.RawMessage }

// Answered is a passkey that answered.
type Answered struct {
	CredentialID []byte
	Kept         json.RawMessage // public key, counter and flags, to be kept from now on
}

// Register asks for a new passkey.
func (s *Site) Register(h Holder) (Question, error) {
	u, err := userOf(h)
	if err != nil {
		return Question{}, err
	}
	options, session, err := s.w.BeginRegistration(u, webauthn.WithExclusions(webauthn.Credentials(u.credentials).CredentialDescriptors()))
	if err != nil {
		return Question{}, fmt.Errorf("begin passkey: %w", err)
	}
	return question(options.Response, session)
}

// Registered judges the answer to [Site.Register]. It returns [ErrRefused].
func (s *Site) Registered(h Holder, challenge json.RawMessage, answer []byte) (a Answered, err error) {
	session, err := sessionOf(challenge)
	if err != nil {
		return a, err
	}
	u, err := userOf(h)
	if err != nil {
		return a, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	credential, err := s.w.CreateCredential(u, session, parsed)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return answered(credential)
}

// SignIn asks for a passkey of anybody: it says itself whose it is.
func (s *Site) SignIn() (Question, error) {
	options, session, err := s.w.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return Question{}, fmt.Errorf("begin sign-in with passkey: %w", err)
	}
	return question(options.Response, session)
}

// SignedIn judges the answer to [Site.SignIn]. find returns the holder of an identifier, or [ErrRefused] when nobody of that
// identifier may sign in; any other error of it is returned as it is.
func (s *Site) SignedIn(challenge json.RawMessage, answer []byte, find func(holderID string) (Holder, error)) (a Answered, err error) {
	session, err := sessionOf(challenge)
	if err != nil {
		return a, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var broken error // what has nothing to do with the answer
	_, credential, err := s.w.ValidatePasskeyLogin(func(_, userHandle []byte) (webauthn.User, error) {
		h, err := find(string(userHandle))
		if err == nil {
			var u user
			if u, err = userOf(h); err == nil {
				return u, nil
			}
		}
		if !errors.Is(err, ErrRefused) {
			broken = err
		}
		return nil, err
	}, session, parsed)
	switch {
	case broken != nil:
		return a, broken
	case err != nil:
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	case credential.Authenticator.CloneWarning:
		return a, fmt.Errorf("%w: its counter went back, as that of a copy does", ErrRefused)
	}
	return answered(credential)
}

func question(options any, session *webauthn.SessionData) (q Question, err error) {
	if q.Options, err = json.Marshal(options); err != nil {
		return q, fmt.Errorf("write challenge: %w", err)
	}
	session.Expires = time.Time{} // whoever keeps the challenge ends it, by the database's clock
	if q.Challenge, err = json.Marshal(session); err != nil {
		return q, fmt.Errorf("write challenge: %w", err)
	}
	return q, nil
}

func sessionOf(challenge json.RawMessage) (session webauthn.SessionData, err error) {
	if err := json.Unmarshal(challenge, &session); err != nil {
		return session, fmt.Errorf("read challenge: %w", err)
	}
	return session, nil
}

func answered(credential *webauthn.Credential) (Answered, error) {
	raw, err := json.Marshal(credential)
	if err != nil {
		return Answered{}, fmt.Errorf("write passkey: %w", err)
	}
	return Answered{credential.ID, raw}, nil
}

// user is a holder as package webauthn sees one.
type user struct {
	holder      Holder
	credentials []webauthn.Credential
}

func (u user) WebAuthnID() []byte                         { return []byte(u.holder.ID) }
func (u user) WebAuthnName() string                       { return u.holder.Email }
func (u user) WebAuthnDisplayName() string                { return u.holder.Name }
func (u user) WebAuthnCredentials() []webauthn.Credential { return u.credentials }

func userOf(h Holder) (user, error) {
	u := user{h, make([]webauthn.Credential, len(h.Kept))}
	for i, raw := range h.Kept {
		if err := json.Unmarshal(raw, &u.credentials[i]); err != nil {
			return user{}, fmt.Errorf("read passkey: %w", err)
		}
	}
	return u, nil
}
