-- +goose Up

-- The span of OpenTelemetry that an event was written in, as W3C traceparent; none when nothing is traced. Its deliveries go on there.
ALTER TABLE webhook_events ADD COLUMN trace_parent text;

-- +goose Down
ALTER TABLE webhook_events DROP COLUMN trace_parent;
