package app

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"partnerd/internal/app/config"
	"partnerd/internal/base/money"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// TestMain keeps `go test` short; -rapid.checks runs more histories.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = flag.Set("rapid.checks", "15")
	}
	os.Exit(m.Run())
}

// crash simulates the death of the process before statement number at under its context; statements sent together count
// as one. Either the statement is never sent, or the server ends the session first.
type crash struct {
	at    int32
	kill  bool
	count atomic.Int32
	fired atomic.Bool
}

type crashKey struct{}

// crasher is the tracer that simulates the crash.
type crasher struct{ admin atomic.Pointer[postgres.DB] }

func (c *crasher) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	plan, _ := ctx.Value(crashKey{}).(*crash)
	if plan == nil || plan.count.Add(1) != plan.at {
		return ctx
	}
	plan.fired.Store(true)
	if plan.kill {
		// Waits until the session has ended.
		_, err := c.admin.Load().Pool().Exec(context.WithoutCancel(ctx), `SELECT pg_terminate_backend($1, 5000)`,
			int(conn.PgConn().PID()))
		if err == nil {
			return ctx
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

func (*crasher) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *crasher) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return c.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{})
}

func (*crasher) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*crasher) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// bank is the program without its workers, used through its HTTP handler.
type bank struct {
	t       testing.TB
	app     *App
	handler http.Handler
	crm     application.Application
	secret  string
	notices string
	lawyer  string // session token of a lawyer
	clients atomic.Int64

	steps, crashed, undone int // operations, those with a crash, those that their crash undid
}

func openBank(t testing.TB, change ...func(*config.Config)) *bank {
	t.Helper()
	tracer := &crasher{}
	cfg := good()
	cfg.DataDir, cfg.DatabaseURL, cfg.Tracer, cfg.DatabaseConns = t.TempDir(), dbtest.URL(t), tracer, 4
	cfg.RateApplication, cfg.RateClient = 1_000_000, 1_000_000
	for _, c := range change {
		c(&cfg)
	}
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	tracer.admin.Store(a.DB)
	b := &bank{t: t, app: a}
	if b.handler, err = a.Handler(); err != nil {
		t.Fatal(err)
	}
	k, err := cfg.Keys()
	if err == nil {
		err = k.Keep(t.Context(), a.DB.Read())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.notices = k.Payment
	err = a.DB.InTx(t.Context(), func(tx postgres.Tx) error {
		b.crm, b.secret, err = a.Applications.Create(t.Context(), tx, application.NewApplication{
			Name: "Demo CRM", RedirectURIs: []string{"http://localhost/callback"}, Scopes: application.AllScopes})
		if err == nil {
			_, err = a.Webhooks.CreateEndpoint(t.Context(), tx, b.crm.ID, "")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// signLawyerIn adds a lawyer who is signed in, and on duty for a combination that no one requests.
func (b *bank) signLawyerIn() {
	b.t.Helper()
	var l lawyer.Lawyer
	err := b.app.DB.InTx(b.t.Context(), func(tx postgres.Tx) (err error) {
		l, err = b.app.Lawyers.Create(b.t.Context(), tx, lawyer.NewLawyer{Email: "desk@lawyer.example",
			Name: "A Lawyer", Phone: "+33199000000", Competences: []string{"TAX"}, Languages: []string{"PT"}})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.lawyer = dbtest.SignIn(b.t, b.app.DB, l.ID)
}

// client creates a client who has linked their account to the CRM. It returns the ID and an access token.
func (b *bank) client() (id, token string) {
	b.t.Helper()
	ctx, a := b.t.Context(), b.app
	id = fmt.Sprintf("cli_test_history%d", b.clients.Add(1))
	err := a.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := tx.Exec(ctx, postgres.SQL(postgres.Batch, `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ($1, $1 || '@client.example', 'Demo Client', '', $2, $2)`), id, tx.Now)
		if err == nil {
			err = errors.Join(a.Accounts.SetPhone(ctx, tx, id, "+33639980001", true), a.Wallet.Open(ctx, tx, id))
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return id, b.redeem(b.code(id)).AccessToken
}

func (b *bank) redeem(code string) oauth.TokenResponse {
	b.t.Helper()
	tokens, err := b.app.OAuth.Token(b.t.Context(), url.Values{"grant_type": {"authorization_code"}, "code": {code},
		"code_verifier": {codeVerifier}, "redirect_uri": {b.crm.RedirectURIs[0]}, "client_id": {b.crm.ID},
		"client_secret": {b.secret}}, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return tokens
}

var codeVerifier = strings.Repeat("zF3mQ7", 8)[:43]

// code returns the code that the CRM gets when the client consents.
func (b *bank) code(clientID string) string {
	b.t.Helper()
	sum := sha256.Sum256([]byte(codeVerifier))
	var to string
	err := b.app.DB.InTx(b.t.Context(), func(tx postgres.Tx) (err error) {
		to, err = b.app.OAuth.Approve(b.t.Context(), tx, oauth.AuthorizeRequest{Application: b.crm,
			RedirectURI: b.crm.RedirectURIs[0], State: "s", CodeChallenge: base64.RawURLEncoding.EncodeToString(sum[:]),
			Scopes: application.AllScopes}, clientID, application.AllScopes)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	back, err := url.Parse(to)
	if err != nil {
		b.t.Fatal(err)
	}
	return back.Query().Get("code")
}

type reply struct {
	status int
	body   map[string]any
	raw    string
}

func (b *bank) send(ctx context.Context, method, path string, header map[string]string, body string) reply {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(ctx, method, path, in)
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	r := reply{status: w.Code, raw: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &r.body)
	return r
}

// entry is a wallet transaction as the API shows it.
type entry struct {
	kind                       wallet.Type
	amount, balance, available money.Cents
	consultation, description  string
}

// holder is a client with the model's view of their wallet.
type holder struct {
	id, token       string
	available, held money.Cents
	history         []entry // oldest first
	topUps          []*modelTopUp
	consultations   []*modelConsultation
	keys            int
}

type modelTopUp struct {
	id             string
	amount         money.Cents
	paid           bool
	paidAs         int // order of payment
	returned       money.Cents
	key, body, got string
}

type modelConsultation struct {
	id, state      string // "" before it is created
	refunded       bool
	key, body, got string
}

func (h *holder) moved(kind wallet.Type, amount, available, held money.Cents, consultation, description string) {
	h.available += available
	h.held += held
	h.history = append(h.history, entry{kind, amount, h.available + h.held, h.available, consultation, description})
}

// story is one random history.
type story struct {
	*bank
	holders []*holder
	paid    int
}

// outcome is the result of an attempt: a response, or a failure after which nothing may have changed.
type outcome struct {
	failed bool
	reply
	err error
}

// survive makes attempts until one gets a response. The first may crash before any statement. It must then have done
// everything or nothing, which later attempts and the comparison with the model verify.
func (s *story) survive(rt *rapid.T, attempt func(ctx context.Context) outcome) outcome {
	plan := &crash{at: int32(rapid.IntRange(0, 14).Draw(rt, "crash")), kill: rapid.IntRange(0, 3).Draw(rt, "kill") == 0}
	o := attempt(context.WithValue(s.t.Context(), crashKey{}, plan))
	s.steps++
	if plan.fired.Load() {
		s.crashed++
	}
	if o.failed {
		s.undone++
	}
	if o.failed && !plan.fired.Load() {
		rt.Fatalf("failed without a crash: %d %s %v", o.status, o.raw, o.err)
	}
	for tries := 0; o.failed; tries++ {
		// Other sessions of the pool may have ended as well; each is detected once.
		if o = attempt(s.t.Context()); o.failed && tries > 5 {
			rt.Fatalf("still fails: %d %s %v", o.status, o.raw, o.err)
		}
	}
	return o
}

func (s *story) post(rt *rapid.T, h *holder, path, key, body string) reply {
	return s.survive(rt, func(ctx context.Context) outcome {
		r := s.send(ctx, http.MethodPost, path,
			map[string]string{"Authorization": "Bearer " + h.token, "Idempotency-Key": key}, body)
		return outcome{failed: r.status >= 500, reply: r}
	}).reply
}

// inTx is an operation without an endpoint. An error in refusals is a response, any other a failure.
func (s *story) inTx(rt *rapid.T, do func(ctx context.Context, tx postgres.Tx) error, refusals ...error) error {
	return s.survive(rt, func(ctx context.Context) outcome {
		err := s.app.DB.InTx(ctx, func(tx postgres.Tx) error { return do(ctx, tx) })
		refused := slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
		return outcome{failed: err != nil && !refused, err: err}
	}).err
}

func (s *story) anyone(rt *rapid.T) *holder { return rapid.SampledFrom(s.holders).Draw(rt, "client") }

func (h *holder) key() string {
	h.keys++
	return fmt.Sprintf("%s-key-%d", h.id, h.keys)
}

func (s *story) openTopUp(rt *rapid.T) {
	h := s.anyone(rt)
	t := &modelTopUp{amount: money.Cents(rapid.IntRange(2000, 6000).Draw(rt, "amount")), key: h.key()}
	t.body = fmt.Sprintf(`{"amountCents": %d, "returnUrl": "https://crm.example/back"}`, t.amount)
	r := s.post(rt, h, "/api/v1/wallet/topup-session", t.key, t.body)
	if h.available+h.held+t.amount > payment.DefaultWalletCeiling {
		if r.status != 409 {
			rt.Fatalf("above the ceiling: %d %s", r.status, r.raw)
		}
		return
	}
	address, _ := r.body["checkoutUrl"].(string)
	if r.status != 200 || address == "" {
		rt.Fatalf("top-up session: %d %s", r.status, r.raw)
	}
	t.id, t.got = address[strings.LastIndex(address, "/")+1:], r.raw
	h.topUps = append(h.topUps, t)
}

// pay reports a payment, possibly again.
func (s *story) pay(rt *rapid.T) {
	h := s.anyone(rt)
	if len(h.topUps) == 0 {
		rt.Skip("no top-up")
	}
	t := rapid.SampledFrom(h.topUps).Draw(rt, "top-up")
	id := fmt.Sprintf("ntc_%s_%d", t.id, rapid.IntRange(1, 2).Draw(rt, "notice"))
	body, err := json.Marshal(payment.Notice{ID: id, Type: payment.CheckoutPaid, SessionID: t.id, AmountCents: t.amount,
		Currency: "EUR", CreatedAt: time.Now()})
	if err != nil {
		rt.Fatal(err)
	}
	r := s.survive(rt, func(ctx context.Context) outcome {
		r := s.send(ctx, http.MethodPost, "/payments/notices/sandbox", map[string]string{
			payment.SignatureHeader: payment.SignNotice(s.notices, time.Now(), body)}, string(body))
		return outcome{failed: r.status >= 500, reply: r}
	})
	if r.status != 204 {
		rt.Fatalf("notice: %d %s", r.status, r.raw)
	}
	if !t.paid {
		s.paid++
		t.paid, t.paidAs = true, s.paid
		h.moved(wallet.TopUp, t.amount, t.amount, 0, "", "Top-up")
	}
}

func (s *story) create(rt *rapid.T) {
	h := s.anyone(rt)
	c := &modelConsultation{key: h.key()}
	c.body = fmt.Sprintf(`{"competence": "FAMILY", "subject": "Question %d", "withdrawalWaiverAcknowledged": true}`,
		h.keys)
	h.consultations = append(h.consultations, c)
	s.tryCreate(rt, h, c)
}

// tryCreate sends the request of c for the first time, or again after a refusal or a success.
func (s *story) tryCreate(rt *rapid.T, h *holder, c *modelConsultation) {
	r := s.post(rt, h, "/api/v1/consultations", c.key, c.body)
	switch {
	case c.state != "":
		if r.status != 201 || r.raw != c.got {
			rt.Fatalf("replay: %d %s, first %s", r.status, r.raw, c.got)
		}
	case h.available < 2000:
		if r.status != 409 || r.body["code"] != "INSUFFICIENT_FUNDS" {
			rt.Fatalf("without funds: %d %s", r.status, r.raw)
		}
	default:
		id, _ := r.body["id"].(string)
		if r.status != 201 || id == "" {
			rt.Fatalf("create: %d %s", r.status, r.raw)
		}
		c.id, c.state, c.got = id, "ACTIVE", r.raw
		h.moved(wallet.Hold, -2000, -2000, 2000, id, "Consultation reserved")
	}
}

func (s *story) one(rt *rapid.T, created bool) (*holder, *modelConsultation) {
	h := s.anyone(rt)
	var some []*modelConsultation
	for _, c := range h.consultations {
		if !created || c.state != "" {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		rt.Skip("no consultation")
	}
	return h, rapid.SampledFrom(some).Draw(rt, "consultation")
}

func (s *story) repeat(rt *rapid.T) {
	h, c := s.one(rt, false)
	s.tryCreate(rt, h, c)
}

// change sends another body under a used key.
func (s *story) change(rt *rapid.T) {
	h, c := s.one(rt, false)
	if r := s.post(rt, h, "/api/v1/consultations", c.key,
		strings.Replace(c.body, "FAMILY", "LABOUR", 1)); r.status != 409 || r.body["code"] != "IDEMPOTENCY_CONFLICT" {
		rt.Fatalf("another body: %d %s", r.status, r.raw)
	}
}

func (s *story) cancel(rt *rapid.T) {
	h, c := s.one(rt, true)
	r := s.post(rt, h, "/api/v1/consultations/"+c.id+"/cancel", "", "")
	if c.state == "CAPTURED" {
		if r.status != 409 {
			rt.Fatalf("cancel after the call: %d %s", r.status, r.raw)
		}
		return
	}
	if r.status != 200 || r.body["status"] != "CANCELLED" {
		rt.Fatalf("cancel: %d %s", r.status, r.raw)
	}
	if c.state == "ACTIVE" {
		c.state = "RELEASED"
		h.moved(wallet.Release, 2000, 2000, -2000, c.id, "Reservation released")
	}
}

// capture simulates the end of a consultation.
func (s *story) capture(rt *rapid.T) {
	h, c := s.one(rt, true)
	err := s.inTx(rt, func(ctx context.Context, tx postgres.Tx) error {
		if err := s.app.Wallet.Capture(ctx, tx, c.id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, postgres.SQL(postgres.Batch,
			`UPDATE consultations SET status = 'COMPLETED', timer_at = NULL, call_started_at = $2, completed_at = $2,
			lawyer_id = (SELECT id FROM lawyers LIMIT 1) WHERE id = $1`), c.id, tx.Now)
		return err
	}, wallet.ErrHoldEnded)
	if (err == nil) != (c.state == "ACTIVE") {
		rt.Fatalf("capture in state %s: %v", c.state, err)
	}
	if err == nil {
		c.state = "CAPTURED"
		h.moved(wallet.Capture, -2000, 0, -2000, c.id, "Consultation")
	}
}

func (s *story) refund(rt *rapid.T) {
	h, c := s.one(rt, true)
	amount := money.Cents(rapid.IntRange(1, 2500).Draw(rt, "amount"))
	err := s.inTx(rt,
		func(ctx context.Context, tx postgres.Tx) error { return s.app.Wallet.Refund(ctx, tx, c.id, amount) },
		wallet.ErrNotRefundable)
	if (err == nil) != (c.state == "CAPTURED" && !c.refunded && amount <= 2000) {
		rt.Fatalf("refund of %d in state %s: %v", amount, c.state, err)
	}
	if err == nil {
		c.refunded = true
		h.moved(wallet.Refund, amount, amount, 0, c.id, "Refund")
	}
}

func (s *story) correct(rt *rapid.T) {
	h := s.anyone(rt)
	amount := money.Cents(rapid.IntRange(-3000, 3000).Filter(func(n int) bool { return n != 0 }).Draw(rt, "amount"))
	err := s.inTx(rt, func(ctx context.Context, tx postgres.Tx) error {
		return s.app.Wallet.Correct(ctx, tx, wallet.Correction{ClientID: h.id, Amount: amount, Actor: "test",
			Reason: "History"})
	}, wallet.ErrInsufficientFunds)
	if (err == nil) != (h.available+amount >= 0) {
		rt.Fatalf("correction by %d of %d: %v", amount, h.available, err)
	}
	if err == nil {
		h.moved(wallet.Adjustment, amount, amount, 0, "", "Correction")
	}
}

// giveBack refunds all unused top-ups to their source.
func (s *story) giveBack(rt *rapid.T) {
	h := s.anyone(rt)
	paid := slices.DeleteFunc(slices.Clone(h.topUps), func(t *modelTopUp) bool { return !t.paid })
	slices.SortFunc(paid, func(a, b *modelTopUp) int { return b.paidAs - a.paidAs })
	err := s.inTx(rt, func(ctx context.Context, tx postgres.Tx) error {
		_, err := s.app.Payments.Refund(ctx, tx, payment.RefundCommand{ClientID: h.id, Actor: "test",
			Reason: "History"})
		return err
	}, payment.ErrNothingToRefund)
	left, some := h.available, false
	for _, t := range paid {
		if part := min(t.amount-t.returned, left); part > 0 {
			left, some = left-part, true
			t.returned += part
			if err == nil {
				h.moved(wallet.Adjustment, -part, -part, 0, "", "Top-up returned to its source")
			}
		}
	}
	if (err == nil) != some {
		rt.Fatalf("giving back of %d: %v", h.available, err)
	}
}

// browse reads page after page while new entries arrive. Entries that existed at the first page are listed without gaps
// or duplicates.
func (s *story) browse(rt *rapid.T) {
	h := s.anyone(rt)
	want := slices.Clone(h.history)
	limit := rapid.IntRange(1, 6).Draw(rt, "limit")
	got, next := s.page(rt, h, limit, "")
	for next != "" {
		if rapid.Bool().Draw(rt, "arrival") {
			s.must(rt, func(ctx context.Context, tx postgres.Tx) error {
				return s.app.Wallet.Adjust(ctx, tx, h.id, 1, "Arrival")
			})
			h.moved(wallet.Adjustment, 1, 1, 0, "", "Arrival")
		}
		var more []entry
		more, next = s.page(rt, h, limit, next)
		got = append(got, more...)
	}
	s.same(rt, got, want)
}

func (s *story) must(rt *rapid.T, do func(ctx context.Context, tx postgres.Tx) error) {
	if err := s.app.DB.InTx(s.t.Context(), func(tx postgres.Tx) error { return do(s.t.Context(), tx) }); err != nil {
		rt.Fatal(err)
	}
}

func (s *story) page(rt *rapid.T, h *holder, limit int, cursor string) (entries []entry, next string) {
	path := fmt.Sprintf("/api/v1/wallet/transactions?limit=%d", limit)
	if cursor != "" {
		path += "&cursor=" + url.QueryEscape(cursor)
	}
	r := s.read(rt, h, path)
	items, _ := r.body["items"].([]any)
	next, _ = r.body["nextCursor"].(string)
	if r.status != 200 || len(items) > limit || next != "" && len(items) < limit {
		rt.Fatalf("page: %d %s", r.status, r.raw)
	}
	for _, item := range items {
		m := item.(map[string]any)
		cents := func(name string) money.Cents { v, _ := m[name].(float64); return money.Cents(v) }
		text := func(name string) string { v, _ := m[name].(string); return v }
		entries = append(entries, entry{wallet.Type(text("type")), cents("amountCents"), cents("balanceAfterCents"),
			cents("availableAfterCents"), text("consultationId"), text("description")})
	}
	return entries, next
}

// read sends a GET. The next user of a session that a crash ended gets a 500, once.
func (s *story) read(rt *rapid.T, h *holder, path string) (r reply) {
	for range 5 {
		if r = s.send(s.t.Context(), http.MethodGet, path, map[string]string{"Authorization": "Bearer " + h.token},
			""); r.status < 500 {
			break
		}
	}
	return r
}

// same compares a list, newest first, with the model's history.
func (s *story) same(rt *rapid.T, got, history []entry) {
	want := slices.Clone(history)
	slices.Reverse(want)
	if !slices.Equal(got, want) {
		rt.Fatalf("list\n%v\nwant\n%v", got, want)
	}
}

// check compares the API with the model.
func (s *story) check(rt *rapid.T) {
	for _, h := range s.holders {
		r := s.read(rt, h, "/api/v1/wallet")
		want := map[string]any{"availableCents": float64(h.available), "heldCents": float64(h.held),
			"balanceCents": float64(h.available + h.held), "currency": "EUR"}
		if fmt.Sprint(r.body) != fmt.Sprint(want) || h.available < 0 {
			rt.Fatalf("wallet %s, want %v", r.raw, want)
		}
		got, next := s.page(rt, h, 50, "")
		for next != "" {
			var more []entry
			more, next = s.page(rt, h, 50, next)
			got = append(got, more...)
		}
		s.same(rt, got, h.history)
	}
}

// audited is the number of histories between two full ledger checks, which take longer each time.
const audited = 25

// TestHistoriesWithCrashesFollowTheModel applies random wallet operations and crashes the process anywhere. Each
// operation happened completely and once, or not at all, and the API agrees with a simple model.
func TestHistoriesWithCrashesFollowTheModel(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	if err := b.app.DB.InTx(t.Context(),
		func(tx postgres.Tx) error { return b.app.SimulatedLawyers.Seed(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := &story{bank: b}
		for range 2 {
			h := &holder{}
			h.id, h.token = b.client()
			s.holders = append(s.holders, h)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open top-up": s.openTopUp, "pay": s.pay, "pay again": s.pay, "create": s.create, "create more": s.create,
			"repeat": s.repeat, "change": s.change, "cancel": s.cancel, "capture": s.capture, "refund": s.refund,
			"correct": s.correct, "give back": s.giveBack, "browse": s.browse, "": s.check,
		})
		if histories++; histories%audited == 0 {
			s.examine(rt)
		}
	})
	if !t.Failed() {
		findings, err := books.Verify(t.Context(), b.app.DB.Read())
		if err != nil || len(findings) > 0 {
			t.Errorf("books: %q, %v", findings, err)
		}
		t.Logf("%d histories: %d operations, %d with a crash, which undid %d", histories, b.steps, b.crashed, b.undone)
		if b.undone < b.steps/10 {
			t.Error("hardly any operation crashed: the histories prove little")
		}
	}
}

func (s *story) examine(rt *rapid.T) {
	findings, err := books.Verify(s.t.Context(), s.app.DB.Read())
	if err != nil || len(findings) > 0 {
		rt.Fatalf("books: %q, %v", findings, err)
	}
	if _, err := s.app.Payments.SendRefunds(s.t.Context()); err != nil {
		rt.Fatal(err)
	}
}
