package config

import (
	"os"
	"strings"
	"testing"

	"partnerd/internal/base/seal"
)

// TestAKeyFileThatCannotBeUsedIsNamed checks that for any damaged key file the error names the file, the problem and
// the remedy. No new key is created.
func TestAKeyFileThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	_, private, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]struct {
		do   func(path string) error
		want string
	}{
		"empty": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "it is empty"},
		"cut":   {func(path string) error { return os.Truncate(path, 40) }, "cut off or changed"},
		"changed": {func(path string) error { return os.WriteFile(path, []byte("hello world!"), 0o600) },
			"cut off or changed"},
		"of another kind": {func(path string) error { return os.WriteFile(path, []byte(private), 0o600) },
			"not a key of this kind"},
		"missing": {os.Remove, "no such file"},
	} {
		for _, file := range []string{MasterKeyFile, NotePublicKeyFile} {
			c := good()
			c.Env, c.DataDir, c.MasterKey, c.NotePublicKey = "sandbox", t.TempDir(), "", ""
			if _, err := c.Keys(); err != nil {
				t.Fatal(err)
			}
			if err := damage.do(c.Path(file)); err != nil {
				t.Fatal(err)
			}
			_, err := c.Keys()
			if err == nil || !strings.Contains(err.Error(), c.Path(file)+": ") ||
				!strings.Contains(err.Error(), damage.want) || !strings.Contains(err.Error(), "; restore ") ||
				strings.Count(err.Error(), c.Path(file)) != 1 {
				t.Errorf("%s, %s: %v", name, file, err)
			}
		}
	}
}
