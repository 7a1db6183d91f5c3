-- +goose Up

-- Counts what ends the marks of the browsers that a client signed in from. The program before this one does not count, and
-- takes its own marks for known.
ALTER TABLE clients ADD COLUMN browser_epoch integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE clients DROP COLUMN browser_epoch;
