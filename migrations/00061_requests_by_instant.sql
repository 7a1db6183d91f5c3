-- +goose NO TRANSACTION
-- +goose Up

-- The log of requests is listed in the order of its instants, so that those between two of them are found without what lies beside. An
-- index of a table that lies by the week cannot be made concurrently. So the first week, which may hold all that was written before there
-- were weeks, gets its indexes concurrently, the others one after the other, and the table takes them over in an instant. While the
-- current week gets one, which is about a second for a million lines, new lines wait in the memory of those that write them; reads go on.
--
-- api_requests_refused stays for programs of the version before this one; the one of instants alone is read by nothing any more.
DROP INDEX IF EXISTS api_requests_list, api_requests_refused_list;
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS api_requests_first_list;
CREATE INDEX CONCURRENTLY api_requests_first_list ON api_requests_first (application_id, at, id);
DROP INDEX CONCURRENTLY IF EXISTS api_requests_first_refused_list;
CREATE INDEX CONCURRENTLY api_requests_first_refused_list ON api_requests_first (application_id, at, id) WHERE status >= 400;
RESET lock_timeout;
-- +goose StatementBegin
DO $$ DECLARE
    week text;
BEGIN
    FOR week IN SELECT name FROM partitions() WHERE parent = 'api_requests' AND begins IS NOT NULL LOOP
        EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %I (application_id, at, id)', week || '_list', week);
        COMMIT;
        EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %I (application_id, at, id) WHERE status >= 400', week || '_refused_list', week);
        COMMIT;
    END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX api_requests_list ON api_requests (application_id, at, id);
CREATE INDEX api_requests_refused_list ON api_requests (application_id, at, id) WHERE status >= 400;
DROP INDEX IF EXISTS api_requests_at;

-- +goose Down
CREATE INDEX IF NOT EXISTS api_requests_at ON api_requests USING brin (at);
DROP INDEX IF EXISTS api_requests_refused_list, api_requests_list;
