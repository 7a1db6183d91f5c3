package postgres

import (
	"cmp"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A network that drops packets reports no error. Without these limits a connection lasts until the operating system
// gives up: a quarter of an hour with a request in progress, and never while it waits for notifications.
const (
	// connectWithin bounds connecting until the server accepts statements, unless the URL has a connect_timeout.
	connectWithin = 10 * time.Second
	// silence is how long sent data may stay unacknowledged. Together with the probes below, it ends a connection to an
	// unreachable machine within [LostWithin].
	silence = 15 * time.Second
	// answerWithin bounds the check that a connection idle for a second still works, before it is given a statement.
	answerWithin = 5 * time.Second
)

// LostWithin is the time within which a connection ends once its peer stops acknowledging. A statement then fails, and
// may or may not have been executed. It does not detect a machine in between that acknowledges but forwards nothing.
const LostWithin = 30 * time.Second

// probes are keep-alive probes: they are sent on a connection that has been idle for Idle.
var probes = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// notice makes a pool's connections detect a lost server, and a server that does not respond while connecting.
func notice(cfg *pgxpool.Config) {
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, connectWithin)
	cfg.ConnConfig.DialFunc = dial()
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, answerWithin)
}

// dial sets no time limit of its own: the context carries that of the whole connection attempt.
func dial() pgconn.DialFunc {
	return (&net.Dialer{KeepAliveConfig: probes, Control: limitSilence}).DialContext
}
