-- The schema after all migrations, for readers. Written by a test; see internal/infra/postgres/migrate_test.go.

CREATE TABLE access_counts (
    application_id text NOT NULL,
    category text NOT NULL,
    client_id text NOT NULL,
    day date NOT NULL,
    last_at timestamp with time zone NOT NULL,
    uses bigint NOT NULL,
    CONSTRAINT access_counts_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT access_counts_category_check CHECK ((category = ANY (ARRAY['profile'::text, 'wallet'::text, 'consultations'::text, 'notes'::text]))),
    CONSTRAINT access_counts_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT access_counts_pkey PRIMARY KEY (client_id, application_id, category, day),
    CONSTRAINT access_counts_uses_check CHECK ((uses > 0))
);
CREATE INDEX access_counts_day ON public.access_counts USING btree (day);

CREATE TABLE api_requests (
    application_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    body json,
    code text,
    duration_us bigint NOT NULL,
    id text NOT NULL,
    issues json,
    keyed boolean NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    refreshed boolean NOT NULL DEFAULT false,
    replayed boolean NOT NULL,
    status integer NOT NULL,
    CONSTRAINT api_requests_code_check CHECK ((length(code) <= 64)),
    CONSTRAINT api_requests_duration_us_check CHECK ((duration_us >= 0)),
    CONSTRAINT api_requests_method_check CHECK ((length(method) <= 16)),
    CONSTRAINT api_requests_path_check CHECK ((length(path) <= 256)),
    CONSTRAINT api_requests_pkey PRIMARY KEY (application_id, id, at),
    CONSTRAINT api_requests_status_check CHECK (((status >= 100) AND (status <= 599)))
) PARTITION BY RANGE (at);
CREATE INDEX api_requests_list ON ONLY public.api_requests USING btree (application_id, at, id);
CREATE INDEX api_requests_refreshed ON ONLY public.api_requests USING btree (application_id) WHERE refreshed;
CREATE INDEX api_requests_refused ON ONLY public.api_requests USING btree (application_id, id) WHERE (status >= 400);
CREATE INDEX api_requests_refused_list ON ONLY public.api_requests USING btree (application_id, at, id) WHERE (status >= 400);
CREATE INDEX api_requests_replayed ON ONLY public.api_requests USING btree (application_id) WHERE replayed;

CREATE TABLE application_members (
    application_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    role text NOT NULL,
    staff_id text NOT NULL,
    CONSTRAINT application_members_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT application_members_pkey PRIMARY KEY (application_id, staff_id),
    CONSTRAINT application_members_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'developer'::text, 'viewer'::text]))),
    CONSTRAINT application_members_staff_id_fkey FOREIGN KEY (staff_id) REFERENCES staff(id)
);
CREATE INDEX application_members_staff ON public.application_members USING btree (staff_id);

CREATE TABLE applications (
    client_rate_per_minute integer,
    contact_email text,
    created_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    previous_secret_hash bytea,
    previous_secret_until timestamp with time zone,
    rate_per_minute integer,
    recording_enabled boolean NOT NULL DEFAULT false,
    redirect_uris text[] NOT NULL,
    scopes text[] NOT NULL,
    secret_hash bytea NOT NULL,
    suspended_at timestamp with time zone,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT applications_pkey PRIMARY KEY (id)
);

CREATE TABLE audit_entries (
    action text NOT NULL,
    actor text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    details text NOT NULL,
    hash bytea NOT NULL,
    id text NOT NULL,
    reason text NOT NULL,
    seq bigint NOT NULL,
    subject text NOT NULL,
    CONSTRAINT audit_entries_id_key UNIQUE (id),
    CONSTRAINT audit_entries_pkey PRIMARY KEY (seq),
    CONSTRAINT audit_entries_reason_check CHECK ((reason <> ''::text))
);
CREATE INDEX audit_entries_subject ON public.audit_entries USING btree (subject, seq);
CREATE TRIGGER audit_entries_append_only BEFORE DELETE OR UPDATE ON public.audit_entries FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER audit_entries_no_truncate BEFORE TRUNCATE ON public.audit_entries FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TABLE browser_sessions (
    address text NOT NULL DEFAULT ''::text,
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    passkey_id text,
    token_hash bytea NOT NULL,
    user_agent text NOT NULL DEFAULT ''::text,
    CONSTRAINT browser_sessions_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT browser_sessions_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES client_passkeys(id) ON DELETE CASCADE,
    CONSTRAINT browser_sessions_pkey PRIMARY KEY (token_hash)
);
CREATE INDEX browser_sessions_client ON public.browser_sessions USING btree (client_id);
CREATE INDEX browser_sessions_expiry ON public.browser_sessions USING btree (expires_at);
CREATE INDEX browser_sessions_passkey ON public.browser_sessions USING btree (passkey_id) WHERE (passkey_id IS NOT NULL);

CREATE TABLE call_commands (
    args jsonb NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    call_id text NOT NULL,
    claimed_until timestamp with time zone,
    done_at timestamp with time zone,
    due_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    last_error text,
    position bigint NOT NULL,
    trace_parent text,
    CONSTRAINT call_commands_call_id_fkey FOREIGN KEY (call_id) REFERENCES calls(id),
    CONSTRAINT call_commands_kind_check CHECK ((kind = ANY (ARRAY['PLACE_LEG'::text, 'BRIDGE'::text, 'PLAY'::text, 'COLLECT'::text, 'START_RECORDING'::text, 'STOP_RECORDING'::text, 'HANGUP'::text]))),
    CONSTRAINT call_commands_pkey PRIMARY KEY (id)
);
CREATE INDEX call_commands_due ON public.call_commands USING btree (due_at, "position") WHERE (done_at IS NULL);
CREATE INDEX call_commands_open ON public.call_commands USING btree (call_id, "position") WHERE (done_at IS NULL);

CREATE TABLE call_events (
    at timestamp with time zone NOT NULL,
    call_id text NOT NULL,
    event_id text NOT NULL,
    fitted boolean NOT NULL,
    kind text NOT NULL,
    role text,
    CONSTRAINT call_events_call_id_fkey FOREIGN KEY (call_id) REFERENCES calls(id),
    CONSTRAINT call_events_pkey PRIMARY KEY (call_id, event_id)
);

CREATE TABLE calls (
    attempt integer NOT NULL,
    bridged_at timestamp with time zone,
    client_id text NOT NULL,
    consultation_id text NOT NULL,
    ended_at timestamp with time zone,
    id text NOT NULL,
    joined_at timestamp with time zone,
    joined_us bigint NOT NULL DEFAULT 0,
    language text NOT NULL,
    last_event_at timestamp with time zone NOT NULL,
    lawyer_id text NOT NULL,
    lost_at timestamp with time zone,
    outcome text,
    reason text,
    record boolean NOT NULL,
    recording_ref text,
    started_at timestamp with time zone NOT NULL,
    state text NOT NULL,
    CONSTRAINT calls_attempt_check CHECK ((attempt > 0)),
    CONSTRAINT calls_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT calls_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT calls_end CHECK ((((state = 'ENDED'::text) = (ended_at IS NOT NULL)) AND ((state = 'ENDED'::text) = (outcome IS NOT NULL)))),
    CONSTRAINT calls_joined CHECK ((((state <> ALL (ARRAY['BRIDGED'::text, 'LOST'::text])) OR (joined_at IS NOT NULL)) AND ((joined_at IS NULL) OR (state = ANY (ARRAY['BRIDGED'::text, 'LOST'::text, 'ENDED'::text]))))),
    CONSTRAINT calls_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT calls_line CHECK ((((state = 'BRIDGED'::text) = (bridged_at IS NOT NULL)) AND ((state = 'LOST'::text) = (lost_at IS NOT NULL)))),
    CONSTRAINT calls_outcome_check CHECK ((outcome = ANY (ARRAY['FINISHED'::text, 'NOT_REACHED'::text, 'LAWYER_NOT_REACHED'::text, 'ABORTED'::text]))),
    CONSTRAINT calls_pkey PRIMARY KEY (id),
    CONSTRAINT calls_state_check CHECK ((state = ANY (ARRAY['LAWYER_RINGING'::text, 'LAWYER_CONFIRMING'::text, 'CLIENT_RINGING'::text, 'CONFIRMING'::text, 'BRIDGING'::text, 'BRIDGED'::text, 'LOST'::text, 'ENDED'::text])))
);
CREATE INDEX calls_consultation ON public.calls USING btree (consultation_id, started_at);
CREATE INDEX calls_missed ON public.calls USING btree (lawyer_id, ended_at) WHERE (outcome = 'LAWYER_NOT_REACHED'::text);
CREATE INDEX calls_silent ON public.calls USING btree (last_event_at) WHERE (state <> 'ENDED'::text);
CREATE UNIQUE INDEX calls_one_per_client ON public.calls USING btree (client_id) WHERE (state <> 'ENDED'::text);
CREATE UNIQUE INDEX calls_one_per_consultation ON public.calls USING btree (consultation_id) WHERE (state <> 'ENDED'::text);

CREATE TABLE client_links (
    client_id text,
    created_at timestamp with time zone NOT NULL,
    email text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    name text,
    next_path text,
    token_hash bytea NOT NULL,
    CONSTRAINT client_links_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT client_links_kind CHECK ((((kind = 'SIGN_UP'::text) = (client_id IS NULL)) AND ((kind = 'SIGN_UP'::text) = (name IS NOT NULL)))),
    CONSTRAINT client_links_kind_check CHECK ((kind = ANY (ARRAY['SIGN_UP'::text, 'RESET'::text, 'EMAIL'::text, 'UNDO_EMAIL'::text]))),
    CONSTRAINT client_links_pkey PRIMARY KEY (token_hash)
);
CREATE INDEX client_links_client ON public.client_links USING btree (client_id) WHERE (client_id IS NOT NULL);
CREATE INDEX client_links_email ON public.client_links USING btree (lower(email), created_at);

CREATE TABLE client_passkeys (
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    credential jsonb NOT NULL,
    credential_id bytea NOT NULL,
    id text NOT NULL,
    last_used_at timestamp with time zone,
    name text NOT NULL,
    CONSTRAINT client_passkeys_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT client_passkeys_credential_id_key UNIQUE (credential_id),
    CONSTRAINT client_passkeys_pkey PRIMARY KEY (id)
);
CREATE INDEX client_passkeys_client ON public.client_passkeys USING btree (client_id);

CREATE TABLE client_phone_codes (
    client_id text NOT NULL,
    code_sealed bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    expires_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    phone_sealed bytea NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    CONSTRAINT client_phone_codes_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT client_phone_codes_pkey PRIMARY KEY (id),
    CONSTRAINT client_phone_codes_tries_check CHECK ((tries <= 5))
);
CREATE INDEX client_phone_codes_client ON public.client_phone_codes USING btree (client_id, id DESC);

CREATE TABLE clients (
    browser_epoch integer NOT NULL DEFAULT 0,
    created_at timestamp with time zone NOT NULL,
    disabled_at timestamp with time zone,
    email text NOT NULL,
    erased_at timestamp with time zone,
    id text NOT NULL,
    language text,
    name text NOT NULL,
    password_hash text NOT NULL,
    phone_sealed bytea,
    phone_verified_at timestamp with time zone,
    time_zone text NOT NULL DEFAULT 'Europe/Paris'::text,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT clients_erased CHECK (((erased_at IS NULL) OR ((disabled_at IS NOT NULL) AND (phone_sealed IS NULL) AND (password_hash = ''::text)))),
    CONSTRAINT clients_pkey PRIMARY KEY (id),
    CONSTRAINT clients_verified_has_phone CHECK (((phone_verified_at IS NULL) OR (phone_sealed IS NOT NULL)))
);
CREATE UNIQUE INDEX clients_email_key ON public.clients USING btree (lower(email));

CREATE TABLE competences (
    code text NOT NULL,
    label_en text NOT NULL,
    label_fr text NOT NULL,
    position integer NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT competences_pkey PRIMARY KEY (code),
    CONSTRAINT competences_position_key UNIQUE ("position")
);

CREATE TABLE conformance_runs (
    application_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    report jsonb NOT NULL,
    url text NOT NULL,
    CONSTRAINT conformance_runs_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT conformance_runs_pkey PRIMARY KEY (application_id)
);

CREATE TABLE consultation_evidence (
    acknowledged_at timestamp with time zone NOT NULL,
    address text NOT NULL,
    application_id text NOT NULL,
    client_id text NOT NULL,
    consultation_id text NOT NULL,
    idempotency_key_sha256 bytea NOT NULL,
    request_id text NOT NULL,
    stated_language text,
    stated_version text,
    text_sha256 bytea NOT NULL,
    text_version text NOT NULL,
    user_agent text NOT NULL,
    CONSTRAINT consultation_evidence_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT consultation_evidence_pkey PRIMARY KEY (consultation_id),
    CONSTRAINT consultation_evidence_stated_language_check CHECK ((stated_language = ANY (ARRAY['FR'::text, 'EN'::text])))
);
CREATE INDEX consultation_evidence_acknowledged ON public.consultation_evidence USING btree (acknowledged_at);
CREATE TRIGGER consultation_evidence_append_only BEFORE DELETE OR UPDATE ON public.consultation_evidence FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TABLE consultation_withdrawals (
    client_id text NOT NULL,
    consultation_id text NOT NULL,
    declared_at timestamp with time zone NOT NULL,
    status text NOT NULL,
    CONSTRAINT consultation_withdrawals_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT consultation_withdrawals_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT consultation_withdrawals_pkey PRIMARY KEY (consultation_id)
);
CREATE TRIGGER consultation_withdrawals_append_only BEFORE DELETE OR UPDATE ON public.consultation_withdrawals FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TABLE consultations (
    alarmed_at timestamp with time zone,
    application_id text NOT NULL,
    assigned_at timestamp with time zone,
    call_cap_at timestamp with time zone,
    call_ended_at timestamp with time zone,
    call_started_at timestamp with time zone,
    callable_from timestamp with time zone,
    callable_until timestamp with time zone,
    callback_due_at timestamp with time zone,
    cancelled_at timestamp with time zone,
    choose_by timestamp with time zone,
    client_id text NOT NULL,
    competence text NOT NULL,
    completed_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    crew text,
    description_sealed bytea,
    dial_attempts integer NOT NULL DEFAULT 0,
    duration_sec integer,
    earlier_attempts integer NOT NULL DEFAULT 0,
    end_reason text,
    erased_at timestamp with time zone,
    estimate_ahead integer,
    estimate_idle integer,
    estimate_online integer,
    estimate_sec integer,
    estimate_told_at timestamp with time zone,
    event_seq bigint NOT NULL DEFAULT 0,
    expired_at timestamp with time zone,
    external_ref text,
    first_assigned_at timestamp with time zone,
    first_dial_at timestamp with time zone,
    id text NOT NULL,
    language text NOT NULL,
    last_dial_at timestamp with time zone,
    lawyer_id text,
    line_lost_at timestamp with time zone,
    next_dial_at timestamp with time zone,
    phone_sealed bytea,
    price_cents bigint NOT NULL,
    recording_consent boolean NOT NULL,
    refunded_at timestamp with time zone,
    refunded_cents bigint,
    reminders integer NOT NULL DEFAULT 0,
    search_started_at timestamp with time zone NOT NULL,
    status text NOT NULL,
    subject_sealed bytea,
    timer_at timestamp with time zone,
    trace_parent text,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT consultations_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT consultations_call CHECK (((status <> ALL (ARRAY['IN_CALL'::text, 'CALL_ENDED'::text, 'COMPLETED'::text])) OR (call_started_at IS NOT NULL))),
    CONSTRAINT consultations_callable CHECK ((callable_from < callable_until)),
    CONSTRAINT consultations_callback CHECK (((status <> 'PENDING_CALLBACK'::text) OR (callback_due_at IS NOT NULL))),
    CONSTRAINT consultations_check CHECK (((refunded_cents > 0) AND (refunded_cents <= price_cents))),
    CONSTRAINT consultations_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT consultations_competence_fkey FOREIGN KEY (competence) REFERENCES competences(code),
    CONSTRAINT consultations_content CHECK (
CASE
    WHEN (erased_at IS NULL) THEN ((subject_sealed IS NOT NULL) AND (phone_sealed IS NOT NULL))
    ELSE ((subject_sealed IS NULL) AND (description_sealed IS NULL) AND (phone_sealed IS NULL))
END),
    CONSTRAINT consultations_dial_attempts_check CHECK (((dial_attempts >= 0) AND (dial_attempts <= 3))),
    CONSTRAINT consultations_draft CHECK ((status <> 'DRAFT'::text)),
    CONSTRAINT consultations_duration CHECK (((call_ended_at IS NULL) = (duration_sec IS NULL))),
    CONSTRAINT consultations_duration_sec_check CHECK (((duration_sec >= 0) AND (duration_sec <= 1200))),
    CONSTRAINT consultations_earlier_attempts CHECK (((earlier_attempts >= 0) AND (earlier_attempts <= 3))),
    CONSTRAINT consultations_ended CHECK ((((status = 'COMPLETED'::text) = (completed_at IS NOT NULL)) AND ((status = 'CANCELLED'::text) = (cancelled_at IS NOT NULL)) AND ((status = 'EXPIRED'::text) = (expired_at IS NOT NULL)))),
    CONSTRAINT consultations_language_fkey FOREIGN KEY (language) REFERENCES languages(code),
    CONSTRAINT consultations_lawyer CHECK (((status <> ALL (ARRAY['ASSIGNED'::text, 'IN_CALL'::text, 'CALL_ENDED'::text, 'COMPLETED'::text])) OR (lawyer_id IS NOT NULL))),
    CONSTRAINT consultations_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT consultations_not_cancelled_after_call CHECK (((status <> 'CANCELLED'::text) OR (call_started_at IS NULL))),
    CONSTRAINT consultations_pkey PRIMARY KEY (id),
    CONSTRAINT consultations_price_cents_check CHECK ((price_cents > 0)),
    CONSTRAINT consultations_refund CHECK (((refunded_at IS NULL) = (refunded_cents IS NULL))),
    CONSTRAINT consultations_status_check CHECK ((status = ANY (ARRAY['DRAFT'::text, 'MATCHING'::text, 'PENDING_CALLBACK'::text, 'ASSIGNED'::text, 'IN_CALL'::text, 'CALL_ENDED'::text, 'COMPLETED'::text, 'CANCELLED'::text, 'EXPIRED'::text])))
);
CREATE INDEX consultations_assigned ON public.consultations USING btree (competence, language, assigned_at DESC) WHERE (assigned_at IS NOT NULL);
CREATE INDEX consultations_cancelled ON public.consultations USING btree (application_id, client_id, created_at DESC, id DESC) WHERE (status = 'CANCELLED'::text);
CREATE INDEX consultations_client ON public.consultations USING btree (client_id, created_at DESC, id DESC);
CREATE INDEX consultations_completed ON public.consultations USING btree (application_id, client_id, created_at DESC, id DESC) WHERE (status = 'COMPLETED'::text);
CREATE INDEX consultations_crew ON public.consultations USING btree (crew) WHERE ((crew IS NOT NULL) AND (status = ANY (ARRAY['MATCHING'::text, 'PENDING_CALLBACK'::text])));
CREATE INDEX consultations_expired ON public.consultations USING btree (application_id, client_id, created_at DESC, id DESC) WHERE (status = 'EXPIRED'::text);
CREATE INDEX consultations_history ON public.consultations USING btree (lawyer_id, created_at DESC, id DESC) WHERE (status = ANY (ARRAY['COMPLETED'::text, 'EXPIRED'::text]));
CREATE INDEX consultations_list ON public.consultations USING btree (application_id, client_id, created_at DESC, id DESC);
CREATE INDEX consultations_note_missing ON public.consultations USING btree (call_ended_at) WHERE (status = 'CALL_ENDED'::text);
CREATE INDEX consultations_of_lawyer ON public.consultations USING btree (lawyer_id) WHERE (status = ANY (ARRAY['ASSIGNED'::text, 'IN_CALL'::text, 'CALL_ENDED'::text]));
CREATE INDEX consultations_open ON public.consultations USING btree (client_id) WHERE (status = ANY (ARRAY['MATCHING'::text, 'PENDING_CALLBACK'::text, 'ASSIGNED'::text, 'IN_CALL'::text, 'CALL_ENDED'::text]));
CREATE INDEX consultations_period ON public.consultations USING brin (created_at) WITH (pages_per_range='32');
CREATE INDEX consultations_reference ON public.consultations USING btree (external_ref) WHERE (external_ref IS NOT NULL);
CREATE INDEX consultations_timer ON public.consultations USING btree (timer_at) WHERE (timer_at IS NOT NULL);
CREATE INDEX consultations_waiting ON public.consultations USING btree (competence, language, search_started_at) WHERE (status = ANY (ARRAY['MATCHING'::text, 'PENDING_CALLBACK'::text]));
CREATE UNIQUE INDEX consultations_one_call_per_client ON public.consultations USING btree (client_id) WHERE (status = 'IN_CALL'::text);
CREATE UNIQUE INDEX consultations_one_per_lawyer ON public.consultations USING btree (lawyer_id) WHERE (status = ANY (ARRAY['ASSIGNED'::text, 'IN_CALL'::text]));

CREATE TABLE database_losses (
    count bigint NOT NULL,
    lost_from timestamp with time zone NOT NULL,
    lost_until timestamp with time zone NOT NULL,
    noticed_at timestamp with time zone NOT NULL,
    process text NOT NULL,
    CONSTRAINT database_losses_check CHECK ((lost_until >= lost_from)),
    CONSTRAINT database_losses_pkey PRIMARY KEY (process, count)
);

CREATE TABLE database_marks (
    count bigint NOT NULL,
    marked_at timestamp with time zone NOT NULL,
    process text NOT NULL,
    CONSTRAINT database_marks_count_check CHECK ((count > 0)),
    CONSTRAINT database_marks_pkey PRIMARY KEY (process)
);

CREATE TABLE deployment (
    base_url text,
    created_at timestamp with time zone NOT NULL,
    environment text NOT NULL,
    single boolean NOT NULL DEFAULT true,
    CONSTRAINT deployment_environment_check CHECK ((environment = ANY (ARRAY['sandbox'::text, 'live'::text]))),
    CONSTRAINT deployment_pkey PRIMARY KEY (single),
    CONSTRAINT deployment_single_check CHECK (single)
);

CREATE TABLE deployment_secrets (
    created_at timestamp with time zone NOT NULL,
    purpose text NOT NULL,
    secret_sealed bytea NOT NULL,
    CONSTRAINT deployment_secrets_pkey PRIMARY KEY (purpose)
);

CREATE TABLE estimates (
    ahead integer NOT NULL,
    application_id text NOT NULL,
    client_id text NOT NULL,
    competence text NOT NULL,
    language text NOT NULL,
    lawyers_idle integer NOT NULL,
    lawyers_online integer NOT NULL,
    seconds integer,
    told_at timestamp with time zone NOT NULL,
    CONSTRAINT estimates_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT estimates_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT estimates_pkey PRIMARY KEY (application_id, client_id, competence, language)
);
CREATE INDEX estimates_told ON public.estimates USING btree (told_at);

CREATE TABLE evidence_chain (
    chained_at timestamp with time zone NOT NULL,
    consultation_id text NOT NULL,
    hash bytea NOT NULL,
    seq bigint NOT NULL,
    CONSTRAINT evidence_chain_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultation_evidence(consultation_id),
    CONSTRAINT evidence_chain_consultation_id_key UNIQUE (consultation_id),
    CONSTRAINT evidence_chain_pkey PRIMARY KEY (seq),
    CONSTRAINT evidence_chain_seq_check CHECK ((seq > 0))
);
CREATE TRIGGER evidence_chain_append_only BEFORE DELETE OR UPDATE ON public.evidence_chain FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER evidence_chain_no_truncate BEFORE TRUNCATE ON public.evidence_chain FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TABLE goose_db_version (
    id integer NOT NULL,
    is_applied boolean NOT NULL,
    tstamp timestamp without time zone NOT NULL DEFAULT now(),
    version_id bigint NOT NULL,
    CONSTRAINT goose_db_version_pkey PRIMARY KEY (id)
);

CREATE TABLE holds (
    amount_cents bigint NOT NULL,
    application_id text,
    client_id text NOT NULL,
    consultation_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    id text NOT NULL,
    lawyer_fee_cents bigint NOT NULL,
    platform_fee_cents bigint NOT NULL,
    refunded_cents bigint,
    state text NOT NULL,
    CONSTRAINT holds_amount_cents_check CHECK ((amount_cents > 0)),
    CONSTRAINT holds_check CHECK (((refunded_cents > 0) AND (refunded_cents <= amount_cents))),
    CONSTRAINT holds_client_id_fkey FOREIGN KEY (client_id) REFERENCES wallets(client_id),
    CONSTRAINT holds_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT holds_consultation_id_key UNIQUE (consultation_id),
    CONSTRAINT holds_end CHECK (((state = 'ACTIVE'::text) = (ended_at IS NULL))),
    CONSTRAINT holds_fees CHECK (((lawyer_fee_cents + platform_fee_cents) = amount_cents)),
    CONSTRAINT holds_lawyer_fee_cents_check CHECK ((lawyer_fee_cents > 0)),
    CONSTRAINT holds_pkey PRIMARY KEY (id),
    CONSTRAINT holds_platform_fee_cents_check CHECK ((platform_fee_cents > 0)),
    CONSTRAINT holds_refund CHECK (((refunded_cents IS NULL) OR (state = 'CAPTURED'::text))),
    CONSTRAINT holds_state_check CHECK ((state = ANY (ARRAY['ACTIVE'::text, 'CAPTURED'::text, 'RELEASED'::text])))
);
CREATE INDEX holds_active ON public.holds USING btree (client_id) WHERE (state = 'ACTIVE'::text);

CREATE TABLE idempotency_keys (
    application_id text NOT NULL,
    body bytea,
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    endpoint text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    fingerprint bytea NOT NULL,
    key text NOT NULL,
    status integer,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (application_id, client_id, endpoint, key),
    CONSTRAINT idempotency_keys_response CHECK (((status IS NULL) = (body IS NULL)))
);
CREATE INDEX idempotency_keys_expiry ON public.idempotency_keys USING btree (expires_at);

CREATE TABLE languages (
    code text NOT NULL,
    label_en text NOT NULL,
    label_fr text NOT NULL,
    position integer NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT languages_pkey PRIMARY KEY (code),
    CONSTRAINT languages_position_key UNIQUE ("position")
);

CREATE TABLE lawyer_hours (
    from_minute integer NOT NULL,
    lawyer_id text NOT NULL,
    until_minute integer NOT NULL,
    weekday integer NOT NULL,
    CONSTRAINT lawyer_hours_from_minute_check CHECK ((from_minute >= 0)),
    CONSTRAINT lawyer_hours_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT lawyer_hours_order CHECK ((from_minute < until_minute)),
    CONSTRAINT lawyer_hours_pkey PRIMARY KEY (lawyer_id, weekday, from_minute),
    CONSTRAINT lawyer_hours_until_minute_check CHECK ((until_minute <= 1440)),
    CONSTRAINT lawyer_hours_weekday_check CHECK (((weekday >= 1) AND (weekday <= 7)))
);

CREATE TABLE lawyer_pairs (
    competence text NOT NULL,
    idle_since timestamp with time zone,
    language text NOT NULL,
    lawyer_id text NOT NULL,
    CONSTRAINT lawyer_pairs_competence_fkey FOREIGN KEY (competence) REFERENCES competences(code),
    CONSTRAINT lawyer_pairs_language_fkey FOREIGN KEY (language) REFERENCES languages(code),
    CONSTRAINT lawyer_pairs_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT lawyer_pairs_pkey PRIMARY KEY (competence, language, lawyer_id)
);
CREATE INDEX lawyer_pairs_idle ON public.lawyer_pairs USING btree (competence, language, idle_since, lawyer_id) WHERE (idle_since IS NOT NULL);
CREATE INDEX lawyer_pairs_lawyer ON public.lawyer_pairs USING btree (lawyer_id);

CREATE TABLE lawyer_presence (
    heartbeat_at timestamp with time zone NOT NULL,
    lawyer_id text NOT NULL,
    CONSTRAINT lawyer_presence_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT lawyer_presence_pkey PRIMARY KEY (lawyer_id)
);

CREATE TABLE lawyer_shifts (
    from_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    lawyer_id text NOT NULL,
    until_at timestamp with time zone,
    CONSTRAINT lawyer_shifts_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT lawyer_shifts_order CHECK ((from_at <= until_at)),
    CONSTRAINT lawyer_shifts_pkey PRIMARY KEY (id)
);
CREATE INDEX lawyer_shifts_until ON public.lawyer_shifts USING btree (until_at);
CREATE UNIQUE INDEX lawyer_shifts_open ON public.lawyer_shifts USING btree (lawyer_id) WHERE (until_at IS NULL);

CREATE TABLE lawyer_wakeups (
    consultation_id text NOT NULL,
    day date NOT NULL,
    lawyer_id text NOT NULL,
    number integer NOT NULL,
    woken_at timestamp with time zone NOT NULL,
    CONSTRAINT lawyer_wakeups_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT lawyer_wakeups_daily UNIQUE (lawyer_id, day, number),
    CONSTRAINT lawyer_wakeups_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT lawyer_wakeups_number_check CHECK (((number >= 1) AND (number <= 3))),
    CONSTRAINT lawyer_wakeups_pkey PRIMARY KEY (consultation_id, lawyer_id)
);

CREATE TABLE lawyers (
    application_id text,
    bar text,
    bar_checked_until timestamp with time zone,
    bar_key text,
    bar_number text,
    created_at timestamp with time zone NOT NULL,
    email text NOT NULL,
    id text NOT NULL,
    idle_since timestamp with time zone,
    lease_epoch bigint NOT NULL DEFAULT 0,
    left_at timestamp with time zone,
    left_reason text,
    name text NOT NULL,
    on_call boolean NOT NULL DEFAULT false,
    password_hash text NOT NULL,
    pause_next boolean NOT NULL DEFAULT false,
    phone_sealed bytea,
    simulated boolean NOT NULL DEFAULT false,
    state text NOT NULL,
    suspended_at timestamp with time zone,
    time_zone text NOT NULL DEFAULT 'Europe/Paris'::text,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT lawyers_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT lawyers_bar CHECK (((bar IS NULL) = (bar_number IS NULL))),
    CONSTRAINT lawyers_idle CHECK (((state <> 'AVAILABLE'::text) OR (idle_since IS NOT NULL))),
    CONSTRAINT lawyers_left CHECK (((left_reason IS NULL) = (left_at IS NULL))),
    CONSTRAINT lawyers_left_reason CHECK ((left_reason = ANY (ARRAY['SIGNED_OFF'::text, 'PAUSED'::text, 'PAUSED_AFTER'::text, 'NO_PAGE'::text, 'MISSED_OFFER'::text, 'NOT_REACHED'::text, 'NOT_DIALLED'::text, 'NOTE_MISSING'::text, 'SUSPENDED'::text, 'SENT_HOME'::text, 'RECORDS_DISAGREE'::text]))),
    CONSTRAINT lawyers_phone CHECK (((state <> 'AVAILABLE'::text) OR (phone_sealed IS NOT NULL))),
    CONSTRAINT lawyers_pkey PRIMARY KEY (id),
    CONSTRAINT lawyers_state_check CHECK ((state = ANY (ARRAY['OFFLINE'::text, 'AVAILABLE'::text, 'OFFERED'::text, 'BUSY'::text, 'WRAP_UP'::text, 'AWAY'::text])))
);
CREATE INDEX lawyers_of_application ON public.lawyers USING btree (application_id) WHERE (application_id IS NOT NULL);
CREATE UNIQUE INDEX lawyers_bar_key ON public.lawyers USING btree (bar_key);
CREATE UNIQUE INDEX lawyers_email_key ON public.lawyers USING btree (lower(email));

CREATE TABLE ledger_checks (
    complete boolean NOT NULL DEFAULT true,
    duration_ms bigint NOT NULL,
    evidence_hash bytea,
    evidence_seq bigint,
    findings text[] NOT NULL,
    heads bytea NOT NULL,
    id bigint NOT NULL,
    outstanding_cents bigint NOT NULL,
    sealed_at timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    transactions bigint NOT NULL,
    volume_cents bigint NOT NULL,
    CONSTRAINT ledger_checks_pkey PRIMARY KEY (id)
);

CREATE TABLE ledger_seals (
    available_cents bigint NOT NULL,
    client_id text NOT NULL,
    hash bytea NOT NULL,
    held_cents bigint NOT NULL,
    last_entry_at timestamp with time zone NOT NULL,
    seq bigint NOT NULL,
    CONSTRAINT ledger_seals_client_id_fkey FOREIGN KEY (client_id) REFERENCES wallets(client_id),
    CONSTRAINT ledger_seals_pkey PRIMARY KEY (client_id),
    CONSTRAINT ledger_seals_seq_check CHECK ((seq > 0))
);

CREATE TABLE ledger_transactions (
    amount_cents bigint NOT NULL,
    application_id text,
    available_after_cents bigint NOT NULL,
    balance_after_cents bigint NOT NULL,
    client_id text NOT NULL,
    consultation_id text,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    hash bytea NOT NULL,
    id text NOT NULL,
    seq bigint NOT NULL,
    topup_id text,
    type text NOT NULL,
    CONSTRAINT ledger_transactions_client_id_fkey FOREIGN KEY (client_id) REFERENCES wallets(client_id),
    CONSTRAINT ledger_transactions_pkey PRIMARY KEY (id),
    CONSTRAINT ledger_transactions_seq UNIQUE (client_id, seq),
    CONSTRAINT ledger_transactions_topup_id_fkey FOREIGN KEY (topup_id) REFERENCES topup_sessions(id),
    CONSTRAINT ledger_transactions_type_check CHECK ((type = ANY (ARRAY['TOPUP'::text, 'HOLD'::text, 'RELEASE'::text, 'CAPTURE'::text, 'REFUND'::text, 'ADJUSTMENT'::text])))
);
CREATE INDEX ledger_transactions_taken_back ON public.ledger_transactions USING btree (topup_id) WHERE ((type = 'ADJUSTMENT'::text) AND (topup_id IS NOT NULL));
CREATE TRIGGER ledger_transactions_append_only BEFORE DELETE OR UPDATE ON public.ledger_transactions FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER ledger_transactions_no_truncate BEFORE TRUNCATE ON public.ledger_transactions FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE UNIQUE INDEX ledger_transactions_consultation ON public.ledger_transactions USING btree (consultation_id, type) WHERE (consultation_id IS NOT NULL);
CREATE UNIQUE INDEX ledger_transactions_topup ON public.ledger_transactions USING btree (topup_id) WHERE (type = 'TOPUP'::text);

CREATE TABLE note_drafts (
    consultation_id text NOT NULL,
    lawyer_id text NOT NULL,
    note_sealed bytea NOT NULL,
    preview_sealed bytea NOT NULL,
    saved_at timestamp with time zone NOT NULL,
    CONSTRAINT note_drafts_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT note_drafts_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT note_drafts_pkey PRIMARY KEY (consultation_id)
);
CREATE INDEX note_drafts_saved ON public.note_drafts USING btree (saved_at);

CREATE TABLE note_recipients (
    lawyer_id text NOT NULL,
    recipient text NOT NULL,
    set_at timestamp with time zone NOT NULL,
    CONSTRAINT note_recipients_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT note_recipients_pkey PRIMARY KEY (lawyer_id),
    CONSTRAINT note_recipients_recipient_check CHECK ((recipient ~~ 'age1%'::text))
);

CREATE TABLE notes (
    consultation_id text NOT NULL,
    copy_sealed bytea,
    copy_taken_at timestamp with time zone,
    corrected_at timestamp with time zone,
    digest bytea,
    erased_at timestamp with time zone,
    lawyer_id text NOT NULL,
    note_sealed bytea,
    preview_sealed bytea,
    submitted_at timestamp with time zone NOT NULL,
    CONSTRAINT notes_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT notes_content CHECK ((((erased_at IS NULL) = (note_sealed IS NOT NULL)) AND ((erased_at IS NULL) = (preview_sealed IS NOT NULL)))),
    CONSTRAINT notes_copy CHECK (((copy_sealed IS NULL) OR (erased_at IS NULL))),
    CONSTRAINT notes_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT notes_pkey PRIMARY KEY (consultation_id)
);
CREATE INDEX notes_copies ON public.notes USING btree (COALESCE(copy_taken_at, corrected_at, submitted_at)) WHERE (copy_sealed IS NOT NULL);

CREATE TABLE oauth_codes (
    code_challenge text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    grant_id text NOT NULL,
    hash bytea NOT NULL,
    redirect_uri text NOT NULL,
    used_at timestamp with time zone,
    CONSTRAINT oauth_codes_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES oauth_grants(id),
    CONSTRAINT oauth_codes_pkey PRIMARY KEY (hash)
);
CREATE INDEX oauth_codes_grant ON public.oauth_codes USING btree (grant_id);

CREATE TABLE oauth_consents (
    application_id text NOT NULL,
    client_id text NOT NULL,
    granted_at timestamp with time zone NOT NULL,
    scope text NOT NULL,
    CONSTRAINT oauth_consents_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT oauth_consents_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT oauth_consents_pkey PRIMARY KEY (client_id, application_id, scope)
);

CREATE TABLE oauth_grant_events (
    application_id text NOT NULL,
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    event text NOT NULL,
    grant_id text NOT NULL,
    reason text NOT NULL,
    seq bigint NOT NULL,
    CONSTRAINT oauth_grant_events_event_check CHECK ((event = ANY (ARRAY['created'::text, 'activated'::text, 'refreshed'::text, 'replayed'::text, 'revoked'::text]))),
    CONSTRAINT oauth_grant_events_pkey PRIMARY KEY (seq)
);
CREATE INDEX oauth_grant_events_pair ON public.oauth_grant_events USING btree (client_id, application_id, seq);
CREATE INDEX oauth_grant_events_past ON public.oauth_grant_events USING btree (event, created_at);
CREATE TRIGGER oauth_grant_events_append_only BEFORE DELETE OR UPDATE ON public.oauth_grant_events FOR EACH ROW EXECUTE FUNCTION oauth_grant_events_guard();
CREATE TRIGGER oauth_grant_events_no_truncate BEFORE TRUNCATE ON public.oauth_grant_events FOR EACH STATEMENT EXECUTE FUNCTION oauth_grant_events_guard();

CREATE TABLE oauth_grants (
    activated_at timestamp with time zone,
    aged_us bigint NOT NULL DEFAULT 0,
    application_id text NOT NULL,
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    last_used_at timestamp with time zone,
    purge_at timestamp with time zone NOT NULL DEFAULT now(),
    redirect_uri text,
    revoked_at timestamp with time zone,
    revoked_reason text,
    scopes text[] NOT NULL,
    CONSTRAINT oauth_grants_aged_us_check CHECK ((aged_us >= 0)),
    CONSTRAINT oauth_grants_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT oauth_grants_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT oauth_grants_pkey PRIMARY KEY (id),
    CONSTRAINT oauth_grants_reason CHECK (((revoked_at IS NULL) = (revoked_reason IS NULL)))
);
CREATE INDEX oauth_grants_live ON public.oauth_grants USING btree (client_id, application_id) WHERE (revoked_at IS NULL);
CREATE INDEX oauth_grants_purge ON public.oauth_grants USING btree (purge_at);

CREATE TABLE oauth_refresh_tokens (
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    grant_id text NOT NULL,
    hash bytea NOT NULL,
    used_at timestamp with time zone,
    CONSTRAINT oauth_refresh_tokens_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES oauth_grants(id),
    CONSTRAINT oauth_refresh_tokens_pkey PRIMARY KEY (hash)
);
CREATE INDEX oauth_refresh_tokens_grant ON public.oauth_refresh_tokens USING btree (grant_id);
CREATE UNIQUE INDEX oauth_refresh_tokens_live ON public.oauth_refresh_tokens USING btree (grant_id) WHERE (used_at IS NULL);

CREATE TABLE oauth_token_answers (
    answer_sealed bytea,
    application_id text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    fingerprint bytea NOT NULL,
    key_hash bytea NOT NULL,
    CONSTRAINT oauth_token_answers_pkey PRIMARY KEY (application_id, key_hash)
);
CREATE INDEX oauth_token_answers_expiry ON public.oauth_token_answers USING btree (expires_at);

CREATE TABLE offers (
    client_id text,
    consultation_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    decline_reason text,
    ended_at timestamp with time zone,
    expires_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    idle_since timestamp with time zone,
    lawyer_id text NOT NULL,
    queue_place integer,
    queue_seen integer,
    returned_at timestamp with time zone,
    slot integer NOT NULL DEFAULT 1,
    state text NOT NULL,
    why text,
    CONSTRAINT offers_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT offers_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT offers_end CHECK (((state = 'OPEN'::text) = (ended_at IS NULL))),
    CONSTRAINT offers_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT offers_pkey PRIMARY KEY (id),
    CONSTRAINT offers_slot CHECK (((slot >= 1) AND (slot <= 3))),
    CONSTRAINT offers_state_check CHECK ((state = ANY (ARRAY['OPEN'::text, 'ACCEPTED'::text, 'DECLINED'::text, 'EXPIRED'::text, 'REVOKED'::text]))),
    CONSTRAINT offers_why CHECK ((why = ANY (ARRAY['LONGEST_IDLE'::text, 'LAWYER_FREE'::text, 'THREE_AT_ONCE'::text, 'BY_HAND'::text])))
);
CREATE INDEX offers_consultation ON public.offers USING btree (consultation_id, lawyer_id);
CREATE INDEX offers_expiry ON public.offers USING btree (expires_at) WHERE (state = 'OPEN'::text);
CREATE INDEX offers_period ON public.offers USING brin (created_at) WITH (pages_per_range='32');
CREATE UNIQUE INDEX offers_open_client ON public.offers USING btree (client_id, slot) WHERE (state = 'OPEN'::text);
CREATE UNIQUE INDEX offers_open_consultation ON public.offers USING btree (consultation_id, slot) WHERE (state = 'OPEN'::text);
CREATE UNIQUE INDEX offers_open_lawyer ON public.offers USING btree (lawyer_id) WHERE (state = 'OPEN'::text);

CREATE TABLE operator_amounts (
    amount_cents bigint NOT NULL,
    client_id text NOT NULL,
    entry_id text NOT NULL,
    moved_at timestamp with time zone NOT NULL,
    operator_id text NOT NULL,
    CONSTRAINT operator_amounts_amount_cents_check CHECK ((amount_cents > 0)),
    CONSTRAINT operator_amounts_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT operator_amounts_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES staff(id),
    CONSTRAINT operator_amounts_pkey PRIMARY KEY (entry_id)
);
CREATE INDEX operator_amounts_client ON public.operator_amounts USING btree (client_id, moved_at);
CREATE INDEX operator_amounts_operator ON public.operator_amounts USING btree (operator_id, moved_at);

CREATE TABLE operator_proposals (
    amount_cents bigint NOT NULL,
    close_reason text NOT NULL DEFAULT ''::text,
    created_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone,
    decided_by text,
    expires_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    proposed_by text NOT NULL,
    reason text NOT NULL,
    state text NOT NULL,
    subject text NOT NULL,
    CONSTRAINT operator_proposals_amount_cents_check CHECK ((amount_cents <> 0)),
    CONSTRAINT operator_proposals_check CHECK (((state <> 'CONFIRMED'::text) OR ((decided_by <> proposed_by) AND (decided_by IS NOT NULL)))),
    CONSTRAINT operator_proposals_check1 CHECK (((decided_by IS NULL) = (decided_at IS NULL))),
    CONSTRAINT operator_proposals_decided_by_fkey FOREIGN KEY (decided_by) REFERENCES staff(id),
    CONSTRAINT operator_proposals_kind_check CHECK ((kind = ANY (ARRAY['REFUND'::text, 'ADJUSTMENT'::text]))),
    CONSTRAINT operator_proposals_pkey PRIMARY KEY (id),
    CONSTRAINT operator_proposals_proposed_by_fkey FOREIGN KEY (proposed_by) REFERENCES staff(id),
    CONSTRAINT operator_proposals_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT operator_proposals_state_check CHECK ((state = ANY (ARRAY['OPEN'::text, 'CONFIRMED'::text, 'REFUSED'::text, 'EXPIRED'::text])))
);
CREATE INDEX operator_proposals_subject ON public.operator_proposals USING btree (subject);
CREATE UNIQUE INDEX operator_proposals_open ON public.operator_proposals USING btree (kind, subject) WHERE (state = 'OPEN'::text);

CREATE TABLE passkey_challenges (
    challenge jsonb NOT NULL,
    client_id text,
    expires_at timestamp with time zone NOT NULL,
    token_hash bytea NOT NULL,
    CONSTRAINT passkey_challenges_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT passkey_challenges_pkey PRIMARY KEY (token_hash)
);
CREATE INDEX passkey_challenges_expiry ON public.passkey_challenges USING btree (expires_at);

CREATE TABLE payment_notices (
    amount_cents bigint NOT NULL,
    currency text NOT NULL,
    kind text NOT NULL,
    notice_id text NOT NULL,
    outcome text NOT NULL,
    payment_ref text NOT NULL DEFAULT ''::text,
    provider text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    topup_id text NOT NULL,
    CONSTRAINT payment_notices_pkey PRIMARY KEY (provider, notice_id)
);
CREATE INDEX payment_notices_incidents ON public.payment_notices USING btree (received_at) WHERE (outcome = ANY (ARRAY['unknown_session'::text, 'amount_mismatch'::text, 'currency_mismatch'::text, 'paid_twice'::text, 'credited_to_closed'::text, 'disputed'::text, 'refunded_at_provider'::text, 'refund_failed'::text, 'unknown_payment'::text]));
CREATE INDEX payment_notices_topup ON public.payment_notices USING btree (topup_id);

CREATE TABLE payment_reversals (
    amount_cents bigint NOT NULL,
    back boolean NOT NULL,
    gone boolean NOT NULL,
    kind text NOT NULL,
    payment_ref text NOT NULL,
    provider text NOT NULL,
    ref text NOT NULL,
    CONSTRAINT payment_reversals_amount_cents_check CHECK ((amount_cents >= 0)),
    CONSTRAINT payment_reversals_kind_check CHECK ((kind = ANY (ARRAY['DISPUTE'::text, 'REFUND'::text, 'REFUNDED'::text]))),
    CONSTRAINT payment_reversals_pkey PRIMARY KEY (provider, ref)
);
CREATE INDEX payment_reversals_payment ON public.payment_reversals USING btree (provider, payment_ref);

CREATE TABLE phone_code_counts (
    day date NOT NULL,
    number bytea NOT NULL,
    sent integer NOT NULL,
    CONSTRAINT phone_code_counts_pkey PRIMARY KEY (day, number),
    CONSTRAINT phone_code_counts_sent_check CHECK ((sent > 0))
);

CREATE TABLE portal_links (
    application_id text,
    created_at timestamp with time zone NOT NULL,
    email text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    language text NOT NULL,
    role text,
    sent_by text,
    token_hash bytea NOT NULL,
    CONSTRAINT portal_links_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT portal_links_kind CHECK (((application_id IS NULL) = (role IS NULL))),
    CONSTRAINT portal_links_language_check CHECK ((language = ANY (ARRAY['en'::text, 'fr'::text]))),
    CONSTRAINT portal_links_pkey PRIMARY KEY (id),
    CONSTRAINT portal_links_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'developer'::text, 'viewer'::text]))),
    CONSTRAINT portal_links_token_hash_key UNIQUE (token_hash)
);
CREATE INDEX portal_links_application ON public.portal_links USING btree (application_id, created_at) WHERE (application_id IS NOT NULL);
CREATE INDEX portal_links_email ON public.portal_links USING btree (lower(email), created_at);

CREATE TABLE postings (
    account text NOT NULL,
    amount_cents bigint NOT NULL,
    client_id text,
    transaction_id text NOT NULL,
    CONSTRAINT postings_account_check CHECK ((account = ANY (ARRAY['client_available'::text, 'client_held'::text, 'lawyer_fee'::text, 'platform_fee'::text, 'payment_clearing'::text, 'refunds'::text, 'adjustments'::text]))),
    CONSTRAINT postings_amount_cents_check CHECK ((amount_cents <> 0)),
    CONSTRAINT postings_client CHECK (((client_id IS NOT NULL) = (account = ANY (ARRAY['client_available'::text, 'client_held'::text])))),
    CONSTRAINT postings_pkey PRIMARY KEY (transaction_id, account),
    CONSTRAINT postings_transaction_id_fkey FOREIGN KEY (transaction_id) REFERENCES ledger_transactions(id)
);
CREATE INDEX postings_client_account ON public.postings USING btree (client_id, account) WHERE (client_id IS NOT NULL);
CREATE TRIGGER postings_append_only BEFORE DELETE OR UPDATE ON public.postings FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER postings_balance AFTER INSERT ON public.postings REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION postings_balance();
CREATE TRIGGER postings_no_truncate BEFORE TRUNCATE ON public.postings FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TABLE rate_buckets (
    full_at timestamp with time zone NOT NULL,
    key text NOT NULL,
    CONSTRAINT rate_buckets_pkey PRIMARY KEY (key)
);

CREATE TABLE sandbox_call_steps (
    call_id text NOT NULL,
    claimed_until timestamp with time zone,
    done_at timestamp with time zone,
    due_at timestamp with time zone NOT NULL,
    event jsonb NOT NULL,
    id text NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    CONSTRAINT sandbox_call_steps_call_id_fkey FOREIGN KEY (call_id) REFERENCES calls(id),
    CONSTRAINT sandbox_call_steps_pkey PRIMARY KEY (id)
);
CREATE INDEX sandbox_call_steps_call ON public.sandbox_call_steps USING btree (call_id);
CREATE INDEX sandbox_call_steps_due ON public.sandbox_call_steps USING btree (due_at) WHERE (done_at IS NULL);

CREATE TABLE sandbox_choices (
    application_id text NOT NULL,
    client_id text NOT NULL,
    scenario text NOT NULL,
    CONSTRAINT sandbox_choices_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT sandbox_choices_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT sandbox_choices_pkey PRIMARY KEY (application_id, client_id)
);

CREATE TABLE sandbox_clients (
    application_id text NOT NULL,
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT sandbox_clients_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT sandbox_clients_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT sandbox_clients_pkey PRIMARY KEY (client_id)
);
CREATE INDEX sandbox_clients_application ON public.sandbox_clients USING btree (application_id, client_id);

CREATE TABLE sandbox_lawyers (
    application_id text NOT NULL,
    away boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    lawyer_id text NOT NULL,
    CONSTRAINT sandbox_lawyers_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT sandbox_lawyers_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT sandbox_lawyers_pkey PRIMARY KEY (lawyer_id)
);
CREATE INDEX sandbox_lawyers_application ON public.sandbox_lawyers USING btree (application_id, lawyer_id);

CREATE TABLE sandbox_messages (
    application_id text NOT NULL,
    client_id text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    sealed bytea NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    CONSTRAINT sandbox_messages_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT sandbox_messages_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT sandbox_messages_kind_check CHECK ((kind = ANY (ARRAY['EMAIL'::text, 'TEXT_MESSAGE'::text]))),
    CONSTRAINT sandbox_messages_pkey PRIMARY KEY (id)
);
CREATE INDEX sandbox_messages_client ON public.sandbox_messages USING btree (application_id, client_id, id);
CREATE INDEX sandbox_messages_list ON public.sandbox_messages USING btree (application_id, id);
CREATE INDEX sandbox_messages_sent ON public.sandbox_messages USING btree (sent_at);

CREATE TABLE sandbox_payment_notices (
    attempts integer NOT NULL DEFAULT 0,
    body bytea NOT NULL,
    delivered_at timestamp with time zone,
    due_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    session_id text NOT NULL,
    CONSTRAINT sandbox_payment_notices_kind_check CHECK ((kind = ANY (ARRAY['checkout.paid'::text, 'checkout.cancelled'::text, 'checkout.failed'::text]))),
    CONSTRAINT sandbox_payment_notices_pkey PRIMARY KEY (id),
    CONSTRAINT sandbox_payment_notices_session_id_fkey FOREIGN KEY (session_id) REFERENCES topup_sessions(id)
);
CREATE INDEX sandbox_payment_notices_due ON public.sandbox_payment_notices USING btree (due_at) WHERE (delivered_at IS NULL);
CREATE UNIQUE INDEX sandbox_payment_notices_session ON public.sandbox_payment_notices USING btree (session_id);

CREATE TABLE sandbox_plays (
    act text,
    consultation_id text NOT NULL,
    scenario text NOT NULL,
    CONSTRAINT sandbox_plays_act_check CHECK ((act = ANY (ARRAY['open'::text, 'cancel'::text, 'correct'::text, 'refund'::text]))),
    CONSTRAINT sandbox_plays_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT sandbox_plays_pkey PRIMARY KEY (consultation_id)
);
CREATE INDEX sandbox_plays_act ON public.sandbox_plays USING btree (consultation_id) WHERE (act IS NOT NULL);

CREATE TABLE signing_keys (
    created_at timestamp with time zone NOT NULL,
    kid text NOT NULL,
    private_sealed bytea NOT NULL,
    public_jwk jsonb NOT NULL,
    retired_at timestamp with time zone,
    signs_from timestamp with time zone NOT NULL,
    CONSTRAINT signing_keys_pkey PRIMARY KEY (kid)
);

CREATE TABLE sms_messages (
    begun_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    CONSTRAINT sms_messages_pkey PRIMARY KEY (id)
);

CREATE TABLE staff (
    created_at timestamp with time zone NOT NULL,
    disabled_at timestamp with time zone,
    email text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    language text NOT NULL,
    lawyer_id text,
    name text NOT NULL,
    password_hash text NOT NULL,
    roles text[] NOT NULL,
    totp_confirmed_at timestamp with time zone,
    totp_sealed bytea,
    totp_step bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT staff_factor CHECK (((totp_confirmed_at IS NULL) OR (totp_sealed IS NOT NULL))),
    CONSTRAINT staff_kind CHECK ((((kind = 'LAWYER'::text) = (lawyer_id IS NOT NULL)) AND ((kind = 'OPERATOR'::text) OR (roles = '{}'::text[])))),
    CONSTRAINT staff_kind_check CHECK ((kind = ANY (ARRAY['LAWYER'::text, 'OPERATOR'::text, 'PARTNER'::text]))),
    CONSTRAINT staff_language_check CHECK ((language = ANY (ARRAY['en'::text, 'fr'::text]))),
    CONSTRAINT staff_lawyer_id_fkey FOREIGN KEY (lawyer_id) REFERENCES lawyers(id),
    CONSTRAINT staff_lawyer_id_key UNIQUE (lawyer_id),
    CONSTRAINT staff_pkey PRIMARY KEY (id),
    CONSTRAINT staff_roles_check CHECK ((roles <@ '{support,finance,security,admin}'::text[]))
);
CREATE UNIQUE INDEX staff_email_key ON public.staff USING btree (lower(email));

CREATE TABLE staff_challenges (
    challenge jsonb NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    staff_id text,
    token_hash bytea NOT NULL,
    CONSTRAINT staff_challenges_pkey PRIMARY KEY (token_hash),
    CONSTRAINT staff_challenges_staff_id_fkey FOREIGN KEY (staff_id) REFERENCES staff(id)
);

CREATE TABLE staff_links (
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    sent_by text,
    staff_id text NOT NULL,
    token_hash bytea NOT NULL,
    CONSTRAINT staff_links_kind_check CHECK ((kind = ANY (ARRAY['INVITE'::text, 'RESET'::text]))),
    CONSTRAINT staff_links_pkey PRIMARY KEY (token_hash),
    CONSTRAINT staff_links_staff_id_fkey FOREIGN KEY (staff_id) REFERENCES staff(id)
);
CREATE INDEX staff_links_staff ON public.staff_links USING btree (staff_id, created_at);

CREATE TABLE staff_passkeys (
    created_at timestamp with time zone NOT NULL,
    credential jsonb NOT NULL,
    credential_id bytea NOT NULL,
    id text NOT NULL,
    last_used_at timestamp with time zone,
    name text NOT NULL,
    staff_id text NOT NULL,
    CONSTRAINT staff_passkeys_credential_id_key UNIQUE (credential_id),
    CONSTRAINT staff_passkeys_pkey PRIMARY KEY (id),
    CONSTRAINT staff_passkeys_staff_id_fkey FOREIGN KEY (staff_id) REFERENCES staff(id)
);
CREATE INDEX staff_passkeys_staff ON public.staff_passkeys USING btree (staff_id);

CREATE TABLE staff_recovery_codes (
    code_hash bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    staff_id text NOT NULL,
    used_at timestamp with time zone,
    CONSTRAINT staff_recovery_codes_pkey PRIMARY KEY (code_hash),
    CONSTRAINT staff_recovery_codes_staff_id_fkey FOREIGN KEY (staff_id) REFERENCES staff(id)
);
CREATE INDEX staff_recovery_codes_staff ON public.staff_recovery_codes USING btree (staff_id);

CREATE TABLE staff_sessions (
    address text NOT NULL,
    complete boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone NOT NULL,
    lease_epoch bigint NOT NULL,
    passkey_id text,
    staff_id text NOT NULL,
    token_hash bytea NOT NULL,
    user_agent text NOT NULL,
    CONSTRAINT staff_sessions_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES staff_passkeys(id) ON DELETE CASCADE,
    CONSTRAINT staff_sessions_pkey PRIMARY KEY (token_hash),
    CONSTRAINT staff_sessions_staff_id_fkey FOREIGN KEY (staff_id) REFERENCES staff(id)
);
CREATE INDEX staff_sessions_passkey ON public.staff_sessions USING btree (passkey_id) WHERE (passkey_id IS NOT NULL);
CREATE INDEX staff_sessions_staff ON public.staff_sessions USING btree (staff_id);

CREATE TABLE status_days (
    asked integer,
    breaches integer,
    counted_at timestamp with time zone,
    day date NOT NULL,
    events integer,
    first_minute timestamp with time zone,
    lag_95th_ms double precision,
    lag_median_ms double precision,
    last_minute timestamp with time zone,
    minutes integer NOT NULL DEFAULT 0,
    within_24h integer,
    within_30m integer,
    CONSTRAINT status_days_asked_check CHECK ((asked >= 0)),
    CONSTRAINT status_days_breaches_check CHECK ((breaches >= 0)),
    CONSTRAINT status_days_counted CHECK (((counted_at IS NULL) OR ((asked IS NOT NULL) AND (within_30m IS NOT NULL) AND (within_24h IS NOT NULL) AND (breaches IS NOT NULL) AND (events IS NOT NULL)))),
    CONSTRAINT status_days_events_check CHECK ((events >= 0)),
    CONSTRAINT status_days_lag_95th_ms_check CHECK ((lag_95th_ms >= (0)::double precision)),
    CONSTRAINT status_days_lag_median_ms_check CHECK ((lag_median_ms >= (0)::double precision)),
    CONSTRAINT status_days_minutes CHECK ((((minutes = 0) = (first_minute IS NULL)) AND ((first_minute IS NULL) = (last_minute IS NULL)))),
    CONSTRAINT status_days_minutes_check CHECK (((minutes >= 0) AND (minutes <= 1440))),
    CONSTRAINT status_days_pkey PRIMARY KEY (day),
    CONSTRAINT status_days_within_24h_check CHECK ((within_24h >= 0)),
    CONSTRAINT status_days_within_30m_check CHECK ((within_30m >= 0))
);

CREATE TABLE topup_refunds (
    amount_cents bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    id text NOT NULL,
    last_error text,
    next_at timestamp with time zone NOT NULL,
    provider_ref text,
    reason text NOT NULL,
    state text NOT NULL,
    topup_id text NOT NULL,
    CONSTRAINT topup_refunds_amount_cents_check CHECK ((amount_cents > 0)),
    CONSTRAINT topup_refunds_client_id_fkey FOREIGN KEY (client_id) REFERENCES wallets(client_id),
    CONSTRAINT topup_refunds_end CHECK (((state = 'PENDING'::text) = (ended_at IS NULL))),
    CONSTRAINT topup_refunds_pkey PRIMARY KEY (id),
    CONSTRAINT topup_refunds_state_check CHECK ((state = ANY (ARRAY['PENDING'::text, 'SENT'::text, 'FAILED'::text]))),
    CONSTRAINT topup_refunds_topup_id_fkey FOREIGN KEY (topup_id) REFERENCES topup_sessions(id)
);
CREATE INDEX topup_refunds_due ON public.topup_refunds USING btree (next_at) WHERE (state = 'PENDING'::text);
CREATE INDEX topup_refunds_topup ON public.topup_refunds USING btree (topup_id);

CREATE TABLE topup_sessions (
    amount_cents bigint NOT NULL,
    application_id text,
    checkout_url text NOT NULL,
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    expires_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    opened_at timestamp with time zone,
    payment_ref text,
    provider text NOT NULL,
    provider_ref text,
    provider_url text,
    return_url text NOT NULL,
    reversed_cents bigint NOT NULL DEFAULT 0,
    status text NOT NULL,
    uncovered_cents bigint NOT NULL DEFAULT 0,
    CONSTRAINT topup_sessions_amount_cents_check CHECK ((amount_cents > 0)),
    CONSTRAINT topup_sessions_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT topup_sessions_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT topup_sessions_end CHECK (((status = 'OPEN'::text) = (ended_at IS NULL))),
    CONSTRAINT topup_sessions_pkey PRIMARY KEY (id),
    CONSTRAINT topup_sessions_reversed_cents_check CHECK ((reversed_cents >= 0)),
    CONSTRAINT topup_sessions_status_check CHECK ((status = ANY (ARRAY['OPEN'::text, 'PAID'::text, 'CANCELLED'::text]))),
    CONSTRAINT topup_sessions_uncovered_cents_check CHECK ((uncovered_cents >= 0))
);
CREATE INDEX topup_sessions_client ON public.topup_sessions USING btree (client_id, created_at);
CREATE INDEX topup_sessions_ended ON public.topup_sessions USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX topup_sessions_payment ON public.topup_sessions USING btree (provider, payment_ref) WHERE (payment_ref IS NOT NULL);

CREATE TABLE twilio_legs (
    answered_at timestamp with time zone,
    application text,
    bridged_at timestamp with time zone,
    call_id text NOT NULL,
    command_id text NOT NULL,
    ended_at timestamp with time zone,
    hang_up boolean NOT NULL,
    joined_at timestamp with time zone,
    language text,
    limit_sec integer,
    machine_at timestamp with time zone,
    placed_at timestamp with time zone NOT NULL,
    pressed text,
    pressed_at timestamp with time zone,
    prompt text,
    rang_at timestamp with time zone,
    role text NOT NULL,
    sid text,
    status text,
    tried_at timestamp with time zone,
    CONSTRAINT twilio_legs_call_id_fkey FOREIGN KEY (call_id) REFERENCES calls(id),
    CONSTRAINT twilio_legs_command_id_fkey FOREIGN KEY (command_id) REFERENCES call_commands(id),
    CONSTRAINT twilio_legs_end CHECK (((ended_at IS NULL) = (status IS NULL))),
    CONSTRAINT twilio_legs_pkey PRIMARY KEY (command_id),
    CONSTRAINT twilio_legs_role_check CHECK ((role = ANY (ARRAY['LAWYER'::text, 'CLIENT'::text]))),
    CONSTRAINT twilio_legs_sid_key UNIQUE (sid)
);
CREATE INDEX twilio_legs_call ON public.twilio_legs USING btree (call_id);

CREATE TABLE wallets (
    available_cents bigint NOT NULL DEFAULT 0,
    client_id text NOT NULL,
    entry_hash bytea NOT NULL DEFAULT '\x'::bytea,
    entry_seq bigint NOT NULL DEFAULT 0,
    held_cents bigint NOT NULL DEFAULT 0,
    last_entry_at timestamp with time zone NOT NULL,
    CONSTRAINT wallets_available CHECK ((available_cents >= 0)),
    CONSTRAINT wallets_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT wallets_held CHECK ((held_cents >= 0)),
    CONSTRAINT wallets_pkey PRIMARY KEY (client_id)
);

CREATE TABLE webhook_attempts (
    attempt integer NOT NULL,
    delivery_id text NOT NULL,
    duration_ms integer NOT NULL,
    error text NOT NULL DEFAULT ''::text,
    response_body text NOT NULL DEFAULT ''::text,
    started_at timestamp with time zone NOT NULL,
    status_code integer,
    CONSTRAINT webhook_attempts_attempt_check CHECK ((attempt > 0)),
    CONSTRAINT webhook_attempts_delivery_id_fkey FOREIGN KEY (delivery_id) REFERENCES webhook_deliveries(id),
    CONSTRAINT webhook_attempts_pkey PRIMARY KEY (delivery_id, attempt)
);

CREATE TABLE webhook_clients (
    application_id text NOT NULL,
    client_id text NOT NULL,
    last_sequence bigint NOT NULL,
    CONSTRAINT webhook_clients_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT webhook_clients_client_id_fkey FOREIGN KEY (client_id) REFERENCES clients(id),
    CONSTRAINT webhook_clients_last_sequence_check CHECK ((last_sequence > 0)),
    CONSTRAINT webhook_clients_pkey PRIMARY KEY (application_id, client_id)
);

CREATE TABLE webhook_deliveries (
    application_id text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    consultation_id text,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    event_id text NOT NULL,
    held boolean NOT NULL DEFAULT false,
    id text NOT NULL,
    lease_token text,
    lease_until timestamp with time zone,
    next_at timestamp with time zone NOT NULL,
    schedule_from integer NOT NULL DEFAULT 0,
    sequence bigint NOT NULL,
    state text NOT NULL,
    CONSTRAINT webhook_deliveries_attempted CHECK (((state = 'PENDING'::text) OR (attempts > 0))),
    CONSTRAINT webhook_deliveries_end CHECK (((state = 'PENDING'::text) = (ended_at IS NULL))),
    CONSTRAINT webhook_deliveries_event_id_fkey FOREIGN KEY (event_id) REFERENCES webhook_events(id),
    CONSTRAINT webhook_deliveries_lease CHECK ((((lease_until IS NULL) = (lease_token IS NULL)) AND ((state = 'PENDING'::text) OR (lease_token IS NULL)))),
    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id),
    CONSTRAINT webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['PENDING'::text, 'DELIVERED'::text, 'FAILED'::text])))
);
CREATE INDEX webhook_deliveries_delivered ON public.webhook_deliveries USING btree (application_id, created_at, id) WHERE (state = 'DELIVERED'::text);
CREATE INDEX webhook_deliveries_event ON public.webhook_deliveries USING btree (event_id);
CREATE INDEX webhook_deliveries_failed ON public.webhook_deliveries USING btree (application_id, created_at, id) WHERE (state = 'FAILED'::text);
CREATE INDEX webhook_deliveries_first ON public.webhook_deliveries USING btree (consultation_id, sequence) WHERE (attempts = 0);
CREATE INDEX webhook_deliveries_held ON public.webhook_deliveries USING btree (application_id, next_at) WHERE held;
CREATE INDEX webhook_deliveries_log ON public.webhook_deliveries USING btree (application_id, created_at, id);
CREATE INDEX webhook_deliveries_pending ON public.webhook_deliveries USING btree (application_id, created_at, id) WHERE (state = 'PENDING'::text);
CREATE INDEX webhook_deliveries_ready ON public.webhook_deliveries USING btree (application_id, next_at) WHERE ((ended_at IS NULL) AND (NOT held));

CREATE TABLE webhook_endpoints (
    application_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    disabled_at timestamp with time zone,
    disabled_reason text,
    enabled_events text[] NOT NULL DEFAULT '{}'::text[],
    failing_since timestamp with time zone,
    last_position bigint NOT NULL DEFAULT 0,
    parked boolean NOT NULL DEFAULT false,
    previous_secret_sealed bytea,
    previous_secret_until timestamp with time zone,
    secret_sealed bytea NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    url text,
    CONSTRAINT webhook_endpoints_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT webhook_endpoints_disabled CHECK (((disabled_at IS NULL) = (disabled_reason IS NULL))),
    CONSTRAINT webhook_endpoints_enabled_events_check CHECK ((enabled_events <@ ARRAY['client.disconnected'::text, 'wallet.topped_up'::text])),
    CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (application_id),
    CONSTRAINT webhook_endpoints_previous CHECK (((previous_secret_sealed IS NULL) = (previous_secret_until IS NULL)))
);
CREATE INDEX webhook_endpoints_parked ON public.webhook_endpoints USING btree (application_id) WHERE (parked AND (url IS NOT NULL) AND (disabled_at IS NULL));

CREATE TABLE webhook_events (
    application_id text NOT NULL,
    body bytea NOT NULL,
    client_id text,
    consultation_id text,
    created_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    position bigint,
    sequence bigint NOT NULL,
    trace_parent text,
    type text NOT NULL,
    CONSTRAINT webhook_events_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT webhook_events_consultation_id_fkey FOREIGN KEY (consultation_id) REFERENCES consultations(id),
    CONSTRAINT webhook_events_consultation_id_sequence_key UNIQUE (consultation_id, sequence),
    CONSTRAINT webhook_events_pkey PRIMARY KEY (id),
    CONSTRAINT webhook_events_sequence_check CHECK ((sequence > 0))
);
CREATE INDEX webhook_events_list ON public.webhook_events USING btree (application_id, "position", created_at, sequence);

CREATE TABLE webhook_notices (
    application_id text NOT NULL,
    kind text NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT webhook_notices_application_id_fkey FOREIGN KEY (application_id) REFERENCES applications(id),
    CONSTRAINT webhook_notices_pkey PRIMARY KEY (application_id, since, kind)
);

CREATE TABLE vault.client_keys (
    client_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    key_sealed bytea NOT NULL,
    CONSTRAINT client_keys_pkey PRIMARY KEY (client_id)
);
