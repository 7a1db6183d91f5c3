package queue

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
)

// TestTheLibraryIsQuiet checks that the library's periodic figures are logged only at level debug, and its errors
// always.
func TestTheLibraryIsQuiet(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{slog.LevelInfo: "goes wrong", slog.LevelDebug: "counts goes wrong"} {
		var text bytes.Buffer
		log := slog.New(quiet{slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})})
		log.Info("counts")
		log.Error("told to stop", "error", context.Canceled)
		log.Warn("goes wrong")
		var said []string
		for _, message := range []string{"counts", "told to stop", "goes wrong"} {
			if strings.Contains(text.String(), message) {
				said = append(said, message)
			}
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("at %s: %q, want %q", level, got, want)
		}
	}
}
