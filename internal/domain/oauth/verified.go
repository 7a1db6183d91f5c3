package oauth

import (
	"sync"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/application"
)

// verifiedTokens is half the number of tokens that [verified] remembers; each takes about 500 bytes.
const verifiedTokens = 16 << 10

// verifiedToken is the verified content of a token. Whether the token may be used is checked again each time: key
// published, not expired, grant alive.
type verifiedToken struct {
	claims claims
	scopes []application.Scope // of claims.Scope
	kid    string
}

// verified remembers tokens with a valid signature, by digest, because a signature check costs more than the rest of a
// call. Rejected tokens leave no trace. Memory is bounded: when the newer half is full, the older half is dropped. It
// is safe for concurrent use.
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
