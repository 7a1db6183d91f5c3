package simulate

// Queue is the theoretical solution of a queue: M/M/c, or M/M/c+M if clients leave.
type Queue struct {
	Waits  float64 // share of arrivals that find no one idle, 0 to 1
	Leaves float64 // share that leaves before being served, 0 to 1
	Mean   float64 // waiting time in seconds of all arrivals, including those who leave
}

// ErlangA solves a queue of c servers with arrival rate lambda, service rate mu and patience rate theta. All are
// exponential and per second. theta 0 is Erlang C, which needs lambda < c × mu. (A. K. Erlang 1917; C. Palm 1957. The
// states are those of a birth-death process, truncated where the weights become negligible.)
func ErlangA(lambda, mu, theta float64, c int) Queue {
	// Weights of the states are relative to the likeliest state below c, so nothing overflows.
	weight, sum, waiting, length := 1.0, 1.0, 0.0, 0.0
	for n := 1; ; n++ {
		beyond := max(0, n-c)
		weight *= lambda / (float64(min(n, c))*mu + float64(beyond)*theta)
		if weight > 1e200 {
			sum, waiting, length, weight = sum/weight, waiting/weight, length/weight, 1
		}
		sum += weight
		if n >= c {
			waiting += weight
			length += float64(beyond) * weight
		}
		if n > c && weight < sum*1e-14 {
			break
		}
	}
	return Queue{Waits: waiting / sum, Leaves: theta * length / sum / lambda, Mean: length / sum / lambda}
}
