//go:build unix

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLinksInTheDatabasesFoldersLeadNowhere covers a program run by root. A link that the database's account puts in
// place of a file must not make the program read or write another file.
func TestLinksInTheDatabasesFoldersLeadNowhere(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	stop(t, startCluster(t, dir))
	victim := filepath.Join(t.TempDir(), "victim")
	content := "1\nsecret of another\n0\n1\n" // ID of a live process, as postmaster.pid begins
	for _, name := range []string{"data/postmaster.pid", "data/PG_VERSION", "password", "port", "port.new",
		"postgres.log", "start.lock", "users.lock", "server.lock"} {
		for kind, plant := range map[string]func(path string) error{
			"link":     func(path string) error { return os.Symlink(victim, path) },
			"hardlink": func(path string) error { return os.Link(victim, path) },
			"pipe":     func(path string) error { return syscall.Mkfifo(path, 0o666) },
		} {
			if kind == "hardlink" && os.Geteuid() != 0 {
				continue // the victim then belongs to us, like the directory
			}
			if err := os.WriteFile(victim, []byte(content), 0o640); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if kind == "hardlink" && !strings.HasPrefix(name, "data/") {
				continue // the directory above the data belongs to root, as the victim does
			}
			before, err := os.Lstat(path)
			if err == nil {
				if err := os.Rename(path, path+".aside"); err != nil {
					t.Fatal(err)
				}
			}
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			c, err := Start(ctx, Options{Dir: dir, Fast: true})
			cancel()
			if err == nil {
				stop(t, c)
			} else if strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, %s: the error tells what is in the file: %v", name, kind, err)
			}
			got, err := os.ReadFile(victim)
			info, err2 := os.Stat(victim)
			if err != nil || err2 != nil || string(got) != content || info.Mode().Perm() != 0o640 ||
				info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
				t.Errorf("%s, %s: the file behind it changed: %q %v %v", name, kind, got, err, err2)
			}
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if before != nil {
				if err := os.Rename(path+".aside", path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stop(t, startCluster(t, dir)) // with everything back in place
	for name, write := range map[string]func(path string) error{
		"rewrite":   func(path string) error { return rewrite(path, "changed") },
		"writeSync": func(path string) error { return writeSync(path, "changed") },
	} {
		link := filepath.Join(t.TempDir(), "file")
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
		err := write(link)
		if got, _ := os.ReadFile(victim); string(got) != content {
			t.Errorf("%s wrote through a link (%v): %q", name, err, got)
		}
	}
}
