package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/telemetry"
)

// lastSpans is how long the end of the program waits for a collector.
const lastSpans = 3 * time.Second

// observe prepares what is measured, and what is sent of it.
func (a *App) observe(ctx context.Context) (err error) {
	a.Metrics = newRegistry()
	c, err := a.Config.telemetry()
	if err != nil {
		return err
	}
	c.Registry, c.Registerer, c.Logger = a.Metrics, a.Metrics, a.Logger
	c.Resource = map[string]string{
		"service.name": "partnerd", "service.instance.id": id.Minter{}.New("proc"), "deployment.environment.name": a.Config.Env,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		c.Resource["service.version"] = info.Main.Version
	}
	if a.telemetry, err = telemetry.New(ctx, c); err != nil {
		return err
	}
	a.Logger = a.telemetry.Tracer().Logger(a.Logger)
	return nil
}

func (a *App) endTelemetry() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	a.telemetry.Close(ctx)
}

// telemetry says where traces and metrics go, if anywhere.
func (c *Config) telemetry() (t telemetry.Config, err error) {
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

// checkTelemetry reports what is wrong with the settings of OpenTelemetry. The library falls back to something else without a word.
func (c *Config) checkTelemetry() error {
	if c.OTELDisabled {
		return nil
	}
	var errs []error
	used := false
	for name, address := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.OTLPEndpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.OTLPTracesEndpoint,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": c.OTLPMetricsEndpoint} {
		if address == "" {
			continue
		}
		used = true
		if err := telemetry.CheckURL(address); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	for name, list := range map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": c.OTLPHeaders, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": c.OTLPTracesHeaders,
		"OTEL_EXPORTER_OTLP_METRICS_HEADERS": c.OTLPMetricsHeaders} {
		if _, err := telemetry.ParseHeaders(list); err != nil && used {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if used && c.OTLPProtocol != "" && c.OTLPProtocol != "http/protobuf" {
		errs = append(errs, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf is spoken"))
	}
	if _, err := telemetry.ParseSampler(c.TracesSampler, c.TracesSamplerArg); err != nil && used {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
