package oauth

import (
	"sync"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/application"
)

// verifiedTokens is half of how many tokens [verified] remembers; one takes some 500 bytes.
const verifiedTokens = 16 << 10

// verifiedToken is what the signature of a token vouches for. Whether the token may be used is asked anew each time:
// its key published, its time not over, its grant alive.
type verifiedToken struct {
	claims claims
	scopes []application.Scope // of claims.Scope
	kid    string
}

// verified remembers tokens whose signature was found right, by their digest, because checking one again costs more
// than everything else of a call. Tokens that were refused leave no trace. Memory is bounded: when the newer half is
// full, the older one is forgotten. Safe for concurrent use.
type verified struct {
	mu           sync.RWMutex
	newer, older map[id.Digest]verifiedToken
}

func (v *verified) get(token id.Digest) (verifiedToken, bool) {
	v.mu.RLock()
	t, found := v.newer[token]
	if found {
		v.mu.RUnlock()
		return t, true
	}
	t, found = v.older[token]
	v.mu.RUnlock()
	if found {
		v.put(token, t)
	}
	return t, found
}

func (v *verified) put(token id.Digest, t verifiedToken) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.newer) >= verifiedTokens || v.newer == nil {
		v.older, v.newer = v.newer, make(map[id.Digest]verifiedToken, len(v.newer))
	}
	v.newer[token] = t
}
