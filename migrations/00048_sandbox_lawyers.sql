-- +goose Up
-- Simulated lawyers that an application of a sandbox has of its own. One that was deleted stays in lawyers, for what he has done, and
-- never comes back to work.
CREATE TABLE sandbox_lawyers (
    lawyer_id text PRIMARY KEY REFERENCES lawyers (id),
    application_id text NOT NULL REFERENCES applications (id),
    away boolean NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX sandbox_lawyers_application ON sandbox_lawyers (application_id, lawyer_id);

-- +goose Down
DROP TABLE sandbox_lawyers;
