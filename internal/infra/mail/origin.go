package mail

import (
	"cmp"
	"context"

	"partnerd/internal/base/text"
)

// Origin is where an action came from, as an email about it describes it.
type Origin struct {
	UserAgent string `json:"userAgent,omitempty"`
	Address   string `json:"address,omitempty"`
}

type originKey struct{}

// Caused returns a context in which emails are about an action that came from o.
func Caused(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginOf returns the origin of the request of ctx. It is zero if the action came neither from a browser nor through
// an API.
func OriginOf(ctx context.Context) Origin {
	o, _ := ctx.Value(originKey{}).(Origin)
	return o
}

// Said names the browser, as far as it can be recognised, and the address. Invisible characters of the request's values
// are removed.
func (o Origin) Said(texts text.Catalogue, lang string) (string, error) {
	address := cmp.Or(text.Printable(o.Address), "–")
	if browser := text.Browser(o.UserAgent); browser != "" {
		return texts.Get(lang, "origin.browser", browser, address)
	}
	return texts.Get(lang, "origin.address", address)
}
