package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/poll"
	"partnerd/internal/infra/postgres"
)

// NoticeKind is the kind of a notification to a partner about an endpoint (decision H19).
type NoticeKind string

// The kinds of notifications.
const (
	NoticeFailing1h  NoticeKind = "failing_1h"  // no delivery succeeded for an hour
	NoticeFailing24h NoticeKind = "failing_24h" // for a day
	NoticeFailing72h NoticeKind = "failing_72h" // for three days; disabled after five
	NoticeDisabled   NoticeKind = "disabled"    // deliveries are held until the endpoint is enabled
)

// Notifier notifies a partner about an endpoint: it queues an email in the transaction that records the notification.
// On failure both are rolled back, and the notification is retried.
type Notifier interface {
	Notify(ctx context.Context, tx postgres.Tx, applicationID string, kind NoticeKind, since time.Time) error
}

// logNotifier is for deployments without another channel.
type logNotifier struct{ log *slog.Logger }

// Notify implements [Notifier].
func (l logNotifier) Notify(_ context.Context, _ postgres.Tx, applicationID string, kind NoticeKind,
	since time.Time,
) error {
	l.log.Warn("webhook endpoint needs its owner", "application", applicationID, "notice", kind, "since", since)
	return nil
}

// noticeAges are the durations of a failure that trigger notifications, longest first.
var noticeAges = []struct {
	age  time.Duration
	kind NoticeKind
}{{72 * time.Hour, NoticeFailing72h}, {24 * time.Hour, NoticeFailing24h}, {time.Hour, NoticeFailing1h}}

// dueNotice returns the notification that is due for an endpoint now, and the start of the failure or disabling.
func dueNotice(failingSince, disabledAt *time.Time, now time.Time) (kind NoticeKind, since time.Time, due bool) {
	if disabledAt != nil {
		return NoticeDisabled, *disabledAt, true
	}
	if failingSince == nil {
		return "", time.Time{}, false
	}
	for _, n := range noticeAges {
		if now.Sub(*failingSince) >= n.age {
			return n.kind, *failingSince, true
		}
	}
	return "", time.Time{}, false
}

const noticeInterval = time.Minute

// runNotices sends due notifications until ctx ends.
func (s *Service) runNotices(ctx context.Context) {
	loop := poll.Loop{Name: "webhook notices cannot be sent", Every: noticeInterval, Log: s.log}
	_ = loop.Run(ctx, func(ctx context.Context) (bool, error) { // returns only when ctx ends
		_, err := s.SendNotices(ctx)
		return false, err
	})
}

// SendNotices notifies partners whose endpoints have failed for 1 h, 24 h or 3 days, or were disabled, once each. It
// returns how many it notified. [Service.Lead] calls it every minute; any number of processes may.
func (s *Service) SendNotices(ctx context.Context) (sent int, err error) {
	tx := s.db.Read()
	candidates, err := selectNoticeCandidates(ctx, tx, tx.Now.Add(-noticeAges[len(noticeAges)-1].age))
	if err != nil {
		return 0, err
	}
	for _, c := range candidates {
		kind, since, due := dueNotice(c.FailingSince, c.DisabledAt, tx.Now)
		if !due || slices.Contains(strings.Fields(c.Sent), string(kind)) {
			continue
		}
		err := s.db.InTx(ctx, func(tx postgres.Tx) error {
			first, err := insertNotice(ctx, tx, c.ApplicationID, since, kind)
			if err != nil || !first {
				return err
			}
			sent++
			return s.cfg.Notifier.Notify(ctx, tx, c.ApplicationID, kind, since)
		})
		if err != nil {
			return sent, fmt.Errorf("notice %s to %s: %w", kind, c.ApplicationID, err)
		}
	}
	return sent, nil
}
