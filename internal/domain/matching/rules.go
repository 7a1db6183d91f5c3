package matching

import (
	"math"
	"time"
)

const (
	estimateFloor = 5 * time.Second
	estimateCap   = 30 * time.Minute // then the search ends in a callback

	usualAccept  = OfferTime / 2    // for [Waits.Accept] where too little was seen
	usualEngaged = 15 * time.Minute // for [Waits.Engaged]: most of a call, and its note

	// ownTurns is how many turns a client waits for himself, besides one for each who is ahead. Turns are about
	// exponential, so that the mean of the last one, 1, would be too short for many.
	ownTurns = 1.5
)

// estimate returns the expected wait until a lawyer accepts, in seconds, rounded up, or nil when nobody is online. With
// somebody idle it is what others waited who found somebody idle, with the offers that were declined or missed.
// Otherwise lawyers must become free first: n of them, engaged for a time e each, do so every e/n. Where they serve
// other pairs, too, that is too early, which shows in the waits: in that of the last one that ended, and in the longest
// that has not.
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
