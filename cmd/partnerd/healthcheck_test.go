package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"partnerd/internal/app/config"
)

// TestTheHealthCheckAsksTheProcessBesideIt checks that a container's health check probes the process beside it at that
// process's address. That is the address for callers, or for its metrics.
func TestTheHealthCheckAsksTheProcessBesideIt(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("%s is asked", r.URL.Path)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, c := range []struct {
		of, addr, metrics string
		status            int
		healthy           bool
	}{
		{"serve", "0.0.0.0:" + port, "", http.StatusOK, true}, {"serve", ":" + port, "", http.StatusOK, true},
		{"work", "127.0.0.1:1", "[::]:" + port, http.StatusOK, true},
		{"serve", "127.0.0.1:" + port, "", http.StatusServiceUnavailable, false},
		{"serve", "127.0.0.1:1", "127.0.0.1:" + port, http.StatusOK, false},
		{"work", "127.0.0.1:" + port, "", http.StatusOK, false},
	} {
		status = c.status
		cfg := &config.Config{Addr: c.addr, MetricsAddr: c.metrics}
		if err := (&healthcheckCmd{Of: c.of}).Run(t.Context(), cfg); (err == nil) != c.healthy {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
