package simulate

// Queue is what theory says of a queue: M/M/c, or M/M/c+M when clients leave.
type Queue struct {
	Waits  float64 // share of arrivals that find nobody idle, 0 to 1
	Leaves float64 // share that leaves before it is served, 0 to 1
	Mean   float64 // waiting time of all arrivals in seconds, those who leave too
}

// ErlangA solves the queue of c servers with arrivals of rate lambda, service of rate mu and patience of rate theta,
// all exponential and per second; theta 0 is Erlang C, which needs lambda < c × mu.
// (A. K. Erlang 1917; C. Palm 1957. The states are those of a birth-death process, cut off where nothing is left.)
func ErlangA(lambda, mu, theta float64, c int) Queue {
	// Weights of the states relative to the likeliest below c, so that nothing overflows.
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
