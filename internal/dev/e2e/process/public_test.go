package process_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
)

const (
	publicURL   = "https://sandbox.example"
	partnersURL = "https://crm.example/callback"
)

// TestAPartnerElsewhereUsesAPublicSandbox: a partner elsewhere uses a sandbox at a public base URL behind a proxy. The
// test goes from the client's consent to a completed consultation and its events. Nothing shown to them leads to the
// sandbox's machine.
func TestAPartnerElsewhereUsesAPublicSandbox(t *testing.T) {
	t.Parallel()
	in := install(t, "PARTNERD_BASE_URL="+publicURL, "PARTNERD_TRUSTED_PROXIES=127.0.0.1/32")
	server := in.serve(t, freeAddress(t))
	out := &outsider{t: t, Transport: throughProxy(t, server), port: server.addr[strings.LastIndex(server.addr, ":"):]}
	r := in.cli(t, "app", "create", "--name", "Elsewhere", "--redirect-uri", partnersURL,
		"--webhook-url", "http://"+freeAddress(t))
	if r.code == 0 || !strings.Contains(r.stderr, "public host") {
		t.Errorf("a webhook to the sandbox's own machine: %+v", r)
	}
	in.ask(t, &out.app, "app", "create", "--json", "--name", "Elsewhere", "--redirect-uri", partnersURL)
	out.app.RedirectURI = partnersURL

	demo, err := os.ReadFile(filepath.Join(in.dir, "demo.json"))
	if err != nil {
		t.Error(err)
	}
	out.hidesTheMachine("demo.json", string(demo))
	await(t, deadline, func() bool { return strings.Contains(server.welcome.String(), "demo.json") },
		server.welcome.String)
	out.hidesTheMachine("the welcome", server.welcome.String())
	if !strings.Contains(server.output.String(), "PARTNERD_MAIL_SERVER") {
		t.Errorf("the pages do not say that no email is sent: %s", server.output.String())
	}
	in.examine(t, "mail", "warn", "this sandbox sends no email")

	out.refusesLoopback()
	out.readsPages()
	out.readsMail(in)
	out.link()
	out.topUp()
	out.consult()
	out.remembersClients()
}

// throughProxy returns a transport that resolves every name to a proxy, which terminates TLS in front of the server.
func throughProxy(t *testing.T, server *process) *http.Transport {
	t.Helper()
	authority, key, _ := newAuthority(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"sandbox.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	behind, err := url.Parse(server.url)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}})
	front.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	front.StartTLS()
	t.Cleanup(front.Close)
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, front.Listener.Addr().String())
		}}
}

// outsider is a partner who knows only the public address. As a RoundTripper it inspects every response.
type outsider struct {
	*http.Transport
	t       *testing.T
	app     crm.Application
	port    string // of the sandbox on its own machine
	token   string
	mu      sync.Mutex
	cookies int
}

// RoundTrip implements http.RoundTripper.
func (o *outsider) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	where := r.Method + " " + r.URL.String()
	if to := resp.Header.Get("Location"); to != "" && !strings.HasPrefix(to, "/") &&
		!strings.HasPrefix(to, publicURL+"/") && !strings.HasPrefix(to, "https://crm.example/") {
		o.t.Errorf("%s leads to %s", where, to)
	}
	for _, c := range resp.Cookies() {
		o.mu.Lock()
		o.cookies++
		o.mu.Unlock()
		if !c.Secure {
			o.t.Errorf("%s sets %s, which is not Secure", where, c.Name)
		}
	}
	o.hidesTheMachine(where, fmt.Sprint(resp.Header)+string(body))
	return resp, nil
}

// addressOfTheMachine matches addresses that would lead a person elsewhere to their own machine. Port 3000 belongs to
// the samples of the documentation, which run there.
var addressOfTheMachine = regexp.MustCompile(`://(localhost|127\.0\.0\.1)(:\d+)?`)

func (o *outsider) hidesTheMachine(where, text string) {
	o.t.Helper()
	found := addressOfTheMachine.FindAllString(text, -1)
	found = slices.DeleteFunc(found, func(s string) bool { return strings.HasSuffix(s, ":3000") })
	if len(found) > 0 || strings.Contains(text, o.port) {
		o.t.Errorf("%s names the machine of the sandbox: %q", where, found)
	}
}

func (o *outsider) client() *http.Client { return &http.Client{Transport: o, Timeout: deadline} }

func (o *outsider) browser() *crm.Browser { return crm.NewBrowser("https://crm.example/").Through(o) }

// call sends a request to an API with the client's token, or as the application, and decodes the response.
func (o *outsider) call(method, path, body string, into any) int {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, publicURL+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", rand.Text())
	if strings.HasPrefix(path, "/api/platform/") {
		r.SetBasicAuth(o.app.ClientID, o.app.ClientSecret)
	} else {
		r.Header.Set("Authorization", "Bearer "+o.token)
	}
	got := sendBy(o.client(), r)
	if got.status == 0 {
		o.t.Fatalf("%s %s: no response", method, path)
	}
	if into != nil && (got.status >= http.StatusMultipleChoices || json.Unmarshal(got.body, into) != nil) {
		o.t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
	}
	return got.status
}

// refusesLoopback asserts that no one can direct the sandbox at its own machine.
func (o *outsider) refusesLoopback() {
	o.t.Helper()
	for _, to := range []string{"http://loopback.invalid/webhooks", "https://[::1]:8443/webhooks"} {
		body := fmt.Sprintf(`{"url":%q}`, to)
		if status := o.call(http.MethodPut, "/api/platform/v1/endpoint",
			body, nil); status != http.StatusUnprocessableEntity {
			o.t.Errorf("webhooks to %s: %d", to, status)
		}
	}
}

func (o *outsider) readsPages() {
	o.t.Helper()
	for _, path := range []string{
		"/", "/docs", "/docs/quickstart", "/openapi.yaml", "/login", "/signup", "/account", "/developers",
		"/developers/signup", "/desk", "/ops", "/staff/login", "/status", "/llms.txt",
		"/.well-known/oauth-authorization-server",
	} {
		p, err := o.browser().Open(o.t.Context(), publicURL+path)
		if err != nil {
			o.t.Fatal(err)
		}
		if p.Status >= http.StatusInternalServerError {
			o.t.Errorf("%s: %d", path, p.Status)
		}
	}
}

// readsMail opens the links in the emails of a first start, which invite an operator and a lawyer.
func (o *outsider) readsMail(in *installation) {
	o.t.Helper()
	var mails []string
	await(o.t, deadline, func() bool {
		mails, _ = filepath.Glob(filepath.Join(in.dir, "mail", "*"))
		return len(mails) >= 2
	}, func() string { return "no mail came" })
	for _, name := range mails {
		raw, err := os.ReadFile(name)
		if err != nil {
			o.t.Fatal(err)
		}
		o.hidesTheMachine(name, string(raw))
		if !bytes.Contains(raw, []byte(publicURL+"/")) {
			o.t.Errorf("%s leads nowhere: %s", name, raw)
		}
	}
}

// link creates a test client and takes them through the pages.
func (o *outsider) link() {
	o.t.Helper()
	var made struct{ Email, Password string }
	o.call(http.MethodPost, "/api/platform/v1/sandbox/clients", `{"name":"Camille Test","phoneVerified":true}`, &made)
	var meta crm.Metadata
	o.call(http.MethodGet, "/.well-known/oauth-authorization-server", "", &meta)
	conf := o.app.Config(meta, crm.AllScopes...)
	if meta.Issuer != publicURL {
		o.t.Errorf("the issuer is %s", meta.Issuer)
	}
	ctx := context.WithValue(o.t.Context(), oauth2.HTTPClient, o.client())
	token, err := crm.LinkBy(ctx, o.browser(), conf, publicURL, made.Email, made.Password)
	if err != nil {
		o.t.Fatal(err)
	}
	o.token = token.AccessToken
}

func (o *outsider) topUp() {
	o.t.Helper()
	var session struct{ CheckoutURL string }
	o.call(http.MethodPost, "/api/v1/wallet/topup-session",
		`{"amountCents":5000,"returnUrl":"https://crm.example/wallet"}`, &session)
	b := o.browser()
	page, err := b.Open(o.t.Context(), session.CheckoutURL)
	if err != nil {
		o.t.Fatal(err)
	}
	form, err := page.Form("action")
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err = b.Send(o.t.Context(), page, form, nil, "pay"); err != nil {
		o.t.Fatal(err)
	}
	var wallet struct{ BalanceCents int }
	await(o.t, deadline, func() bool {
		o.call(http.MethodGet, "/api/v1/wallet", "", &wallet)
		return wallet.BalanceCents == 5000
	}, func() string { return fmt.Sprintf("the wallet has %d", wallet.BalanceCents) })
}

// consult starts a consultation and follows it in the list of events, which needs no address that the sandbox can
// reach.
func (o *outsider) consult() {
	o.t.Helper()
	var made struct{ ID, Status string }
	o.call(http.MethodPost, "/api/v1/consultations",
		`{"competence":"HOUSING","language":"FR","subject":"Deposit not returned","withdrawalWaiverAcknowledged":true}`, &made)
	var types []string
	await(o.t, deadline, func() bool {
		var list struct {
			Items []struct{ Type, ConsultationID string }
		}
		o.call(http.MethodGet, "/api/platform/v1/events", "", &list)
		types = nil
		for _, e := range list.Items {
			if e.ConsultationID == made.ID {
				types = append(types, e.Type)
			}
		}
		return slices.Contains(types, "consultation.completed")
	}, func() string { return fmt.Sprint("not completed: ", types) })
	for _, want := range []string{
		"created", "payment_authorized", "matching", "assigned", "call_started", "call_ended", "note_available",
	} {
		if !slices.Contains(types, "consultation."+want) {
			o.t.Errorf("no event %s: %v", want, types)
		}
	}
	o.call(http.MethodGet, "/api/v1/consultations/"+made.ID, "", &made)
	if made.Status != "COMPLETED" {
		o.t.Errorf("the consultation is %s", made.Status)
	}
}

func (o *outsider) remembersClients() {
	o.t.Helper()
	if o.cookies == 0 {
		o.t.Error("no cookie was set, so none was looked at")
	}
}
