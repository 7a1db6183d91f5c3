-- Statements that bring back what a new database holds: the rows that migrations inserted, and where its sequences stand.
CREATE FUNCTION pg_temp.seeds() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    t regclass;
    held text;
    seeds text := '';
BEGIN
    FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) LOOP
        EXECUTE format('SELECT json_agg(x) FROM %s x', t) INTO held;
        IF held IS NOT NULL THEN
            seeds := seeds || format('INSERT INTO %s SELECT * FROM json_populate_recordset(NULL::%s, %L);', t, t, held);
        END IF;
    END LOOP;
    RETURN seeds || (SELECT coalesce(string_agg(format('SELECT setval(%L, %s);', format('%I.%I', schemaname, sequencename), last_value), ''), '')
        FROM pg_sequences WHERE last_value IS NOT NULL);
END $$
