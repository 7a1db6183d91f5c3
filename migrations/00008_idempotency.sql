-- +goose Up
CREATE TABLE idempotency_keys (
    application_id text NOT NULL,
    client_id      text NOT NULL,
    endpoint       text NOT NULL, -- operationId
    key            text NOT NULL,
    fingerprint    bytea NOT NULL, -- SHA-256 of path and canonical body
    status         integer, -- null: the operation was refused and may be tried again with the same body (T6)
    body           bytea, -- sealed
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    PRIMARY KEY (application_id, client_id, endpoint, key),
    CONSTRAINT idempotency_keys_response CHECK ((status IS NULL) = (body IS NULL))
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- +goose Down
DROP TABLE idempotency_keys;
