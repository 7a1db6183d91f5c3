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
			"Set PARTNERD_MAIL_SERVER and PARTNERD_MAIL_FROM. Until then emails are in the data folder, and those to test clients in the inbox of the Sandbox API.")
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
		e.fail("mail", err.Error(), "Look at PARTNERD_MAIL_SERVER: name, port, password, STARTTLS. Mail waits in the "+
			"queue meanwhile.")
		return
	}
	e.ok("mail", "the server greets and takes the password, if there is one")
}

// quotas looks at the server that counts for all processes; while it is away each counts for itself.
func (e *examination) quotas(ctx context.Context) {
	if e.ValkeyURL == "" || !e.tries("quotas", "PARTNERD_VALKEY_URL") {
		return
	}
	if err := ratelimit.CheckServer(ctx, e.ValkeyURL); err != nil {
		e.warn("quotas", "the server that is to count for all processes does not answer: "+err.Error(),
			"Look at PARTNERD_VALKEY_URL and that server: name, port, password, TLS. Meanwhile each process "+
				"counts for itself.")
		return
	}
	e.ok("quotas", "the server that counts for all processes answers")
}

// collector looks whether traces and metrics are taken; while they are not, nothing else suffers.
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
		e.warn("collector", "it does not take what is sent to it: "+strings.ReplaceAll(err.Error(), "\n", "; "),
			"Look at OTEL_EXPORTER_OTLP_ENDPOINT and its kin, and at that collector: name, port, path, TLS, headers. "+
				"Meanwhile traces and metrics are lost.")
		return
	}
	e.ok("collector", "it takes traces and metrics that are sent to it")
}
