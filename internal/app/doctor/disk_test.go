package doctor

import (
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"partnerd/internal/app/config"
)

type fullFile struct{ io.Closer }

func (fullFile) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestTheDoctorSaysThatTheDiskFills checks that the doctor warns before the data folder's disk is full, and requires
// more with a private cluster.
func TestTheDoctorSaysThatTheDiskFills(t *testing.T) {
	t.Parallel()
	for free, want := range map[uint64][2]Level{ // with a private cluster, and without
		0:               {Fail, Fail},
		2 * mebi:        {Fail, Warn},
		64 * mebi:       {Fail, OK},
		clusterFail:     {Warn, OK},
		clusterWarn - 1: {Warn, OK},
		clusterWarn:     {OK, OK},
	} {
		for i, url := range []string{"", "postgres://db.example/partnerd"} {
			e := &examination{Config: config.Config{DataDir: "/data", DatabaseURL: url}}
			warn, fail := wantedFree(&e.Config)
			e.room(free, warn, fail)
			if f := e.found[0]; f.Level != want[i] || (f.Do == "") != (want[i] == OK) {
				t.Errorf("%d bytes free with database %q: %+v, want %s", free, url, f, want[i])
			}
		}
	}
}

// TestTheDoctorTriesToKeepContent exists because on a full disk a file can be created but not written.
func TestTheDoctorTriesToKeepContent(t *testing.T) {
	t.Parallel()
	if err := keepsContent(fullFile{io.NopCloser(nil)}); !isFull(err) {
		t.Errorf("a full disk: %v", err)
	}
	if isFull(nil) || isFull(errors.New("denied")) {
		t.Error("other errors are taken for a full disk")
	}
	cfg := good()
	cfg.Env, cfg.DataDir, cfg.DatabaseURL = "live", t.TempDir(), "postgres://u@127.0.0.1:1/x"
	found := Examine(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Check == "disk space" && f.Found != "" }) {
		t.Errorf("the doctor does not look at the disk: %+v", found)
	}
	if left, _ := filepath.Glob(filepath.Join(cfg.DataDir, ".doctor-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
