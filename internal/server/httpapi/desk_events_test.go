package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A stream that was silent for a while ends in order: the browser finds the end of the chunked response and reports no
// error.
func TestAStreamEndsInOrder(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := &events{w: http.NewResponseController(w), to: w}
		out.begin()
		if err := out.w.SetWriteDeadline(time.Unix(1, 0)); err != nil { // the deadline of the last event has passed
			t.Error(err)
		}
		if err := out.end(); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	r, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if body, err := io.ReadAll(r.Body); err != nil || !strings.HasSuffix(string(body), ": end\n\n") {
		t.Errorf("%q, %v", body, err)
	}
}
