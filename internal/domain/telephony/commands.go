package telephony

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/poll"
	"partnerd/internal/base/telemetry"
)

type commandKind string

const (
	cmdPlaceLeg commandKind = "PLACE_LEG"
	cmdBridge   commandKind = "BRIDGE"
	cmdPlay     commandKind = "PLAY"
	cmdCollect  commandKind = "COLLECT"
	cmdHangup   commandKind = "HANGUP"
)

// commandArgs contains no phone number. The number is looked up when the leg is placed.
type commandArgs struct {
	Role           Role   `json:"role,omitempty"`
	Prompt         string `json:"prompt,omitempty"`
	MaxDurationSec int    `json:"maxDurationSec,omitempty"`
	Reason         string `json:"reason,omitempty"`
}

// command is a claimed command.
type command struct {
	id             string
	kind           commandKind
	args           commandArgs
	tries          int // includes the current one
	callID         string
	consultationID string
	lawyerID       string
	language       string
	ended          bool // the call has ended
	traceParent    string
	late           time.Duration // time since it was due
}

const (
	batch        = 16
	parallel     = 8
	lease        = 30 * time.Second // time until a command is released if the worker that claimed it dies
	commandLimit = 10 * time.Second // for the provider to accept one command
	commandPoll  = time.Second      // finds commands queued by other processes and due retries
	restPoll     = 10 * time.Second // for processes that do not lead
	silencePoll  = 5 * time.Second
)

// RunCommands carries out the commands queued by this process until ctx ends. Any number of processes may run it; one
// of them must also run [Service.LeadCommands].
func (s *Service) RunCommands(ctx context.Context) error {
	return poll.Loop{Name: "telephony commands", Every: restPoll, Wake: s.wake, Log: s.log}.Run(ctx,
		func(ctx context.Context) (bool, error) {
			soonest := poll.Soonest()
			n, err := s.Execute(ctx)
			if n < batch {
				poll.Await(ctx, soonest)
			}
			return n > 0, err
		})
}

// LeadCommands makes this process also pick up due retries and the commands of other processes within a second, until
// ctx ends. Only one process runs it, alongside [Service.RunCommands].
func (s *Service) LeadCommands(ctx context.Context) error {
	for poll.Pause(ctx, commandPoll) {
		s.signal()
	}
	return nil
}

// Execute carries out the due commands, at most one per call, and returns how many it tried. A failed command is
// retried later and does not fail Execute. All results are written together, well within the lease.
func (s *Service) Execute(ctx context.Context) (int, error) {
	due, err := claim(ctx, s.Queue.Read())
	if err != nil || len(due) == 0 {
		return 0, err
	}
	results := make([]settlement, len(due))
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, c := range due {
		g.Go(func() error {
			results[i] = s.execute(ctx, c)
			return nil
		})
	}
	_ = g.Wait() // never returns an error
	if ctx.Err() != nil {
		return len(due), ctx.Err() // another worker continues when the lease ends
	}
	return len(due), settle(ctx, s.Queue.Read(), results)
}

func (s *Service) execute(ctx context.Context, c command) settlement {
	err := s.traced(ctx, c)
	if err == nil {
		return settlement{ID: c.id, Done: true}
	}
	quit := abandoned(c.kind, c.tries, c.ended)
	if ctx.Err() == nil {
		s.failed.WithLabelValues(string(c.kind)).Inc()
		s.log.WarnContext(ctx, "telephony command failed", "command", c.id, "kind", c.kind, "call", c.callID,
			"try", c.tries, "given_up", quit, "error", err)
	}
	return settlement{ID: c.id, Done: quit, Fault: err.Error(), After: backoff(c.tries).Seconds()}
}

// traced is send in a span below the one that queued the command.
func (s *Service) traced(ctx context.Context, c command) error {
	ctx, span := s.Tracer.Call(ctx, "call command", c.traceParent, c.late)
	span.Set(telemetry.CommandID, c.id)
	span.Set(telemetry.EventType, string(c.kind))
	span.Set(telemetry.CallID, c.callID)
	span.Set(telemetry.ConsultationID, c.consultationID)
	span.SetInt(telemetry.Attempt, int64(c.tries))
	err := s.send(ctx, c)
	span.End(err)
	return err
}

// settlement is the result of a command.
type settlement struct {
	ID    string  `json:"id"`
	Done  bool    `json:"done"` // no further attempt
	Fault string  `json:"fault"`
	After float64 `json:"after"` // seconds until the next attempt
}

// send passes one command to the provider. For an ended call it sends only the hang-up.
func (s *Service) send(ctx context.Context, c command) error {
	if c.ended && c.kind != cmdHangup {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	id := Command{CommandID: c.id, CallID: c.callID}
	switch c.kind {
	case cmdPlaceLeg:
		return s.placeLeg(ctx, id, c)
	case cmdBridge:
		return s.adapter.Bridge(ctx, Bridge{Command: id, Role: cmp.Or(c.args.Role, Client),
			MaxDuration: time.Duration(c.args.MaxDurationSec) * time.Second})
	case cmdPlay:
		return s.play(ctx, id, c)
	case cmdCollect:
		return s.adapter.Collect(ctx, Collect{Command: id, Role: c.args.Role, Digits: 1, Timeout: ConfirmTimeout})
	case "START_RECORDING", "STOP_RECORDING":
		return nil // written by an earlier version; nothing is recorded
	case cmdHangup:
		return s.adapter.Hangup(ctx, Hangup{Command: id, Reason: c.args.Reason})
	}
	return fmt.Errorf("unknown command %q", c.kind)
}

func (s *Service) play(ctx context.Context, id Command, c command) error {
	language, err := s.languageOf(ctx, c)
	if err != nil {
		return err
	}
	application, err := s.people.Application(ctx, c.consultationID)
	if err != nil {
		return fmt.Errorf("look up the application of the consultation: %w", err)
	}
	return s.adapter.Play(ctx, Play{Command: id, Role: c.args.Role, Prompt: c.args.Prompt, Language: language,
		Application: application})
}

// languageOf returns the language of a command's prompt. For a client it is the language of the consultation.
func (s *Service) languageOf(ctx context.Context, c command) (string, error) {
	if c.args.Role != Lawyer {
		return c.language, nil
	}
	language, err := s.people.LawyerLanguage(ctx, c.lawyerID)
	if err != nil {
		return "", fmt.Errorf("look up the language of the lawyer: %w", err)
	}
	return cmp.Or(language, c.language), nil
}

func (s *Service) placeLeg(ctx context.Context, id Command, c command) error {
	leg := PlaceLeg{Command: id, Role: c.args.Role, Timeout: LegTimeout, MachineDetection: true}
	var err error
	if leg.Role == Lawyer {
		leg.To, err = s.people.LawyerNumber(ctx, c.lawyerID)
	} else {
		leg.To, err = s.people.ClientNumber(ctx, c.consultationID)
	}
	if err != nil {
		return fmt.Errorf("look up the number of the %s: %w", leg.Role, err)
	}
	if leg.To == "" {
		return fmt.Errorf("the %s has no number", leg.Role)
	}
	return withoutNumber(s.adapter.PlaceLeg(ctx, leg), leg.To)
}

// withoutNumber removes the number from an error, so that a provider that quotes it cannot bring it into the log.
func withoutNumber(err error, number string) error {
	if err == nil {
		return nil
	}
	digits := strings.TrimPrefix(number, "+")
	if text := err.Error(); strings.Contains(text, digits) {
		return errors.New(strings.ReplaceAll(strings.ReplaceAll(text, number, "[number]"), digits, "[number]"))
	}
	return err
}

// RunPoll asks the provider about calls without an event for [Silence], until ctx ends, and passes its report to
// deliver. This recovers lost callbacks; all other events are duplicates.
func (s *Service) RunPoll(ctx context.Context, deliver Deliver) error {
	return poll.Loop{Name: "poll silent calls", Every: silencePoll, Log: s.log}.Run(ctx,
		func(ctx context.Context) (bool, error) {
			return false, s.Poll(ctx, deliver)
		})
}

// Poll is one pass of [Service.RunPoll].
func (s *Service) Poll(ctx context.Context, deliver Deliver) error {
	calls, err := claimSilent(ctx, s.db.Read())
	if err != nil {
		return err
	}
	var faults []error
	for _, id := range calls {
		events, err := s.adapter.Report(ctx, id)
		if err != nil {
			faults = append(faults, fmt.Errorf("ask about call %s: %w", id, err))
			continue
		}
		for _, e := range events {
			if err := deliver(ctx, e); err != nil {
				faults = append(faults, fmt.Errorf("event %s of call %s: %w", e.ID, id, err))
			}
		}
	}
	return errors.Join(faults...)
}

func (s *Service) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
