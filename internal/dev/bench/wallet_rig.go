package bench

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

const (
	benchWallets = 64
	benchClient  = "cli_bench_"         // followed by a number, so that a script can build the IDs
	benchBalance = wallet.MaxAdjustment // of each earlier movement; in total more than any run reserves
	benchHistory = 50                   // earlier movements per wallet, enough to fill a page
)

// walletRig is the whole program behind its HTTP server, without its workers, on its own database.
type walletRig struct {
	app      *app.App
	addr     string
	url      string // of the database
	clients  []string
	tokens   []string
	recorder *recorder
	keys     atomic.Int64
	stop     []func()
}

func newWalletRig(ctx context.Context, e *Env) (r *walletRig, err error) {
	r = &walletRig{recorder: &recorder{}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	var drop func()
	if r.url, drop, err = e.emptyDatabase(ctx); err != nil {
		return r, err
	}
	r.stop = append(r.stop, drop)
	dir, err := os.MkdirTemp("", "partnerd-bench-*")
	if err != nil {
		return r, err
	}
	r.stop = append(r.stop, func() { os.RemoveAll(dir) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	r.addr = free.Addr().String()
	free.Close()
	// The access log is formatted as in production, then discarded.
	log := slog.New(slog.NewJSONHandler(io.Discard, nil)) //nolint:sloglint // slog.DiscardHandler would not format it
	c := config.Config{
		Env: "sandbox", Addr: r.addr, DataDir: dir, DatabaseURL: r.url, DatabaseConns: 8, Tracer: r.recorder,
		RateApplication: 1_000_000, RateClient: 1_000_000, RateUnauthorized: 1, RateTokenFailures: 1,
	}
	e.sink.observe(&c)
	r.app, err = app.Open(ctx, c, log)
	if err != nil {
		return r, err
	}
	r.stop = append(r.stop, r.app.Close)
	if err := r.people(ctx); err != nil {
		return r, err
	}
	return r, r.serve(ctx)
}

func (r *walletRig) serve(ctx context.Context) error {
	stop, err := runApp(ctx, r.app, false)
	r.stop = append(r.stop, stop)
	return err
}

// runApp serves, and optionally works, until stop is called. It returns once the server responds.
func runApp(ctx context.Context, a *app.App, work bool) (stop func(), err error) {
	serving, end := context.WithCancel(ctx)
	done, started := make(chan error, 1), make(chan struct{})
	go func() { done <- a.Run(serving, true, work, func() { close(started) }) }()
	stop = func() { end(); <-done }
	select {
	case err := <-done:
		done <- nil
		return stop, fmt.Errorf("serve: %w", err)
	case <-started:
		return stop, nil
	}
}

func (r *walletRig) close() {
	for i := len(r.stop) - 1; i >= 0; i-- {
		r.stop[i]()
	}
}

// people registers an application and linked clients with money and a history.
func (r *walletRig) people(ctx context.Context) error {
	made, err := r.app.CreateApplication(ctx, application.NewApplication{
		Name: "Demo CRM", RedirectURIs: []string{"http://localhost/callback"}, Scopes: application.AllScopes}, "")
	if err != nil {
		return err
	}
	crm, err := r.app.Applications.Get(ctx, r.app.DB.Read(), made.ClientID)
	if err != nil {
		return err
	}
	for i := range benchWallets {
		clientID := fmt.Sprint(benchClient, i)
		err := r.app.DB.InTx(ctx, func(tx postgres.Tx) error {
			_, err := tx.Exec(ctx, postgres.SQL(postgres.Batch,
				`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
				VALUES ($1, $1 || '@client.example', 'Demo Client', '', $2, $2)`), clientID, tx.Now)
			if err == nil {
				err = r.app.Accounts.SetPhone(ctx, tx, clientID, "+33639980001", true)
			}
			for i := 0; i < benchHistory && err == nil; i++ {
				err = r.app.Wallet.Adjust(ctx, tx, clientID, benchBalance, "Opening balance")
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("make client: %w", err)
		}
		token, err := linkByServices(ctx, r.app, crm, made.ClientSecret, clientID)
		if err != nil {
			return fmt.Errorf("link client: %w", err)
		}
		r.clients, r.tokens = append(r.clients, clientID), append(r.tokens, token)
	}
	return nil
}

// linkByServices links a client without a browser and returns an access token.
func linkByServices(ctx context.Context, a *app.App, crm application.Application,
	secret, clientID string,
) (token string, err error) {
	verifier := strings.Repeat("v", 43)
	sum := sha256.Sum256([]byte(verifier))
	var to string
	err = a.DB.InTx(ctx, func(tx postgres.Tx) error {
		to, err = a.OAuth.Approve(ctx, tx, oauth.AuthorizeRequest{Application: crm, RedirectURI: crm.RedirectURIs[0],
			State: "s", CodeChallenge: base64.RawURLEncoding.EncodeToString(sum[:]), Scopes: application.AllScopes},
			clientID, application.AllScopes)
		return err
	})
	if err != nil {
		return "", err
	}
	back, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	tokens, err := a.OAuth.Token(ctx, url.Values{"grant_type": {"authorization_code"},
		"code": {back.Query().Get("code")}, "code_verifier": {verifier},
		"redirect_uri": {crm.RedirectURIs[0]}, "client_id": {crm.ID}, "client_secret": {secret}}, "")
	return tokens.AccessToken, err
}

// request returns the text of one client's HTTP request.
type request func(client int) []byte

func (r *walletRig) get(path string) request {
	return func(client int) []byte {
		return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
			path, r.addr, r.tokens[client])
	}
}

func (r *walletRig) create(client int) []byte {
	body := `{"competence": "FAMILY", "language": "FR", "subject": "Garde partagée des enfants", "description": "Le jugement date de l'an dernier.", "externalRef": "case-4711", "withdrawalWaiverAcknowledged": true}`
	return fmt.Appendf(nil, "POST /api/v1/consultations HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nIdempotency-Key: 6e1f2a4c-%012d\r\nContent-Length: %d\r\n\r\n%s",
		r.addr, r.tokens[client], r.keys.Add(1), len(body), body)
}

// measured is the result of a load.
type measured struct {
	count int64
	rate  float64 // responses/s
	took  Latencies
}

// load is [walletRig.mix] with one kind of request.
func (r *walletRig) load(ctx context.Context, d time.Duration, connections, wallets int, next request,
	want int,
) (*measured, error) {
	m, _, err := r.mix(ctx, d, connections, wallets, []share{{"request", 1, next, want}})
	return m, err
}

func exchange(conn net.Conn, in *bufio.Reader, request []byte, want int) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return err
	}
	if res.StatusCode != want {
		return fmt.Errorf("response %d: %s", res.StatusCode, body)
	}
	return nil
}

// sound runs the ledger check.
func (r *walletRig) sound(ctx context.Context) error {
	findings, err := books.Verify(ctx, r.app.DB.Read())
	if err == nil && len(findings) > 0 {
		err = errors.New(findings[0])
	}
	return err
}

// once sends one request of the first client.
func (r *walletRig) once(ctx context.Context, next request, want int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	return exchange(conn, bufio.NewReader(conn), next(0), want)
}

// emptyDatabase creates a database without a schema; drop removes it.
func (e *Env) emptyDatabase(ctx context.Context) (url string, drop func(), err error) {
	e.databases++
	name := fmt.Sprintf("bench_%d", e.databases)
	if err := e.admin(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)", "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	return e.cluster.LocalURL(name), func() {
		dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = e.admin(dropping, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") // the next run drops leftovers
	}, nil
}
