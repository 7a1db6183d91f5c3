//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// childEnv is the whole environment of the database's processes. It contains neither this program's secrets, nor PG*
// settings or a locale that would change their behaviour.
var childEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC"}

// account is the account that runs the database's processes. Postgres refuses to run as root.
type account struct {
	name     string
	uid, gid int
	drop     bool      // this process is root and must switch to the account
	caps     []uintptr // capabilities that the processes keep, to reach data below directories closed to the account
}

// chooseAccount returns the owner of existing data or, for root, an unprivileged account. If root owns dir, it makes
// dir traversable, without making it readable, because the data in it belong to the account.
func chooseAccount(dir, data string) (account, error) {
	me := os.Geteuid()
	owner, group, exists := ownerOf(data)
	if me != 0 {
		if exists && owner != me {
			return account{}, fmt.Errorf("%s belongs to user %d, this is user %d: run as that user or as root, or "+
				"choose another PARTNERD_DATA_DIR", data, owner, me)
		}
		return account{name: strconv.Itoa(me), uid: me, gid: os.Getegid()}, nil
	}
	if o, _, ok := ownerOf(dir); ok && o == 0 {
		info, err := os.Stat(dir)
		if err != nil {
			return account{}, fmt.Errorf("read mode of %s: %w", dir, err)
		}
		if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
			return account{}, fmt.Errorf("let the database's account through %s: %w", dir, err)
		}
	}
	if exists && owner != 0 {
		return account{name: strconv.Itoa(owner), uid: owner, gid: group, drop: true}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		if errU == nil && errG == nil && uid > 0 {
			return account{name: name, uid: uid, gid: gid, drop: true}, nil
		}
	}
	return account{name: "65534", uid: 65534, gid: 65534, drop: true}, nil
}

// command prepares a process of the account in its own session, out of reach of a terminal's interrupt.
func (a account) command(bin string, args ...string) *exec.Cmd {
	cmd := exec.Command(bin, args...)
	cmd.Env = childEnv
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
		setCaps(cmd.SysProcAttr, a.caps)
	}
	return cmd
}

// reach finds the least privilege with which the account can enter folder and run bin, and keeps it in a.caps.
func (a *account) reach(folder, bin string) error {
	if !a.drop {
		return nil
	}
	var failures []string
	for _, caps := range capChoices {
		a.caps = caps
		out, err := a.command("/bin/sh", "-c", `cd "$1" && exec "$2" --version`, "sh", folder, bin).CombinedOutput()
		if err == nil {
			return nil
		}
		failures = append(failures, strings.TrimSpace(fmt.Sprintf("%v %s", err, out)))
	}
	return fmt.Errorf("the database does not run as root, and account %s cannot reach %s (%s): choose a "+
		"PARTNERD_DATA_DIR that it can enter, or set PARTNERD_DATABASE_URL",
		a.name, folder, strings.Join(failures, "; "))
}

// own gives the account ownership of a file or directory that root created.
func (a account) own(f *os.File) error {
	if !a.drop {
		return nil
	}
	return f.Chown(a.uid, a.gid)
}

func ownerOf(path string) (uid, gid int, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func openLock(path string) (*os.File, error) {
	f, err := openPlain(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return f, nil
}

// tryLock takes the exclusive lock on path, or returns nil if it is held. Closing the file releases it.
func tryLock(path string) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// lockFile takes the exclusive lock on path, waiting until ctx is over.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		if f, err := tryLock(path); err != nil || f != nil {
			return f, err
		}
		if !wait(ctx) {
			return nil, fmt.Errorf("wait for another process that holds %s: %w", path, ctx.Err())
		}
	}
}

// lockShared takes the shared lock on path.
func lockShared(path string) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_SH); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// unlock releases a lock immediately. Closing the file is not enough if this process starts another one at that moment:
// between fork and exec the child has the file open too.
func unlock(f *os.File) {
	_ = flock(f, syscall.LOCK_UN)
	f.Close()
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// makeReadable lets every account read and enter everything below root, whatever the umask was.
func makeReadable(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
