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

-- What the token endpoint answered under an Idempotency-Key (trap T24), for a minute: the row is made in the transaction
-- of the exchange, so it exists exactly when the exchange happened. No reference to the application: it would lock the
-- application's row for every request.
CREATE TABLE oauth_token_answers (
    application_id text NOT NULL,
    key_hash       bytea NOT NULL, -- SHA-256
    fingerprint    bytea NOT NULL, -- SHA-256 of the form without the secret
    answer_sealed  bytea, -- null within the transaction that makes it
    expires_at     timestamptz NOT NULL,
    PRIMARY KEY (application_id, key_hash)
);
CREATE INDEX oauth_token_answers_expiry ON oauth_token_answers (expires_at);

-- What happened to grants. Only added to, except that the purge deletes what is past its retention; it outlives the
-- grants, hence no reference. The entries of operators are chained (audit_entries); these are not, because a chain is
-- written one after another and refreshes are not.
CREATE TABLE oauth_grant_events (
    seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    grant_id       text NOT NULL,
    application_id text NOT NULL,
    client_id      text NOT NULL,
    event          text NOT NULL CHECK (event IN ('created', 'activated', 'refreshed', 'replayed', 'revoked')),
    reason         text NOT NULL,
    created_at     timestamptz NOT NULL
);
CREATE INDEX oauth_grant_events_pair ON oauth_grant_events (client_id, application_id, seq);
CREATE INDEX oauth_grant_events_age ON oauth_grant_events USING brin (created_at);
-- +goose StatementBegin
CREATE FUNCTION oauth_grant_events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('partnerd.purge', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'oauth_grant_events is only added to' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only';
END $$;
-- +goose StatementEnd
CREATE TRIGGER oauth_grant_events_append_only BEFORE UPDATE OR DELETE ON oauth_grant_events
    FOR EACH ROW EXECUTE FUNCTION oauth_grant_events_guard();
CREATE TRIGGER oauth_grant_events_no_truncate BEFORE TRUNCATE ON oauth_grant_events
    FOR EACH STATEMENT EXECUTE FUNCTION oauth_grant_events_guard();

-- +goose Down
DROP TABLE oauth_grant_events;
DROP FUNCTION oauth_grant_events_guard;
DROP TABLE oauth_token_answers;
DROP TABLE oauth_refresh_tokens;
DROP TABLE oauth_codes;
DROP TABLE oauth_grants;
DROP TABLE signing_keys;
