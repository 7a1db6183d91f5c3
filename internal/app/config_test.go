package app

import (
	"os"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/seal"
)

func good() Config {
	return Config{Env: "sandbox", Addr: "127.0.0.1:8080", RateApplication: 1, RateClient: 1, RateUnauthorized: 1, RateTokenFailures: 1, DatabaseConns: 1}
}

func TestEveryFaultOfTheConfigurationIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	c := good()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	c.Addr, c.BaseURL, c.RateClient, c.TrustedProxies = "foo", "ftp://x", 0, []string{"nonsense"}
	err := c.Check()
	for _, name := range []string{"PARTNERD_ADDR", "PARTNERD_BASE_URL", "PARTNERD_RATE_CLIENT", "PARTNERD_TRUSTED_PROXIES"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]bool{ // sandbox, live
		"http://localhost:8080": {true, true}, "http://127.0.0.1:1": {true, true}, "https://api.example": {true, true}, "https://api.example/": {true, true},
		"http://api.example": {true, false}, "https://api.example/path": {false, false}, "https://u:p@api.example": {false, false}, "api.example": {false, false},
	} {
		for i, env := range []string{"sandbox", "live"} {
			c := good()
			c.Env, c.BaseURL = env, url
			if err := c.Check(); (err == nil) != want[i] {
				t.Errorf("%s in %s: %v", url, env, err)
			}
		}
	}
}

func TestLiveWithItsOwnDatabaseNeedsConfiguredKeys(t *testing.T) {
	t.Parallel()
	c := good()
	c.Env, c.DatabaseURL = "live", "postgres://db.example/x"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "PARTNERD_MASTER_KEY") {
		t.Errorf("accepted: %v", err)
	}
}

// A live server holds no key that opens notes: it makes none, and refuses to start beside one.
func TestALiveServerHoldsNoKeyThatOpensNotes(t *testing.T) {
	t.Parallel()
	public, private, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	live := func() Config {
		c := good()
		c.Env, c.DataDir = "live", t.TempDir()
		return c
	}
	c := live()
	if _, err := c.keys(); err == nil || !strings.Contains(err.Error(), "PARTNERD_NOTE_PUBLIC_KEY") || !strings.Contains(err.Error(), "key generate") {
		t.Errorf("without a public key: %v", err)
	}
	if left, err := os.ReadDir(c.DataDir); err != nil || len(left) > 0 {
		t.Errorf("a refused start left %v %v", left, err)
	}
	c.NotePublicKey = public
	if _, err := c.keys(); err != nil {
		t.Fatal(err)
	}
	if made, err := os.ReadDir(c.path("keys")); err != nil || len(made) != 1 || made[0].Name() != "master.key" {
		t.Errorf("made in live: %v %v", made, err)
	}
	// A folder of the release before has both halves: refused until the private one is moved away, then the public one serves.
	old := live()
	sandbox := old
	sandbox.Env = "sandbox"
	if _, err := sandbox.keys(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", public} {
		old.NotePublicKey = key
		if _, err := old.keys(); err == nil || !strings.Contains(err.Error(), "note-private.key") || !strings.Contains(err.Error(), "move it") {
			t.Errorf("beside the private half: %v", err)
		}
	}
	if err := os.Remove(old.path(notePrivateKey)); err != nil {
		t.Fatal(err)
	}
	old.NotePublicKey = ""
	if _, err := old.keys(); err != nil {
		t.Errorf("with the private half elsewhere: %v", err)
	}
	old.NotePublicKey = private
	if _, err := old.keys(); err == nil {
		t.Error("the private half was accepted as the public one")
	}
}

func TestProcessesThatStartAtOnceShareTheirKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	secrets := make([]string, 8)
	for i := range secrets {
		wg.Go(func() {
			c := good()
			c.DataDir = dir
			k, err := c.keys()
			if err != nil {
				t.Error(err)
				return
			}
			secrets[i] = k.payment
		})
	}
	wg.Wait()
	for _, s := range secrets {
		if s == "" || s != secrets[0] {
			t.Fatal("two processes have different keys")
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	if info, err := os.Stat(dir + "/keys/master.key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("master key: %v %v", info, err)
	}
}

// A database of somebody's own is of an environment that was said; the private one is a sandbox's unless something else is.
func TestTheEnvironmentOfADatabaseIsSaid(t *testing.T) {
	t.Parallel()
	c := good()
	c.Env = ""
	if err := c.Check(); err != nil || !c.Sandbox() {
		t.Errorf("a private database: %v", err)
	}
	c.DatabaseURL = "postgres://localhost/x"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "PARTNERD_ENV") {
		t.Errorf("a database of somebody's own: %v", err)
	}
}
