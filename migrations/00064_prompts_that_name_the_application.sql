-- +goose Up

-- What is said to a leg names the application through which the consultation was requested. A leg that a program of the version before
-- this one was told to speak to has none, and hears no name.
ALTER TABLE twilio_legs ADD COLUMN application text;

-- +goose Down
ALTER TABLE twilio_legs DROP COLUMN application;
