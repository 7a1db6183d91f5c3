-- +goose Up

-- What the driver for Twilio knows of each leg that it dialled. There is no phone number in it.
CREATE TABLE twilio_legs (
    command_id  text PRIMARY KEY REFERENCES call_commands, -- the command that placed it
    call_id     text NOT NULL REFERENCES calls,
    role        text NOT NULL CHECK (role IN ('LAWYER', 'CLIENT')),
    sid         text UNIQUE, -- of the call resource; unknown while an answer is outstanding or was lost
    placed_at   timestamptz NOT NULL,
    tried_at    timestamptz, -- since when it may have been dialled
    hang_up     boolean NOT NULL, -- it is to end
    prompt      text,
    language    text,
    rang_at     timestamptz,
    answered_at timestamptz,
    machine_at  timestamptz,
    pressed_at  timestamptz, -- also when nothing was pressed in time
    pressed     text,
    bridged_at  timestamptz, -- sent into the conference
    limit_sec   integer,     -- with this longest time there
    joined_at   timestamptz, -- is in the conference
    ended_at    timestamptz,
    status      text,        -- how it ended
    CONSTRAINT twilio_legs_end CHECK ((ended_at IS NULL) = (status IS NULL))
);
CREATE INDEX twilio_legs_call ON twilio_legs (call_id);

-- +goose Down
DROP TABLE twilio_legs;
