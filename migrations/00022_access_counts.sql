-- +goose Up

-- How often an application used what part of a client's account on a day. Clients see it; it is kept for 13 months.
CREATE TABLE access_counts (
    client_id      text NOT NULL REFERENCES clients,
    application_id text NOT NULL REFERENCES applications,
    category       text NOT NULL CHECK (category IN ('profile', 'wallet', 'consultations', 'notes')),
    day            date NOT NULL, -- UTC
    uses           bigint NOT NULL CHECK (uses > 0),
    last_at        timestamptz NOT NULL,
    PRIMARY KEY (client_id, application_id, category, day)
);
CREATE INDEX access_counts_day ON access_counts (day);

-- +goose Down
DROP TABLE access_counts;
