package public

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/clock"
	"partnerd/internal/server/manual"
	"partnerd/internal/server/web/shell"
)

// downloadTime is how long a slow connection may take for a file.
const downloadTime = 10 * time.Minute

// download sends a package. Its name holds its version, so it is cached permanently.
func (p *Pages) download(c echo.Context) error {
	d, f, err := p.deps.Packages.Open(p.deps.PackagesFolder, c.Param("name"))
	if errors.Is(err, fs.ErrNotExist) {
		return shell.StatusError(http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	h := c.Response().Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Type", "application/octet-stream")
	h.Set("ETag", `"`+d.SHA256+`"`)
	// Tests have no connection.
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(clock.System{}.Now().Add(downloadTime))
	content, ok := f.(io.ReadSeeker)
	if !ok {
		return errors.New("the folder of downloads cannot seek")
	}
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, content)
	return nil
}

// checksums sends the list of the packages, as it was when they were checked.
func (p *Pages) checksums(c echo.Context) error {
	list := ""
	for _, d := range p.deps.Packages {
		list += d.SHA256 + "  " + d.Name + "\n"
	}
	c.Response().Header().Set("Cache-Control", "no-cache")
	return c.String(http.StatusOK, list)
}

// registerDownloads adds the routes of the packages, if there are any.
func (p *Pages) registerDownloads(e *echo.Echo, read []string) {
	if len(p.deps.Packages) == 0 {
		return
	}
	e.Match(read, manual.DownloadsRoot+"/"+manual.SumsFile, p.checksums)
	e.Match(read, manual.DownloadsRoot+"/:name", p.Page(p.download))
}
