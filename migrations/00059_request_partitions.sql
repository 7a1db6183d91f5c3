-- +goose Up

-- The log of requests lies by the week: the weeks that are past its retention are dropped as tables, instead of row by row. Its partitions
-- cover all time, so a line always has one: the first reaches back without end, the last, which is open, forward. Nothing is read or
-- moved here; what was written until now becomes the first partition.
ALTER TABLE api_requests DROP CONSTRAINT api_requests_pkey, ADD CONSTRAINT api_requests_first_pkey PRIMARY KEY USING INDEX api_requests_key;
ALTER TABLE api_requests RENAME TO api_requests_first;
ALTER INDEX api_requests_refused RENAME TO api_requests_first_refused;
ALTER INDEX api_requests_replayed RENAME TO api_requests_first_replayed;
ALTER INDEX api_requests_refreshed RENAME TO api_requests_first_refreshed;
ALTER INDEX api_requests_at RENAME TO api_requests_first_at;

CREATE TABLE api_requests (
    application_id text        NOT NULL,
    id             text        NOT NULL,
    at             timestamptz NOT NULL, -- when the answer was complete
    method         text        NOT NULL CONSTRAINT api_requests_method_check CHECK (length(method) <= 16),
    path           text        NOT NULL CONSTRAINT api_requests_path_check CHECK (length(path) <= 256), -- without the query
    status         integer     NOT NULL CONSTRAINT api_requests_status_check CHECK (status BETWEEN 100 AND 599),
    code           text        CONSTRAINT api_requests_code_check CHECK (length(code) <= 64), -- of the error; NULL for a success
    duration_us    bigint      NOT NULL CONSTRAINT api_requests_duration_us_check CHECK (duration_us >= 0),
    keyed          boolean     NOT NULL, -- an Idempotency-Key came with it
    replayed       boolean     NOT NULL, -- the answer is that of an earlier request
    issues         json, -- what the answer said of the fields
    body           json, -- of the request, its texts replaced by their lengths; json keeps what jsonb refuses, such as a zero character in a name
    refreshed      boolean     NOT NULL DEFAULT false, -- a refresh token was exchanged
    PRIMARY KEY (application_id, id, at)
) PARTITION BY RANGE (at);
CREATE INDEX api_requests_refused ON api_requests (application_id, id) WHERE status >= 400;
CREATE INDEX api_requests_replayed ON api_requests (application_id) WHERE replayed;
CREATE INDEX api_requests_refreshed ON api_requests (application_id) WHERE refreshed;
CREATE INDEX api_requests_at ON api_requests USING brin (at);

-- What roles may do with the table, so that the program before this one goes on.
-- +goose StatementBegin
DO $$ DECLARE
    held record;
BEGIN
    FOR held IN SELECT r.rolname, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid = 'api_requests_first'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON api_requests TO %I', held.privilege_type, held.rolname);
        EXECUTE format('REVOKE %s ON api_requests_first FROM %I', held.privilege_type, held.rolname);
    END LOOP;
END $$;
-- +goose StatementEnd

-- What lies in public by time: a partition without a beginning is the first, one without an end is open. One into which nothing was ever
-- written is not filled.
-- +goose StatementBegin
CREATE FUNCTION partitions() RETURNS TABLE (parent text, name text, begins timestamptz, ends timestamptz, filled boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.relname, c.relname, substring(b.bound FROM 'FROM \(''([^'']+)''\)')::timestamptz, substring(b.bound FROM 'TO \(''([^'']+)''\)')::timestamptz,
        coalesce(pg_relation_size(c.oid) > 0, false)
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent, LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
    WHERE p.relkind = 'p' AND p.relnamespace = 'public'::regnamespace
$$;
-- +goose StatementEnd

-- The program owns no table, so it makes and drops partitions by these two functions of the tables' owner. They do nothing else, and
-- that to no table but those that they name; what is dropped the program may delete anyway. They lock the table before its partitions, as all
-- others do; who waits for that gives way after two seconds, before those behind it are refused; and what several do at once is done once.

-- Ends the open partition of a table at the beginning of a day (UTC) and opens the next one; false when that was done before. Lines of
-- that day or later, of which there should be none yet, move.
-- +goose StatementBegin
CREATE FUNCTION add_partition(parent text, boundary timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
    instant text := CASE parent WHEN 'api_requests' THEN 'at' END;
    fresh text := parent || to_char(boundary, '"_"YYYYMMDD');
    ended record;
BEGIN
    IF instant IS NULL OR boundary IS NULL OR boundary <> date_trunc('day', boundary) THEN
        RAISE EXCEPTION 'no partition of % may begin at %', parent, boundary USING ERRCODE = 'insufficient_privilege';
    END IF;
    EXECUTE format('LOCK TABLE public.%I IN ACCESS EXCLUSIVE MODE', parent);
    SELECT * INTO STRICT ended FROM public.partitions() p WHERE p.parent = add_partition.parent AND p.ends IS NULL;
    IF ended.begins >= boundary THEN
        RETURN false;
    END IF;
    EXECUTE format('ALTER TABLE public.%I DETACH PARTITION public.%I', parent, ended.name);
    EXECUTE format('CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (%L) TO (MAXVALUE)
        WITH (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)', fresh, parent, boundary);
    EXECUTE format('WITH late AS (DELETE FROM public.%I WHERE %I >= %L RETURNING *) INSERT INTO public.%I SELECT * FROM late', ended.name, instant, boundary, fresh);
    EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%s) TO (%L)', parent, ended.name, coalesce(quote_literal(ended.begins), 'MINVALUE'), boundary);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Drops the partitions of a table that end at an instant or before, and returns how many. The first one is made anew in their place, so that
-- a line of whatever age still has a partition; with nothing in it, it is let be.
-- +goose StatementBegin
CREATE FUNCTION drop_partitions(parent text, before timestamptz) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
    until timestamptz;
    past text;
    dropped integer;
BEGIN
    IF parent IS NULL OR parent NOT IN ('api_requests') THEN
        RAISE EXCEPTION 'no partition of % may be dropped', parent USING ERRCODE = 'insufficient_privilege';
    END IF;
    EXECUTE format('LOCK TABLE public.%I IN ACCESS EXCLUSIVE MODE', parent);
    SELECT max(p.ends), count(*) INTO until, dropped FROM public.partitions() p
        WHERE p.parent = drop_partitions.parent AND p.ends <= before AND (p.begins IS NOT NULL OR p.filled);
    IF dropped = 0 THEN
        RETURN 0;
    END IF;
    FOR past IN SELECT p.name FROM public.partitions() p WHERE p.parent = drop_partitions.parent AND p.ends <= before LOOP
        EXECUTE format('DROP TABLE public.%I', past);
    END LOOP;
    EXECUTE format('CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (MINVALUE) TO (%L)', parent || '_first', parent, until);
    RETURN dropped;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION add_partition, drop_partitions FROM PUBLIC;

-- The day that the migration before chose.
-- +goose StatementBegin
DO $$ DECLARE
    boundary timestamptz;
BEGIN
    SELECT substring(pg_get_constraintdef(oid) FROM '''([^'']+)''')::timestamptz INTO STRICT boundary FROM pg_constraint
        WHERE conrelid = 'api_requests_first'::regclass AND conname = 'api_requests_until';
    EXECUTE format('ALTER TABLE api_requests ATTACH PARTITION api_requests_first FOR VALUES FROM (MINVALUE) TO (%L)', boundary);
    ALTER TABLE api_requests_first DROP CONSTRAINT api_requests_until;
    EXECUTE format('CREATE TABLE %I PARTITION OF api_requests FOR VALUES FROM (%L) TO (MAXVALUE)
        WITH (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)',
        to_char(boundary AT TIME ZONE 'UTC', '"api_requests_"YYYYMMDD'), boundary);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION drop_partitions, add_partition, partitions;
ALTER TABLE api_requests RENAME TO api_requests_by_week;
CREATE TABLE api_requests (LIKE api_requests_by_week INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
ALTER TABLE api_requests SET (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
-- +goose StatementBegin
DO $$ DECLARE
    held record;
BEGIN
    FOR held IN SELECT r.rolname, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid = 'api_requests_by_week'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON api_requests TO %I', held.privilege_type, held.rolname);
        EXECUTE format('REVOKE %s ON api_requests_by_week FROM %I', held.privilege_type, held.rolname);
    END LOOP;
END $$;
-- +goose StatementEnd
INSERT INTO api_requests SELECT * FROM api_requests_by_week;
DROP TABLE api_requests_by_week;
ALTER TABLE api_requests ADD PRIMARY KEY (application_id, id);
CREATE UNIQUE INDEX api_requests_key ON api_requests (application_id, id, at);
CREATE INDEX api_requests_refused ON api_requests (application_id, id) WHERE status >= 400;
CREATE INDEX api_requests_replayed ON api_requests (application_id) WHERE replayed;
CREATE INDEX api_requests_refreshed ON api_requests (application_id) WHERE refreshed;
CREATE INDEX api_requests_at ON api_requests USING brin (at);
-- +goose StatementBegin
DO $$ BEGIN
    EXECUTE format('ALTER TABLE api_requests ADD CONSTRAINT api_requests_until CHECK (at < %L)', date_trunc('week', now(), 'UTC') + interval '21 days');
END $$;
-- +goose StatementEnd
