-- +goose Up
CREATE TABLE signing_keys (
    kid            text PRIMARY KEY,
    private_sealed bytea NOT NULL,
    public_jwk     jsonb NOT NULL,
    signs_from     timestamptz NOT NULL, -- published before, used for signing from here on
    retired_at     timestamptz,          -- no longer published
    created_at     timestamptz NOT NULL
);

-- A grant is one link of a client to an application: the "session" of the specification. Every token belongs to one,
-- and none outlives it.
CREATE TABLE oauth_grants (
    id             text PRIMARY KEY,
    application_id text NOT NULL REFERENCES applications,
    client_id      text NOT NULL REFERENCES clients,
    scopes         text[] NOT NULL,
    created_at     timestamptz NOT NULL,
    activated_at   timestamptz, -- the code was redeemed
    last_used_at   timestamptz,
    revoked_at     timestamptz,
    revoked_reason text,
    CONSTRAINT oauth_grants_reason CHECK ((revoked_at IS NULL) = (revoked_reason IS NULL))
);
CREATE INDEX oauth_grants_live ON oauth_grants (client_id, application_id) WHERE revoked_at IS NULL;

CREATE TABLE oauth_codes (
    hash           bytea PRIMARY KEY,
    grant_id       text NOT NULL REFERENCES oauth_grants,
    redirect_uri   text NOT NULL,
    code_challenge text NOT NULL,
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz
);
CREATE INDEX oauth_codes_grant ON oauth_codes (grant_id);

CREATE TABLE oauth_refresh_tokens (
    hash       bytea PRIMARY KEY,
    grant_id   text NOT NULL REFERENCES oauth_grants,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
-- One live refresh token a grant, whatever the code does.
CREATE UNIQUE INDEX oauth_refresh_tokens_live ON oauth_refresh_tokens (grant_id) WHERE used_at IS NULL;

-- +goose Down
DROP TABLE oauth_refresh_tokens;
DROP TABLE oauth_codes;
DROP TABLE oauth_grants;
DROP TABLE signing_keys;
