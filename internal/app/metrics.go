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

// bearer lets who shows the token pass; an empty one is not asked for.
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

// newRegistry holds the metrics of this program alone, with those of its process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// clockAhead tells how the database's clock, by which everything is due, differs from this machine's.
func clockAhead(db *postgres.DB) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "partnerd_database_clock_ahead_seconds",
		Help: "How far the database's clock was ahead of this machine's at the last check."},
		func() float64 { return db.ClockAhead().Seconds() })
}

// metricsHandler answers with what can be read. While the database is away its figures are missing and the process's
// own are what alarms go by; an answer that failed for them would say that the process is down.
func (a *App) metricsHandler() http.Handler {
	return promhttp.HandlerFor(a.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 3, Timeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(a.Logger.Handler(), slog.LevelWarn)})
}

// probe answers an orchestrator about a process that has no other address: the process lives, and with ready, the
// database answers and no one has told the process to end.
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

// serveMetrics answers /metrics on an address of its own, to who can reach it and shows the token, if there is one, and
// probes to anyone. The listener is open when it returns; stop closes it.
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
