package telephony

import (
	"context"
	"errors"
)

// ErrNone is the error that [None] returns.
var ErrNone = errors.New("there is no telephony provider")

// None is the adapter of a deployment without a provider. It rejects every command, and [Service.Available] tells
// callers not to promise calls.
type None struct{}

var _ Adapter = None{}

// PlaceLeg implements [Adapter].
func (None) PlaceLeg(context.Context, PlaceLeg) error { return ErrNone }

// Bridge implements [Adapter].
func (None) Bridge(context.Context, Bridge) error { return ErrNone }

// Play implements [Adapter].
func (None) Play(context.Context, Play) error { return ErrNone }

// Collect implements [Adapter].
func (None) Collect(context.Context, Collect) error { return ErrNone }

// Hangup implements [Adapter].
func (None) Hangup(context.Context, Hangup) error { return ErrNone }

// Report implements [Adapter].
func (None) Report(context.Context, string) ([]Event, error) { return nil, ErrNone }
