// Package passkey stores people's passkeys and signs people in by WebAuthn: it creates the challenges for a browser and
// verifies the responses. Each kind of people has a [Ring] in its own tables.
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

// site is the relying party, a domain name, that passkeys are bound to. Every passkey verifies its user.
type site struct{ w *webauthn.WebAuthn }

// newSite returns nil for a site whose host is an IP address: it cannot offer passkeys.
func newSite(baseURL string) (*site, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("read base URL: %w", err)
	}
	if net.ParseIP(u.Hostname()) != nil || u.Hostname() == "" {
		return nil, nil
	}
	residentKey := true
	w, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "partnerd", RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{RequireResidentKey: &residentKey,
			ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired},
	})
	if err != nil {
		return nil, fmt.Errorf("set up passkeys: %w", err)
	}
	return &site{w}, nil
}

// holder is a person with their stored passkeys.
type holder struct {
	Person
	kept []json.RawMessage
}

// question holds the options for navigator.credentials, with bytes as base64url, and the challenge against which the
// response is verified.
type question struct{ options, challenge json.RawMessage }

// answered is a passkey that was used successfully.
type answered struct {
	credentialID []byte
	credential   json.RawMessage // public key, counter and flags to store from now on
}

// register asks for a new passkey.
func (s *site) register(h holder) (question, error) {
	u, err := userOf(h)
	if err != nil {
		return question{}, err
	}
	options, session, err := s.w.BeginRegistration(u,
		webauthn.WithExclusions(webauthn.Credentials(u.credentials).CredentialDescriptors()))
	if err != nil {
		return question{}, fmt.Errorf("begin passkey: %w", err)
	}
	return ask(options.Response, session)
}

// registered verifies the response to register. It returns [ErrRefused].
func (s *site) registered(h holder, challenge json.RawMessage, answer []byte) (a answered, err error) {
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
	return kept(credential)
}

// signIn asks for any person's passkey: it identifies its owner.
func (s *site) signIn() (question, error) {
	options, session, err := s.w.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return question{}, fmt.Errorf("begin sign-in with passkey: %w", err)
	}
	return ask(options.Response, session)
}

// signedIn verifies the response to signIn. find returns the person with an ID, or [ErrRefused] if no such person may
// sign in. Any other error of find is returned unchanged.
func (s *site) signedIn(challenge json.RawMessage, answer []byte,
	find func(personID string) (holder, error),
) (a answered, err error) {
	session, err := sessionOf(challenge)
	if err != nil {
		return a, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var broken error // an error unrelated to the response
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
	return kept(credential)
}

func ask(options any, session *webauthn.SessionData) (q question, err error) {
	if q.options, err = json.Marshal(options); err != nil {
		return q, fmt.Errorf("write challenge: %w", err)
	}
	session.Expires = time.Time{} // the challenge's row expires instead, by the database's clock
	if q.challenge, err = json.Marshal(session); err != nil {
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

func kept(credential *webauthn.Credential) (answered, error) {
	raw, err := json.Marshal(credential)
	if err != nil {
		return answered{}, fmt.Errorf("write passkey: %w", err)
	}
	return answered{credential.ID, raw}, nil
}

// user implements the user of package webauthn for a holder.
type user struct {
	holder      holder
	credentials []webauthn.Credential
}

func (u user) WebAuthnID() []byte                         { return []byte(u.holder.ID) }
func (u user) WebAuthnName() string                       { return u.holder.Email }
func (u user) WebAuthnDisplayName() string                { return u.holder.Name }
func (u user) WebAuthnCredentials() []webauthn.Credential { return u.credentials }

func userOf(h holder) (user, error) {
	u := user{h, make([]webauthn.Credential, len(h.kept))}
	for i, raw := range h.kept {
		if err := json.Unmarshal(raw, &u.credentials[i]); err != nil {
			return user{}, fmt.Errorf("read passkey: %w", err)
		}
	}
	return u, nil
}
