package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/telemetry"
)

// HeaderPrefix is the prefix of our header names (specification section 6.3).
const HeaderPrefix = "X-Service-"

// Headers of a delivery.
const (
	HeaderEvent             = HeaderPrefix + "Event"              // type of the event
	HeaderDelivery          = HeaderPrefix + "Delivery"           // the same for every attempt
	HeaderSignature         = HeaderPrefix + "Signature"          // see [Sign]
	HeaderSignaturePrevious = HeaderPrefix + "Signature-Previous" // with the replaced secret, for [SecretOverlap]
	HeaderAttempt           = HeaderPrefix + "Attempt"            // 1, 2, 3 …
	HeaderSequence          = HeaderPrefix + "Sequence"           // of the event within its consultation
	HeaderTest              = HeaderPrefix + "Test"               // "true" for test events
)

const (
	userAgent   = "partnerd-webhook/1"
	maxRead     = 64 << 10 // bytes of a response
	maxStored   = 4 << 10
	maxErrorLen = 300
)

// Classes of failure, the first word of an attempt's error.
const (
	classBlocked  = "blocked_address" // not a public address, or a forbidden port
	classDNS      = "dns"
	classConnect  = "connect"
	classTLS      = "tls"
	classTimeout  = "timeout"
	classResponse = "response" // the response broke off or is invalid for a POST
	classRedirect = "redirect"
	classStatus   = "status"
	classProxy    = "proxy" // our egress proxy failed: nothing is known about the endpoint
)

var classes = []string{classBlocked, classDNS, classConnect, classTLS, classTimeout, classResponse, classRedirect,
	classStatus, classProxy}

// message is one attempt to be made.
type message struct {
	url            string
	secret         string
	previousSecret string // empty if none is in force
	deliveryID     string
	kind           Type
	sequence       int64
	attempt        int
	body           []byte
	applicationID  string
	consultationID string
	token          string // of the lease
	scheduleFrom   int    // attempts before the schedule restarted
	createdAt      time.Time
	test           bool
	signatures     http.Header   // of a trial, instead of our own; nil for ours
	startIn        time.Duration // after the claim
	traceParent    string        // span in which the event was written; empty for none
}

// outcome is the result of an attempt.
type outcome struct {
	startedAt  time.Time // on the application's clock
	duration   time.Duration
	status     int    // 0: no response
	class      string // empty on success
	detail     string
	body       string
	retryAfter time.Duration
	cause      error // of a failure without a complete response; only for the log, because it can reveal internals
}

// describe sets the attributes of an attempt's span. It never includes the URL, which may contain a secret of the
// partner.
func (m message) describe(span telemetry.Span, o outcome) {
	span.Set(telemetry.ApplicationID, m.applicationID)
	span.Set(telemetry.ConsultationID, m.consultationID)
	span.Set(telemetry.DeliveryID, m.deliveryID)
	span.Set(telemetry.EventType, string(m.kind))
	span.SetInt(telemetry.Sequence, m.sequence)
	span.SetInt(telemetry.Attempt, int64(m.attempt))
	span.Set(telemetry.Method, http.MethodPost)
	if o.status != 0 {
		span.SetInt(telemetry.Status, int64(o.status))
	}
	if o.class != "" {
		span.Fail(o.class)
	}
}

// logged returns the attributes of a log line.
func (o outcome) logged() []any {
	attributes := []any{"status", o.status, "duration_ms", o.duration.Milliseconds(), "error_class", o.class}
	if o.cause != nil {
		attributes = append(attributes, "error", o.cause)
	}
	return attributes
}

func (o outcome) errorText() string {
	if o.class == "" {
		return ""
	}
	return excerpt([]byte(o.class+": "+o.detail), maxErrorLen)
}

// sender makes attempts. It does not use the database.
type sender struct {
	guard     guard
	hide      bool            // hide what this machine responds; see [Config]
	transport *http.Transport // used without http.Client, so redirects are never followed
	timeout   time.Duration
	now       func() time.Time // real time: endpoints compare the signature's time with theirs
}

func newSender(cfg Config) *sender {
	g := newGuard(cfg)
	return &sender{guard: g, hide: cfg.HideLoopback, timeout: cfg.Timeout, now: cfg.Now, transport: &http.Transport{
		Proxy:                  nil, // a proxy from the environment would bypass the guard; see dialContext for ours
		DialContext:            dialContext(cfg, g),
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConns:           cfg.Slots,
		MaxIdleConnsPerHost:    cfg.EndpointConcurrency,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxRead,
		DisableCompression:     true,
	}}
}

func (s *sender) close() { s.transport.CloseIdleConnections() }

// send makes one attempt. The timeout limits its duration, whatever the endpoint does.
func (s *sender) send(ctx context.Context, m message) outcome {
	started := clock.System{}.Now()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var remote net.Addr
	o, err := s.post(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { remote = c.Conn.RemoteAddr() }}), m)
	if err != nil {
		o.class, o.detail = classify(ctx, err)
		o.cause = err
	}
	if s.hide && isLoopback(remote, err) {
		o.body = ""
		if err != nil {
			o.class, o.detail = classConnect, "no complete response"
		}
	}
	o.duration = clock.Since(clock.System{}, started)
	return o
}

// Headers returns the headers of an attempt, except its signatures.
func Headers(t Type, deliveryID string, sequence int64, attempt int, test bool) http.Header {
	h := make(http.Header, 12) // with space for the signatures and the sender's headers
	h.Set("Content-Type", "application/json")
	h.Set(HeaderEvent, string(t))
	h.Set(HeaderDelivery, deliveryID)
	h.Set(HeaderAttempt, strconv.Itoa(attempt))
	h.Set(HeaderSequence, strconv.FormatInt(sequence, 10))
	if test {
		h.Set(HeaderTest, "true")
	}
	return h
}

func (s *sender) post(ctx context.Context, m message) (outcome, error) {
	now := s.now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(m.body))
	if err != nil {
		return outcome{}, err
	}
	h := Headers(m.kind, m.deliveryID, m.sequence, m.attempt, m.test)
	req.Header = h
	h.Set("User-Agent", userAgent)
	if m.signatures != nil {
		maps.Copy(h, m.signatures)
	} else {
		h.Set(HeaderSignature, Sign(m.secret, now, m.body))
	}
	if m.signatures == nil && m.previousSecret != "" {
		h.Set(HeaderSignaturePrevious, Sign(m.previousSecret, now, m.body))
	}
	if span := telemetry.Carry(ctx); span != "" {
		h.Set(telemetry.HeaderParent, span)
	}
	// Not sent, but allows net/http to retry if the endpoint closed a reused connection.
	h["Idempotency-Key"] = []string{}

	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return outcome{}, err
	}
	defer resp.Body.Close()
	// Reads of a body end with ctx by themselves, except on a bare connection, as after a 101, which is not read.
	// Closing the body here enforces the limit even if net/http has other such cases.
	defer context.AfterFunc(ctx, func() { resp.Body.Close() })()
	o := outcome{status: resp.StatusCode, retryAfter: parseRetryAfter(resp.Header.Get("Retry-After"), now)}
	if o.status == http.StatusSwitchingProtocols {
		o.class, o.detail = classResponse, "responded with 101; no other protocol was requested"
		return o, nil
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	o.body = excerpt(answer, maxStored)
	if err != nil {
		return o, fmt.Errorf("read the answer: %w", err)
	}
	switch {
	case o.status/100 == 2:
	case o.status/100 == 3:
		o.class, o.detail = classRedirect, fmt.Sprintf("responded with %d; redirects are not followed", o.status)
	default:
		o.class, o.detail = classStatus, fmt.Sprintf("responded with %d", o.status)
	}
	return o, nil
}

// isLoopback reports whether an attempt went, or failed to go, to a loopback address.
func isLoopback(remote net.Addr, err error) bool {
	var op *net.OpError
	if remote == nil && errors.As(err, &op) {
		remote = op.Addr
	}
	tcp, ok := remote.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// classify returns the class of a failure without a complete response, and a description for the partner. The text is
// ours, because error texts name our addresses, name servers and proxies.
func classify(ctx context.Context, err error) (class, detail string) {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case isBlocked(err):
		return classBlocked, "the address or port is not allowed for deliveries"
	case errors.Is(err, errProxy):
		return classProxy, "our outbound connection failed; the endpoint was not reached"
	case ctx.Err() != nil:
		return classTimeout, "no complete response in time"
	case errors.As(err, &dns) && dns.IsNotFound:
		return classDNS, "the host name was not found"
	case errors.As(err, &dns):
		return classDNS, "the name server did not respond"
	case errors.Is(err, errNoAddress):
		return classDNS, "the host name has no address"
	case errors.As(err, &op) && op.Op == "dial":
		return classConnect, describeConnect(err)
	}
	if reason, ok := tlsReason(err); ok {
		return classTLS, reason
	}
	return classResponse, describeResponse(err)
}

func describeConnect(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	}
	return "no connection"
}

func describeResponse(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset before a complete response"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before a complete response"
	}
	return "not a valid response of HTTP/1.1 or, for https, of TLS 1.2 or later"
}

// tlsReason returns why TLS failed, if it did. The text concerns only the endpoint's certificate and protocol.
func tlsReason(err error) (reason string, ok bool) {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &certificate):
		return certificate.Err.Error(), true
	case errors.As(err, &record):
		return record.Msg, true
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"): // alerts
		return op.Err.Error(), true
	}
	return "", false
}

func isBlocked(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedPort) ||
		errors.Is(err, ssrf.ErrProhibitedNetwork)
}
