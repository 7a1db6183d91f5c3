-- +goose Up

-- The span that a command was given in, like webhook_events.trace_parent.
ALTER TABLE call_commands ADD COLUMN trace_parent text;

-- +goose Down
ALTER TABLE call_commands DROP COLUMN trace_parent;
