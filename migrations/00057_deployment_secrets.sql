-- +goose Up

-- Secrets that were derived from the oldest part of the master key: kept, so that this part can be removed.
CREATE TABLE deployment_secrets (
    purpose text PRIMARY KEY,
    secret_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE deployment_secrets;
