-- +goose Up

-- Two more kinds of links: EMAIL confirms the new address (email) of a client, UNDO_EMAIL gives back the old one (email).
ALTER TABLE client_links
    DROP CONSTRAINT client_links_kind_check,
    ADD CONSTRAINT client_links_kind_check CHECK (kind IN ('SIGN_UP', 'RESET', 'EMAIL', 'UNDO_EMAIL')),
    DROP CONSTRAINT client_links_kind,
    ADD CONSTRAINT client_links_kind CHECK ((kind = 'SIGN_UP') = (client_id IS NULL) AND (kind = 'SIGN_UP') = (name IS NOT NULL));

-- +goose Down
DELETE FROM client_links WHERE kind IN ('EMAIL', 'UNDO_EMAIL');
ALTER TABLE client_links
    DROP CONSTRAINT client_links_kind_check,
    ADD CONSTRAINT client_links_kind_check CHECK (kind IN ('SIGN_UP', 'RESET')),
    DROP CONSTRAINT client_links_kind,
    ADD CONSTRAINT client_links_kind CHECK ((kind = 'RESET') = (client_id IS NOT NULL) AND (kind = 'SIGN_UP') = (name IS NOT NULL));
