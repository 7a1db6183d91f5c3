-- +goose Up
-- Whose database this is: at most one row, written by the first program that opens the database.
CREATE TABLE deployment (
    single      boolean PRIMARY KEY DEFAULT true CHECK (single),
    environment text NOT NULL CHECK (environment IN ('sandbox', 'live')), -- for ever
    base_url    text, -- the public address; null until a program knows it
    created_at  timestamptz NOT NULL
);

-- +goose Down
DROP TABLE deployment;
