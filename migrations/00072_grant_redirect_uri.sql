-- +goose Up
-- The redirect URI that a client was sent back to when the link was made: consent is remembered for that one alone. NULL in links of an
-- older program, which counts for none.
ALTER TABLE oauth_grants ADD COLUMN redirect_uri text;

-- +goose Down
ALTER TABLE oauth_grants DROP COLUMN redirect_uri;
