package app

import (
	"context"
	"runtime/debug"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/telemetry"
)

// lastSpans is how long the program waits for a collector when it ends.
const lastSpans = 3 * time.Second

// observe sets up the metrics and their export.
func (a *App) observe(ctx context.Context) (err error) {
	a.Metrics = newRegistry()
	c, err := a.Config.Telemetry()
	if err != nil {
		return err
	}
	c.Registry, c.Registerer, c.Logger = a.Metrics, a.Metrics, a.Logger
	c.Resource = map[string]string{
		"service.name": "partnerd", "service.instance.id": id.Minter{}.New("proc"),
		"deployment.environment.name": a.Config.Env,
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
