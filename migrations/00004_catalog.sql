-- +goose Up
CREATE TABLE competences (
    code     text PRIMARY KEY,
    label_en text NOT NULL,
    label_fr text NOT NULL,
    position integer NOT NULL UNIQUE,
    retired_at timestamptz -- a code is never used again for something else
);
CREATE TABLE languages (
    code     text PRIMARY KEY,
    label_en text NOT NULL,
    label_fr text NOT NULL,
    position integer NOT NULL UNIQUE,
    retired_at timestamptz
);
INSERT INTO competences (position, code, label_en, label_fr) VALUES
    (1, 'FAMILY', 'Family law', 'Droit de la famille'),
    (2, 'LABOUR', 'Employment law', 'Droit du travail'),
    (3, 'HOUSING', 'Housing and tenancy', 'Logement et baux'),
    (4, 'CONSUMER', 'Consumer law', 'Droit de la consommation'),
    (5, 'CRIMINAL', 'Criminal law', 'Droit pénal'),
    (6, 'BUSINESS', 'Business law', 'Droit des affaires'),
    (7, 'TAX', 'Tax law', 'Droit fiscal'),
    (8, 'IMMIGRATION', 'Immigration law', 'Droit des étrangers'),
    (9, 'ADMINISTRATIVE', 'Administrative law', 'Droit administratif'),
    (10, 'ROAD', 'Road traffic law', 'Droit routier'),
    (11, 'INSURANCE', 'Insurance law', 'Droit des assurances'),
    (12, 'IP', 'Intellectual property', 'Propriété intellectuelle');
INSERT INTO languages (position, code, label_en, label_fr) VALUES
    (1, 'FR', 'French', 'Français'),
    (2, 'EN', 'English', 'Anglais'),
    (3, 'ES', 'Spanish', 'Espagnol'),
    (4, 'AR', 'Arabic', 'Arabe'),
    (5, 'PT', 'Portuguese', 'Portugais');

-- +goose Down
DROP TABLE languages;
DROP TABLE competences;
