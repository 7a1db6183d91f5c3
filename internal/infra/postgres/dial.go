package postgres

import (
	"cmp"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A network that drops packets refuses nothing: without a bound a connection across it lasts until the system gives it
// up, a quarter of an hour with something under way, and for ever while it waits for notifications.
const (
	// connectWithin bounds a connection until the server takes statements, unless the URL has a connect_timeout.
	connectWithin = 10 * time.Second
	// silence is for how long what was sent may stay unacknowledged. With the probes below, a connection to a machine
	// that is gone ends within [LostWithin].
	silence = 15 * time.Second
	// answerWithin bounds the question whether a connection that was idle for a second still works, before a statement
	// is given to it.
	answerWithin = 5 * time.Second
)

// LostWithin is the time within which a connection ends whose other end does not acknowledge any more: a statement
// fails then, and may or may not have been carried out. A machine between that acknowledges and passes nothing on is
// not noticed by that.
const LostWithin = 30 * time.Second

// probes are sent over a connection on which nothing is under way, after silence of Idle.
var probes = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// notice makes the connections of a pool notice that the server is gone, and that it does not answer when it is
// connected to.
func notice(cfg *pgxpool.Config) {
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, connectWithin)
	cfg.ConnConfig.DialFunc = dial()
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, answerWithin)
}

// dial has no time limit of its own: the context has that of the whole connecting.
func dial() pgconn.DialFunc {
	return (&net.Dialer{KeepAliveConfig: probes, Control: limitSilence}).DialContext
}
