package doctor

import (
	"context"
	"strings"

	"partnerd/internal/app/config"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/ratelimit"
)

func (e *examination) mail(ctx context.Context) {
	if e.KeepsMailFromPeople() {
		e.warn("mail", config.MailKept,
			"Set PARTNERD_MAIL_SERVER and PARTNERD_MAIL_FROM. Until then emails are kept in the data folder; those to test clients are in the Sandbox API inbox.")
	}
	if e.MailServer == "" || !e.tries("mail", "PARTNERD_MAIL_SERVER") {
		return
	}
	server, err := mail.NewSMTP(e.MailServer, e.MailFrom, nil)
	if err == nil {
		asking, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err = server.Check(asking)
	}
	if err != nil {
		e.fail("mail", err.Error(), "Check PARTNERD_MAIL_SERVER: host, port, password, STARTTLS. Until then email waits in the "+
			"queue.")
		return
	}
	e.ok("mail", "the server responds and accepts the password, if one is set")
}

// quotas checks the shared rate limit server; while it is unavailable each process counts separately.
func (e *examination) quotas(ctx context.Context) {
	if e.ValkeyURL == "" || !e.tries("quotas", "PARTNERD_VALKEY_URL") {
		return
	}
	if err := ratelimit.CheckServer(ctx, e.ValkeyURL); err != nil {
		e.warn("quotas", "the shared rate limit server does not respond: "+err.Error(),
			"Check PARTNERD_VALKEY_URL and the server: host, port, password, TLS. Until then each process "+
				"counts requests on its own.")
		return
	}
	e.ok("quotas", "the shared rate limit server responds")
}

// collector checks whether traces and metrics are accepted. If they are not, nothing else is affected.
func (e *examination) collector(ctx context.Context) {
	if !e.tries("collector", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG") {
		return
	}
	c, err := e.Telemetry()
	if err != nil || c.Traces == "" && c.Metrics == "" {
		return
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.Check(asking); err != nil {
		e.warn("collector", "it does not accept traces or metrics: "+strings.ReplaceAll(err.Error(), "\n", "; "),
			"Check the OTEL_EXPORTER_OTLP_… settings and the collector: host, port, path, TLS, headers. "+
				"Until then traces and metrics are lost.")
		return
	}
	e.ok("collector", "it accepts traces and metrics")
}
