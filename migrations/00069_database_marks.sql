-- +goose Up

-- Each process counts its row up and remembers, outside the database, how far it came: a database that lacks what was acknowledged says so
-- by a lower count. What a process found so is kept until somebody has dealt with it.
CREATE TABLE database_marks (
    process text PRIMARY KEY,
    count bigint NOT NULL CHECK (count > 0),
    marked_at timestamptz NOT NULL
);

-- Since when there are marks, by which this database is known from another one.
INSERT INTO database_marks (process, count, marked_at) VALUES ('', 1, now());

CREATE TABLE database_losses (
    process text NOT NULL,
    count bigint NOT NULL,
    lost_from timestamptz NOT NULL,
    lost_until timestamptz NOT NULL CHECK (lost_until >= lost_from),
    noticed_at timestamptz NOT NULL,
    PRIMARY KEY (process, count)
);

-- +goose Down
DROP TABLE database_losses;
DROP TABLE database_marks;
