package postgres

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestConnectionsHaveALimitOfSilence checks that the system ends a connection whose packets are dropped silently,
// whether or not a request is in progress.
func TestConnectionsHaveALimitOfSilence(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	conn, err := dial()(t.Context(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		if outer := raw.Control(func(fd uintptr) {
			value, err = unix.GetsockoptInt(int(fd), level, name)
		}); outer != nil || err != nil {
			t.Fatal(outer, err)
		}
		return value
	}
	if got := time.Duration(option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)) * time.Millisecond; got != silence {
		t.Errorf("what was sent may stay unacknowledged for %s", got)
	}
	idle, interval, count := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL),
		option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
	if on := option(unix.SOL_SOCKET, unix.SO_KEEPALIVE); on == 0 ||
		time.Duration(idle+interval*count)*time.Second > LostWithin {
		t.Errorf("keepalive %d: %d probes, %d s apart, after %d s", on, count, interval, idle)
	}
}
