package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/dns/dnsmessage"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
)

// nameServer answers every DNS query with the result of answer, and counts the queries.
type nameServer struct {
	*net.Resolver
	mu    sync.Mutex
	asked map[string]int
}

func newNameServer(t *testing.T, answer func(name string, asked int) []netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{asked: map[string]int{}}
	s.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", conn.LocalAddr().String())
	}}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.reply(buf[:n], answer); reply != nil {
				conn.WriteTo(reply, from)
			}
		}
	}()
	return s
}

func (s *nameServer) reply(question []byte, answer func(name string, asked int) []netip.Addr) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	s.mu.Lock()
	asked := s.asked[name+q.Type.String()]
	s.asked[name+q.Type.String()]++
	s.mu.Unlock()
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true,
		RecursionAvailable: true}, Questions: m.Questions}
	for _, a := range answer(name, asked) {
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 0}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: h,
				Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	packed, err := out.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func addresses(list ...string) []netip.Addr {
	out := make([]netip.Addr, len(list))
	for i, a := range list {
		out[i] = netip.MustParseAddr(a)
	}
	return out
}

// specialAddresses are addresses of different kinds that no delivery may go to.
var specialAddresses = map[string]string{
	"0.0.0.0": "this host", "0.1.2.3": "this network", "10.0.0.1": "private", "10.255.255.255": "private",
	"100.64.0.1": "shared (carrier)", "127.0.0.1": "loopback", "127.255.255.254": "loopback",
	"169.254.169.254": "metadata", "169.254.170.2": "metadata of containers",
	"168.63.129.16": "metadata of another cloud", "172.16.0.1": "private", "172.31.255.255": "private",
	"192.0.0.1": "protocol assignments", "192.0.0.192": "metadata of a third cloud", "192.0.2.1": "documentation",
	"192.88.99.1": "6to4 relay", "192.168.1.1": "private", "198.18.0.1": "benchmarks", "198.51.100.1": "documentation",
	"203.0.113.1": "documentation", "224.0.0.1": "multicast", "239.255.255.250": "multicast", "240.0.0.1": "reserved",
	"255.255.255.255": "broadcast", "100.100.100.200": "metadata of a fourth cloud", "::": "unspecified",
	"::1": "loopback", "::ffff:127.0.0.1": "mapped loopback", "::ffff:10.0.0.1": "mapped private",
	"::ffff:169.254.169.254": "mapped metadata", "::127.0.0.1": "compatible loopback",
	"64:ff9b::7f00:1": "NAT64 of loopback", "64:ff9b::a9fe:a9fe": "NAT64 of metadata", "64:ff9b:1::1": "local NAT64",
	"100::1": "discard", "2001::1": "Teredo", "2001:db8::1": "documentation", "2002:7f00:1::": "6to4 of loopback",
	"2002:a9fe:a9fe::": "6to4 of metadata", "fc00::1": "unique local", "fd00:ec2::254": "metadata over IPv6",
	"fe80::1": "link local", "fec0::1": "site local", "ff02::1": "multicast",
}

func TestSpecialAddressesAreRefusedWrittenOutAndAsTheAnswerOfANameServer(t *testing.T) {
	t.Parallel()
	for text, kind := range specialAddresses {
		special := netip.MustParseAddr(text)
		ns := newNameServer(t, func(string, int) []netip.Addr { return []netip.Addr{special} })
		for name, cfg := range map[string]Config{"live": {}, "sandbox": {Sandbox: true}} {
			cfg.Resolver = ns.Resolver
			cfg.Timeout = 2 * time.Second
			svc := New(nil, nil, cfg)
			host := text
			if special.Is6() {
				host = "[" + text + "]"
			}
			if svc.checkURL("https://"+host+"/") == nil {
				t.Errorf("%s: %s (%s) can be registered", name, text, kind)
			}
			for _, u := range []string{"https://" + host + "/", "https://innocent.example/"} {
				if special.Is4In6() && strings.Contains(u, "innocent") {
					continue // a name server returns this as an A record; the resolver unmaps it
				}
				o := svc.sender.send(t.Context(), message{url: u, attempt: 1})
				if o.class != classBlocked {
					t.Errorf("%s: %s for %s (%s) gave %+v", name, u, text, kind, o)
				}
			}
			svc.sender.close()
		}
	}
}

func TestHostileURLsReachNothing(t *testing.T) {
	t.Parallel()
	inside := newReceiver(t, status(http.StatusOK))
	port := inside.Listener.Addr().(*net.TCPAddr).Port
	// a malicious name server
	ns := newNameServer(t, func(string, int) []netip.Addr { return addresses("127.0.0.1", "::1") })
	registry := prometheus.NewRegistry()
	svc := New(nil, nil, Config{Resolver: ns.Resolver, Registerer: nil, Timeout: 2 * time.Second,
		Ports: []uint16{uint16(port)}})
	svc.metrics = newMetrics(nil, nil, svc.log)
	registry.MustRegister(svc.metrics.attempts, svc.metrics.urlsRefused)
	t.Cleanup(svc.sender.close)
	hostile := []string{
		"https://localhost/", "https://LOCALHOST./", "https://x.localhost/", "https://127.0.0.1/", "https://127.1/",
		"https://127.0.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
		"https://017700000001/", "https://0/", "https://0.0.0.0/", "https://[::]/",
		"https://[::1]/", "https://[0:0:0:0:0:0:0:1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/",
		"https://[0:0:0:0:0:ffff:127.0.0.1]/", "https://[::127.0.0.1]/", "https://[64:ff9b::127.0.0.1]/",
		"https://[2002:7f00:1::]/", "https://[fe80::1%25eth0]/", "https://[::1%25lo]/",
		"https://127.0.0.1.nip.example/", "https://internal/", "https://metadata.google.internal/computeMetadata/v1/",
		"https://169.254.169.254/latest/meta-data/", "https://①②⑦.⓪.⓪.①/", "https://127。0。0。1/", "https://ⓛocalhost/",
		"https://%31%32%37.0.0.1/", "https://127.0.0.1%2f@crm.example/", "https://crm.example@127.0.0.1/",
		"https://user:pass@crm.example/", "https://crm.example:80@127.0.0.1:443/",
		"https://127.0.0.1\\@crm.example/",
		"https://crm.example#@127.0.0.1/", "https://crm.example/\r\nHost: x", "https://crm.example\t/",
		"https:// crm.example/", "https:///crm.example/", "https:crm.example", "http://crm.example/",
		"HTTP://crm.example/", "ftp://crm.example/", "file:///etc/passwd", "gopher://127.0.0.1:6379/_FLUSHALL",
		"dict://127.0.0.1:11211/", "javascript:alert(1)", "data:text/plain,x", "unix:///var/run/docker.sock",
		"//127.0.0.1/", "/etc/passwd", "", "https://crm.example:22/", "https://crm.example:0/",
		"https://crm.example:65536/", "https://crm.example:-1/", "https://crm.example:443a/",
		"https://crm.example:6379/", "https://[::1]:443/", "https://" +
			strings.Repeat("a", 3000) + ".example/", "https://crm.example/\x00", "https://crm.example/\xff",
	}
	for _, u := range hostile {
		if u == "" || svc.checkURL(u) != nil {
			continue
		}
		o := svc.sender.send(t.Context(), message{url: u, attempt: 1})
		svc.metrics.attempted(purposeDelivery, o)
		if o.class != classBlocked && o.class != classDNS {
			t.Errorf("%q is accepted and gave %+v", u, o)
		}
	}
	if n := len(inside.seen()); n != 0 {
		t.Errorf("%d requests came in", n)
	}
	got := gather(t, registry)
	refused, blocked, dns := got["partnerd_webhook_urls_refused_total"],
		got[`partnerd_webhook_attempts_total{outcome="blocked_address",purpose="delivery"}`],
		got[`partnerd_webhook_attempts_total{outcome="dns",purpose="delivery"}`]
	if int(refused+blocked+dns) != len(hostile)-1 || blocked < 5 || refused < 40 {
		t.Errorf("of %d hostile URLs %v were counted as refused, %v as blocked, %v as without address",
			len(hostile)-1, refused, blocked, dns)
	}
}

// A name that changes its address between queries gains nothing: the dialled address is the one checked.
func TestRebindingIsBlockedLoggedAndCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	cfg := Config{Sandbox: true, Poll: 20 * time.Millisecond, Registerer: registry}
	ns := newNameServer(t, func(_ string, asked int) []netip.Addr {
		return [][]netip.Addr{addresses("127.0.0.1"), addresses("169.254.169.254"),
			addresses("10.0.0.1", "::1")}[min(asked, 2)]
	})
	cfg.Resolver = ns.Resolver
	w := newWorld(t, clock.System{}, cfg)
	inside := newReceiver(t, status(http.StatusOK))
	target := strings.Replace(inside.URL, "127.0.0.1", "rebind.example", 1)
	app, _ := w.application(target) // registered by the operator
	w.run(w.svc)
	w.emit(w.consultation(app), 1, creation[0])
	d := w.settled(app, 1)[0]
	if a := w.attempts(d, app); !strings.HasPrefix(a[0].Error, classBlocked+": ") || a[0].StatusCode != 0 ||
		a[0].ResponseBody != "" {
		t.Errorf("attempts %+v", a)
	}
	if err := w.svc.ProveURL(t.Context(), app, target); err == nil || !strings.Contains(err.Error(), "invalid_url") {
		t.Errorf("set by the application: %v", err)
	}
	if n := len(inside.seen()); n != 0 {
		t.Errorf("%d requests came in", n)
	}
	if !strings.Contains(w.log.String(), `"error_class":"blocked_address"`) {
		t.Errorf("log: %s", w.log)
	}
	got := gather(t, registry)
	for _, purpose := range []string{"delivery", "ping"} {
		if n := got[`partnerd_webhook_attempts_total{outcome="blocked_address",purpose="`+purpose+`"}`]; n != 1 {
			t.Errorf("%s: counted %v times", purpose, n)
		}
	}
}

// A failure of our egress proxy disables no endpoint and sends no email.
func TestAFailureOfTheEgressProxyIsNotTheEndpoints(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC))
	p := newEgress(t, "127.0.0.1:9", "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
	cfg := Config{Sandbox: true, Poll: 20 * time.Millisecond, Proxy: &url.URL{Scheme: "http", Host: p.Addr().String()},
		Resolver: newNameServer(t, func(string, int) []netip.Addr { return addresses("93.184.216.34") }).Resolver}
	w := newWorld(t, clk, cfg)
	app, _ := w.application("http://crm.example/")
	failing, _ := w.application("http://crm.example/")
	since := clk.Now().Add(-DisableAfter)
	w.exec("UPDATE webhook_endpoints SET failing_since = $1 WHERE application_id = $2", since, failing)
	w.run(w.svc)
	for _, a := range []string{app, failing} {
		w.emit(w.consultation(a), 1, creation[0])
		d := w.settled(a, 1)[0]
		if log := w.attempts(d, a); d.State != Pending || !strings.HasPrefix(log[0].Error, classProxy+": ") {
			t.Errorf("%+v, attempts %+v", d, log)
		}
		e, err := w.svc.Endpoint(t.Context(), w.db.Read(), a)
		if err != nil || e.DisabledAt != nil || a == app && e.FailingSince != nil ||
			a == failing && !e.FailingSince.Equal(since) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if err := w.svc.ProveURL(t.Context(), app, "http://crm.example/"); !errors.Is(err, problem.ErrUnavailable) {
		t.Errorf("ping: %v", err)
	}
	stalled := breaker{stalls: 4}
	if got := stalled.after(outcome{class: classProxy, duration: 2 * time.Second}, clk.Now()); got != stalled {
		t.Errorf("the breaker counted it: %+v", got)
	}
}

// egress is a proxy that tunnels everything to one address, whatever is requested.
type egress struct {
	net.Listener
	mu      sync.Mutex
	targets []string
	headers []http.Header
}

func newEgress(t *testing.T, to string, answer string) *egress {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &egress{Listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c, to, answer)
		}
	}()
	return p
}

func (p *egress) serve(c net.Conn, to, answer string) {
	defer c.Close()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	p.mu.Lock()
	p.targets, p.headers = append(p.targets, req.Method+" "+req.RequestURI), append(p.headers, req.Header)
	p.mu.Unlock()
	if io.WriteString(c, answer); !strings.Contains(answer, " 200 ") {
		return
	}
	inside, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer inside.Close()
	go io.Copy(inside, c)
	io.Copy(c, inside)
}

func (p *egress) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.targets...)
}

const tunnelOpen = "HTTP/1.1 200 OK\r\n\r\n"

func TestTheEgressProxyIsAskedForTheJudgedAddressByNumber(t *testing.T) {
	t.Parallel()
	plain := newReceiver(t, status(http.StatusOK))
	var host string
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { host = r.Host }))
	t.Cleanup(secure.Close)
	ns := newNameServer(t, func(name string, asked int) []netip.Addr {
		if asked > 0 || name == "inside.example" {
			return addresses("127.0.0.1")
		}
		return addresses("93.184.216.34")
	})
	for name, c := range map[string]struct{ url, to, want string }{
		"http":  {"http://crm.example/hook", plain.Listener.Addr().String(), "CONNECT 93.184.216.34:80"},
		"https": {"https://example.com/hook", secure.Listener.Addr().String(), "CONNECT 93.184.216.34:443"},
	} {
		p := newEgress(t, c.to, tunnelOpen)
		cfg := Config{Sandbox: true, Resolver: ns.Resolver, Proxy: &url.URL{Scheme: "http",
			User: url.UserPassword("partnerd", "s3cret"), Host: p.Addr().String()}}
		s := New(nil, nil, cfg).sender
		t.Cleanup(s.close)
		s.transport.TLSClientConfig = &tls.Config{
			RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		}
		for range 2 { // the second request reuses the open tunnel
			if o := s.send(t.Context(), message{url: c.url, attempt: 1}); o.class != "" {
				t.Fatalf("%s: %+v", name, o)
			}
		}
		if got := p.seen(); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: the proxy was asked for %v", name, got)
		}
		if got := p.headers[0].Get("Proxy-Authorization"); got != "Basic cGFydG5lcmQ6czNjcmV0" {
			t.Errorf("credentials %q", got)
		}
		for _, u := range []string{"https://inside.example/", "https://10.0.0.1/", "https://[::1]/"} {
			if o := s.send(t.Context(), message{url: u, attempt: 1}); o.class != classBlocked {
				t.Errorf("%s through the proxy: %+v", u, o)
			}
		}
		if got := p.seen(); len(got) != 1 {
			t.Errorf("the proxy was asked for %v", got)
		}
	}
	if len(plain.seen()) != 2 || host != "example.com" {
		t.Errorf("%d posts; host %q", len(plain.seen()), host)
	}
}

func TestABadEgressProxyIsAFailureOfOursAndOneThatReachesNobodyIsTheEndpoints(t *testing.T) {
	t.Parallel()
	ns := newNameServer(t, func(string, int) []netip.Addr { return addresses("93.184.216.34") })
	for answer, class := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n": classProxy,
		"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n":  classProxy,
		"HTTP/1.1 502 Bad Gateway\r\n\r\n":                    classConnect,
		"HTTP/1.1 504 Gateway Timeout\r\n\r\n":                classConnect, "220 mail\r\n": classProxy, "": classProxy,
		tunnelOpen + "hello": classProxy,
	} {
		p := newEgress(t, "127.0.0.1:9", answer)
		s := New(nil, nil, Config{Sandbox: true, Resolver: ns.Resolver,
			Proxy: &url.URL{Scheme: "http", Host: p.Addr().String()}, ConnectTimeout: time.Second}).sender
		if o := s.send(t.Context(), message{url: "http://crm.example/", attempt: 1}); o.class != class {
			t.Errorf("%q: %+v", answer, o)
		}
		s.close()
	}
	gone := newEgress(t, "127.0.0.1:9", "")
	gone.Close()
	s := New(nil, nil, Config{Sandbox: true, Resolver: ns.Resolver,
		Proxy: &url.URL{Scheme: "http", Host: gone.Addr().String()}}).sender
	if o := s.send(t.Context(), message{url: "http://crm.example/", attempt: 1}); o.class != classProxy {
		t.Errorf("unreachable: %+v", o)
	}
	for raw, ok := range map[string]bool{
		"http://proxy:3128": true, "https://u:p@proxy.example": true, "proxy:3128": false, "socks5://proxy": false,
		"http://": false, "http://proxy/path": false, "http://proxy:99999": false,
	} {
		if _, err := ParseProxy(raw); (err == nil) != ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
