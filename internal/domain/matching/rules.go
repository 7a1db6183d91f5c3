package matching

import (
	"math"
	"time"
)

const (
	estimateFloor = 5 * time.Second
	estimateCap   = 30 * time.Minute // after that the search ends in a callback

	usualAccept  = OfferTime / 2    // default for [Waits.Accept]
	usualEngaged = 15 * time.Minute // default for [Waits.Engaged]: most of a call, and its note

	// ownTurns is how many turns a client's own wait counts, besides one for each consultation ahead. Turns are roughly
	// exponential, so the mean of the last one, 1, would be too short for many.
	ownTurns = 1.5
)

// estimate returns the expected wait until a lawyer accepts, in seconds rounded up, or nil if no one is online.
//
// If a lawyer is idle, it is the past wait of clients who found one idle, which includes declined and missed offers.
// Otherwise a lawyer must become free first: with n lawyers, each engaged for a time e, that happens every e/n. If
// these lawyers also serve other pairs, that is too short. The last wait that ended, and the longest that has not
// ended, correct this.
func estimate(online, idle int, w Waits) *int {
	if online == 0 {
		return nil
	}
	d := or(w.Accept, usualAccept)
	if idle == 0 {
		turn := or(w.Engaged, usualEngaged) / time.Duration(online)
		d = max(d+time.Duration((float64(w.Ahead)+ownTurns)*float64(turn)), w.Last, w.Oldest)
	}
	s := int(math.Ceil(min(max(d, estimateFloor), estimateCap).Seconds()))
	return &s
}

func or(d *time.Duration, usual time.Duration) time.Duration {
	if d == nil {
		return usual
	}
	return *d
}

func coverage(online, idle int, w Waits) Coverage {
	return Coverage{Available: online > 0, LawyersOnline: online, LawyersIdle: idle, Ahead: w.Ahead,
		EstimatedWaitSeconds: estimate(online, idle, w)}
}
