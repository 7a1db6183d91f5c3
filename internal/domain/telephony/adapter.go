package telephony

import (
	"context"
	"time"
)

// People looks up who is called. Numbers are in E.164 and are read at the moment of dialling; nothing else may store or
// log them.
type People interface {
	ClientNumber(ctx context.Context, consultationID string) (string, error)
	LawyerNumber(ctx context.Context, lawyerID string) (string, error)
	// LawyerLanguage returns the catalog code of the language spoken to a lawyer, or "" if unknown.
	LawyerLanguage(ctx context.Context, lawyerID string) (string, error)
	// Application returns the name of the application through which a consultation was requested.
	Application(ctx context.Context, consultationID string) (string, error)
}

// Adapter sends commands to a telephony provider. Every command has an ID. Repeating a command with the same ID must
// have no second effect. A leg is identified by its call and role: placing a role again replaces the lost leg.
//
// An error means that the command may not have been carried out; it is retried.
type Adapter interface {
	PlaceLeg(ctx context.Context, c PlaceLeg) error
	Bridge(ctx context.Context, c Bridge) error
	Play(ctx context.Context, c Play) error
	Collect(ctx context.Context, c Collect) error
	Hangup(ctx context.Context, c Hangup) error
	// Report returns all events of a call so far, with the IDs under which they were or will be delivered.
	Report(ctx context.Context, callID string) ([]Event, error)
}

// Command holds the fields common to all commands.
type Command struct{ CommandID, CallID string }

// PlaceLeg dials one side.
type PlaceLeg struct {
	Command
	Role             Role
	To               string // E.164; never logged
	Timeout          time.Duration
	MachineDetection bool
}

// Bridge sends one leg to the meeting point, where both legs are joined for at most MaxDuration. The first leg waits. A
// command without a Role, written by an earlier version of the program, is for the client's leg.
type Bridge struct {
	Command
	Role        Role
	MaxDuration time.Duration
}

// Prompts that a provider plays.
const (
	PromptLawyer  = "lawyer"  // to the lawyer: press 1 to be connected
	PromptConfirm = "confirm" // to the client: a lawyer is calling; press 1 to speak
)

// Play plays a prompt to one leg. The prompt names the service and the application.
type Play struct {
	Command
	Role        Role
	Prompt      string
	Language    string // catalog code
	Application string // name of the application that requested the consultation
}

// Collect waits for digits from one leg and reports LEG_DIGITS, without digits after the timeout.
type Collect struct {
	Command
	Role    Role
	Digits  int
	Timeout time.Duration
}

// Hangup ends all legs of a call.
type Hangup struct {
	Command
	Reason string
}
