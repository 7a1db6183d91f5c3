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

// How long a connection outlives its last answer while the caller still sends: whichever ends first.
const (
	lingerBytes   = 32 << 20
	lingerTime    = 10 * time.Second
	lingerSilence = 2 * time.Second
)

// Listener wraps a listener of TCP connections for an http.Server. newID makes the request ids of refusals that no
// handler sees.
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
	closed atomic.Bool // we have; nobody but linger reads
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

// Write implements net.Conn. A refusal of net/http is put in our words.
func (c *conn) Write(b []byte) (int, error) {
	if status, ok := refusal(b); ok {
		return len(b), c.refuse(status)
	}
	return c.TCPConn.Write(b)
}

// Close implements net.Conn. It returns at once; a caller who still sends is read for a while, because closing would
// reset the connection and take the answer away.
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

// refusalHeader is what net/http puts behind the status line of an answer that it writes without a handler. Nobody else
// writes it: what handlers answer has a date.
var refusalHeader = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

const maxRefusal = 512 // bytes; it comes in one short write

// refusal tells whether b is such an answer, and its status with the reason, like "400 Bad Request".
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

// refuse answers for net/http in the form of the contract.
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
