package shell

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
)

// MaxLogo is the maximum size of a logo in bytes. It is small because every page loads the logo.
const MaxLogo = 64 << 10

// Logo is the operator's picture beside the name of the service.
type Logo struct{ asset }

// ReadLogo reads a PNG or an SVG of at most 64 KiB. An SVG is displayed as an image, in which no script runs.
func ReadLogo(r io.Reader) (Logo, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxLogo+1))
	switch {
	case err != nil:
		return Logo{}, fmt.Errorf("read logo: %w", err)
	case len(b) > MaxLogo:
		return Logo{}, fmt.Errorf("the logo is larger than %d bytes", MaxLogo)
	case http.DetectContentType(b) == "image/png":
		return Logo{newAsset("assets/logo.png", "image/png", b)}, nil
	case rootOf(b) == "svg":
		return Logo{newAsset("assets/logo.svg", "image/svg+xml", b)}, nil
	}
	return Logo{}, errors.New("the logo is neither a PNG nor an SVG")
}

// serve serves the picture with headers that stop its scripts when it is opened directly.
func (l Logo) serve(c echo.Context) error {
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return l.asset.serve(c)
}

// rootOf returns the name of the first element of an XML document, or "" if there is none.
func rootOf(b []byte) string {
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		t, err := d.Token()
		if err != nil {
			return ""
		}
		if e, ok := t.(xml.StartElement); ok {
			return e.Name.Local
		}
	}
}
