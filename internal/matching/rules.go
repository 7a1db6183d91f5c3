package matching

import (
	"math"
	"time"
)

const (
	estimateFloor = 5 * time.Second
	estimateCap   = 30 * time.Minute // then the search ends in a callback
)

// estimate returns the expected wait in seconds, rounded up, or nil. With somebody idle it is the time to accept.
// Otherwise it is the larger of the last wait that ended and the longest that has not (LES and HOL): measured against
// simulated days, both are several times nearer to the truth than queue length over rate.
func estimate(online, idle int, w Waits) *int {
	var d time.Duration
	switch {
	case online == 0:
		return nil
	case idle > 0:
		if w.MedianAccept != nil {
			d = *w.MedianAccept
		}
	case w.LastEnteredWait == nil:
		return nil // nobody got through lately: the age of the queue alone would promise too much
	default:
		d = *w.LastEnteredWait
		if w.OldestWaiting != nil {
			d = max(d, *w.OldestWaiting)
		}
	}
	s := int(math.Ceil(min(max(d, estimateFloor), estimateCap).Seconds()))
	return &s
}

func coverage(online, idle int, w Waits) Coverage {
	return Coverage{Available: online > 0, LawyersOnline: online, EstimatedWaitSeconds: estimate(online, idle, w)}
}
