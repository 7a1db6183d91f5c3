-- +goose NO TRANSACTION
-- +goose Up

-- The purge finds what is past by kind and age, however much lies around it. The index of ranges of pages said less and less: new events
-- take the places of those that were deleted beside others that stay for a year, so in the end every range held something old, and each purge
-- read the table from one end to the other. Without a transaction, so that all goes on meanwhile.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS oauth_grant_events_past;
CREATE INDEX CONCURRENTLY oauth_grant_events_past ON oauth_grant_events (event, created_at);
DROP INDEX CONCURRENTLY IF EXISTS oauth_grant_events_age;
RESET lock_timeout;

-- +goose Down
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS oauth_grant_events_age;
CREATE INDEX CONCURRENTLY oauth_grant_events_age ON oauth_grant_events USING brin (created_at);
DROP INDEX CONCURRENTLY IF EXISTS oauth_grant_events_past;
RESET lock_timeout;
