-- +goose Up
-- The oldest schema that a program must know to start on this one. A migration that takes away what programs before it used
-- (the third step of .github/CONTRIBUTING.md) replaces this function; those that only add leave it.
CREATE FUNCTION schema_compatible_from() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 48';

-- +goose Down
DROP FUNCTION schema_compatible_from();
