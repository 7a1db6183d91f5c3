-- +goose Up
-- Test clients that an application of a sandbox made for itself, and what was sent to them. The text of a message is sealed: it holds
-- what signs somebody in.
CREATE TABLE sandbox_clients (
    client_id text PRIMARY KEY REFERENCES clients (id),
    application_id text NOT NULL REFERENCES applications (id),
    created_at timestamptz NOT NULL
);
CREATE INDEX sandbox_clients_application ON sandbox_clients (application_id, client_id);

CREATE TABLE sandbox_messages (
    id text PRIMARY KEY,
    application_id text NOT NULL REFERENCES applications (id),
    client_id text NOT NULL REFERENCES clients (id),
    kind text NOT NULL CHECK (kind IN ('EMAIL', 'TEXT_MESSAGE')),
    sealed bytea NOT NULL,
    sent_at timestamptz NOT NULL
);
CREATE INDEX sandbox_messages_list ON sandbox_messages (application_id, id);
CREATE INDEX sandbox_messages_sent ON sandbox_messages (sent_at);

-- +goose Down
DROP TABLE sandbox_messages;
DROP TABLE sandbox_clients;
