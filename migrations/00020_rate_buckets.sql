-- +goose Up
-- Quotas that all processes count together (package ratelimit).
CREATE TABLE rate_buckets (
    key     text PRIMARY KEY, -- who is limited, and in what
    full_at timestamptz NOT NULL -- when the bucket is full again
);

-- +goose Down
DROP TABLE rate_buckets;
