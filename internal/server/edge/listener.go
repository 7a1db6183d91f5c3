package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
)

// After its last response, a connection on which the caller still sends stays open until one of these limits is
// reached.
const (
	lingerBytes   = 32 << 20
	lingerTime    = 10 * time.Second
	lingerSilence = 2 * time.Second
)

// Listener wraps a TCP listener for an http.Server. newID creates the request IDs of refusals that no handler sees.
func Listener(l net.Listener, newID func() string, log *slog.Logger) net.Listener {
	return &listener{l, newID, log}
}

type listener struct {
	net.Listener
	newID func() string
	log   *slog.Logger
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &conn{TCPConn: tcp, from: l}, err
	}
	return c, err
}

type conn struct {
	*net.TCPConn
	from   *listener
	ended  atomic.Bool // the caller has closed its side
	closed atomic.Bool // we have closed our side; only linger still reads
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	if errors.Is(err, io.EOF) {
		c.ended.Store(true)
	}
	return n, err
}

// Write implements net.Conn. It replaces the text of a refusal by net/http with our own.
func (c *conn) Write(b []byte) (int, error) {
	if status, ok := refusal(b); ok {
		return len(b), c.refuse(status)
	}
	return c.TCPConn.Write(b)
}

// Close implements net.Conn and returns immediately. If the caller still sends, its data is read for a while first.
// Closing at that moment would reset the connection and lose the response.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	if c.ended.Load() || c.CloseWrite() != nil {
		return c.TCPConn.Close()
	}
	go c.linger()
	return nil
}

func (c *conn) linger() {
	defer c.TCPConn.Close()
	end := clock.System{}.Now().Add(lingerTime)
	b := make([]byte, 4<<10)
	for read := 0; read < lingerBytes; {
		until := clock.System{}.Now().Add(lingerSilence)
		if until.After(end) {
			until = end
		}
		if c.SetReadDeadline(until) != nil {
			return
		}
		n, err := c.TCPConn.Read(b)
		if read += n; err != nil {
			return
		}
	}
}

// refusalHeader is what net/http writes after the status line of a response that no handler produced. No other response
// has this header, because handler responses carry a date.
var refusalHeader = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

const maxRefusal = 512 // in bytes; net/http writes it in one short write

// refusal reports whether b is such a response, and returns its status with the reason, for example "400 Bad Request".
func refusal(b []byte) (status string, ok bool) {
	if len(b) > maxRefusal || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return "", false
	}
	line, _, found := bytes.Cut(b, refusalHeader)
	if !found || bytes.ContainsAny(line, "\r\n") {
		return "", false
	}
	before, _, _ := bytes.Cut(line[len("HTTP/1.1 "):], []byte(": "))
	return string(before), true
}

// refuse responds on behalf of net/http in the error format of the contract.
func (c *conn) refuse(status string) error {
	p := problem.ErrMalformed
	switch status[:min(3, len(status))] {
	case "431":
		p = p.Because("The request line and header are too large.")
	case "505":
		p = p.Because("This version of HTTP is not supported.")
	case "501":
		p = p.Because("This transfer encoding is not supported.")
	}
	body, err := json.Marshal(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{p.Code, p.Message})
	if err != nil {
		return err
	}
	id := c.from.newID()
	c.from.log.Info("request refused unread", "requestId", id, "status", status)
	_, err = fmt.Fprintf(c.TCPConn, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"+
		"X-Request-Id: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, id, len(body), body)
	return err
}
