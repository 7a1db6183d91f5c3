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

// openPlain opens or makes a file, and is the only way to in folders of the cluster. Run by root, these folders belong
// to others: the data to the database's account, all of it perhaps to a person. What lies in the place of a file may
// then lead to any file of the machine. So no link is followed out of the folder, and only a plain file is opened that
// the folder's owner has, or that has no second name elsewhere. The flags must not truncate: that would come before the
// look.
func openPlain(path string, flag int) (*os.File, error) {
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	// no wait for the other end of a pipe
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

// rewrite replaces the content of a file that exists, which keeps its owner.
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

// makeAnew makes a file with the content; what had its name before is gone.
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

// writeSync writes a file that has to survive a crash of the machine.
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
