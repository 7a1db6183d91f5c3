-- +goose Up
CREATE SCHEMA river; -- tables of the job queue, made by its own migrations
CREATE TABLE applications (
    id                    text PRIMARY KEY, -- the OAuth client_id
    name                  text NOT NULL,
    redirect_uris         text[] NOT NULL,
    scopes                text[] NOT NULL, -- what the application may ask for
    secret_hash           bytea NOT NULL,
    previous_secret_hash  bytea,
    previous_secret_until timestamptz,
    suspended_at          timestamptz,
    contact_email         text, -- where notices about the integration go
    recording_enabled     boolean NOT NULL DEFAULT false,
    rate_per_minute        integer, -- all clients together; null means the deployment's default
    client_rate_per_minute integer, -- each client; null means the deployment's default
    created_at            timestamptz NOT NULL,
    updated_at            timestamptz NOT NULL
);

CREATE TABLE clients (
    id                text PRIMARY KEY,
    email             text NOT NULL,
    name              text NOT NULL,
    password_hash     text NOT NULL,
    phone_sealed      bytea,
    phone_verified_at timestamptz,
    disabled_at       timestamptz,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    CONSTRAINT clients_verified_has_phone CHECK (phone_verified_at IS NULL OR phone_sealed IS NOT NULL)
);
CREATE UNIQUE INDEX clients_email_key ON clients (lower(email));

-- Sign-ins of clients on our own pages. The cookie holds the token; the database holds its SHA-256.
CREATE TABLE browser_sessions (
    token_hash bytea PRIMARY KEY,
    client_id  text NOT NULL REFERENCES clients,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX browser_sessions_client ON browser_sessions (client_id);

-- +goose Down
DROP TABLE browser_sessions;
DROP TABLE clients;
DROP TABLE applications;
DROP SCHEMA river;
