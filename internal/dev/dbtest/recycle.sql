-- Empties a database that a test has used, without its triggers and foreign keys. A table of no size never had a row.
DO $$
DECLARE
    t regclass;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) AND pg_relation_size(oid) > 0 LOOP
        EXECUTE format('DELETE FROM %s', t);
    END LOOP;
    PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence;
    PERFORM pg_stat_reset();
END $$
