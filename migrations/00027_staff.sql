-- +goose Up
-- People who work here and sign in: lawyers and operators. Nobody signs in with lawyers.password_hash any more.
CREATE TABLE staff (
    id                text PRIMARY KEY,
    kind              text NOT NULL CHECK (kind IN ('LAWYER', 'OPERATOR')),
    lawyer_id         text UNIQUE REFERENCES lawyers,
    email             text NOT NULL,
    name              text NOT NULL,
    language          text NOT NULL CHECK (language IN ('en', 'fr')),
    roles             text[] NOT NULL CHECK (roles <@ '{support,finance,security,admin}'),
    password_hash     text NOT NULL, -- empty until the invitation is used
    totp_sealed       bytea,         -- the secret of the codes
    totp_step         bigint NOT NULL, -- the last period of 30 s whose code was accepted, or that came before
    totp_confirmed_at timestamptz,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    disabled_at       timestamptz,
    CONSTRAINT staff_kind CHECK ((kind = 'LAWYER') = (lawyer_id IS NOT NULL) AND (kind = 'OPERATOR' OR roles = '{}')),
    CONSTRAINT staff_factor CHECK (totp_confirmed_at IS NULL OR totp_sealed IS NOT NULL)
);
CREATE UNIQUE INDEX staff_email_key ON staff (lower(email));

-- Links sent by e-mail. The link holds the token; the database holds its SHA-256.
CREATE TABLE staff_links (
    token_hash bytea PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('INVITE', 'RESET')),
    staff_id   text NOT NULL REFERENCES staff,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX staff_links_staff ON staff_links (staff_id, created_at);

CREATE TABLE staff_passkeys (
    id            text PRIMARY KEY,
    staff_id      text NOT NULL REFERENCES staff,
    credential_id bytea NOT NULL UNIQUE,
    credential    jsonb NOT NULL, -- public key, counter and flags
    name          text NOT NULL,
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz
);
CREATE INDEX staff_passkeys_staff ON staff_passkeys (staff_id);

-- Challenges of passkeys: each answered at most once.
CREATE TABLE staff_challenges (
    token_hash bytea PRIMARY KEY,
    staff_id   text REFERENCES staff, -- who registers a passkey; null for a sign-in
    challenge  jsonb NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE staff_sessions (
    token_hash   bytea PRIMARY KEY,
    staff_id     text NOT NULL REFERENCES staff,
    complete     boolean NOT NULL, -- false: the password was shown, the second factor was not
    passkey_id   text REFERENCES staff_passkeys ON DELETE CASCADE, -- that opened it
    lease_epoch  bigint NOT NULL, -- of the lawyer's duty that was begun here; 0 for none
    user_agent   text NOT NULL,
    address      text NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL, -- to the minute
    expires_at   timestamptz NOT NULL
);
CREATE INDEX staff_sessions_staff ON staff_sessions (staff_id);
CREATE INDEX staff_sessions_passkey ON staff_sessions (passkey_id) WHERE passkey_id IS NOT NULL;

-- Codes that stand in for a lost device, each once.
CREATE TABLE staff_recovery_codes (
    code_hash  bytea PRIMARY KEY,
    staff_id   text NOT NULL REFERENCES staff,
    created_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX staff_recovery_codes_staff ON staff_recovery_codes (staff_id);

-- +goose Down
DROP TABLE staff_recovery_codes;
DROP TABLE staff_sessions;
DROP TABLE staff_challenges;
DROP TABLE staff_passkeys;
DROP TABLE staff_links;
DROP TABLE staff;
