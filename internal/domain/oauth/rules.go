package oauth

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	oauth2 "github.com/go-oauth2/oauth2/v4"
)

const (
	grantCode    = string(oauth2.AuthorizationCode)
	GrantRefresh = string(oauth2.Refreshing) // grant_type of a refresh
	methodS256   = string(oauth2.CodeChallengeS256)
)

// RFC 7636: a SHA-256 in base64url without padding, and 43 to 128 unreserved characters (decision H14).
var (
	challengeSyntax = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	verifierSyntax  = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
)

func verifierFits(challenge, verifier string) bool {
	return verifierSyntax.MatchString(verifier) && oauth2.CodeChallengeS256.Validate(challenge, verifier)
}

// purgeFrom returns when an ended grant is to be deleted, or otherwise when the last of its code and tokens expires.
// refreshable is the expiry of its refresh token, zero for none. The last access token was issued at the last use, or
// once more for a retried request.
func (g grantRow) purgeFrom(refreshable time.Time) time.Time {
	if g.RevokedAt != nil {
		return g.RevokedAt.Add(Retention)
	}
	if g.ActivatedAt == nil {
		return g.CreatedAt.Add(CodeLifetime)
	}
	used := *g.ActivatedAt
	if g.LastUsedAt != nil {
		used = *g.LastUsedAt
	}
	if end := used.Add(AccessTokenLifetime + AnswerRetention); end.After(refreshable) {
		return end
	}
	return refreshable
}

// addQuery appends answer to a registered redirect URI without changing the URI's own bytes. It encodes spaces as %20,
// which both form decoders and percent-decoders accept, so that state is returned byte for byte.
func addQuery(redirectURI string, answer url.Values) string {
	separator := "?"
	if i := strings.IndexByte(redirectURI, '?'); i >= 0 {
		separator = "&"
		if strings.HasSuffix(redirectURI, "&") || i == len(redirectURI)-1 {
			separator = ""
		}
	}
	return redirectURI + separator + strings.ReplaceAll(answer.Encode(), "+", "%20")
}
