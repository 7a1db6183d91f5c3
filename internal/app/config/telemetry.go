package config

import (
	"cmp"
	"net/url"

	"partnerd/internal/base/telemetry"
)

// Telemetry returns where traces and metrics are exported, if anywhere.
func (c *Config) Telemetry() (t telemetry.Config, err error) {
	if c.OTELDisabled {
		return t, nil
	}
	if t.Traces, err = c.otlp(c.OTLPTracesEndpoint, "v1/traces"); err != nil {
		return t, err
	}
	if t.Metrics, err = c.otlp(c.OTLPMetricsEndpoint, "v1/metrics"); err != nil {
		return t, err
	}
	if t.TracesHeaders, err = telemetry.ParseHeaders(cmp.Or(c.OTLPTracesHeaders, c.OTLPHeaders)); err != nil {
		return t, err
	}
	if t.MetricsHeaders, err = telemetry.ParseHeaders(cmp.Or(c.OTLPMetricsHeaders, c.OTLPHeaders)); err != nil {
		return t, err
	}
	t.Sampler, err = telemetry.ParseSampler(c.TracesSampler, c.TracesSamplerArg)
	return t, err
}

func (c *Config) otlp(whole, path string) (string, error) {
	if whole != "" || c.OTLPEndpoint == "" {
		return whole, nil
	}
	return url.JoinPath(c.OTLPEndpoint, path)
}

// checkTelemetry reports invalid OpenTelemetry settings. The library would silently fall back to something else.
func (c *Config) checkTelemetry(r *refusals) {
	if c.OTELDisabled || c.OTLPEndpoint == "" && c.OTLPTracesEndpoint == "" && c.OTLPMetricsEndpoint == "" {
		return
	}
	for _, u := range []struct{ setting, address string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", c.OTLPEndpoint}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.OTLPTracesEndpoint},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", c.OTLPMetricsEndpoint},
	} {
		if u.address != "" {
			r.add(u.setting, telemetry.CheckURL(u.address))
		}
	}
	for _, h := range []struct{ setting, list string }{
		{"OTEL_EXPORTER_OTLP_HEADERS", c.OTLPHeaders}, {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", c.OTLPTracesHeaders},
		{"OTEL_EXPORTER_OTLP_METRICS_HEADERS", c.OTLPMetricsHeaders},
	} {
		_, err := telemetry.ParseHeaders(h.list)
		r.add(h.setting, err)
	}
	r.want(c.OTLPProtocol == "" || c.OTLPProtocol == "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"must be http/protobuf, the only supported protocol")
	_, err := telemetry.ParseSampler(c.TracesSampler, "")
	r.add("OTEL_TRACES_SAMPLER", err)
	if err == nil {
		_, err = telemetry.ParseSampler(c.TracesSampler, c.TracesSamplerArg)
		r.add("OTEL_TRACES_SAMPLER_ARG", err)
	}
}
