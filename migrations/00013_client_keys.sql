-- +goose Up

-- The key of each client, sealed by the master key. In a schema of its own, without foreign keys, so that it is backed up and
-- restored apart from the texts that the keys open: see package vault.
CREATE SCHEMA vault;
CREATE TABLE vault.client_keys (
    client_id  text PRIMARY KEY,
    key_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE vault.client_keys; -- what they sealed cannot be opened any more
DROP SCHEMA vault;
