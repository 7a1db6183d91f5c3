-- +goose Up

-- Why a consultation is to be closed (X12), when the proposal is about that. A program that does not know the column takes such a proposal
-- for the refund of a completed consultation, and refuses it.
ALTER TABLE operator_proposals ADD COLUMN close_reason text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE operator_proposals DROP COLUMN close_reason;
