package sdk

import (
	"context"
	"sync"
	"time"
)

// Tokens are the tokens of one linked client.
type Tokens struct {
	AccessToken  string
	ExpiresAt    time.Time
	Scope        string // what the client granted, which may be less than what you asked for
	RefreshToken string // empty when offline_access was not granted
}

// TokenStore keeps tokens, which are secrets: encrypt them where you keep them. Nil means that there are none.
type TokenStore interface {
	Read(ctx context.Context, link string) (*Tokens, error)
	// Update calls change with the current tokens of a link, stores what change returns, and returns it. If change
	// fails, nothing changes. For one link only one change runs at a time, across all your processes: in a database
	// that is a transaction with SELECT … FOR UPDATE.
	Update(ctx context.Context, link string, change func(*Tokens) (*Tokens, error)) (*Tokens, error)
}

// MemoryStore keeps tokens as long as the process runs: for tests, and as an example. Its zero value is ready to use.
type MemoryStore struct {
	mu    sync.Mutex
	links map[string]*memoryLink
}

type memoryLink struct {
	changing sync.Mutex
	mu       sync.Mutex
	tokens   *Tokens
}

func (s *MemoryStore) link(name string) *memoryLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links == nil {
		s.links = map[string]*memoryLink{}
	}
	if s.links[name] == nil {
		s.links[name] = &memoryLink{}
	}
	return s.links[name]
}

// Read implements [TokenStore].
func (s *MemoryStore) Read(_ context.Context, link string) (*Tokens, error) {
	l := s.link(link)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tokens, nil
}

// Update implements [TokenStore].
func (s *MemoryStore) Update(ctx context.Context, link string, change func(*Tokens) (*Tokens, error)) (*Tokens, error) {
	l := s.link(link)
	l.changing.Lock()
	defer l.changing.Unlock()
	now, _ := s.Read(ctx, link)
	next, err := change(now)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = next
	return next, nil
}
