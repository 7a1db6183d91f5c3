package mail

import (
	"cmp"
	"context"

	"partnerd/internal/base/text"
)

// Origin is from where somebody acts, as a mail about it says it.
type Origin struct {
	UserAgent string `json:"userAgent,omitempty"`
	Address   string `json:"address,omitempty"`
}

type originKey struct{}

// Caused returns a context in which mails are about what was done from o.
func Caused(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf is from where the request came that ctx belongs to; zero for what nobody did from a browser or by an API.
func OriginOf(ctx context.Context) Origin {
	o, _ := ctx.Value(originKey{}).(Origin)
	return o
}

// Said names the browser, as far as it can be recognised, and the address. What a request says of itself is shown
// without what is not seen.
func (o Origin) Said(texts text.Catalogue, lang string) (string, error) {
	address := cmp.Or(text.Printable(o.Address), "–")
	if browser := text.Browser(o.UserAgent); browser != "" {
		return texts.Get(lang, "origin.browser", browser, address)
	}
	return texts.Get(lang, "origin.address", address)
}
