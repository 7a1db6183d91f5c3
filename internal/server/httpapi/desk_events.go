package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/domain/desk"
)

// eventStream is a response that stays open. It either fails before its first byte or lasts until the caller leaves.
type eventStream func(w http.ResponseWriter) error

// VisitStreamEventsResponse implements the generated interface.
func (f eventStream) VisitStreamEventsResponse(w http.ResponseWriter) error { return f(w) }

// reconnect is the delay that browsers must wait before reconnecting.
const reconnect = time.Second

// writeTime is the maximum time that the caller has to read a write.
const writeTime = 10 * time.Second

// events writes server-sent events. Each write has its own deadline, because the server's deadline covers a whole
// response.
type events struct {
	w  *http.ResponseController
	to http.ResponseWriter
}

var _ desk.Stream = (*events)(nil)

func (e *events) begin() {
	_ = e.w.SetReadDeadline(time.Time{}) // the request has been read; its deadline would end the stream
	h := e.to.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for proxies that would otherwise buffer events
	e.to.WriteHeader(http.StatusOK)
	_ = e.write(fmt.Sprintf("retry: %d\n\n", reconnect.Milliseconds()))
}

// State implements [desk.Stream].
func (e *events) State(st desk.State) error {
	raw, err := json.Marshal(stateView(st))
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return e.write("id: " + st.Version + "\nevent: state\ndata: " + string(raw) + "\n\n")
}

// end closes the stream in order. The server's last write needs a deadline that has not expired since the last event,
// or browsers report a broken response.
func (e *events) end() error { return e.write(": end\n\n") }

// Idle implements [desk.Stream].
func (e *events) Idle() error { return e.write("event: idle\ndata:\n\n") }

func (e *events) write(text string) error {
	// by the clock of the connection; a writer in a test has none
	_ = e.w.SetWriteDeadline(clock.System{}.Now().Add(writeTime))
	if _, err := io.WriteString(e.to, text); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	if err := e.w.Flush(); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	return nil
}
