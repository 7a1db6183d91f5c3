-- +goose Up
-- The passkey that opened a session: removing the passkey ends it.
ALTER TABLE browser_sessions ADD COLUMN passkey_id text REFERENCES client_passkeys ON DELETE CASCADE;
CREATE INDEX browser_sessions_passkey ON browser_sessions (passkey_id) WHERE passkey_id IS NOT NULL;

-- +goose Down
ALTER TABLE browser_sessions DROP COLUMN passkey_id;
