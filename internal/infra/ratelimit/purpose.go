package ratelimit

import (
	"context"

	"partnerd/internal/infra/postgres"
)

// Purpose is an operation of an application that costs more than a response.
type Purpose string

// Purposes of operations that send webhooks. The limit of each is [PostsPerMinute]. All processes and entry points
// count together. The cost of such operations grows with what they send.
const (
	TestEvents   Purpose = "test"
	Endpoints    Purpose = "endpoint"  // URL changes, which send a ping, and enabled endpoints
	Redeliveries Purpose = "redeliver" // by ID or by range
)

// Purposes with their own rate limit.
const (
	Examinations Purpose = "examine" // tests of an endpoint
	Clock        Purpose = "clock"   // advances of a sandbox's clock

	ExaminationsPerMinute = 2 // each sends about forty requests
	AdvancesPerMinute     = 120
)

// PostsPerMinute is the limit of each purpose that sends webhooks.
const PostsPerMinute = 10

// TakeFor counts an operation of an application; see [Take].
func TakeFor(ctx context.Context, tx postgres.Tx, p Purpose, applicationID string, perMinute int) (Decision, error) {
	return Take(ctx, tx, "platform "+string(p)+" "+applicationID, PerMinute(perMinute))
}
