package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

// The token endpoint does not use package idempotency, because its responses are tokens. They are stored for a minute,
// under the digest of their key. A response is replayed only while its grant is active. If the key that signed its
// access token was retired, the replay contains a new one.

// AnswerRetention is how long a token request can be retried with its Idempotency-Key (trap T24).
const AnswerRetention = time.Minute

const answerBatch = 1000

// retry is a token request that can be retried.
type retry struct {
	key         id.Digest
	fingerprint id.Digest
	presents    string // name of the parameter that contains the code or refresh token
}

// newRetry returns nil without a key. The secret is not part of the compared form: it authenticated the caller, and may
// be rotated between two attempts.
func newRetry(key string, form url.Values) *retry {
	if key == "" {
		return nil
	}
	canonical := maps.Clone(form)
	canonical.Del("client_secret")
	presents := paramCode
	if form.Get("grant_type") == GrantRefresh {
		presents = paramRefresh
	}
	return &retry{id.DigestOf(key), id.DigestOf(canonical.Encode()), presents}
}

func (r retry) place(applicationID string) string {
	return "token_answer:" + applicationID + ":" + r.key.String()
}

// earlierAnswer returns the stored response for the key. If this is the first request with the key, it locks the key
// until the transaction ends, so that others wait. If the key was used with another form, it returns an *[Error].
// Refusals are not stored: their claim is rolled back with everything else.
func (s *Service) earlierAnswer(ctx context.Context, x exchange, again retry) (r TokenResponse, found bool, err error) {
	row, err := claimAnswer(ctx, x.tx, x.application.ID, again.key, again.fingerprint)
	if err != nil {
		return r, false, err
	}
	if row.Fingerprint != again.fingerprint {
		return r, false, invalidRequest("The Idempotency-Key was used with other parameters less than a minute ago. " +
			"Use a new key.")
	}
	if row.Sealed == nil {
		return r, false, nil
	}
	plain, err := s.box.Open(again.place(x.application.ID), row.Sealed)
	if err != nil {
		return r, false, err
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, false, fmt.Errorf("read token answer: %w", err)
	}
	r.Replayed = true
	said, kid, err := claimsOf(r.AccessToken)
	if err != nil {
		return r, false, err
	}
	// If the grant has ended in the meantime, its tokens are not returned again.
	live, alive, err := liveGrant(ctx, x.tx, said)
	if err != nil {
		return r, false, err
	}
	if !alive {
		return r, false, refusedFor(again.presents, whyEnded)
	}
	if _, published := x.keys.find(kid, x.tx.Now); !published {
		err = s.mintAgain(ctx, x, again, &r, said, live.Allowed)
	}
	return r, true, err
}

// mintAgain replaces the access token of a stored response, because the key that signed the first one was retired.
func (s *Service) mintAgain(ctx context.Context, x exchange, again retry, r *TokenResponse, said claims,
	allowed []application.Scope,
) error {
	scopes, err := application.ParseScopes(said.Scope)
	if scopes = application.Common(scopes, allowed); err != nil || len(scopes) == 0 {
		return refusedFor(again.presents, whyNoScope)
	}
	r.Scope = application.FormatScopes(scopes)
	g := grantRow{ID: said.GrantID, ClientID: said.ClientID, ApplicationID: said.ApplicationID, AgedUs: said.AgedUs}
	if r.AccessToken, err = s.mint(x.tx, x.key, g, r.Scope); err != nil {
		return err
	}
	return s.keepAnswer(ctx, x, again, *r)
}

func (s *Service) keepAnswer(ctx context.Context, x exchange, again retry, r TokenResponse) error {
	plain, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write token answer: %w", err)
	}
	sealed, err := s.box.Seal(again.place(x.application.ID), plain)
	if err != nil {
		return err
	}
	return storeAnswer(ctx, x.tx, x.application.ID, again.key, sealed)
}

// PurgeAnswers deletes responses older than [AnswerRetention] and returns how many.
func (s *Service) PurgeAnswers(ctx context.Context) (deleted int, err error) {
	for {
		var n int
		err := s.db.InTx(ctx, func(tx postgres.Tx) (err error) {
			n, err = deleteAnswers(ctx, tx, answerBatch)
			return err
		})
		deleted += n
		if err != nil || n < answerBatch {
			return deleted, err
		}
	}
}
