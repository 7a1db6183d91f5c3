package postgres

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// fullServer offers no TLS and accepts no more connections.
func fullServer(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go refuse(conn)
		}
	}()
	return "postgres://nobody@" + l.Addr().String() + "/none"
}

func refuse(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	first, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if _, asksForTLS := first.(*pgproto3.SSLRequest); asksForTLS {
		_, _ = conn.Write([]byte("N"))
		return
	}
	b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: tooManyConnections,
		Message: "sorry, too many clients already"})
	_ = b.Flush()
}
