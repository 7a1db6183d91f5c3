package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"partnerd/internal/domain/webhook"
)

// listen serves a handler on loopback until end is called.
func listen(h http.Handler) (base string, end func(), err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // returns after Close
	return "http://" + l.Addr().String(), func() { server.Close() }, nil
}

// notice is an event as its receiver reads it.
type notice struct {
	id   string // consultation/sequence
	kind webhook.Type
	at   time.Time
}

// takeNotice reads an event and verifies its signature, as a receiver should.
func takeNotice(req *http.Request, secret string) (n notice, err error) {
	n.at = time.Now()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the request broke off, so it is no event
	}
	if err := webhook.Verify(secret, req.Header.Get(webhook.HeaderSignature), body, n.at); err != nil {
		return n, err
	}
	var event struct {
		Type webhook.Type
		Data struct{ ID string }
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return n, err
	}
	n.id, n.kind = event.Data.ID+"/"+req.Header.Get(webhook.HeaderSequence), event.Type
	return n, nil
}
