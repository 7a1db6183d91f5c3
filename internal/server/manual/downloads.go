package manual

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DownloadsRoot is the address below which packages are offered.
const DownloadsRoot = Root + "/downloads"

// SumsFile names the file of the folder that lists the packages with their checksums, as sha256sum writes it.
const SumsFile = "SHA256SUMS"

// Download is a file that partners install.
type Download struct {
	Name     string
	Bytes    int64
	SHA256   string // in hexadecimal
	Modified time.Time
}

// Downloads are the files of a folder, in the order of their list.
type Downloads []Download

// fileName is the name of a package: of one folder, and without anything that a shell or a URL reads differently.
var fileName = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._+-]*\z`)

// ReadDownloads reads the folder that "make release" writes for partners. Only files of its list are offered, and each
// must have the listed checksum.
func ReadDownloads(folder fs.FS) (Downloads, error) {
	list, err := fs.ReadFile(folder, SumsFile)
	if err != nil {
		return nil, err
	}
	var all Downloads
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || !fileName.MatchString(name) {
			return nil, fmt.Errorf("%s: %q is not a checksum and a file name", SumsFile, lines.Text())
		}
		d, err := readDownload(folder, name)
		if err != nil {
			return nil, err
		}
		if d.SHA256 != sum {
			return nil, fmt.Errorf("%s does not have the checksum that %s lists; copy the folder again", name, SumsFile)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s lists no file", SumsFile)
	}
	return all, nil
}

func readDownload(folder fs.FS, name string) (Download, error) {
	f, err := folder.Open(name)
	if err != nil {
		return Download{}, err
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return Download{}, err
	}
	if !about.Mode().IsRegular() {
		return Download{}, fmt.Errorf("%s is not a file", name)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return Download{}, err
	}
	return Download{name, about.Size(), hex.EncodeToString(sum.Sum(nil)), about.ModTime()}, nil
}

// errReplaced says that a file is not the one that was read at the start.
var errReplaced = errors.New("the file was replaced since the start")

// Open opens a file of the list. Its content was checked at the start, so a file that was replaced since is not opened.
func (all Downloads) Open(folder fs.FS, name string) (Download, fs.File, error) {
	i := slices.IndexFunc(all, func(d Download) bool { return d.Name == name })
	if i < 0 {
		return Download{}, nil, fs.ErrNotExist
	}
	f, err := folder.Open(name)
	if err != nil {
		return Download{}, nil, err
	}
	about, err := f.Stat()
	if err == nil && (about.Size() != all[i].Bytes || !about.ModTime().Equal(all[i].Modified)) {
		err = errReplaced
	}
	if err != nil {
		return Download{}, nil, errors.Join(err, f.Close())
	}
	return all[i], f, nil
}

// packages are the kinds of files that the page explains.
var packages = map[string]*regexp.Regexp{
	"npm":     regexp.MustCompile(`^partner-sdk-.*\.tgz$`),
	"python":  regexp.MustCompile(`^partner_sdk-.*\.whl$`),
	"go":      regexp.MustCompile(`^partner-sdk-go-.*\.tar\.gz$`),
	"php":     regexp.MustCompile(`^partner-sdk-php-.*\.zip$`),
	"java":    regexp.MustCompile(`^partner-sdk-java-.*\.jar$`),
	"linux":   regexp.MustCompile(`^partnerctl-.*-linux-amd64\.tar\.gz$`),
	"windows": regexp.MustCompile(`^partnerctl-.*-windows-amd64\.zip$`),
}

// Package is the file of a kind; nil when there is none.
func (all Downloads) Package(kind string) *Download {
	for i := range all {
		if packages[kind].MatchString(all[i].Name) {
			return &all[i]
		}
	}
	return nil
}

// Path is the address of the file.
func (d Download) Path() string { return DownloadsRoot + "/" + d.Name }

// Folder is what the file unpacks to.
func (d Download) Folder() string {
	return archiveSuffix.ReplaceAllString(d.Name, "")
}

// Version is the version in the name of the package of a language.
func (d Download) Version() string {
	return languagePrefix.ReplaceAllString(d.Folder(), "")
}

var (
	archiveSuffix  = regexp.MustCompile(`\.(tar\.gz|zip|jar)$`)
	languagePrefix = regexp.MustCompile(`^partner-sdk-[a-z]+-`)
)

// Size is the size for people.
func (d Download) Size(lang string) string {
	units := map[string][2]string{"fr": {"ko", "Mo"}}[lang]
	if units[0] == "" {
		units = [2]string{"kB", "MB"}
	}
	if d.Bytes < 999_500 {
		return fmt.Sprintf("%d %s", max(1, (d.Bytes+500)/1000), units[0])
	}
	size := fmt.Sprintf("%.1f", float64(d.Bytes)/1e6)
	if lang == "fr" {
		size = strings.Replace(size, ".", ",", 1)
	}
	return size + " " + units[1]
}
