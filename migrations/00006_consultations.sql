-- +goose Up
CREATE TABLE consultations (
    id                 text PRIMARY KEY,
    application_id     text NOT NULL REFERENCES applications,
    client_id          text NOT NULL REFERENCES clients,
    status             text NOT NULL CHECK (status IN ('DRAFT', 'MATCHING', 'PENDING_CALLBACK', 'ASSIGNED', 'IN_CALL', 'CALL_ENDED', 'COMPLETED', 'CANCELLED', 'EXPIRED')),
    competence         text NOT NULL REFERENCES competences,
    language           text NOT NULL REFERENCES languages,
    subject_sealed     bytea NOT NULL,
    description_sealed bytea,
    recording_consent  boolean NOT NULL,
    external_ref       text,
    price_cents        bigint NOT NULL CHECK (price_cents > 0),
    phone_sealed       bytea NOT NULL, -- the verified number at creation (T40)
    lawyer_id          text REFERENCES lawyers,
    event_seq          bigint NOT NULL DEFAULT 0, -- webhook events so far
    timer_at           timestamptz, -- when the state machine must look at it again; null when nothing is due
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    search_started_at  timestamptz NOT NULL, -- first search; the 30 minutes run from here
    assigned_at        timestamptz,
    callback_due_at    timestamptz,
    call_started_at    timestamptz,
    call_ended_at      timestamptz,
    duration_sec       integer CHECK (duration_sec BETWEEN 0 AND 1200),
    completed_at       timestamptz,
    cancelled_at       timestamptz,
    expired_at         timestamptz,
    end_reason         text, -- why it was cancelled or expired
    refunded_cents     bigint CHECK (refunded_cents > 0 AND refunded_cents <= price_cents),
    refunded_at        timestamptz,
    -- the present assignment and call, for the timers
    dial_attempts      integer NOT NULL DEFAULT 0 CHECK (dial_attempts BETWEEN 0 AND 3), -- calls begun in this assignment
    first_dial_at      timestamptz,
    last_dial_at       timestamptz,
    next_dial_at       timestamptz, -- the client was not reached and is called again then
    call_cap_at        timestamptz, -- when 20 minutes of joined time are reached
    line_lost_at       timestamptz, -- the line dropped and may be restored for 3 minutes
    reminders          integer NOT NULL DEFAULT 0, -- of a missing note
    CONSTRAINT consultations_draft CHECK (status <> 'DRAFT'), -- exists only inside the creation transaction
    CONSTRAINT consultations_lawyer CHECK (status NOT IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED', 'COMPLETED') OR lawyer_id IS NOT NULL),
    CONSTRAINT consultations_callback CHECK (status <> 'PENDING_CALLBACK' OR callback_due_at IS NOT NULL),
    CONSTRAINT consultations_call CHECK (status NOT IN ('IN_CALL', 'CALL_ENDED', 'COMPLETED') OR call_started_at IS NOT NULL),
    CONSTRAINT consultations_not_cancelled_after_call CHECK (status <> 'CANCELLED' OR call_started_at IS NULL),
    CONSTRAINT consultations_ended CHECK ((status = 'COMPLETED') = (completed_at IS NOT NULL) AND (status = 'CANCELLED') = (cancelled_at IS NOT NULL) AND (status = 'EXPIRED') = (expired_at IS NOT NULL)),
    CONSTRAINT consultations_duration CHECK ((call_ended_at IS NULL) = (duration_sec IS NULL)),
    CONSTRAINT consultations_refund CHECK ((refunded_at IS NULL) = (refunded_cents IS NULL))
);
CREATE INDEX consultations_list ON consultations (application_id, client_id, created_at DESC, id DESC);
CREATE INDEX consultations_client ON consultations (client_id, created_at DESC, id DESC);
CREATE INDEX consultations_waiting ON consultations (competence, language, search_started_at) WHERE status IN ('MATCHING', 'PENDING_CALLBACK');
CREATE INDEX consultations_assigned ON consultations (competence, language, assigned_at DESC) WHERE assigned_at IS NOT NULL;
CREATE INDEX consultations_of_lawyer ON consultations (lawyer_id) WHERE status IN ('ASSIGNED', 'IN_CALL', 'CALL_ENDED');
CREATE INDEX consultations_timer ON consultations (timer_at) WHERE timer_at IS NOT NULL;
CREATE UNIQUE INDEX consultations_one_per_lawyer ON consultations (lawyer_id) WHERE status IN ('ASSIGNED', 'IN_CALL');
CREATE UNIQUE INDEX consultations_one_call_per_client ON consultations (client_id) WHERE status = 'IN_CALL';
ALTER TABLE holds ADD FOREIGN KEY (consultation_id) REFERENCES consultations;

-- Proof that the client asked for an immediate start and gave up the right of withdrawal (requirement R42).
CREATE TABLE consultation_evidence (
    consultation_id text PRIMARY KEY REFERENCES consultations,
    text_version    text NOT NULL,
    text_sha256     bytea NOT NULL,
    acknowledged_at timestamptz NOT NULL,
    application_id  text NOT NULL,
    client_id       text NOT NULL,
    request_id      text NOT NULL,
    idempotency_key text NOT NULL,
    address         text NOT NULL,
    user_agent      text NOT NULL
);
CREATE TRIGGER consultation_evidence_append_only BEFORE UPDATE OR DELETE ON consultation_evidence
    FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TABLE offers (
    id              text PRIMARY KEY,
    consultation_id text NOT NULL REFERENCES consultations,
    lawyer_id       text NOT NULL REFERENCES lawyers,
    state           text NOT NULL CHECK (state IN ('OPEN', 'ACCEPTED', 'DECLINED', 'EXPIRED', 'REVOKED')),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    decline_reason  text,
    CONSTRAINT offers_end CHECK ((state = 'OPEN') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX offers_open_consultation ON offers (consultation_id) WHERE state = 'OPEN';
CREATE UNIQUE INDEX offers_open_lawyer ON offers (lawyer_id) WHERE state = 'OPEN';
CREATE INDEX offers_expiry ON offers (expires_at) WHERE state = 'OPEN';
CREATE INDEX offers_consultation ON offers (consultation_id, lawyer_id);

-- One attempt to bring lawyer and client together on the phone.
CREATE TABLE calls (
    id              text PRIMARY KEY,
    consultation_id text NOT NULL REFERENCES consultations,
    client_id       text NOT NULL REFERENCES clients,
    lawyer_id       text NOT NULL REFERENCES lawyers,
    attempt         integer NOT NULL CHECK (attempt > 0),
    state           text NOT NULL CHECK (state IN ('LAWYER_RINGING', 'CLIENT_RINGING', 'CONFIRMING', 'BRIDGING', 'BRIDGED', 'LOST', 'ENDED')),
    record          boolean NOT NULL, -- may be recorded: consent and the application's setting
    language        text NOT NULL, -- of the announcements
    started_at      timestamptz NOT NULL,
    joined_at       timestamptz, -- when both were joined for the first time
    bridged_at      timestamptz, -- since when both are joined now
    lost_at         timestamptz, -- since when the line is lost; may be restored for 3 minutes
    joined_us       bigint NOT NULL DEFAULT 0, -- microseconds joined in the stretches that are over
    last_event_at   timestamptz NOT NULL, -- silence is looked into after 30 s
    ended_at        timestamptz,
    outcome         text CHECK (outcome IN ('FINISHED', 'NOT_REACHED', 'LAWYER_NOT_REACHED', 'ABORTED')),
    reason          text,
    recording_ref   text, -- where the provider keeps the recording
    CONSTRAINT calls_end CHECK ((state = 'ENDED') = (ended_at IS NOT NULL) AND (state = 'ENDED') = (outcome IS NOT NULL)),
    CONSTRAINT calls_joined CHECK ((state NOT IN ('BRIDGED', 'LOST') OR joined_at IS NOT NULL) AND (joined_at IS NULL OR state IN ('BRIDGED', 'LOST', 'ENDED'))),
    CONSTRAINT calls_line CHECK ((state = 'BRIDGED') = (bridged_at IS NOT NULL) AND (state = 'LOST') = (lost_at IS NOT NULL))
);
-- One client is never dialled by two lawyers at a time (H40).
CREATE UNIQUE INDEX calls_one_per_client ON calls (client_id) WHERE state <> 'ENDED';
CREATE UNIQUE INDEX calls_one_per_consultation ON calls (consultation_id) WHERE state <> 'ENDED';
CREATE INDEX calls_consultation ON calls (consultation_id, started_at);
CREATE INDEX calls_silent ON calls (last_event_at) WHERE state <> 'ENDED';

-- What the telephony provider is asked to do; idempotent there by id. The commands of a call are carried out in order.
CREATE TABLE call_commands (
    id            text PRIMARY KEY,
    call_id       text NOT NULL REFERENCES calls,
    position      bigint GENERATED ALWAYS AS IDENTITY,
    kind          text NOT NULL CHECK (kind IN ('PLACE_LEG', 'BRIDGE', 'PLAY', 'COLLECT', 'START_RECORDING', 'STOP_RECORDING', 'HANGUP')),
    args          jsonb NOT NULL, -- never a phone number
    due_at        timestamptz NOT NULL,
    claimed_until timestamptz, -- a worker is at it
    attempts      integer NOT NULL DEFAULT 0,
    last_error    text,
    done_at       timestamptz
);
CREATE INDEX call_commands_due ON call_commands (due_at, position) WHERE done_at IS NULL;
CREATE INDEX call_commands_open ON call_commands (call_id, position) WHERE done_at IS NULL;

-- What it reported: each event counts once.
CREATE TABLE call_events (
    call_id  text NOT NULL REFERENCES calls,
    event_id text NOT NULL,
    kind     text NOT NULL,
    at       timestamptz NOT NULL, -- when it happened
    fitted   boolean NOT NULL, -- false: it fitted no more and was ignored
    PRIMARY KEY (call_id, event_id)
);

-- The simulated provider: events that it will report.
CREATE TABLE sandbox_call_steps (
    id            text PRIMARY KEY, -- derived from the command, so that a repeated command adds nothing
    call_id       text NOT NULL REFERENCES calls,
    event         jsonb NOT NULL,
    due_at        timestamptz NOT NULL,
    claimed_until timestamptz, -- a replica is reporting it
    tries         integer NOT NULL DEFAULT 0,
    done_at       timestamptz
);
CREATE INDEX sandbox_call_steps_due ON sandbox_call_steps (due_at) WHERE done_at IS NULL;
CREATE INDEX sandbox_call_steps_call ON sandbox_call_steps (call_id);

CREATE TABLE notes (
    consultation_id text PRIMARY KEY REFERENCES consultations,
    lawyer_id       text NOT NULL REFERENCES lawyers,
    note_sealed     bytea NOT NULL, -- only the holder of the private note key can open it
    preview_sealed  bytea NOT NULL,
    submitted_at    timestamptz NOT NULL,
    corrected_at    timestamptz
);

-- +goose Down
DROP TABLE notes;
DROP TABLE sandbox_call_steps;
DROP TABLE call_events;
DROP TABLE call_commands;
DROP TABLE calls;
DROP TABLE offers;
DROP TABLE consultation_evidence;
ALTER TABLE holds DROP CONSTRAINT holds_consultation_id_fkey;
DROP TABLE consultations;
