-- +goose Up
-- How each day was, for the public.
CREATE TABLE status_days (
    day           date    PRIMARY KEY, -- UTC
    minutes       integer NOT NULL DEFAULT 0 CHECK (minutes BETWEEN 0 AND 1440), -- in which the service worked
    first_minute  timestamptz, -- NULL: none was counted
    last_minute   timestamptz,
    counted_at    timestamptz, -- NULL: what follows is not known yet
    asked         integer CHECK (asked >= 0), -- consultations that began
    within_30m    integer CHECK (within_30m >= 0), -- whose call began 30 minutes after that at the latest
    within_24h    integer CHECK (within_24h >= 0),
    breaches      integer CHECK (breaches >= 0), -- whose promised callback did not come in time
    events        integer CHECK (events >= 0), -- that were sent to a partner at least once
    lag_median_ms double precision CHECK (lag_median_ms >= 0), -- from event to first attempt; NULL for no event
    lag_95th_ms   double precision CHECK (lag_95th_ms >= 0),
    CONSTRAINT status_days_minutes CHECK ((minutes = 0) = (first_minute IS NULL) AND (first_minute IS NULL) = (last_minute IS NULL)),
    CONSTRAINT status_days_counted CHECK (counted_at IS NULL OR (asked IS NOT NULL AND within_30m IS NOT NULL AND within_24h IS NOT NULL AND breaches IS NOT NULL AND events IS NOT NULL))
);

-- +goose Down
DROP TABLE status_days;
