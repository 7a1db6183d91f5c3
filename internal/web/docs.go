package web

import (
	"bytes"
	"fmt"

	"github.com/labstack/echo/v4"

	"partnerd/internal/edge"
	"partnerd/internal/manual"
)

// docsPage is the documentation of a contract, rendered once: it is the same for everybody.
type docsPage struct{ edge.Document }

// newDocsPage puts a manual into a page; heading is the key of its title.
func newDocsPage(p manual.Place, heading string, contract []byte, base string, views views, sandbox bool) (docsPage, error) {
	text, err := manual.Render(p, contract, base)
	if err != nil {
		return docsPage{}, err
	}
	var body bytes.Buffer
	v := view{Title: heading, Lang: "en", Sandbox: sandbox, Data: text}
	if err := views["en/docs"].ExecuteTemplate(&body, "layout", v); err != nil {
		return docsPage{}, fmt.Errorf("render: %w", err)
	}
	return docsPage{edge.NewDocument(echo.MIMETextHTMLCharsetUTF8, body.Bytes())}, nil
}

// serve answers in English only, whatever the visitor prefers.
func (d docsPage) serve(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Content-Language", "en")
	h.Set("Cache-Control", "no-cache")
	d.ServeHTTP(c.Response(), c.Request())
	return nil
}
