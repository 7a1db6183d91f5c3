package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
)

// A key that is whole and not the database's is named, too.
func TestTheMasterKeyOfAnotherIsNamed(t *testing.T) {
	t.Parallel()
	cfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if cfg.MasterKey, err = seal.NewKey(); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "PARTNERD_MASTER_KEY") && !strings.Contains(err.Error(), "master key") {
		t.Errorf("it starts with %v", err)
	}
}

// The doctor warns of secrets that others can read, wherever they lie, and of a data folder that takes no mail.
func TestTheDoctorLooksAtFiles(t *testing.T) {
	t.Setenv("PARTNERD_METRICS_TOKEN_FILE", filepath.Join(t.TempDir(), "token"))
	c := good()
	c.Env, c.DataDir, c.MasterKey, c.NotePublicKey = "sandbox", t.TempDir(), "", ""
	if _, err := c.Keys(); err != nil {
		t.Fatal(err)
	}
	look := func() []Finding {
		e := &examination{Config: c}
		e.secretFiles()
		e.dataFolder()
		return e.found
	}
	if found := look(); len(found) != 1 || found[0].Level != OK {
		t.Errorf("a folder that is right: %+v", found)
	}
	if err := os.WriteFile(os.Getenv("PARTNERD_METRICS_TOKEN_FILE"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.Path(config.MasterKeyFile), 0o640); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(look(), func(f Finding) bool { return f.Check == "secret files" })
	if i < 0 || !strings.Contains(look()[i].Found, c.Path(config.MasterKeyFile)+" has mode 0640") ||
		!strings.Contains(look()[i].Found, "token has mode 0644") {
		t.Errorf("files that others can read: %+v", look())
	}
	c.DataDir = c.Path(config.MasterKeyFile) // nobody, not even root, writes below a file
	if found := look(); !slices.ContainsFunc(found,
		func(f Finding) bool { return f.Check == "data folder" && f.Level == Warn }) {
		t.Errorf("a folder that takes nothing: %+v", found)
	}
	c.Env, c.MailServer, c.SMSServer = "live", "smtp://mail.example", "https://sms.example"
	if found := look(); !slices.ContainsFunc(found,
		func(f Finding) bool { return f.Check == "data folder" && f.Level == Warn }) {
		t.Errorf("in live, where marks are kept in it: %+v", found)
	}
}

// A process without an address of its own tells its orchestrator that it lives and is ready, without the token of the
// metrics.
func TestAProcessThatOnlyWorksIsProbed(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), ofEnvironment(t, "sandbox", dbtest.URL(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	status := func(ready bool) int {
		w := httptest.NewRecorder()
		a.probe(ready)(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code
	}
	if lives, ready := status(false), status(true); lives != http.StatusOK || ready != http.StatusOK {
		t.Errorf("while it works: %d %d", lives, ready)
	}
	a.ending.Store(true)
	if lives, ready := status(false), status(true); lives != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("while it ends: %d %d", lives, ready)
	}
	a.ending.Store(false)
	a.DB.Close()
	if lives, ready := status(false), status(true); lives != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("without a database: %d %d", lives, ready)
	}
}

// The end of the public address's certificate is measured, also when the certificate is not trusted or is over.
func TestTheEndOfTheCertificateIsMeasured(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if until, _ := expiry(t.Context(), u); !until.Equal(server.Certificate().NotAfter) {
		t.Errorf("it is valid until %s", until)
	}
	a := &App{Config: config.Config{BaseURL: server.URL}, Logger: slog.New(slog.DiscardHandler)}
	a.lookAtCertificate(t.Context())
	if got := a.certificate.until.Load(); got != server.Certificate().NotAfter.Unix() {
		t.Errorf("measured as %s", time.Unix(got, 0))
	}
	server.Close()
	a.lookAtCertificate(t.Context())
	if got := a.certificate.until.Load(); got != 0 {
		t.Errorf("measured as %d when nobody answers", got)
	}
}
