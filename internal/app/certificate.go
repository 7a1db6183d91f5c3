package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/poll"
)

const certificateEvery = time.Hour

var expiryMetric = prometheus.NewDesc("partnerd_certificate_expiry_timestamp_seconds",
	"Until when the certificate of the public address is valid; absent without HTTPS, and while it cannot be reached.",
	nil, nil)

// expiry returns until when the certificate that an address shows is valid, also with an error about the certificate
// itself.
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

// watchedCertificate is the certificate of the public address, as this process saw it last.
type watchedCertificate struct{ until atomic.Int64 } // 0 while it was not seen

// Describe implements prometheus.Collector.
func (*watchedCertificate) Describe(out chan<- *prometheus.Desc) { out <- expiryMetric }

// Collect implements prometheus.Collector.
func (w *watchedCertificate) Collect(out chan<- prometheus.Metric) {
	if until := w.until.Load(); until != 0 {
		out <- prometheus.MustNewConstMetric(expiryMetric, prometheus.GaugeValue, float64(until))
	}
}

// watchCertificate looks at the certificate every hour until ctx ends.
func (a *App) watchCertificate(ctx context.Context) error {
	return poll.Loop{Name: "certificate of the public address", Every: certificateEvery, Log: a.Logger}.Run(ctx,
		func(ctx context.Context) (bool, error) {
			a.lookAtCertificate(ctx)
			return false, nil
		})
}

func (a *App) lookAtCertificate(ctx context.Context) {
	u, err := url.Parse(a.Config.BaseURL)
	if err != nil || u.Scheme != "https" {
		return
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	until, err := expiry(asking, u)
	switch {
	case !until.IsZero():
		a.certificate.until.Store(until.Unix())
	default: // a firewall may keep a server from its own public address
		a.certificate.until.Store(0)
		a.Logger.Info("the certificate of the public address could not be looked at", "error", plainly(err))
	}
}
