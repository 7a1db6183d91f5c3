package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"partnerd/internal/domain/conformance"
)

// TestRequestsEndInTime checks that a request's work is cancelled while its response can still be written. A stream
// continues.
func TestRequestsEndInTime(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/api/v1/wallet": true, "/api/desk/v1/state": true, "/account": true, streamPath: false,
	} {
		inTime(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if until, bounded := r.Context().Deadline(); bounded != want || bounded && time.Until(until) > requestTime {
				t.Errorf("%s: bounded %t, until %s", path, bounded, until)
			}
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	if requestTime >= answerTime || requestTime <= conformance.MaxTime {
		t.Errorf("a request may take %s, its answer %s and an examination %s",
			requestTime, answerTime, conformance.MaxTime)
	}
}
