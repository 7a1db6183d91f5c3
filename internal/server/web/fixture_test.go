package web

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/money"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/lawyers"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/public"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
	"partnerd/openapi"
)

const (
	testPassword = "correct horse battery staple"
	noticeSecret = "notice-secret"
	redirectURI  = "https://crm.example/callback"
	// Verifier and challenge of RFC 7636 appendix B.
	pkceVerifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	pkceChallenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// services are the dependencies that the fixture gives to the pages.
type services struct {
	DB                 *postgres.DB
	Box                *seal.Box
	Accounts           *account.Service
	SelfService        *account.SelfService
	Staff              *staff.Service
	Operator           *operator.Service
	Lawyers            *lawyer.Service
	Webhooks           *webhook.Service
	Portal             *portal.Service
	Requests           *requestlog.Log
	Idempotency        *idempotency.Service
	Conformance        *conformance.Service
	Clock              *sandbox.Clock
	Playground         *developers.Playground
	Access             *access.Log
	Privacy            *privacy.Service
	Consultations      *consultation.Service
	Desk               *desk.Service
	Catalog            *catalog.Service
	Applications       *application.Service
	OAuth              *oauth.Service
	Wallet             *wallet.Service
	Payments           *payment.Service
	Books              *books.Service
	SandboxPayments    clients.SandboxPayments
	Limiter            *ratelimit.Limiter
	Logger             *slog.Logger
	BaseURL            string
	Sandbox            bool
	Contract, Platform []byte
	Name, Contact      string
	Logo               shell.Logo
	Legal              shell.Legal
	LoginPerAccount    int
	LoginPerAddress    int
}

// all returns the dependencies per audience.
func (s services) all() Deps {
	return Deps{
		Shell: shell.Deps{DB: s.DB, Box: s.Box, Accounts: s.Accounts, Staff: s.Staff, Idempotency: s.Idempotency,
			Limiter: s.Limiter, Logger: s.Logger, BaseURL: s.BaseURL, Sandbox: s.Sandbox, Name: s.Name,
			Contact: s.Contact, Logo: s.Logo, Legal: s.Legal, LoginPerAccount: s.LoginPerAccount,
			LoginPerAddress: s.LoginPerAddress},
		SignIn: signin.Deps{Desk: s.Desk, Idempotency: s.Idempotency, Staff: s.Staff},
		Public: public.Deps{Contract: s.Contract, Platform: s.Platform},
		Clients: clients.Deps{Access: s.Access, Accounts: s.Accounts, Applications: s.Applications,
			Catalog: s.Catalog, Consultations: s.Consultations, OAuth: s.OAuth, Payments: s.Payments,
			Privacy: s.Privacy, SandboxPayments: s.SandboxPayments, SelfService: s.SelfService, Wallet: s.Wallet},
		Lawyers: lawyers.Deps{Catalog: s.Catalog, Desk: s.Desk},
		Operators: operators.Deps{Accounts: s.Accounts, Applications: s.Applications, Books: s.Books,
			Catalog: s.Catalog, Consultations: s.Consultations, Idempotency: s.Idempotency, Lawyers: s.Lawyers,
			OAuth: s.OAuth, Operator: s.Operator, Payments: s.Payments, Portal: s.Portal, SelfService: s.SelfService,
			Staff: s.Staff, Wallet: s.Wallet, Webhooks: s.Webhooks},
		Developers: developers.Deps{Catalog: s.Catalog, Clock: s.Clock, Conformance: s.Conformance,
			Playground: s.Playground, Portal: s.Portal, Requests: s.Requests, Staff: s.Staff,
			Webhooks: s.Webhooks},
	}
}

// fixture is the pages on their own database, with one application and one client.
type fixture struct {
	t        testing.TB
	clock    *clock.Manual
	db       *postgres.DB
	accounts *account.Service
	apps     *application.Service
	oauth    *oauth.Service
	notes    *note.Service
	wallet   *wallet.Service
	payments *payment.Service
	books    *books.Service
	provider *provider
	pages    *Pages
	deps     services // of the pages
	base     string
	app      application.Application
	secret   string // of app
	client   account.Client

	queue         *queue.Queue
	self          *account.SelfService
	staff         *staff.Service
	operators     *operator.Service
	lawyers       *lawyer.Service
	webhooks      *webhook.Service
	consultations *consultation.Service
	desk          *desk.Service
	outbox        outbox
	post          *mail.Service
	catalog       *catalog.Service
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newFixture(t testing.TB, change ...func(*services)) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clock.NewManual(time.Date(2026, 6, 1, 8, 30, 0, 0, time.UTC)), wallet: wallet.New()}
	f.db = dbtest.NewWithClock(t, f.clock)
	f.books = books.New(f.db, slog.New(slog.DiscardHandler))
	box := must(seal.OpenBox(must(seal.NewKey())))
	f.accounts, f.apps = account.New(box), application.New()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.base = "http://" + listener.Addr().String()
	f.oauth = must(oauth.New(t.Context(), f.db, box, f.accounts, f.apps,
		oauth.Config{Issuer: f.base, Audience: f.base}))
	f.payments = payment.New(f.db, slog.New(slog.DiscardHandler), f.wallet, payment.Config{BaseURL: f.base,
		Sandbox: true, NoticeSecret: noticeSecret})
	f.provider = &provider{payments: f.payments, decided: map[string]payment.Kind{}}
	f.tx(func(tx postgres.Tx) {
		f.app, f.secret, err = f.apps.Create(t.Context(), tx, application.NewApplication{Name: "Demo CRM",
			RedirectURIs: []string{redirectURI}, Scopes: application.AllScopes})
		if err != nil {
			t.Fatal(err)
		}
	})
	f.client = f.newClient("client@example.com", "Demo Client")

	f.newServices(box)
	uses := access.New(f.db)
	private := must(privacy.New(privacy.Deps{Accounts: f.accounts, SelfService: f.self, Access: uses, OAuth: f.oauth,
		Wallet: f.wallet, Payments: f.payments, Consultations: f.consultations, Idempotency: idempotency.New(f.db, box),
		Proposals: f.operators, Mail: f.post}))
	d := services{Idempotency: idempotency.New(f.db, box), Access: uses, SelfService: f.self, Staff: f.staff,
		Operator: f.operators, Lawyers: f.lawyers, Webhooks: f.webhooks, Privacy: private,
		Consultations: f.consultations, Desk: f.desk, Catalog: f.catalog, DB: f.db, Box: box, Accounts: f.accounts,
		Applications: f.apps, OAuth: f.oauth, Wallet: f.wallet, Payments: f.payments, Books: f.books,
		SandboxPayments: f.provider, Limiter: ratelimit.New(), Logger: slog.New(slog.DiscardHandler), BaseURL: f.base,
		Sandbox: true, Contract: openapi.Partner, Platform: openapi.Platform}
	for _, c := range change {
		c(&d)
	}
	d.Portal = must(portal.New(portal.Deps{DB: f.db, Box: box, Queue: f.queue, Mail: f.post, Staff: f.staff,
		Applications: f.apps, Webhooks: f.webhooks, Limiter: d.Limiter, BaseURL: f.base, Sandbox: d.Sandbox,
		ApplicationPerMinute: 3000, ClientPerMinute: 300}))
	f.operators.Portal = d.Portal
	d.Requests = requestlog.New(f.db, prometheus.NewRegistry())
	d.Conformance = conformance.New(f.db, f.webhooks, f.apps, d.Requests)
	if d.Sandbox {
		d.Clock = sandbox.NewClock(f.db, f.consultations, slog.New(slog.DiscardHandler))
		d.Playground = &developers.Playground{Clients: sandbox.NewClients(sandbox.ClientsDeps{DB: f.db,
			Accounts:     f.accounts,
			Applications: f.apps, Wallet: f.wallet, OAuth: f.oauth}),
			Inbox: sandbox.NewInbox(f.db, box, f.accounts), Crews: sandbox.NewCrews(f.db, f.consultations, f.lawyers,
				f.catalog)}
	}
	f.deps, f.pages = d, must(New(d.all()))
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		status := http.StatusInternalServerError
		if he := (*echo.HTTPError)(nil); errors.As(err, &he) {
			status = he.Code
		} else {
			t.Errorf("%s %s: %v", c.Request().Method, c.Request().URL, err)
		}
		if err := f.pages.Error(c, status); err != nil {
			t.Errorf("error page: %v", err)
		}
	}
	f.pages.Register(e)
	e.GET("/api/oauth/authorize", f.pages.Authorize)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: e}}
	server.Start()
	t.Cleanup(server.Close)
	return f
}

// replica returns a browser at another process on the same database.
func (f *fixture) replica() *browser {
	d := f.deps
	d.Limiter = ratelimit.New()
	e := echo.New()
	must(New(d.all())).Register(e)
	server := httptest.NewServer(e)
	f.t.Cleanup(server.Close)
	b := f.browser()
	b.base = server.URL
	return b
}

func (f *fixture) tx(do func(tx postgres.Tx)) {
	f.t.Helper()
	if err := f.db.InTx(f.t.Context(), func(tx postgres.Tx) error { do(tx); return nil }); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) newClient(email, name string) (c account.Client) {
	f.t.Helper()
	f.tx(func(tx postgres.Tx) {
		var err error
		c, err = f.accounts.Create(f.t.Context(), tx, account.NewClient{Email: email,
			Password: testPassword, Name: name})
		if err == nil {
			err = f.wallet.Open(f.t.Context(), tx, c.ID)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	})
	return c
}

// authorizeURL requests scopes. changes replaces single parameters ("" removes one).
func (f *fixture) authorizeURL(scopes string, changes ...string) string {
	q := url.Values{"response_type": {"code"}, "client_id": {f.app.ID}, "redirect_uri": {redirectURI},
		"scope": {scopes}, "state": {"a b+c/é%20&x=1"}, "code_challenge": {pkceChallenge},
		"code_challenge_method": {"S256"}}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			q.Del(changes[i])
		}
	}
	return "/api/oauth/authorize?" + q.Encode()
}

// newCheckout opens a top-up of the client.
func (f *fixture) newCheckout(amount money.Cents) payment.Session {
	f.t.Helper()
	s, err := f.payments.Create(f.t.Context(), f.db.Read(), payment.CreateCommand{ClientID: f.client.ID,
		ApplicationID: f.app.ID, Amount: amount, ReturnURL: "https://crm.example/wallet?case=7#top"})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// provider stands for the payment provider behind the sandbox's checkout. It records the payer's decision and reports
// it when the test asks for it.
type provider struct {
	payments *payment.Service
	mu       sync.Mutex
	decided  map[string]payment.Kind
}

func (p *provider) Pay(ctx context.Context, tx postgres.Tx, sessionID string) error {
	return p.decide(ctx, tx, sessionID, payment.CheckoutPaid)
}

func (p *provider) Cancel(ctx context.Context, tx postgres.Tx, sessionID string) error {
	return p.decide(ctx, tx, sessionID, payment.CheckoutCancelled)
}

func (p *provider) decide(ctx context.Context, tx postgres.Tx, sessionID string, kind payment.Kind) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := p.decided[sessionID]; was != "" && was != kind {
		return errors.New("decided otherwise")
	}
	if _, err := p.payments.Payable(ctx, tx, sessionID); err != nil {
		return err
	}
	p.decided[sessionID] = kind
	return nil
}

func (p *provider) Decision(_ context.Context, _ postgres.Tx, sessionID string) (payment.Kind, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind, ok := p.decided[sessionID]
	return kind, ok, nil
}

// report delivers the provider's signed webhook about the decision.
func (f *fixture) report(s payment.Session) {
	f.t.Helper()
	kind, _, _ := f.provider.Decision(f.t.Context(), f.db.Read(), s.ID)
	body := must(json.Marshal(payment.Notice{ID: f.db.Read().NewID(id.Notice), Type: kind, SessionID: s.ID,
		AmountCents: s.Amount, Currency: money.Currency, CreatedAt: f.clock.Now()}))
	if err := f.payments.HandleNotice(f.t.Context(), payment.SandboxProvider, body,
		payment.SignNotice(noticeSecret, f.clock.Now(), body)); err != nil {
		f.t.Fatal(err)
	}
}

// browser keeps cookies and does not follow redirects.
type browser struct {
	t      testing.TB
	base   string
	client *http.Client
	header http.Header // sent with every request
}

func (f *fixture) browser() *browser {
	jar := must(cookiejar.New(nil))
	return &browser{t: f.t, base: f.base, header: http.Header{"Accept-Language": {"en"}}, client: &http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

type page struct {
	*http.Response
	body string
}

func (b *browser) get(path string) page { return b.do(http.MethodGet, path, nil) }

func (b *browser) post(path string, form url.Values) page {
	return b.do(http.MethodPost, path, strings.NewReader(form.Encode()))
}

func (b *browser) do(method, path string, body io.Reader) page {
	b.t.Helper()
	r := must(http.NewRequestWithContext(b.t.Context(), method, b.base+path, body))
	for k, v := range b.header {
		r.Header[k] = v
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	read := strings.ReplaceAll(string(must(io.ReadAll(res.Body))), "<wbr>", "") // possible line breaks are not text
	if res.StatusCode >= 400 && strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") &&
		!strings.Contains(read, `role="alert"`) {
		b.t.Errorf("%s %s answers %d without an alert", method, path, res.StatusCode)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") && !strings.HasPrefix(path, "/docs") {
		for _, fault := range untold(read) {
			b.t.Errorf("%s %s: %s", method, path, fault)
		}
	}
	return page{res, read}
}

// signIn signs in the fixture's client on the sign-in page.
func (b *browser) signIn(email string) *browser {
	b.t.Helper()
	form := b.get("/login").form("/login")
	form.Set("email", email)
	form.Set("password", testPassword)
	b.post("/login", form).wantRedirect(b.t, http.StatusSeeOther, "/account")
	return b
}

func (b *browser) cookie(name string) string {
	for _, k := range b.client.Jar.Cookies(must(url.Parse(b.base))) {
		if k.Name == name {
			return k.Value
		}
	}
	return ""
}

var (
	formTags  = regexp.MustCompile(`(?s)<form[^>]* action="([^"]*)".*?</form>`)
	inputTags = regexp.MustCompile(`<input[^>]*>`)
	timeTags  = regexp.MustCompile(`</?time\b[^>]*>`)
	attribute = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

// form returns what a browser would send with the form of that action, without pressing a button.
func (p page) form(action string) url.Values {
	values := url.Values{}
	for _, form := range formTags.FindAllStringSubmatch(p.body, -1) {
		if form[1] != action {
			continue
		}
		for _, tag := range inputTags.FindAllString(form[0], -1) {
			a := map[string]string{}
			for _, m := range attribute.FindAllStringSubmatch(tag, -1) {
				a[m[1]] = html.UnescapeString(m[2])
			}
			if a["type"] == "checkbox" && !strings.Contains(tag, " checked") {
				continue
			}
			values.Add(a["name"], a["value"])
		}
	}
	return values
}

func (p page) wantRedirect(t testing.TB, status int, location string) {
	t.Helper()
	if p.StatusCode != status || p.Header.Get("Location") != location {
		t.Fatalf("%s: %d to %q, want %d to %q\n%s", p.Request.URL, p.StatusCode, p.Header.Get("Location"), status,
			location, p.body)
	}
}

func (p page) want(t testing.TB, status int, parts ...string) {
	t.Helper()
	if p.StatusCode != status {
		t.Fatalf("%s: status %d, want %d\n%s", p.Request.URL, p.StatusCode, status, p.body)
	}
	text := html.UnescapeString(p.body)
	read := timeTags.ReplaceAllString(text, "") // as people read it
	for _, part := range parts {
		if !strings.Contains(text, part) && !strings.Contains(read, part) {
			t.Errorf("%s lacks %q\n%s", p.Request.URL, part, text)
		}
	}
}

func newFixtureTime(day int) time.Time { return time.Date(2026, 6, day, 8, 30, 0, 0, time.UTC) }
