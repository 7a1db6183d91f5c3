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
	GrantRefresh = string(oauth2.Refreshing) // grant_type of an exchange of a refresh token
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

// purgeFrom returns when a grant is to be deleted, if it has ended, and otherwise when the last of its code and tokens
// runs out. refreshable is the end of its refresh token, zero for none. An access token is given out when the grant is
// used, or once more for a repeated request.
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

// addQuery appends answer to a registered redirect URI and leaves its own bytes alone. Spaces are written as %20, which
// form decoders and plain percent-decoders both read, so that state comes back byte for byte.
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
