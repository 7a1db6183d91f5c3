package manual

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// released is a folder as "make release" writes it.
func released(names ...string) fstest.MapFS {
	folder, list := fstest.MapFS{}, ""
	for _, name := range names {
		content := []byte("content of " + name)
		folder[name] = &fstest.MapFile{Data: content}
		list += fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name)
	}
	folder[SumsFile] = &fstest.MapFile{Data: []byte(list)}
	return folder
}

var everyPackage = []string{"partner-sdk-1.0.0.tgz", "partner-sdk-go-1.0.0.tar.gz",
	"partner-sdk-java-1.0.0.jar", "partner-sdk-php-1.0.0.zip", "partner_sdk-1.0.0-py3-none-any.whl",
	"partnerctl-1.0.0-linux-amd64.tar.gz", "partnerctl-1.0.0-windows-amd64.zip"}

func TestOnlyListedFilesWithTheirChecksumAreOffered(t *testing.T) {
	t.Parallel()
	folder := released(everyPackage...)
	folder["unlisted"] = &fstest.MapFile{Data: []byte("x")}
	all := must(ReadDownloads(folder))
	if len(all) != len(everyPackage) {
		t.Fatalf("%+v", all)
	}
	d, f, err := all.Open(folder, everyPackage[0])
	if err != nil || d.Bytes == 0 || f.Close() != nil {
		t.Errorf("%+v, %v", d, err)
	}
	for _, name := range []string{"unlisted", "", ".", "..", "../" + everyPackage[0], SumsFile,
		"x/" + everyPackage[0]} {
		if _, _, err := all.Open(folder, name); err == nil {
			t.Errorf("%q is offered", name)
		}
	}
	folder[everyPackage[0]] = &fstest.MapFile{Data: folder[everyPackage[0]].Data, ModTime: time.Unix(1, 0)}
	if _, _, err := all.Open(folder, everyPackage[0]); err == nil {
		t.Error("a file that was replaced is offered")
	}

	for fault, change := range map[string]func(fstest.MapFS){
		"no list":       func(m fstest.MapFS) { delete(m, SumsFile) },
		"empty list":    func(m fstest.MapFS) { m[SumsFile] = &fstest.MapFile{} },
		"missing file":  func(m fstest.MapFS) { delete(m, everyPackage[1]) },
		"changed file":  func(m fstest.MapFS) { m[everyPackage[1]] = &fstest.MapFile{Data: []byte("other")} },
		"folder":        func(m fstest.MapFS) { m[everyPackage[1]] = &fstest.MapFile{Mode: fs.ModeDir} },
		"other folder":  func(m fstest.MapFS) { m[SumsFile] = &fstest.MapFile{Data: []byte("00  ../keys\n")} },
		"absolute":      func(m fstest.MapFS) { m[SumsFile] = &fstest.MapFile{Data: []byte("00  /etc/passwd\n")} },
		"hidden file":   func(m fstest.MapFS) { m[SumsFile] = &fstest.MapFile{Data: []byte("00  .keys\n")} },
		"not a list":    func(m fstest.MapFS) { m[SumsFile] = &fstest.MapFile{Data: []byte("hello\n")} },
		"shell in name": func(m fstest.MapFS) { m[SumsFile] = &fstest.MapFile{Data: []byte("00  $(id).tgz\n")} },
	} {
		folder := released(everyPackage...)
		change(folder)
		if _, err := ReadDownloads(folder); err == nil {
			t.Errorf("%s: the folder is accepted", fault)
		}
	}
}

func TestSizesAreForPeople(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64][2]string{
		1: {"1 kB", "1 ko"}, 1499: {"1 kB", "1 ko"}, 999_499: {"999 kB", "999 ko"}, 999_500: {"1.0 MB", "1,0 Mo"},
		12_340_000: {"12.3 MB", "12,3 Mo"},
	} {
		if got := [2]string{(Download{Bytes: bytes}).Size("en"), (Download{Bytes: bytes}).Size("fr")}; got != want {
			t.Errorf("%d bytes: %q", bytes, got)
		}
	}
}

// The page lists each file with its checksum, and explains only the packages that there are.
func TestThePageOfThePackages(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []bool{true, false} {
		f := facts(sandbox)
		f.Contact = "help@partners.example"
		for _, s := range must(New(f, "en", "fr")) {
			p, _ := s.Find(Root + "/sdks")
			if strings.Contains(p.Markdown, DownloadsRoot) || !strings.Contains(p.Markdown, f.Contact) {
				t.Errorf("%s without packages: %s", s.Lang, p.Markdown)
			}
		}
		f.Downloads = must(ReadDownloads(released(everyPackage...)))
		for _, s := range must(New(f, "en", "fr")) {
			p, _ := s.Find(Root + "/sdks")
			for _, d := range f.Downloads {
				if !strings.Contains(p.Markdown, d.SHA256) || !strings.Contains(string(p.Body), `href="`+d.Path()+`"`) {
					t.Errorf("%s does not offer %s", s.Lang, d.Name)
				}
			}
			if !strings.Contains(p.Markdown, "composer require partner/sdk:1.0.0\n") ||
				!strings.Contains(p.Markdown, "<version>1.0.0</version>") {
				t.Errorf("%s does not name the version", s.Lang)
			}
			if strings.Contains(p.Markdown, "<no value>") || strings.Contains(p.Markdown, "clock 60") != sandbox {
				t.Errorf("%s (sandbox %v): %s", s.Lang, sandbox, p.Markdown)
			}
		}
		f.Downloads = slices.DeleteFunc(f.Downloads, func(d Download) bool { return strings.Contains(d.Name, "-go-") })
		for _, s := range must(New(f, "en", "fr")) {
			if p, _ := s.Find(Root + "/sdks"); strings.Contains(p.Markdown, "go mod edit") {
				t.Errorf("%s explains a package that is not offered", s.Lang)
			}
		}
	}
}
