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

// Level is how bad a [Finding] is.
type Level string

// The levels. A deployment with a Fail does not work, or not for long; one with a Warn works for now.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one check of [Examine] came to.
type Finding struct {
	Check string `json:"check"` // what was looked at
	Level Level  `json:"level"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what helps; empty when nothing has to be done
}

// What doctor takes for too much.
const (
	patience      = 10 * time.Second // with a server that is asked
	clockWarn     = time.Second
	clockFail     = 30 * time.Second
	certificate   = 21 * 24 * time.Hour // left of a certificate: less is a warning, a third of it a failure
	lagWarn       = 30 * time.Second
	longest       = 10 * time.Minute // that a transaction is open
	supportedFrom = 140000           // server_version_num
)

// Examine looks at a deployment from outside and inside, and changes nothing but that it starts a private cluster, as
// every command does. The configuration may be wrong; what the program would refuse is not acted upon. sealed are all
// columns that the master key seals.
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
	lacks   error // of the installation
	found   []Finding
}

// isNew tells whether the deployment was never started.
func (e *examination) isNew() bool { return errors.As(e.lacks, &config.NewInstallation{}) }

// tries tells whether a check that acts on settings is made. It is not where one of them is refused, which is then
// said.
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

// onOneLine is for what a driver says of each address that it tried.
var onOneLine = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")
