-- +goose NO TRANSACTION
-- +goose Up

-- What the next migration needs to make the table that is there the first partition of api_requests in an instant: its key with the
-- instant in it, and a proof that all of it lies before a day. That day is two to three weeks ahead. Until the next migration has run, no
-- line of that day or later can be written: if it cannot run for that long, drop the constraint. Without a transaction, so that all goes on
-- while millions of lines are read; each step can be done again after an attempt that was cut off.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS api_requests_key;
CREATE UNIQUE INDEX CONCURRENTLY api_requests_key ON api_requests (application_id, id, at);
RESET lock_timeout;
ALTER TABLE api_requests DROP CONSTRAINT IF EXISTS api_requests_until;
-- +goose StatementBegin
DO $$ BEGIN
    EXECUTE format('ALTER TABLE api_requests ADD CONSTRAINT api_requests_until CHECK (at < %L) NOT VALID', date_trunc('week', now(), 'UTC') + interval '21 days');
END $$;
-- +goose StatementEnd
ALTER TABLE api_requests VALIDATE CONSTRAINT api_requests_until;

-- +goose Down
ALTER TABLE api_requests DROP CONSTRAINT api_requests_until;
DROP INDEX api_requests_key;
