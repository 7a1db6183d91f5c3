-- +goose Up
-- What applications asked the APIs, for their own people to look at. The identifier begins with the time, so the key is also the
-- order of the list. No reference to applications: a line is written after its answer, in batches, and none is ever deleted.
CREATE TABLE api_requests (
    application_id text        NOT NULL,
    id             text        NOT NULL,
    at             timestamptz NOT NULL, -- when the answer was complete
    method         text        NOT NULL CHECK (length(method) <= 16),
    path           text        NOT NULL CHECK (length(path) <= 256), -- without the query
    status         integer     NOT NULL CHECK (status BETWEEN 100 AND 599),
    code           text        CHECK (length(code) <= 64), -- of the error; NULL for a success
    duration_us    bigint      NOT NULL CHECK (duration_us >= 0),
    keyed          boolean     NOT NULL, -- an Idempotency-Key came with it
    replayed       boolean     NOT NULL, -- the answer is that of an earlier request
    issues         json, -- what the answer said of the fields
    body           json, -- of the request, its texts replaced by their lengths; json keeps what jsonb refuses, such as a zero character in a name
    PRIMARY KEY (application_id, id)
);
CREATE INDEX api_requests_refused ON api_requests (application_id, id) WHERE status >= 400;
CREATE INDEX api_requests_replayed ON api_requests (application_id) WHERE replayed;
CREATE INDEX api_requests_at ON api_requests USING brin (at);

-- +goose Down
DROP TABLE api_requests;
