package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

var (
	errNoAddress = errors.New("the name has no address")
	errProxy     = errors.New("egress proxy")

	errUnreachable = errors.New("the proxy does not reach the target")
)

// dialContext returns the dial function of deliveries. Without a proxy, the guard checks every address that is dialled.
//
// With a proxy, the name is resolved here, all its addresses are checked, and the proxy is asked for one of the IP
// addresses. The proxy therefore cannot be made to dial an address that was not checked.
func dialContext(cfg Config, g guard) func(ctx context.Context, network, address string) (net.Conn, error) {
	resolver := cfg.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	if cfg.Proxy == nil {
		dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second, Control: g.Safe,
			Resolver: resolver}
		return dialer.DialContext
	}
	p := proxy{url: cfg.Proxy, dialer: &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second}}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
		defer cancel()
		target, err := resolveSafe(ctx, resolver, g, address)
		if err != nil {
			return nil, err
		}
		conn, err := p.connect(ctx, target)
		if err != nil {
			return nil, err
		}
		return tunnel{conn, targetAddr(target)}, nil
	}
}

// resolveSafe returns the first address of a host if deliveries may go to all of its addresses.
func resolveSafe(ctx context.Context, resolver *net.Resolver, g guard, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	if len(addresses) == 0 {
		return "", errNoAddress
	}
	for _, a := range addresses {
		a = a.Unmap()
		network := "tcp6"
		if a.Is4() {
			network = "tcp4"
		}
		if err := g.Safe(network, net.JoinHostPort(a.String(), port), nil); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(addresses[0].Unmap().String(), port), nil
}

// tunnel is a connection to target through a proxy.
type tunnel struct {
	net.Conn
	target net.Addr
}

func (t tunnel) RemoteAddr() net.Addr { return t.target }

func targetAddr(target string) net.Addr {
	a, err := netip.ParseAddrPort(target)
	if err != nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(a)
}

// proxy is an HTTP proxy that opens tunnels (RFC 9110 section 9.3.6).
type proxy struct {
	url    *url.URL
	dialer *net.Dialer
}

// connect opens a tunnel to target, an IP address and port. A failure of the proxy is an errProxy. A target that the
// proxy cannot reach is a connection failure, as without a proxy.
func (p proxy) connect(ctx context.Context, target string) (net.Conn, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp", p.address())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProxy, err)
	}
	if p.url.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: p.url.Hostname(), MinVersion: tls.VersionTLS12})
	}
	// Closes the connection after the timeout, whatever the proxy does.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = p.tunnel(conn, target)
	if stop() && err == nil {
		return conn, nil
	}
	conn.Close()
	switch {
	case ctx.Err() != nil:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: targetAddr(target), Err: context.DeadlineExceeded}
	case errors.Is(err, errUnreachable):
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: targetAddr(target), Err: errUnreachable}
	}
	return nil, fmt.Errorf("%w: %w", errProxy, err)
}

func (p proxy) tunnel(conn net.Conn, target string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target,
		Header: http.Header{"User-Agent": {userAgent}}}
	if u := p.url.User; u != nil {
		password, _ := u.Password()
		req.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	// Nothing has been sent to the target yet, so the buffer can hold nothing beyond the response, unless the proxy
	// misbehaves.
	reader := bufio.NewReaderSize(conn, 4<<10)
	resp, err := http.ReadResponse(reader, req) //nolint:bodyclose // it has none: the connection goes on as the tunnel
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 500: // the status that proxies use for a target that refuses or does not respond
		return errUnreachable
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("answered %d", resp.StatusCode)
	case reader.Buffered() > 0:
		return errors.New("sent more than its answer")
	}
	return nil
}

func (p proxy) address() string {
	port := p.url.Port()
	if port == "" {
		port = "80"
		if p.url.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(p.url.Hostname(), port)
}

// ParseProxy parses the URL of an egress proxy: http://[user:password@]host[:port], or https.
func ParseProxy(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Path != "" && u.Path != "/", u.RawQuery != "",
		u.Fragment != "":
		return nil, errors.New("is not like http://host:port")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("has an impossible port")
		}
	}
	return u, nil
}
