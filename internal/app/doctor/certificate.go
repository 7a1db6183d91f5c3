package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/poll"
)

const certificateEvery = time.Hour

var expiryMetric = prometheus.NewDesc("partnerd_certificate_expiry_timestamp_seconds",
	"Expiry time of the certificate at the public URL; absent without HTTPS and while it cannot be reached.",
	nil, nil)

// expiry returns the expiry time of the certificate served at u. It does so even if it returns an error about the
// certificate itself.
func expiry(ctx context.Context, u *url.URL) (until time.Time, err error) {
	conn, err := (&tls.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	var invalid *tls.CertificateVerificationError
	if errors.As(err, &invalid) && len(invalid.UnverifiedCertificates) > 0 {
		return invalid.UnverifiedCertificates[0].NotAfter, err
	}
	if err != nil {
		return until, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].NotAfter, nil
}

// Certificate is the certificate at the public base URL, as this process last saw it.
type Certificate struct{ until atomic.Int64 } // 0 if it was not seen

// Describe implements prometheus.Collector.
func (*Certificate) Describe(out chan<- *prometheus.Desc) { out <- expiryMetric }

// Collect implements prometheus.Collector.
func (w *Certificate) Collect(out chan<- prometheus.Metric) {
	if until := w.until.Load(); until != 0 {
		out <- prometheus.MustNewConstMetric(expiryMetric, prometheus.GaugeValue, float64(until))
	}
}

// Watch checks the certificate at a public base URL every hour until ctx ends.
func (w *Certificate) Watch(ctx context.Context, baseURL string, log *slog.Logger) error {
	return poll.Loop{Name: "certificate of the public address", Every: certificateEvery, Log: log}.Run(ctx,
		func(ctx context.Context) (bool, error) {
			w.look(ctx, baseURL, log)
			return false, nil
		})
}

func (w *Certificate) look(ctx context.Context, baseURL string, log *slog.Logger) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "https" {
		return
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	until, err := expiry(asking, u)
	switch {
	case !until.IsZero():
		w.until.Store(until.Unix())
	default: // a firewall may block a server's access to its own public address
		w.until.Store(0)
		log.Info("could not check the certificate of the public URL", "error", plainly(err))
	}
}
