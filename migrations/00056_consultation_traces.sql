-- +goose Up

-- The span that a consultation was created in, like webhook_events.trace_parent: what happens to it later is linked to it.
ALTER TABLE consultations ADD COLUMN trace_parent text;

-- +goose Down
ALTER TABLE consultations DROP COLUMN trace_parent;
