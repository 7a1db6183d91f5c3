//go:build unix

package cluster

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// archive contains bin/postgres and bin/initdb, which print version 17.5. Its bin/pg_ctl creates the file "ran" three
// directories above itself. It was made by: tar -cf - bin | xz --check=crc32
const archive = `
/Td6WFoAAAFpIt42AgAhARwAAAAQz1jM4Cf/ANNdADEaShsFkZA3OlG9V3Gz1uEhGuzodTR9POemV5xBuI5pdqsf/+4UwN7nrRvpQeMYtNq5b4hj5mSvrkrn
zQZrOJMmjBgsYrX5E/8OLrFKVs/r4g5U7j6+y2Qvu6HOlRtM/3ULcoZiBMM0D7KyW3fY24zTuVQZpHKo+bSPzOBvd/wMXylAGCnYsagDnGeXkvTafwTxTj71
CPBgjFaLBpzrb0E/OtJJeTv1qxcDD++1pJ8eNNKEJFr72FQ2Zoy9UhJi9UMvLX5wMc42iv8mmNEIcxVZ5AAAAJVOadQAAesBgFAAAKeOUwM+MA2LAgAAAAAB
WVo=
`

// repository is a Maven repository that serves one archive for every request, with the digest that repositories store
// beside it.
func repository(t *testing.T, content []byte) string {
	t.Helper()
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	f, err := z.Create("postgres.txz")
	if err == nil {
		_, err = f.Write(content)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			fmt.Fprintf(w, "%x", sha256.Sum256(jar.Bytes()))
			return
		}
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestADownloadThatWasChangedIsNotRun checks that nothing of an unexpected download is unpacked or run, although the
// repository vouches for it. It does not run in parallel. A newly written program cannot be executed while another test
// that forks has its file open.
func TestADownloadThatWasChangedIsNotRun(t *testing.T) {
	content, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(strings.TrimSpace(archive), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(content))
	every := func(digest string) map[string]string {
		all := maps.Clone(digests)
		for name := range all {
			all[name] = digest
		}
		return all
	}
	nothing := func(string) (string, error) { return "", exec.ErrNotFound }
	find := func(content []byte, digests map[string]string) (downloads, bin string, err error) {
		downloads = filepath.Join(t.TempDir(), "binaries")
		bin, err = binarySearch{lookPath: nothing, repository: repository(t, content),
			digests: digests}.find(t.Context(), "", downloads, account{})
		return downloads, bin, err
	}
	ran := func(downloads string) bool { return isFile(filepath.Join(downloads, "ran")) }

	if downloads, bin, err := find(content, every(digest)); err != nil || bin != filepath.Join(downloads, "17/bin") ||
		!ran(downloads) {
		t.Errorf("the right archive: %q, %v, ran: %t", bin, err, ran(downloads))
	}
	for name, c := range map[string]struct {
		digests map[string]string
		want    string
	}{
		"another digest": {every(strings.Repeat("0", 64)), digest},
		"no digest":      {nil, "no digest of it"},
		"our digests":    {digests, digest},
	} {
		downloads, bin, err := find(content, c.digests)
		if err == nil || !strings.Contains(err.Error(), c.want) || bin != "" ||
			c.digests != nil && !errors.Is(err, errForeign) {
			t.Errorf("%s: %q, %v", name, bin, err)
		}
		if left, _ := filepath.Glob(filepath.Join(downloads, "*")); len(left) > 0 {
			t.Errorf("%s: %v is left, ran: %t", name, left, ran(downloads))
		}
	}
	if _, _, err := find([]byte("no archive"),
		every(fmt.Sprintf("%x", sha256.Sum256([]byte("no archive"))))); err == nil || errors.Is(err, errForeign) {
		t.Errorf("an archive that cannot be unpacked: %v", err)
	}
}

// TestEveryDownloadHasItsDigest checks that each downloadable version has digests. The version for a new database needs
// one for every platform of a release.
func TestEveryDownloadHasItsDigest(t *testing.T) {
	t.Parallel()
	for major, version := range downloadVersions {
		platforms := []string{"linux-amd64"}
		if major == downloadMajor {
			platforms = []string{"linux-amd64", "linux-arm64v8", "linux-amd64-alpine", "darwin-amd64", "darwin-arm64v8"}
		}
		for _, platform := range platforms {
			if name := platform + "-" + string(version); len(digests[name]) != 2*sha256.Size {
				t.Errorf("%s has no digest", name)
			}
		}
	}
}
