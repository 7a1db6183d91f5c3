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

// MaxLogo is how large a logo may be, in bytes: it is on every page.
const MaxLogo = 64 << 10

// Logo is the operator's picture beside the name of the service.
type Logo struct{ asset }

// ReadLogo takes a PNG or an SVG of at most 64 KiB. An SVG is shown as a picture, in which no script runs.
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

// serve keeps a picture that is opened by itself from doing more than being seen.
func (l Logo) serve(c echo.Context) error {
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return l.asset.serve(c)
}

// rootOf is the name of the first element of an XML document; empty when there is none.
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
