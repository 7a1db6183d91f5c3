-- +goose Up
-- People of partners sign in as those who work here do. What they may do with which application are their memberships.
ALTER TABLE staff DROP CONSTRAINT staff_kind_check, ADD CONSTRAINT staff_kind_check CHECK (kind IN ('LAWYER', 'OPERATOR', 'PARTNER'));

CREATE TABLE application_members (
    application_id text NOT NULL REFERENCES applications,
    staff_id       text NOT NULL REFERENCES staff,
    role           text NOT NULL CHECK (role IN ('owner', 'developer', 'viewer')),
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (application_id, staff_id)
);
CREATE INDEX application_members_staff ON application_members (staff_id);

-- Links sent by e-mail to people who are to come to the portal. The link holds the token; the database holds its SHA-256.
CREATE TABLE portal_links (
    id             text PRIMARY KEY,
    token_hash     bytea NOT NULL UNIQUE,
    application_id text REFERENCES applications, -- that it invites to; null for a sign-up
    role           text CHECK (role IN ('owner', 'developer', 'viewer')),
    email          text NOT NULL,
    language       text NOT NULL CHECK (language IN ('en', 'fr')),
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    CONSTRAINT portal_links_kind CHECK ((application_id IS NULL) = (role IS NULL))
);
CREATE INDEX portal_links_email ON portal_links (lower(email), created_at);
CREATE INDEX portal_links_application ON portal_links (application_id, created_at) WHERE application_id IS NOT NULL;

-- +goose Down
DROP TABLE portal_links;
DROP TABLE application_members;
DELETE FROM staff_sessions WHERE staff_id IN (SELECT id FROM staff WHERE kind = 'PARTNER');
DELETE FROM staff_recovery_codes WHERE staff_id IN (SELECT id FROM staff WHERE kind = 'PARTNER');
DELETE FROM staff_links WHERE staff_id IN (SELECT id FROM staff WHERE kind = 'PARTNER');
DELETE FROM staff_challenges WHERE staff_id IN (SELECT id FROM staff WHERE kind = 'PARTNER');
DELETE FROM staff_passkeys WHERE staff_id IN (SELECT id FROM staff WHERE kind = 'PARTNER');
DELETE FROM staff WHERE kind = 'PARTNER';
ALTER TABLE staff DROP CONSTRAINT staff_kind_check, ADD CONSTRAINT staff_kind_check CHECK (kind IN ('LAWYER', 'OPERATOR'));
