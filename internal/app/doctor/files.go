package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"partnerd/internal/app/config"
)

// secretFiles checks whether other users of this machine can read files with secrets.
func (e *examination) secretFiles() {
	var said []string
	look := func(path string, forbidden os.FileMode) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&forbidden != 0 {
			said = append(said, fmt.Sprintf("%s has mode %04o", path, info.Mode().Perm()))
		}
	}
	for _, name := range []string{"keys", config.MasterKeyFile, config.NotePrivateKeyFile, "demo.json"} {
		look(e.Path(name), 0o077)
	}
	for _, variable := range os.Environ() {
		name, path, _ := strings.Cut(variable, "=")
		if strings.HasSuffix(name, "_FILE") &&
			(strings.HasPrefix(name, "PARTNERD_") || strings.HasPrefix(name, "OTEL_")) && path != "" {
			look(path, 0o007) // group access is allowed: orchestrators pass a file to a process that way
		}
	}
	slices.Sort(said)
	if len(said) > 0 {
		e.warn("secret files", "other users of this machine can read secrets: "+strings.Join(said, ", "),
			"Run chmod 700 on the folder and chmod 600 on the files.")
	}
}

// dataFolder checks that the data folder is writable.
func (e *examination) dataFolder() {
	if _, err := os.Stat(e.DataDir); err != nil {
		return // the first start creates it
	}
	f, err := os.CreateTemp(e.DataDir, ".doctor-*")
	if err == nil {
		err = keepsContent(f)
		os.Remove(f.Name())
	}
	if isFull(err) {
		e.fail("data folder", "the disk of "+e.DataDir+" is full: "+config.WithoutPath(err).Error(), moreSpace)
		return
	}
	if err != nil {
		e.warn("data folder", e.DataDir+" is not writable: "+config.WithoutPath(err).Error(),
			"Make it writable for this user. Processes record there which commits they saw; a sandbox also keeps "+
				"email and text messages there until PARTNERD_MAIL_SERVER and PARTNERD_SMS_SERVER are set.")
		return
	}
	e.ok("data folder", e.DataDir+" is writable")
}
