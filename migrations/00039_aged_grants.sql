-- +goose Up
-- By how much the clock of a sandbox was moved forward since the grant was made, in microseconds: an access token says what it was
-- when it was issued, and expires by the difference earlier. Always 0 in live.
ALTER TABLE oauth_grants ADD COLUMN aged_us bigint NOT NULL DEFAULT 0 CHECK (aged_us >= 0);
