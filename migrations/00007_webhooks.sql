-- +goose Up
CREATE TABLE webhook_endpoints (
    application_id         text PRIMARY KEY REFERENCES applications,
    url                    text, -- null: events wait until there is one (H57)
    secret_sealed          bytea NOT NULL,
    previous_secret_sealed bytea,
    previous_secret_until  timestamptz,
    disabled_at            timestamptz, -- deliveries are held since
    disabled_reason        text,
    failing_since          timestamptz, -- first failure after the last success
    last_position          bigint NOT NULL DEFAULT 0, -- the highest position given to an event of the application
    created_at             timestamptz NOT NULL,
    updated_at             timestamptz NOT NULL,
    CONSTRAINT webhook_endpoints_previous CHECK ((previous_secret_sealed IS NULL) = (previous_secret_until IS NULL)),
    CONSTRAINT webhook_endpoints_disabled CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);

-- The exact bytes of every event, written in the transaction of the transition that it reports.
CREATE TABLE webhook_events (
    id              text PRIMARY KEY,
    application_id  text NOT NULL REFERENCES applications,
    consultation_id text REFERENCES consultations, -- null: a test event
    sequence        bigint NOT NULL CHECK (sequence > 0), -- 1, 2, 3 … of the consultation
    type            text NOT NULL,
    body            bytea NOT NULL,
    position        bigint, -- in the event list of the application; given when the list is first read past the event
    created_at      timestamptz NOT NULL,
    UNIQUE (consultation_id, sequence)
);
-- The list by position, and the events that have none yet in the order in which they get one.
CREATE INDEX webhook_events_list ON webhook_events (application_id, position, created_at, sequence);

-- application_id, consultation_id and sequence repeat those of the event, for the indexes.
CREATE TABLE webhook_deliveries (
    id              text PRIMARY KEY, -- X-Service-Delivery
    event_id        text NOT NULL REFERENCES webhook_events,
    application_id  text NOT NULL,
    consultation_id text,
    sequence        bigint NOT NULL,
    state           text NOT NULL CHECK (state IN ('PENDING', 'DELIVERED', 'FAILED')),
    attempts        integer NOT NULL DEFAULT 0,
    schedule_from   integer NOT NULL DEFAULT 0, -- attempts before the last redelivery: the schedule begins after them
    next_at         timestamptz NOT NULL, -- when the next attempt is due; while one is under way, when its lease ends
    lease_token     text, -- of the attempt under way: only its holder may record a result
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    CONSTRAINT webhook_deliveries_end CHECK ((state = 'PENDING') = (ended_at IS NULL)),
    CONSTRAINT webhook_deliveries_attempted CHECK (state = 'PENDING' OR attempts > 0),
    CONSTRAINT webhook_deliveries_lease CHECK (state = 'PENDING' OR lease_token IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (application_id, next_at) WHERE state = 'PENDING';
-- What keeps later events of a consultation from being attempted.
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (consultation_id, sequence) WHERE attempts = 0;
CREATE INDEX webhook_deliveries_log ON webhook_deliveries (application_id, created_at, id);
CREATE INDEX webhook_deliveries_event ON webhook_deliveries (event_id);

CREATE TABLE webhook_attempts (
    delivery_id   text NOT NULL REFERENCES webhook_deliveries,
    attempt       integer NOT NULL CHECK (attempt > 0),
    started_at    timestamptz NOT NULL,
    duration_ms   integer NOT NULL,
    status_code   integer, -- null: no answer
    error         text NOT NULL DEFAULT '', -- empty on success
    response_body text NOT NULL DEFAULT '', -- first bytes, for the delivery log
    PRIMARY KEY (delivery_id, attempt)
);

-- What an application was told about its endpoint by mail: each kind once for each time that it began to fail.
CREATE TABLE webhook_notices (
    application_id text NOT NULL REFERENCES applications,
    since          timestamptz NOT NULL, -- when the endpoint began to fail, or was disabled
    kind           text NOT NULL,
    sent_at        timestamptz NOT NULL,
    PRIMARY KEY (application_id, since, kind)
);

-- +goose Down
DROP TABLE webhook_notices;
DROP TABLE webhook_attempts;
DROP TABLE webhook_deliveries;
DROP TABLE webhook_events;
DROP TABLE webhook_endpoints;
