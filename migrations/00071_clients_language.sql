-- +goose Up

-- The language in which a client reads our messages; none until a program of this version has learned it.
ALTER TABLE clients ADD COLUMN language text;

-- +goose Down
ALTER TABLE clients DROP COLUMN language;
