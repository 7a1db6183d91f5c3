package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"partnerd/internal/infra/postgres"
)

const probeTimeout = 2 * time.Second

// bearer admits requests with the token; an empty token admits all.
func bearer(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if token != "" && subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newRegistry returns a registry with the metrics of this process; the program adds its own.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// clockAhead measures how far the database's clock, which decides what is due, is ahead of this machine's.
func clockAhead(db *postgres.DB) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "partnerd_database_clock_ahead_seconds",
		Help: "How far the database's clock was ahead of this machine's at the last check."},
		func() float64 { return db.ClockAhead().Seconds() })
}

// metricsHandler serves the metrics that can be read. While the database is unavailable its metrics are missing, and
// alerts use the process's own. An error response would suggest that the process is down.
func (a *App) metricsHandler() http.Handler {
	return promhttp.HandlerFor(a.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 3, Timeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(a.Logger.Handler(), slog.LevelWarn)})
}

// probe responds to orchestrators of a process without another address. It reports that the process is alive. If ready
// is set, the database must also respond, and the process must not have been told to stop.
func (a *App) probe(ready bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		said := "ok"
		if ready {
			ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
			defer cancel()
			if err := a.DB.Ping(ctx); err != nil {
				a.Logger.Warn("not ready", "error", err)
				said = "unavailable"
			} else if a.ending.Load() {
				said = "ending"
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if said != "ok" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, `{"status":%q}`+"\n", said)
	}
}

// serveMetrics serves /metrics on a separate address, protected by the token if there is one, and probes to anyone. The
// listener is open when it returns; stop closes it.
func (a *App) serveMetrics() (stop func(), err error) {
	listener, err := net.Listen("tcp", a.Config.MetricsAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", bearer(a.Config.MetricsToken, a.metricsHandler()))
	mux.Handle("GET /healthz", a.probe(false))
	mux.Handle("GET /readyz", a.probe(true))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 15 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.Logger.Error("metrics are no longer served", "error", err)
		}
	}()
	return func() { server.Close() }, nil
}
