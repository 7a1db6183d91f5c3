package oauth

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

const maxFormBytes = 64 << 10

// ParseForm reads the body of a token or revocation request, at most 64 KiB, and refuses what cannot be read in one way
// only: another media type, a malformed encoding, a parameter given twice, NUL or text that is not UTF-8. Credentials in
// the URL's query or the Authorization header do not count. Parameters that nobody knows stay in and are ignored.
func ParseForm(r *http.Request) (url.Values, *Error) {
	types := r.Header.Values("Content-Type")
	if len(types) != 1 || !isForm(types[0]) {
		return nil, invalidRequest("The body must be application/x-www-form-urlencoded.")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, invalidRequest("Content-Encoding is not supported: send the body as it is.")
	}
	if r.Body == nil {
		return nil, invalidRequest("The body is empty.")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxFormBytes+1))
	if err != nil {
		return nil, invalidRequest("The body could not be read.")
	}
	if len(body) > maxFormBytes {
		return nil, invalidRequest("The body is larger than 64 KiB.")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, invalidRequest("The body is not a well-formed form.")
	}
	for name, values := range form {
		if len(values) != 1 {
			return nil, invalidRequest("A parameter is given more than once.")
		}
		if !isText(name) || !isText(values[0]) {
			return nil, invalidRequest("A parameter holds NUL or is not UTF-8.")
		}
	}
	if form.Get("client_id") == "" && r.Header.Get("Authorization") != "" {
		return nil, invalidRequest("Send client_id and client_secret in the body (client_secret_post), not in the Authorization header.")
	}
	return form, nil
}

func isForm(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/x-www-form-urlencoded" {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
