package doctor

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
)

// TestTheDoctorLooksAtFiles checks that the doctor warns about secrets that others can read, wherever they are, and
// about a data folder that is not writable.
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
	c.DataDir = c.Path(config.MasterKeyFile) // no one, not even root, can write below a file
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

// TestTheEndOfTheCertificateIsMeasured checks that the certificate's expiry is measured, even if the certificate is
// untrusted or has expired.
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
	var c Certificate
	log := slog.New(slog.DiscardHandler)
	c.look(t.Context(), server.URL, log)
	if got := c.until.Load(); got != server.Certificate().NotAfter.Unix() {
		t.Errorf("measured as %s", time.Unix(got, 0))
	}
	server.Close()
	c.look(t.Context(), server.URL, log)
	if got := c.until.Load(); got != 0 {
		t.Errorf("measured as %d when nobody answers", got)
	}
}
