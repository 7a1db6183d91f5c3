-- +goose Up

-- One number at one bar belongs to one lawyer: the key is written with each check from now on. Lawyers who were checked before
-- have none until their next check.
ALTER TABLE lawyers ADD COLUMN bar_key text;
CREATE UNIQUE INDEX lawyers_bar_key ON lawyers (bar_key);

-- +goose Down
DROP INDEX lawyers_bar_key;
ALTER TABLE lawyers DROP COLUMN bar_key;
