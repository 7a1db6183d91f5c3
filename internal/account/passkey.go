package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"golang.org/x/text/unicode/norm"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
	"partnerd/internal/text"
)

// Passkey is a key pair on a device of the client, of which we hold the public half.
type Passkey struct {
	ID         string
	Name       string // given by the client, 1 to 60 code points
	CreatedAt  time.Time
	LastUsedAt *time.Time
}

const (
	challengeLifetime = 10 * time.Minute
	maxPasskeys       = 20
	maxPasskeyName    = 60 // code points
)

// Challenge is what a browser is asked to sign. Token comes back with the answer, which counts once.
type Challenge struct {
	Token   string
	Options json.RawMessage // of navigator.credentials, with bytes as base64url
}

// newPasskeys binds passkeys to the name of the site; a site that is an address of the network has none.
func newPasskeys(baseURL string) (*webauthn.WebAuthn, error) {
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
	return w, nil
}

// HasPasskeys tells whether this deployment can offer them.
func (s *SelfService) HasPasskeys() bool { return s.passkeys != nil }

// BeginPasskey makes a challenge to register a passkey. It returns [ErrTooMany] when the client has 20.
func (s *SelfService) BeginPasskey(ctx context.Context, tx postgres.Tx, clientID string) (Challenge, error) {
	holder, err := s.holder(ctx, tx, clientID)
	if err != nil {
		return Challenge{}, err
	}
	if len(holder.credentials) >= maxPasskeys {
		return Challenge{}, ErrTooMany
	}
	options, session, err := s.passkeys.BeginRegistration(holder, webauthn.WithExclusions(webauthn.Credentials(holder.credentials).CredentialDescriptors()))
	if err != nil {
		return Challenge{}, fmt.Errorf("begin passkey: %w", err)
	}
	return s.challenge(ctx, tx, clientID, options.Response, session)
}

// AddPasskey judges the browser's answer to [SelfService.BeginPasskey], keeps the passkey and tells the client. It
// returns [ErrPasskey], [ErrInvalid], or [ErrTooMany] when the client has 20; after each tx must be rolled back.
func (s *SelfService) AddPasskey(ctx context.Context, tx postgres.Tx, clientID, token, name string, answer []byte, lang string) error {
	name = norm.NFC.String(strings.TrimSpace(name))
	if !text.IsName(name, maxPasskeyName) {
		return fmt.Errorf("%w: the name must have 1 to %d characters, none of them a control character", ErrInvalid, maxPasskeyName)
	}
	session, err := s.takeChallenge(ctx, tx, token, clientID)
	if err != nil {
		return err
	}
	if _, err := lockClient(ctx, tx, clientID); err != nil {
		return err
	}
	holder, err := s.holder(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if len(holder.credentials) >= maxPasskeys {
		return ErrTooMany
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPasskey, err)
	}
	credential, err := s.passkeys.CreateCredential(holder, session, parsed)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPasskey, err)
	}
	raw, err := json.Marshal(credential)
	if err != nil {
		return fmt.Errorf("write passkey: %w", err)
	}
	err = insertPasskey(ctx, tx, passkeyRow{ID: tx.NewID(id.Passkey), ClientID: clientID, CredentialID: credential.ID, Credential: raw, Name: name})
	if postgres.IsUnique(err, "client_passkeys_credential_id_key") {
		return fmt.Errorf("%w: it is registered already", ErrPasskey)
	}
	if err != nil {
		return err
	}
	return s.notify(ctx, tx, holder.client, lang, "passkey.added")
}

// BeginPasskeySignIn makes a challenge for a sign-in without a name: the passkey says whose it is.
func (s *SelfService) BeginPasskeySignIn(ctx context.Context, tx postgres.Tx) (Challenge, error) {
	options, session, err := s.passkeys.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return Challenge{}, fmt.Errorf("begin sign-in with passkey: %w", err)
	}
	return s.challenge(ctx, tx, "", options.Response, session)
}

// PasskeySignIn judges the browser's answer to [SelfService.BeginPasskeySignIn] and returns who it is and with which
// passkey. It returns [ErrPasskey], also for a client who is disabled; the challenge is spent then too, so tx should commit.
func (s *SelfService) PasskeySignIn(ctx context.Context, tx postgres.Tx, token string, answer []byte) (c Client, passkeyID string, err error) {
	session, err := s.takeChallenge(ctx, tx, token, "")
	if err != nil {
		return Client{}, "", err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Client{}, "", fmt.Errorf("%w: %w", ErrPasskey, err)
	}
	var broken error // what has nothing to do with the answer
	user, credential, err := s.passkeys.ValidatePasskeyLogin(func(_, userHandle []byte) (webauthn.User, error) {
		h, err := s.holder(ctx, tx, string(userHandle))
		if err != nil && !errors.Is(err, ErrPasskey) {
			broken = err
		}
		return h, err
	}, session, parsed)
	if broken != nil {
		return Client{}, "", broken
	}
	if err != nil {
		return Client{}, "", fmt.Errorf("%w: %w", ErrPasskey, err)
	}
	if credential.Authenticator.CloneWarning {
		return Client{}, "", fmt.Errorf("%w: its counter went back, as that of a copy does", ErrPasskey)
	}
	raw, err := json.Marshal(credential)
	if err != nil {
		return Client{}, "", fmt.Errorf("write passkey: %w", err)
	}
	passkeyID, err = updatePasskey(ctx, tx, credential.ID, raw)
	return user.(holder).client, passkeyID, err
}

// Passkeys lists the client's passkeys, the oldest first.
func (s *SelfService) Passkeys(ctx context.Context, tx postgres.Tx, clientID string) ([]Passkey, error) {
	rows, err := listPasskeys(ctx, tx, clientID)
	if err != nil {
		return nil, err
	}
	out := make([]Passkey, len(rows))
	for i, r := range rows {
		out[i] = Passkey{ID: r.ID, Name: r.Name, CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt}
	}
	return out, nil
}

// RemovePasskey forgets one of the client's passkeys, which ends the browser sessions that it opened, and tells the
// client. One that is gone is no error.
func (s *SelfService) RemovePasskey(ctx context.Context, tx postgres.Tx, clientID, passkeyID, lang string) error {
	c, err := s.deps.Accounts.Get(ctx, tx, clientID)
	if err != nil {
		return err
	}
	removed, err := deletePasskey(ctx, tx, clientID, passkeyID)
	if err != nil || !removed {
		return err
	}
	return s.notify(ctx, tx, c, lang, "passkey.removed")
}

func (s *SelfService) challenge(ctx context.Context, tx postgres.Tx, clientID string, options any, session *webauthn.SessionData) (Challenge, error) {
	c := Challenge{Token: tx.NewSecret("chl")}
	var err error
	if c.Options, err = json.Marshal(options); err != nil {
		return Challenge{}, fmt.Errorf("write challenge: %w", err)
	}
	session.Expires = time.Time{} // ours is kept beside it and read with the transaction's clock
	raw, err := json.Marshal(session)
	if err != nil {
		return Challenge{}, fmt.Errorf("write challenge: %w", err)
	}
	return c, insertChallenge(ctx, tx, challengeRow{TokenHash: id.DigestOf(c.Token), ClientID: clientID, Challenge: raw, ExpiresAt: tx.Now.Add(challengeLifetime)})
}

// takeChallenge spends a challenge: of several answers, one is judged.
func (s *SelfService) takeChallenge(ctx context.Context, tx postgres.Tx, token, clientID string) (session webauthn.SessionData, err error) {
	raw, err := deleteChallenge(ctx, tx, id.DigestOf(token), clientID)
	if err != nil {
		return session, err
	}
	if err := json.Unmarshal(raw, &session); err != nil {
		return session, fmt.Errorf("read challenge: %w", err)
	}
	return session, nil
}

// holder is a client as package webauthn sees one.
type holder struct {
	client      Client
	credentials []webauthn.Credential
}

func (h holder) WebAuthnID() []byte                         { return []byte(h.client.ID) }
func (h holder) WebAuthnName() string                       { return h.client.Email }
func (h holder) WebAuthnDisplayName() string                { return h.client.Name }
func (h holder) WebAuthnCredentials() []webauthn.Credential { return h.credentials }

func (s *SelfService) holder(ctx context.Context, tx postgres.Tx, clientID string) (holder, error) {
	if !storable(clientID) {
		return holder{}, ErrPasskey
	}
	row, found, err := clientByID(ctx, tx, clientID)
	if err != nil {
		return holder{}, err
	}
	if !found || row.DisabledAt != nil {
		return holder{}, ErrPasskey
	}
	h := holder{client: fromRow(row)}
	rows, err := listPasskeys(ctx, tx, clientID)
	if err != nil {
		return holder{}, err
	}
	h.credentials = make([]webauthn.Credential, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal(r.Credential, &h.credentials[i]); err != nil {
			return holder{}, fmt.Errorf("read passkey: %w", err)
		}
	}
	return h, nil
}
