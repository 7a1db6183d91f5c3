package postgres_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// passage is a proxy. After fallSilent, bytes of its existing connections go nowhere, and none of these connections is
// closed.
type passage struct {
	listener net.Listener
	to       string
	made     atomic.Int64
	mu       sync.Mutex
	silent   []*atomic.Bool
	all      []net.Conn
}

func (p *passage) run() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.to)
		if err != nil {
			near.Close()
			continue
		}
		p.made.Add(1)
		silent := &atomic.Bool{}
		p.mu.Lock()
		p.silent, p.all = append(p.silent, silent), append(p.all, near, far)
		p.mu.Unlock()
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				defer way[1].Close()
				_, _ = io.Copy(writer{silent, way[1]}, way[0])
			}()
		}
	}
}

type writer struct {
	silent *atomic.Bool
	to     io.Writer
}

func (w writer) Write(b []byte) (int, error) {
	if w.silent.Load() {
		return len(b), nil
	}
	return w.to.Write(b)
}

func (p *passage) fallSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.silent {
		s.Store(true)
	}
}

func (p *passage) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		c.Close()
	}
}

// TestAnIdleConnectionThatIsSilentIsReplaced checks that an idle connection which has gone silent is replaced before it
// is given a statement.
func TestAnIdleConnectionThatIsSilentIsReplaced(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &passage{to: address.Host}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	go p.run()
	address.Host = p.listener.Addr().String()
	asked := address.Query()
	asked.Set("pool_ping_timeout", "200ms") // the default is 5 s
	address.RawQuery = asked.Encode()
	db, err := postgres.Open(t.Context(), address.String(), postgres.Options{MaxConns: 2, Test: true,
		Clock: dbtest.New(t).Clock()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	one := func() (n int) {
		if err := db.Pool().QueryRow(t.Context(), "SELECT 1").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	one()
	before := p.made.Load()
	p.fallSilent()
	<-time.After(1200 * time.Millisecond) // a connection idle for less than a second is not checked
	if one() != 1 || p.made.Load() == before {
		t.Errorf("%d connections before, %d now", before, p.made.Load())
	}
	p.close() // otherwise the pool would wait for the silent connection
}
