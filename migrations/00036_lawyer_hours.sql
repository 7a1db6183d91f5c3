-- +goose Up
-- When a lawyer works, and by which clock: then he may be woken for a callback. One who is on call may be woken at other hours,
-- too, for a callback that is due soon.
ALTER TABLE lawyers
    ADD COLUMN time_zone text NOT NULL DEFAULT 'Europe/Paris', -- a name of the IANA time zone database
    ADD COLUMN on_call boolean NOT NULL DEFAULT false;
CREATE TABLE lawyer_hours (
    lawyer_id text NOT NULL REFERENCES lawyers,
    weekday integer NOT NULL CHECK (weekday BETWEEN 1 AND 7), -- from Monday
    from_minute integer NOT NULL CHECK (from_minute >= 0), -- of the day
    until_minute integer NOT NULL CHECK (until_minute <= 1440), -- exclusive
    PRIMARY KEY (lawyer_id, weekday, from_minute),
    CONSTRAINT lawyer_hours_order CHECK (from_minute < until_minute)
);

-- Who was told that a callback waits: once for each consultation, three times a day at the most.
CREATE TABLE lawyer_wakeups (
    consultation_id text NOT NULL REFERENCES consultations,
    lawyer_id text NOT NULL REFERENCES lawyers,
    day date NOT NULL, -- by the lawyer's clock
    number integer NOT NULL CHECK (number BETWEEN 1 AND 3), -- of that day
    woken_at timestamptz NOT NULL,
    PRIMARY KEY (consultation_id, lawyer_id),
    CONSTRAINT lawyer_wakeups_daily UNIQUE (lawyer_id, day, number)
);

-- +goose Down
DROP TABLE lawyer_wakeups;
DROP TABLE lawyer_hours;
ALTER TABLE lawyers DROP COLUMN time_zone, DROP COLUMN on_call;
