package telephony

import (
	"context"
	"time"
)

// People tells who is called. Numbers are in E.164 and given at the moment of dialling; nothing else may keep or log
// them.
type People interface {
	ClientNumber(ctx context.Context, consultationID string) (string, error)
	LawyerNumber(ctx context.Context, lawyerID string) (string, error)
	// LawyerLanguage is the catalog code of the language in which a lawyer is spoken to; empty when that is not known.
	LawyerLanguage(ctx context.Context, lawyerID string) (string, error)
	// Application is the name of the application through which a consultation was requested.
	Application(ctx context.Context, consultationID string) (string, error)
}

// Adapter is a telephony provider. Every command carries an id; a command that is repeated with the same id must have
// no second effect. A leg is known by its call and its role: placing a role again replaces the leg that was lost.
// An error means that the command may not have been carried out, and it is repeated.
type Adapter interface {
	PlaceLeg(ctx context.Context, c PlaceLeg) error
	Bridge(ctx context.Context, c Bridge) error
	Play(ctx context.Context, c Play) error
	Collect(ctx context.Context, c Collect) error
	Hangup(ctx context.Context, c Hangup) error
	// Report returns all events of a call so far, with the ids that they were, or will be, delivered with.
	Report(ctx context.Context, callID string) ([]Event, error)
}

// Command is what all commands have in common.
type Command struct{ CommandID, CallID string }

// PlaceLeg dials one side.
type PlaceLeg struct {
	Command
	Role             Role
	To               string // E.164; never logged
	Timeout          time.Duration
	MachineDetection bool
}

// Bridge brings one leg to where both meet: they are joined when both are there, for at most MaxDuration. Whoever is
// there first waits. A command without a Role, which a program before this one gave, is for the client's.
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

// Play plays a prompt to one leg. It says who calls: the service, and the application.
type Play struct {
	Command
	Role        Role
	Prompt      string
	Language    string // catalog code
	Application string // name of the application through which the consultation was requested
}

// Collect waits for digits from one leg and reports LEG_DIGITS, with none when the time is over.
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
