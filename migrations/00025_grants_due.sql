-- +goose NO TRANSACTION
-- +goose Up

-- When the purge looks at a grant next: a living one ends when it has run out, one that has ended is deleted in time. A refresh
-- does not write it, so that it changes no index of the table; the purge finds a newer token and looks again when that runs out.
-- Grants that there are, and those that the program before this one makes, are looked at soon.
ALTER TABLE oauth_grants ADD COLUMN IF NOT EXISTS purge_at timestamptz NOT NULL DEFAULT now();

-- Without a transaction, so that refreshes go on while millions of tokens are read. An attempt that was cut off leaves an
-- index that is not valid, hence the drops.
DROP INDEX CONCURRENTLY IF EXISTS oauth_grants_purge;
CREATE INDEX CONCURRENTLY oauth_grants_purge ON oauth_grants (purge_at);
-- For deleting a grant: its tokens are found, and the reference is checked.
DROP INDEX CONCURRENTLY IF EXISTS oauth_refresh_tokens_grant;
CREATE INDEX CONCURRENTLY oauth_refresh_tokens_grant ON oauth_refresh_tokens (grant_id);

-- +goose Down
DROP INDEX oauth_refresh_tokens_grant;
DROP INDEX oauth_grants_purge;
ALTER TABLE oauth_grants DROP COLUMN purge_at;
