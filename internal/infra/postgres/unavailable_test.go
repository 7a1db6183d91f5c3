package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestEveryStateOfAnOutageIsUnavailable lists every code that an outage, a failover, a limit or an operator can cause.
// It also lists neighbouring codes that are ours to fix. Callers are told to retry after the former, and operators are
// alerted to the latter.
func TestEveryStateOfAnOutageIsUnavailable(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]struct{ unavailable, retried, left bool }{
		"08000": {true, false, false},  // connection_exception
		"08001": {true, false, false},  // sqlclient_unable_to_establish_sqlconnection
		"08003": {true, false, false},  // connection_does_not_exist
		"08004": {true, false, false},  // sqlserver_rejected_establishment_of_sqlconnection
		"08006": {true, false, false},  // connection_failure
		"08007": {true, false, false},  // transaction_resolution_unknown
		"08P01": {true, false, false},  // protocol_violation, and all of PgBouncer's own errors
		"22001": {false, false, false}, // string_data_right_truncation
		"23505": {false, false, false}, // unique_violation
		"25006": {true, false, true},   // read_only_sql_transaction: a standby, or a demoted primary
		"25P02": {false, false, false}, // in_failed_sql_transaction
		"25P03": {true, false, false},  // idle_in_transaction_session_timeout
		"25P04": {true, false, false},  // transaction_timeout
		"28000": {true, false, false},  // invalid_authorization_specification
		"28P01": {true, false, false},  // invalid_password
		"3D000": {true, false, false},  // invalid_catalog_name
		"40001": {true, true, false},   // serialization_failure, and a recovery conflict on a standby
		"40003": {true, false, false},  // statement_completion_unknown
		"40P01": {true, true, false},   // deadlock_detected
		"42501": {false, false, false}, // insufficient_privilege
		"42703": {false, false, false}, // undefined_column
		"42P01": {false, false, false}, // undefined_table
		"53000": {true, false, false},  // insufficient_resources
		"53100": {true, false, false},  // disk_full
		"53200": {true, false, false},  // out_of_memory
		"53300": {true, false, false},  // too_many_connections
		"53400": {true, false, false},  // configuration_limit_exceeded
		"54000": {false, false, false}, // program_limit_exceeded
		"55000": {false, false, false}, // object_not_in_prerequisite_state
		"55006": {true, false, false},  // object_in_use
		"55P03": {false, false, false}, // lock_not_available: [IsLockTimeout]
		"57014": {true, false, false},  // query_canceled
		"57P01": {true, false, false},  // admin_shutdown
		"57P02": {true, false, false},  // crash_shutdown
		"57P03": {true, false, false},  // cannot_connect_now
		"57P04": {true, false, false},  // database_dropped
		"57P05": {true, false, false},  // idle_session_timeout
		"58000": {true, false, false},  // system_error
		"58030": {true, false, false},  // io_error
		"58P01": {false, false, false}, // undefined_file: a database file is missing
		"XX000": {false, false, false}, // internal_error
		"XX001": {false, false, false}, // data_corrupted
		"XX002": {false, false, false}, // index_corrupted
	} {
		err := fmt.Errorf("do something: %w", &pgconn.PgError{Code: state})
		if got := IsUnavailable(err); got != want.unavailable {
			t.Errorf("%s is unavailable: %t", state, got)
		}
		if got := retryable(err); got != want.retried {
			t.Errorf("%s is tried again: %t", state, got)
		}
		cfg, err := pgxpool.ParseConfig("")
		if err != nil {
			t.Fatal(err)
		}
		leave(cfg)
		if goesOn := cfg.ConnConfig.OnPgError(nil,
			&pgconn.PgError{Code: state, Severity: "ERROR"}); goesOn == want.left {
			t.Errorf("the connection goes on after %s: %t", state, goesOn)
		}
	}
}

func TestIsUnavailableWithoutAServer(t *testing.T) {
	t.Parallel()
	_, refused := Open(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable", Options{})
	for err, want := range map[error]bool{
		refused: true,
		fmt.Errorf("read: %w", io.ErrUnexpectedEOF): true,
		context.Canceled:            false,
		errors.New("anything else"): false,
	} {
		if got := IsUnavailable(fmt.Errorf("do something: %w", err)); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
	if IsUnavailable(nil) {
		t.Error("no error is not an outage")
	}
}

// TestTheCauseOfAConnectErrorComesFirst checks that a server's error comes first, whatever else was tried. Attempts
// made only for sslmode=prefer are omitted.
func TestTheCauseOfAConnectErrorComesFirst(t *testing.T) {
	t.Parallel()
	url := fullServer(t)
	const cause = "FATAL: sorry, too many clients already (SQLSTATE 53300)"
	_, err := pgconn.Connect(t.Context(), url+"?sslmode=prefer")
	if err == nil || strings.Index(err.Error(), "tls error") > strings.Index(err.Error(), cause) {
		t.Fatalf("the driver says: %v", err)
	}
	plain := plainly(err)
	if got := plain.Error(); !strings.HasPrefix(got, cause+" at 127.0.0.1:") || strings.Contains(got, "tls error") {
		t.Errorf("it begins with something else: %s", got)
	}
	if !IsFull(plain) || !IsUnavailable(plain) {
		t.Errorf("no longer known: %v", plain)
	}
	_, err = Open(t.Context(), url+"?sslmode=prefer", Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "connect to the database: "+cause) {
		t.Errorf("opened: %v", err)
	}
}
