-- +goose Up

-- How many codes were sent on a day, to one number (an HMAC of it) and in all (the empty text): text messages cost money, and
-- every one of them rings on somebody's phone.
CREATE TABLE phone_code_counts (
    day    date NOT NULL, -- UTC
    number bytea NOT NULL,
    sent   integer NOT NULL CHECK (sent > 0),
    PRIMARY KEY (day, number)
);

-- +goose Down
DROP TABLE phone_code_counts;
