package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	_, refused := Open(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable", Options{})
	for err, want := range map[error]bool{
		refused:                                     true,
		&pgconn.PgError{Code: "57P01"}:              true, // the server stops
		&pgconn.PgError{Code: "57P03"}:              true, // the server starts
		&pgconn.PgError{Code: "53300"}:              true, // too many connections
		&pgconn.PgError{Code: "53100"}:              true, // the disk is full
		&pgconn.PgError{Code: "58030"}:              true, // the disk fails
		&pgconn.PgError{Code: "08006"}:              true,
		fmt.Errorf("read: %w", io.ErrUnexpectedEOF): true,
		&pgconn.PgError{Code: "23505"}:              false,
		&pgconn.PgError{Code: "57014"}:              false, // cancelled by us
		context.Canceled:                            false,
		errors.New("anything else"):                 false,
	} {
		if got := IsUnavailable(fmt.Errorf("do something: %w", err)); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
	if IsUnavailable(nil) {
		t.Error("no error is not an outage")
	}
}
