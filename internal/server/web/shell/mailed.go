package shell

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/web/forms"
)

// BadLink is the page for a mailed link that is no good, with what to do instead.
func (p *Shell) BadLink(c echo.Context, instead forms.Link) error {
	return p.BadLinkBecause(c, "badlink.text", instead)
}

// BadLinkBecause is [Shell.BadLink] with a text of its own about what to do.
func (p *Shell) BadLinkBecause(c echo.Context, text string, instead forms.Link) error {
	return p.ShowBadLink(c, BadLinkView{Text: text, Instead: instead})
}

// ShowBadLink is [Shell.BadLink] with all that can be said.
func (p *Shell) ShowBadLink(c echo.Context, v BadLinkView) error {
	return p.Render(c, http.StatusGone, "badlink", View{Title: "badlink.title", Narrow: true, Data: v})
}

// BadLinkView is the page for a link that is no good.
type BadLinkView struct {
	Text    string // key
	Instead forms.Link
	Also    *forms.Link // another way on; nil for none
}

// MailSent says what happens next. It must not tell whether a mail was sent.
func (p *Shell) MailSent(c echo.Context, key, email string) error {
	return p.ShowSent(c, SentView{Key: key, Email: email})
}

// ShowSent says what was mailed and what happens next.
func (p *Shell) ShowSent(c echo.Context, v SentView) error {
	c.Set(sentKey, &v)
	return p.Render(c, http.StatusOK, "sent", View{Title: v.Key + ".title", Narrow: true, Data: v})
}

// SentView is the page that says what was mailed.
type SentView struct {
	Key, Email string
	Folder     string // where a sandbox keeps mail, for who has that machine before him; empty: not to be said
}
