-- What the catalogs say of a database that no test has changed: how many rows each has, the youngest of them (a row that is changed is
-- written anew), and which statistics were taken, as those are written in place.
SELECT format('%s', array_agg(row(c.name, c.rows, c.youngest) ORDER BY c.name)) || (SELECT sum(reltuples) || ' ' || (SELECT count(*) FROM pg_statistic) FROM pg_class)
FROM (
    SELECT 'class' AS name, count(*) AS rows, max(xmin::text::bigint) AS youngest FROM pg_class
    UNION ALL SELECT 'attribute', count(*), max(xmin::text::bigint) FROM pg_attribute
    UNION ALL SELECT 'index', count(*), max(xmin::text::bigint) FROM pg_index
    UNION ALL SELECT 'constraint', count(*), max(xmin::text::bigint) FROM pg_constraint
    UNION ALL SELECT 'trigger', count(*), max(xmin::text::bigint) FROM pg_trigger
    UNION ALL SELECT 'function', count(*), max(xmin::text::bigint) FROM pg_proc
    UNION ALL SELECT 'type', count(*), max(xmin::text::bigint) FROM pg_type
    UNION ALL SELECT 'default', count(*), max(xmin::text::bigint) FROM pg_attrdef
    UNION ALL SELECT 'schema', count(*), max(xmin::text::bigint) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL SELECT 'extension', count(*), max(xmin::text::bigint) FROM pg_extension
    UNION ALL SELECT 'policy', count(*), max(xmin::text::bigint) FROM pg_policy
    UNION ALL SELECT 'privileges', count(*), max(xmin::text::bigint) FROM pg_default_acl
    UNION ALL SELECT 'publication', count(*), max(xmin::text::bigint) FROM pg_publication
    UNION ALL SELECT 'setting', count(*), max(s.xmin::text::bigint) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase WHERE d.datname = current_database()
) c
