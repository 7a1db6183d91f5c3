-- +goose Up

-- An operator who reads what happened to a call sees whose telephone rang, answered or dropped. Rows from before say nothing of it.
ALTER TABLE call_events ADD COLUMN role text;

-- +goose Down
ALTER TABLE call_events DROP COLUMN role;
