package postgres

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestConnectingToWhoeverIsSilentEnds checks that a server which accepts connections and never responds does not block
// its client forever.
func TestConnectingToWhoeverIsSilentEnds(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	url := "postgres://nobody@" + silent.Addr().String() + "/none?sslmode=disable"
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if notice(cfg); cfg.ConnConfig.ConnectTimeout != connectWithin || cfg.PingTimeout != answerWithin {
		t.Errorf("connecting may take %s, and a sign of life %s", cfg.ConnConfig.ConnectTimeout, cfg.PingTimeout)
	}
	if _, err = Open(t.Context(), url+"&connect_timeout=1", Options{}); !IsUnavailable(err) ||
		t.Context().Err() != nil {
		t.Errorf("connected: %v", err)
	}
}
