package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
)

func (r *receiver) message() message {
	return message{url: r.URL, secret: "whsec_x", deliveryID: "dlv_1", kind: Created, sequence: 1, attempt: 1,
		body: []byte(`{}`)}
}

func sendTo(t *testing.T, cfg Config, m message) outcome {
	t.Helper()
	s := New(nil, nil, cfg).sender
	t.Cleanup(s.close)
	return s.send(t.Context(), m)
}

func TestTheReceiverHasFiveSeconds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		class string
	}{"4.9 s": {4900 * time.Millisecond, ""}, "5.5 s": {5500 * time.Millisecond, classTimeout}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				<-time.After(c.takes)
				w.WriteHeader(http.StatusNoContent)
			})
			if o := sendTo(t, sandbox(), r.message()); o.class != c.class {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestOnly2xxIsSuccess(t *testing.T) {
	t.Parallel()
	for code, class := range map[int]string{
		200: "", 201: "", 202: "", 204: "", 299: "", 300: classRedirect, 301: classRedirect, 302: classRedirect,
		304: classRedirect, 307: classRedirect, 308: classRedirect, 400: classStatus, 401: classStatus,
		404: classStatus, 410: classStatus, 429: classStatus, 500: classStatus, 503: classStatus,
	} {
		target := newReceiver(t, status(http.StatusOK))
		r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", target.URL)
			w.WriteHeader(code)
		})
		if o := sendTo(t, sandbox(), r.message()); o.class != class || o.status != code {
			t.Errorf("%d: %+v, want class %q", code, o, class)
		}
		if len(target.seen()) != 0 {
			t.Errorf("%d was followed", code)
		}
	}
}

func TestAnAnswerThatNeverEndsIsAFailureAndALongOneIsCut(t *testing.T) {
	t.Parallel()
	short := sandbox()
	short.Timeout = 300 * time.Millisecond
	endless := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	if o := sendTo(t, short, endless.message()); o.class != classTimeout || o.status != 200 {
		t.Errorf("an answer without end: %+v", o)
	}
	silent := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if o := sendTo(t, short, silent.message()); o.class != classTimeout || o.status != 0 ||
		o.duration < 300*time.Millisecond {
		t.Errorf("no answer: %+v", o)
	}
	written := make(chan int64, 1)
	flood := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		n, _ := io.Copy(w, io.LimitReader(zeros{}, 1<<30))
		written <- n
	})
	o := sendTo(t, sandbox(), flood.message())
	if o.class != "" || len(o.body) > maxStored || len(o.body) < maxStored-4 {
		t.Errorf("a flood: class %q, %d bytes kept", o.class, len(o.body))
	}
	if n := <-written; n > 100<<20 {
		t.Errorf("%d bytes of a flood were taken", n)
	}
	headers := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("a", 2*maxRead))
	})
	if o := sendTo(t, sandbox(), headers.message()); o.class != classResponse {
		t.Errorf("a header without end: %+v", o)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFailuresAreClassified(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + listener.Addr().String()
	listener.Close()
	noise := rawServer(t, func(c net.Conn) { io.WriteString(c, "220 mail.example ready\r\n") })
	broken := rawServer(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc") })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	t.Cleanup(secure.Close)
	for url, class := range map[string]string{
		refused: classConnect, noise: classResponse, broken: classResponse, secure.URL: classTLS,
		"http://name.invalid": classDNS, "https" + strings.TrimPrefix(noise, "http"): classTLS,
		"http://10.0.0.1/": classBlocked, "http://169.254.169.254/": classBlocked, "http://[fd00::1]/": classBlocked,
		"http://168.63.129.16/": classBlocked, "http://0.0.0.0/": classBlocked,
	} {
		o := sendTo(t, sandbox(), message{url: url, attempt: 1})
		if o.class != class || o.detail == "" {
			t.Errorf("%s: %+v, want class %q", url, o, class)
		}
	}
}

// Partners read these texts. Our addresses, name servers and proxies appear only in the log.
func TestErrorTextsTellNothingOfOurNetwork(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + listener.Addr().String()
	listener.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	t.Cleanup(secure.Close)
	silent := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("10.255.255.53:53 is away")
	}}
	knowing := newNameServer(t, func(string, int) []netip.Addr { return nil })
	inside := regexp.MustCompile(`\d+\.\d+\.\d+\.\d+|lookup|127|->`)
	for want, c := range map[string]struct {
		url      string
		resolver *net.Resolver
	}{
		"connect: connection refused":                            {refused, nil},
		"dns: the name server did not respond":                   {"http://crm.example/", silent},
		"dns: the host name was not found":                       {"http://crm.example/", knowing.Resolver},
		"response: connection closed before a complete response": {rawServer(t, func(net.Conn) {}), nil},
		"response: connection reset before a complete response": {rawServer(t,
			func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }), nil},
		"response: not a valid response of HTTP/1.1 or, for https, of": {rawServer(t,
			func(c net.Conn) { io.WriteString(c, "220 mail.example ready\r\n") }), nil},
		"tls: x509: certificate signed by unknown authority": {secure.URL, nil},
	} {
		cfg := sandbox()
		cfg.Resolver = c.resolver
		o := sendTo(t, cfg, message{url: c.url, attempt: 1})
		if got := o.errorText(); !strings.HasPrefix(got, want) || inside.MatchString(got) || o.cause == nil {
			t.Errorf("%s: %q with cause %v, want %q", c.url, got, o.cause, want)
		}
	}
}

// After a 101, net/http returns the bare connection, whose reads have no deadline, so it must not be read.
func TestAnEndpointThatSwitchesProtocolsAndStaysSilentIsAFailure(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 2) // the connection was closed by us
	url := rawServer(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: none\r\n\r\n")
		io.Copy(io.Discard, c)
		gone <- struct{}{}
	})
	const want = "response: responded with 101; no other protocol was requested"
	w := newWorld(t, clock.System{}, sandbox())
	app, _ := w.application(url)
	var p *problem.Error
	if err := w.svc.ProveURL(t.Context(), app, url); !errors.As(err, &p) ||
		!strings.Contains(p.Issues[0].Message, want) {
		t.Errorf("ping: %v", err)
	}
	<-gone
	stop := w.run(w.svc)
	w.emit(w.consultation(app), 1, creation[0])
	d := w.settled(app, 1)[0]
	if a := w.attempts(d, app)[0]; d.State != Pending || a.Error != want || a.StatusCode != 101 ||
		a.Duration >= endpointTimeout {
		t.Errorf("%+v, attempt %+v", d, a)
	}
	<-gone
	stop()
}

// rawServer answers the first bytes of every connection with whatever answer writes.
func rawServer(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			answer(c)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestLoopbackIsRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, status(http.StatusOK))
	byName := message{url: strings.Replace(r.URL, "127.0.0.1", "localhost", 1), attempt: 1}
	for name, cfg := range map[string]Config{"live": {}, "sandbox": {Sandbox: true}} {
		for _, m := range []message{r.message(), byName} {
			if o := sendTo(t, cfg, m); o.class != classBlocked {
				t.Errorf("%s to %s: %+v", name, m.url, o)
			}
		}
	}
	if n := len(r.seen()); n != 0 {
		t.Fatalf("%d requests arrived", n)
	}
	for _, m := range []message{r.message(), byName} {
		if o := sendTo(t, sandbox(), m); o.class != "" {
			t.Errorf("allowed, but %s: %+v", m.url, o)
		}
	}
}

func TestTheProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := newReceiver(t, status(http.StatusOK))
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	if o := sendTo(t, sandbox(), message{url: "http://name.invalid/", attempt: 1}); o.class != classDNS {
		t.Errorf("%+v", o)
	}
	if len(proxy.seen()) != 0 {
		t.Error("the proxy was asked")
	}
}

func TestConnectionsAreKeptAndAClosedOneIsReplaced(t *testing.T) {
	t.Parallel()
	var opened int
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s == http.StateNew {
			opened++
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	s := New(nil, nil, sandbox()).sender
	t.Cleanup(s.close)
	connections := func() int { r.mu.Lock(); defer r.mu.Unlock(); return opened }
	for range 5 {
		if o := s.send(t.Context(), r.message()); o.class != "" {
			t.Fatalf("%+v", o)
		}
	}
	if connections() != 1 {
		t.Errorf("%d connections for five attempts", connections())
	}
	for range 20 {
		r.CloseClientConnections()
		if o := s.send(t.Context(), r.message()); o.class != "" {
			t.Errorf("after the receiver closed the connection: %+v", o)
		}
	}
}

func TestTheSignatureIsMadeWhenTheAttemptIs(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, status(http.StatusOK))
	s := New(nil, nil, sandbox()).sender
	t.Cleanup(s.close)
	at := clock.System{}.Now()
	for _, late := range []time.Duration{0, 71 * time.Hour} {
		s.now = func() time.Time { return at.Add(late) }
		s.send(t.Context(), r.message())
		p := r.seen()[len(r.seen())-1]
		if err := Verify("whsec_x", p.header.Get(HeaderSignature), p.body, at.Add(late)); err != nil {
			t.Errorf("%v later: %v", late, err)
		}
	}
}

// Where partners are strangers, deliveries to this machine reveal only whether they arrived.
func TestWhatThisMachineAnswersIsHidden(t *testing.T) {
	t.Parallel()
	hiding := sandbox()
	hiding.HideLoopback = true
	answers := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "secret of a neighbour")
	})
	closes := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	nobody := newReceiver(t, status(http.StatusOK))
	nobody.Close()
	through := hiding
	through.Proxy = &url.URL{Scheme: "http", Host: newEgress(t, answers.Listener.Addr().String(), tunnelOpen).Addr().
		String()}
	for name, c := range map[string]struct {
		cfg     Config
		to      *receiver
		body    string
		failure string
	}{
		"shown":           {sandbox(), answers, "secret of a neighbour", ""},
		"an answer":       {hiding, answers, "", ""},
		"by a proxy":      {through, answers, "", ""},
		"a closed port":   {hiding, nobody, "", "connect: no complete response"},
		"another service": {hiding, closes, "", "connect: no complete response"},
	} {
		if o := sendTo(t, c.cfg, c.to.message()); o.body != c.body || o.errorText() != c.failure {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
