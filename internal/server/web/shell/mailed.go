package shell

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/web/forms"
)

// BadLink is the page for an emailed link that no longer works. It says what to do instead.
func (p *Shell) BadLink(c echo.Context, instead forms.Link) error {
	return p.BadLinkBecause(c, "badlink.text", instead)
}

// BadLinkBecause is [Shell.BadLink] with its own text about what to do.
func (p *Shell) BadLinkBecause(c echo.Context, text string, instead forms.Link) error {
	return p.ShowBadLink(c, BadLinkView{Text: text, Instead: instead})
}

// ShowBadLink is [Shell.BadLink] with all options.
func (p *Shell) ShowBadLink(c echo.Context, v BadLinkView) error {
	return p.Render(c, http.StatusGone, "badlink", View{Title: "badlink.title", Narrow: true, Data: v})
}

// BadLinkView is the page for a link that no longer works.
type BadLinkView struct {
	Text    string // text key
	Instead forms.Link
	Also    *forms.Link // an alternative; nil for none
}

// MailSent says what happens next, without revealing whether an email was sent.
func (p *Shell) MailSent(c echo.Context, key, email string) error {
	return p.ShowSent(c, SentView{Key: key, Email: email})
}

// ShowSent says what was emailed and what happens next.
func (p *Shell) ShowSent(c echo.Context, v SentView) error {
	c.Set(sentKey, &v)
	return p.Render(c, http.StatusOK, "sent", View{Title: v.Key + ".title", Narrow: true, Data: v})
}

// SentView is the page that says what was emailed.
type SentView struct {
	Key, Email string
	Folder     string // folder in which a sandbox on the reader's machine stores emails; empty to hide it
}
