package doctor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/infra/reseal"
)

// Level is the severity of a [Finding].
type Level string

// The levels. A deployment with a Fail does not work, or soon will not; one with a Warn works for now.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is the result of one check of [Examine].
type Finding struct {
	Check string `json:"check"` // what was checked
	Level Level  `json:"level"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // remedy; empty if nothing has to be done
}

// Limits of the doctor.
const (
	patience  = 10 * time.Second // time limit for a server's response
	clockWarn = time.Second
	clockFail = 30 * time.Second
	// remaining validity of a certificate: less is a warning, less than a third of it a failure
	certificate   = 21 * 24 * time.Hour
	lagWarn       = 30 * time.Second
	longest       = 10 * time.Minute // for an open transaction
	supportedFrom = 140000           // server_version_num
)

// Examine checks a deployment from outside and inside. It changes nothing, except that it starts a private cluster, as
// every command does. The configuration may be invalid: settings that the program would reject are not used. sealed
// must list all columns that the master key seals.
func Examine(ctx context.Context, cfg config.Config, sealed []reseal.Column, log *slog.Logger) []Finding {
	e := &examination{Config: cfg, refused: cfg.Refusals(), columns: sealed}
	e.settings()
	looks := e.tries("database", "PARTNERD_ENV", "PARTNERD_DATABASE_URL", "PARTNERD_DATABASE_OWNER_URL")
	if looks {
		e.lacks = e.Installed(ctx)
	}
	box := e.keys()
	e.secretFiles()
	e.dataFolder()
	e.diskSpace()
	if looks {
		e.installation(ctx, log, box)
	}
	e.mail(ctx)
	e.quotas(ctx)
	e.collector(ctx)
	e.address(ctx)
	return e.found
}

type examination struct {
	config.Config
	refused []config.Refusal
	columns []reseal.Column
	lacks   error // why there is no usable installation
	found   []Finding
}

// isNew reports whether the deployment was never started.
func (e *examination) isNew() bool { return errors.As(e.lacks, &config.NewInstallation{}) }

// tries reports whether to run a check that uses the settings. If one of them was rejected, it returns false and
// reports that the check was skipped.
func (e *examination) tries(check string, settings ...string) bool {
	for _, r := range e.refused {
		if slices.Contains(settings, r.Setting) {
			e.warn(check, "not checked, because "+r.Setting+" is invalid", "Correct it, then run the doctor again.")
			return false
		}
	}
	return true
}

func (e *examination) ok(check, found string) {
	e.found = append(e.found, Finding{check, OK, found, ""})
}

func (e *examination) warn(check, found, do string) {
	e.found = append(e.found, Finding{check, Warn, found, do})
}

func (e *examination) fail(check, found, do string) {
	e.found = append(e.found, Finding{check, Fail, onOneLine.Replace(found), do})
}

// onOneLine joins a driver's error message about several addresses into one line.
var onOneLine = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")
