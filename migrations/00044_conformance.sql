-- +goose Up
-- The last examination of each application's webhook receiver.
CREATE TABLE conformance_runs (
    application_id text        PRIMARY KEY REFERENCES applications (id),
    at             timestamptz NOT NULL,
    url            text        NOT NULL, -- that was examined
    report         jsonb       NOT NULL
);

-- Whether a refresh token was exchanged by the request: what an application has to do before it goes live.
ALTER TABLE api_requests ADD COLUMN refreshed boolean NOT NULL DEFAULT false;
CREATE INDEX api_requests_refreshed ON api_requests (application_id) WHERE refreshed;

-- +goose Down
DROP INDEX api_requests_refreshed;
ALTER TABLE api_requests DROP COLUMN refreshed;
DROP TABLE conformance_runs;
