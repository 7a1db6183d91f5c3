package ratelimit

import (
	"context"

	"partnerd/internal/infra/postgres"
)

// Purpose is what an application asks for that costs more than an answer.
type Purpose string

// The purposes of calls that make us post to the partner's address; each has [PostsPerMinute], counted by all processes
// together and wherever it is asked for: what such calls cost grows with what they send.
const (
	TestEvents   Purpose = "test"
	Endpoints    Purpose = "endpoint"  // URLs, which are pinged, and endpoints enabled
	Redeliveries Purpose = "redeliver" // by identifier or by range
)

// Purposes with a quota of their own.
const (
	Examinations Purpose = "examine" // of an endpoint
	Clock        Purpose = "clock"   // of a sandbox, moved forward

	ExaminationsPerMinute = 2 // each posts some forty times
	AdvancesPerMinute     = 120
)

// PostsPerMinute is the quota of each purpose that makes us post.
const PostsPerMinute = 10

// TakeFor counts something that an application asks for; see [Take].
func TakeFor(ctx context.Context, tx postgres.Tx, p Purpose, applicationID string, perMinute int) (Decision, error) {
	return Take(ctx, tx, "platform "+string(p)+" "+applicationID, PerMinute(perMinute))
}
