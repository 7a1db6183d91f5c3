package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/infra/postgres"
)

const (
	oauthConnections = 16
	oauthSessions    = 64 // per connection, used in turn
	oauthClients     = 50
	oauthCodes       = 20_000 // more than a run exchanges
	oauthCallback    = "http://localhost:3000/callback"
)

func oauthScenarios() []Scenario {
	return []Scenario{
		{Name: "oauth/token refresh", Run: tokenRefresh},
		{Name: "oauth/code exchange", Run: codeExchange},
		{Name: "oauth/bearer call", Run: bearerCall},
	}
}

// tokenRefresh refreshes the sessions of each connection in turn, each with its latest refresh token.
func tokenRefresh(ctx context.Context, e *Env) ([]Result, error) {
	s, err := e.openServer(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var workers []worker
	for range oauthConnections {
		tokens, err := s.sessions(ctx, oauthSessions)
		if err != nil {
			return nil, err
		}
		next := 0
		workers = append(workers, func(c *connection) error {
			t := &tokens[next%len(tokens)]
			next++
			return s.token(c, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.RefreshToken}}, t)
		})
	}
	return s.load(ctx, e.Load, workers, Result{AtLeast: 1000}, Result{AtMost: 50})
}

// codeExchange exchanges codes that were created in advance.
func codeExchange(ctx context.Context, e *Env) ([]Result, error) {
	s, err := e.openServer(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	verifier := oauth2.GenerateVerifier()
	codes, err := s.codes(ctx, min(oauthCodes, e.Count), verifier)
	if err != nil {
		return nil, err
	}
	var used atomic.Int64
	var workers []worker
	for range oauthConnections {
		workers = append(workers, func(c *connection) error {
			i := int(used.Add(1)) - 1
			if i >= len(codes) {
				return errDone
			}
			var t tokens
			return s.token(c, url.Values{"grant_type": {"authorization_code"}, "code": {codes[i]},
				"redirect_uri": {oauthCallback}, "code_verifier": {verifier}}, &t)
		})
	}
	return s.load(ctx, e.Load, workers, Result{}, Result{})
}

// bearerCall reads the profile with tokens of many sessions. Then it revokes one session, whose very next call must be
// rejected.
func bearerCall(ctx context.Context, e *Env) ([]Result, error) {
	s, err := e.openServer(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var workers []worker
	var last tokens
	for range oauthConnections {
		all, err := s.sessions(ctx, oauthSessions)
		if err != nil {
			return nil, err
		}
		last = all[0]
		next := 0
		workers = append(workers, func(c *connection) error {
			next++
			return s.profile(c, all[next%len(all)].AccessToken, http.StatusOK)
		})
	}
	results, err := s.load(ctx, e.Load, workers, Result{AtLeast: 3000}, Result{})
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, s.address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	form := url.Values{"token": {last.RefreshToken}, "client_id": {s.application}}
	if status, body, err := c.post("/api/oauth/revoke", form); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("revoke: %d %s %w", status, body, err)
	}
	if err := s.profile(c, last.AccessToken, http.StatusUnauthorized); err != nil {
		return nil, fmt.Errorf("after the revocation: %w", err)
	}
	return results, nil
}

// tokens are the parts of a token response that an application stores.
type tokens struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
}

// server is the whole program on a loopback port.
type server struct {
	*app.App
	address     string
	application string // client_id
	secret      string
	clients     []string
	close       func()
}

func (e *Env) openServer(ctx context.Context) (*server, error) {
	db, drop, err := e.Database(ctx, 2)
	if err != nil {
		return nil, err
	}
	s := &server{close: drop}
	if err := s.open(ctx, e, db.Pool().Config().ConnString()); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *server) open(ctx context.Context, e *Env, database string) error {
	dir, err := os.MkdirTemp("", "partnerd-bench-*")
	if err != nil {
		return err
	}
	s.onClose(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.onClose(func() { listener.Close() })
	s.address = listener.Addr().String()
	const plenty = 1_000_000
	s.App, err = app.Open(ctx, config.Config{Env: "sandbox", Addr: s.address, BaseURL: "http://" + s.address,
		DataDir:     dir,
		DatabaseURL: database, DatabaseConns: oauthConnections, RateApplication: plenty, RateClient: plenty,
		RateUnauthorized: plenty, RateTokenFailures: plenty}, e.Log)
	if err != nil {
		return err
	}
	s.onClose(s.App.Close)
	handler, err := s.Handler()
	if err != nil {
		return err
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = web.Serve(listener) }()
	s.onClose(func() { web.Close() })
	made, err := s.CreateApplication(ctx,
		application.NewApplication{Name: "Bench CRM", RedirectURIs: []string{oauthCallback}}, "")
	if err != nil {
		return err
	}
	s.application, s.secret = made.ClientID, made.ClientSecret
	for i := range oauthClients {
		c, err := s.CreateClient(ctx, account.NewClient{Email: fmt.Sprintf("bench-%d@client.example", i),
			Password: "a password for the bench", Name: "Demo Client", Phone: "+33639980001", PhoneVerified: true}, 0)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, c.ID)
	}
	return nil
}

// onClose adds a function to call first when the server closes.
func (s *server) onClose(f func()) {
	before := s.close
	s.close = func() {
		f()
		before()
	}
}

// codes simulates the consent of clients.
func (s *server) codes(ctx context.Context, n int, verifier string) ([]string, error) {
	const batch = 500
	q := url.Values{"response_type": {"code"}, "client_id": {s.application}, "redirect_uri": {oauthCallback},
		"state": {"state"}, "scope": {application.FormatScopes(application.AllScopes)},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)}, "code_challenge_method": {"S256"}}
	var out []string
	for len(out) < n {
		before := len(out)
		err := s.DB.InTx(ctx, func(tx postgres.Tx) error {
			out = out[:before]
			r, err := s.OAuth.ParseAuthorize(ctx, tx, q)
			if err != nil {
				return err
			}
			for range min(batch, n-before) {
				target, err := s.OAuth.Approve(ctx, tx, r, s.clients[len(out)%len(s.clients)], r.Scopes)
				if err != nil {
					return err
				}
				u, err := url.Parse(target)
				if err != nil {
					return err
				}
				out = append(out, u.Query().Get("code"))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("make codes: %w", err)
		}
	}
	return out, nil
}

// sessions creates n linked sessions.
func (s *server) sessions(ctx context.Context, n int) ([]tokens, error) {
	verifier := oauth2.GenerateVerifier()
	codes, err := s.codes(ctx, n, verifier)
	if err != nil {
		return nil, err
	}
	var out []tokens
	for _, code := range codes {
		t, err := s.OAuth.Token(ctx, url.Values{"grant_type": {"authorization_code"}, "code": {code},
			"redirect_uri": {oauthCallback}, "code_verifier": {verifier}, "client_id": {s.application},
			"client_secret": {s.secret}}, "")
		if err != nil {
			return nil, fmt.Errorf("link: %w", err)
		}
		out = append(out, tokens{t.AccessToken, t.RefreshToken})
	}
	return out, nil
}

// token calls the token endpoint and stores the response.
func (s *server) token(c *connection, form url.Values, into *tokens) error {
	form.Set("client_id", s.application)
	form.Set("client_secret", s.secret)
	status, body, err := c.post("/api/oauth/token", form)
	if err != nil {
		return err
	}
	before := *into
	*into = tokens{}
	if status != http.StatusOK || json.Unmarshal(body, into) != nil || into.AccessToken == "" ||
		into.RefreshToken == "" || into.RefreshToken == before.RefreshToken {
		return fmt.Errorf("token endpoint: %d %s", status, body)
	}
	return nil
}

func (s *server) profile(c *connection, accessToken string, want int) error {
	status, body, err := c.get("/api/v1/me", accessToken)
	if err != nil {
		return err
	}
	if status != want {
		return fmt.Errorf("profile: %d %s, want %d", status, body, want)
	}
	return nil
}

// worker makes one request on its connection.
type worker func(c *connection) error

// errDone ends a run early because there is nothing left to do.
var errDone = errors.New("nothing left")

// load runs every worker on its own connection for d, after a warm-up of a tenth of d that is not counted.
func (s *server) load(ctx context.Context, d time.Duration, workers []worker, rate, tail Result) ([]Result, error) {
	var all sync.WaitGroup
	var latencies Latencies
	failures := make(chan error, len(workers))
	counted := time.Now().Add(d / 10)
	for _, work := range workers {
		c, err := dial(ctx, s.address)
		if err != nil {
			return nil, err
		}
		defer c.close()
		all.Go(func() { failures <- repeat(ctx, counted, counted.Add(d), &latencies, func() error { return work(c) }) })
	}
	all.Wait()
	elapsed := time.Since(counted)
	for range workers {
		if err := <-failures; err != nil {
			return nil, err
		}
	}
	rate.Measure, rate.Value, rate.Unit, rate.PGBench = "rate", float64(latencies.Count())/elapsed.Seconds(),
		"requests/s", oauthConnections
	tail.Measure, tail.Value, tail.Unit = "p99", latencies.Percentile(99), "ms"
	return []Result{rate, {Measure: "p50", Value: latencies.Percentile(50), Unit: "ms"}, tail}, ctx.Err()
}

// repeat works until end and records the duration of each call that began after counted.
func repeat(ctx context.Context, counted, end time.Time, latencies *Latencies, work func() error) error {
	for begin := time.Now(); begin.Before(end) && ctx.Err() == nil; {
		err := work()
		if errors.Is(err, errDone) {
			return nil
		}
		if err != nil {
			return err
		}
		done := time.Now()
		if begin.After(counted) {
			latencies.Add(done.Sub(begin))
		}
		begin = done
	}
	return nil
}

// connection is one kept-alive HTTP/1.1 connection. It uses less processor time than the standard client, which would
// compete with the program under test.
type connection struct {
	net.Conn
	in   *bufio.Reader
	out  bytes.Buffer
	host string
}

func dial(ctx context.Context, address string) (*connection, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &connection{Conn: conn, in: bufio.NewReader(conn), host: address}, nil
}

func (c *connection) close() { c.Conn.Close() }

func (c *connection) get(path, accessToken string) (int, []byte, error) {
	c.out.Reset()
	fmt.Fprintf(&c.out, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", path, c.host, accessToken)
	return c.exchange()
}

func (c *connection) post(path string, form url.Values) (int, []byte, error) {
	body := form.Encode()
	c.out.Reset()
	fmt.Fprintf(&c.out,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, c.host, len(body), body)
	return c.exchange()
}

func (c *connection) exchange() (int, []byte, error) {
	if _, err := c.Write(c.out.Bytes()); err != nil {
		return 0, nil, fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	return response.StatusCode, body, nil
}
