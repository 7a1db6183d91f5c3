-- +goose Up
-- What clients see in the list of their browsers.
ALTER TABLE browser_sessions
    ADD COLUMN user_agent   text NOT NULL DEFAULT '',
    ADD COLUMN address      text NOT NULL DEFAULT '',
    ADD COLUMN last_used_at timestamptz;
CREATE INDEX browser_sessions_expiry ON browser_sessions (expires_at);

ALTER TABLE clients
    ADD COLUMN erased_at timestamptz, -- the profile is a pseudonym and nobody can sign in again
    ADD CONSTRAINT clients_erased CHECK (erased_at IS NULL OR disabled_at IS NOT NULL AND phone_sealed IS NULL AND password_hash = '');

-- Links sent by e-mail. The link holds the token; the database holds its SHA-256. Using one deletes it.
CREATE TABLE client_links (
    token_hash bytea PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('SIGN_UP', 'RESET')),
    email      text NOT NULL, -- where it was sent
    name       text, -- of the client to be
    next_path  text, -- where to go after the sign-up
    client_id  text REFERENCES clients, -- whose password is to be reset
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT client_links_kind CHECK ((kind = 'RESET') = (client_id IS NOT NULL) AND (kind = 'SIGN_UP') = (name IS NOT NULL))
);
CREATE INDEX client_links_email ON client_links (lower(email), created_at);
CREATE INDEX client_links_client ON client_links (client_id) WHERE client_id IS NOT NULL;

-- Codes sent to phones. Only the newest of a client counts.
CREATE TABLE client_phone_codes (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client_id    text NOT NULL REFERENCES clients,
    phone_sealed bytea NOT NULL,
    code_sealed  bytea NOT NULL, -- six digits: a digest would tell them
    tries        integer NOT NULL DEFAULT 0 CHECK (tries <= 5),
    ended_at     timestamptz, -- used
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX client_phone_codes_client ON client_phone_codes (client_id, id DESC);

-- Text messages whose sending was begun.
CREATE TABLE sms_messages (
    id       text PRIMARY KEY,
    begun_at timestamptz NOT NULL
);

CREATE TABLE client_passkeys (
    id            text PRIMARY KEY,
    client_id     text NOT NULL REFERENCES clients,
    credential_id bytea NOT NULL UNIQUE,
    credential    jsonb NOT NULL, -- public key, counter and flags
    name          text NOT NULL,
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz
);
CREATE INDEX client_passkeys_client ON client_passkeys (client_id);

-- Challenges of passkeys: each answered at most once.
CREATE TABLE passkey_challenges (
    token_hash bytea PRIMARY KEY,
    client_id  text REFERENCES clients, -- who registers a passkey; null for a sign-in
    challenge  jsonb NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX passkey_challenges_expiry ON passkey_challenges (expires_at);

-- What a client has agreed to with an application; forgotten when the client disconnects it.
CREATE TABLE oauth_consents (
    client_id      text NOT NULL REFERENCES clients,
    application_id text NOT NULL REFERENCES applications,
    scope          text NOT NULL,
    granted_at     timestamptz NOT NULL,
    PRIMARY KEY (client_id, application_id, scope)
);

-- Declarations of withdrawal from the contract, with what they found. Never changed.
CREATE TABLE consultation_withdrawals (
    consultation_id text PRIMARY KEY REFERENCES consultations,
    client_id       text NOT NULL REFERENCES clients,
    declared_at     timestamptz NOT NULL,
    status          text NOT NULL -- of the consultation before
);
CREATE TRIGGER consultation_withdrawals_append_only BEFORE UPDATE OR DELETE ON consultation_withdrawals
    FOR EACH ROW EXECUTE FUNCTION append_only();

-- Erasure destroys what was said and keeps what happened.
ALTER TABLE consultations ALTER COLUMN subject_sealed DROP NOT NULL, ALTER COLUMN phone_sealed DROP NOT NULL,
    ADD COLUMN erased_at timestamptz,
    ADD CONSTRAINT consultations_content CHECK (CASE WHEN erased_at IS NULL THEN subject_sealed IS NOT NULL AND phone_sealed IS NOT NULL
        ELSE subject_sealed IS NULL AND description_sealed IS NULL AND phone_sealed IS NULL END);
ALTER TABLE notes ALTER COLUMN note_sealed DROP NOT NULL, ALTER COLUMN preview_sealed DROP NOT NULL,
    ADD COLUMN erased_at timestamptz,
    ADD CONSTRAINT notes_content CHECK ((erased_at IS NULL) = (note_sealed IS NOT NULL) AND (erased_at IS NULL) = (preview_sealed IS NOT NULL));

-- +goose Down
DELETE FROM notes WHERE erased_at IS NOT NULL;
ALTER TABLE notes DROP COLUMN erased_at, ALTER COLUMN note_sealed SET NOT NULL, ALTER COLUMN preview_sealed SET NOT NULL;
UPDATE consultations SET subject_sealed = '', phone_sealed = '' WHERE erased_at IS NOT NULL;
ALTER TABLE consultations DROP COLUMN erased_at, ALTER COLUMN subject_sealed SET NOT NULL, ALTER COLUMN phone_sealed SET NOT NULL;
DROP TABLE consultation_withdrawals;
DROP TABLE oauth_consents;
DROP TABLE passkey_challenges;
DROP TABLE client_passkeys;
DROP TABLE sms_messages;
DROP TABLE client_phone_codes;
DROP TABLE client_links;
ALTER TABLE clients DROP COLUMN erased_at;
DROP INDEX browser_sessions_expiry;
ALTER TABLE browser_sessions DROP COLUMN user_agent, DROP COLUMN address, DROP COLUMN last_used_at;
