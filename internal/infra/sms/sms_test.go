package sms_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/base/telemetry/telemetrytest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/sms"
)

type script struct {
	mu      sync.Mutex
	answers []error // to the attempts, in order; then nil
	tries   int
	sent    []sms.Message
	done    chan struct{}
}

func (s *script) Send(_ context.Context, m sms.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.tries < len(s.answers) {
		err = s.answers[s.tries]
	}
	s.tries++
	if err == nil {
		s.sent = append(s.sent, m)
	}
	if err == nil || !errors.Is(err, sms.ErrNotSent) {
		s.done <- struct{}{}
	}
	return err
}

func run(t *testing.T, s sms.Sender, lifetime time.Duration) (*sms.Service, *postgres.DB, *clock.Manual) {
	t.Helper()
	clk := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := dbtest.NewWithClock(t, clk)
	box := sealtest.Box(t)
	log := slog.New(slog.DiscardHandler)
	q, err := queue.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	service := sms.New(db, q, box, s, log)
	service.Service = "Allo Droit"
	err = db.InTx(t.Context(), func(tx postgres.Tx) error {
		return service.Send(t.Context(), tx, sms.Message{To: "+33639980002", Text: "code 123456 of {service}",
			ExpiresAt: tx.Now.Add(lifetime)})
	})
	if err != nil {
		t.Fatal(err)
	}
	var readable int
	if err := db.Pool().QueryRow(t.Context(),
		`SELECT count(*) FROM river.river_job WHERE args::text LIKE '%123456%' OR args::text LIKE '%39980002%'`).
		Scan(&readable); err != nil || readable != 0 {
		t.Errorf("the waiting message can be read: %d %v", readable, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return service, db, clk
}

func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal(what)
	}
}

// finished waits until the queue is done with all of its work.
func finished(t *testing.T, db *postgres.DB) {
	t.Helper()
	ended(t, db, "completed")
}

// ended waits until every job is in the state.
func ended(t *testing.T, db *postgres.DB, state string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		var n int
		if err := db.Pool().QueryRow(t.Context(),
			`SELECT count(*) FROM river.river_job WHERE state <> $1::river.river_job_state`,
			state).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
	t.Fatal("the queue does not come to an end")
}

func TestACertainFailureIsTriedAgainAndTheMessageSentOnce(t *testing.T) {
	t.Parallel()
	s := &script{answers: []error{fmt.Errorf("%w: busy", sms.ErrNotSent)}, done: make(chan struct{}, 9)}
	service, db, clk := run(t, s, time.Hour)
	wait(t, "not sent", s.done)
	finished(t, db)
	if s.tries != 2 || len(s.sent) != 1 || s.sent[0].To != "+33639980002" ||
		!strings.HasSuffix(s.sent[0].Text, "Allo Droit") {
		t.Errorf("%d tries, sent %+v", s.tries, s.sent)
	}
	clk.Advance(25 * time.Hour)
	if n, err := service.Purge(t.Context()); n != 1 || err != nil {
		t.Errorf("purged %d %v", n, err)
	}
}

func TestWhatMayHaveBeenSentAndWhatIsRefusedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("connection lost"), fmt.Errorf("%w: no such number", sms.ErrRefused)} {
		s := &script{answers: []error{err}, done: make(chan struct{}, 9)}
		_, db, _ := run(t, s, time.Hour)
		wait(t, "not tried", s.done)
		ended(t, db, "cancelled")
		if s.tries != 1 {
			t.Errorf("%v: %d tries", err, s.tries)
		}
	}
}

func TestAMessageOutOfDateIsNotSent(t *testing.T) {
	t.Parallel()
	s := &script{done: make(chan struct{}, 9)}
	_, db, _ := run(t, s, 0)
	finished(t, db)
	if s.tries != 0 {
		t.Errorf("%d tries", s.tries)
	}
}

func TestTheSandboxKeepsMessagesInAFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sms")
	if err := (sms.Folder{Dir: dir, Logger: slog.New(slog.DiscardHandler)}).Send(t.Context(),
		sms.Message{To: "+33639980002", Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.txt"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	raw, err := os.ReadFile(files[0])
	info, _ := os.Stat(files[0])
	if err != nil || string(raw) != "To: +33639980002\n\nhello\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q %v %v", raw, err, info.Mode())
	}
}

func TestTheProviderIsAskedAsItsInterfaceWants(t *testing.T) {
	t.Parallel()
	status, answer := 201, `{"sid":"SM1"}`
	var got *http.Request
	var form url.Values
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		raw, _ := io.ReadAll(r.Body)
		form, _ = url.ParseQuery(string(raw))
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	address := strings.Replace(server.URL, "http://", "http://AC1:to%2Fken@", 1)
	send := func(from string) error {
		h, err := sms.NewHTTP(address, from, nil)
		if err != nil {
			t.Fatal(err)
		}
		return h.Send(t.Context(), sms.Message{To: "+33639980002", Text: "é & code"})
	}
	tracer, spans := telemetrytest.New(t)
	traced, err := sms.NewHTTP(address, "x", tracer)
	if err != nil {
		t.Fatal(err)
	}
	ctx, job := tracer.Start(t.Context(), "job")
	err = traced.Send(ctx, sms.Message{To: "+33639980002", Text: "é & code"})
	job.End(nil)
	if posts := spans.Named("POST"); err != nil || len(posts) != 1 || !posts[0].Child ||
		posts[0].Attributes["http.response.status_code"] != "201" {
		t.Errorf("%v: %+v", err, posts)
	}
	if told := spans.Told(); strings.Contains(told, "39980002") || strings.Contains(told, "é") ||
		strings.Contains(told, "to/ken") || strings.Contains(told, "AC1") {
		t.Errorf("too much is told: %s", told)
	}
	if err := send("+33700000000"); err != nil {
		t.Fatal(err)
	}
	user, password, _ := got.BasicAuth()
	if got.Method != "POST" || got.URL.Path != "/2010-04-01/Accounts/AC1/Messages.json" || user != "AC1" ||
		password != "to/ken" || got.Header.Get("Content-Type") != "application/x-www-form-urlencoded" ||
		form.Encode() != (url.Values{"To": {"+33639980002"}, "From": {"+33700000000"}, "Body": {"é & code"}}).Encode() {
		t.Errorf("request %s %s %v %s:%s", got.Method, got.URL, form, user, password)
	}
	if err := send("MG123"); err != nil || form.Get("MessagingServiceSid") != "MG123" || form.Has("From") {
		t.Errorf("messaging service: %v %v", form, err)
	}
	answer = `{"code":21211,"message":"The number +33639980002 is invalid"}`
	for code, want := range map[int]error{400: sms.ErrRefused, 404: sms.ErrRefused, 401: sms.ErrNotSent,
		429: sms.ErrNotSent, 500: sms.ErrNotSent, 503: sms.ErrNotSent, 307: sms.ErrNotSent} {
		status = code
		if err := send("x"); !errors.Is(err, want) || strings.Contains(err.Error(), "39980002") {
			t.Errorf("%d: %v", code, err)
		}
	}
	for _, doubtful := range []int{502, 504} {
		status = doubtful
		if err := send("x"); err == nil || errors.Is(err, sms.ErrNotSent) || errors.Is(err, sms.ErrRefused) {
			t.Errorf("%d: %v", doubtful, err)
		}
	}
	server.Close()
	if err := send("x"); !errors.Is(err, sms.ErrNotSent) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestWhatAProviderSaysInsteadOfAnAnswerIsNotTold exists because the error would put the quoted number into a log.
func TestWhatAProviderSaysInsteadOfAnAnswerIsNotTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "ERROR +33639980002\r\n\r\n")
	}))
	t.Cleanup(server.Close)
	h, err := sms.NewHTTP(strings.Replace(server.URL, "http://", "http://AC1:token@", 1), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = h.Send(t.Context(), sms.Message{To: "+33639980002", Text: "code"})
	if err == nil || errors.Is(err, sms.ErrNotSent) || strings.Contains(err.Error(), "39980002") {
		t.Errorf("the error tells the number, or a certainty that there is not: %v", err)
	}
}

func TestProvidersAreNamedByURL(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "api.example", "https://api.example", "http://a:b@api.example", "https://a:b@api.example/path",
	} {
		if _, err := sms.NewHTTP(bad, "x", nil); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
	if _, err := sms.NewHTTP("https://a:b@api.example", "", nil); err == nil {
		t.Error("no sender")
	}
	if _, err := sms.NewHTTP("https://a:b@api.example/", "x", nil); err != nil {
		t.Error(err)
	}
}
