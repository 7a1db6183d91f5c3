//go:build unix

package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// openPlain opens or creates a file. All file access in the cluster's directories must use it. When the program runs as
// root, these directories belong to others: the data to the database's account, and possibly all of it to a person.
// They could replace a file by a link to any file of the machine.
//
//   - No link is followed out of the directory.
//   - Only a regular file is opened that the directory's owner owns, or that has no hard link elsewhere.
//   - flag must not truncate: that would happen before these checks.
func openPlain(path string, flag int) (*os.File, error) {
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	// do not wait for the other end of a pipe
	f, err := folder.OpenFile(filepath.Base(path), flag|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	info, err1 := f.Stat()
	around, err2 := folder.Stat(".")
	if err := errors.Join(err1, err2); err != nil {
		f.Close()
		return nil, err
	}
	if !plain(info, around) {
		f.Close()
		return nil, fmt.Errorf("%s is no plain file, or has a second name elsewhere: remove it", path)
	}
	return f, nil
}

func plain(file, folder fs.FileInfo) bool {
	f, ok1 := file.Sys().(*syscall.Stat_t)
	d, ok2 := folder.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && file.Mode().IsRegular() && (f.Uid == d.Uid || f.Nlink == 1)
}

func readPlain(path string) ([]byte, error) {
	f, err := openPlain(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// rewrite replaces the content of an existing file, which keeps its owner.
func rewrite(path, content string) error {
	f, err := openPlain(path, os.O_WRONLY)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteString(content)
	}
	return errors.Join(err, f.Close())
}

// makeAnew removes any file at path and creates a new one with the content.
func makeAnew(path, content string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := openPlain(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(content); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// writeSync writes a file so that it survives a crash of the machine.
func writeSync(path, content string) error {
	tmp := path + ".new"
	f, err := makeAnew(tmp, content)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
