package oauth

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

const maxFormBytes = 64 << 10

// ParseForm reads the body of a token or revocation request, at most 64 KiB. It rejects any body with more than one
// possible reading: another media type, malformed encoding, a repeated parameter, NUL, or text that is not UTF-8.
//
// The URL's query is not read. Unknown parameters are kept and ignored. Credentials in a Basic Authorization header
// become client_id and client_secret of the form.
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
	var tooLarge *http.MaxBytesError // from a reader with the same limit
	if errors.As(err, &tooLarge) || len(body) > maxFormBytes {
		return nil, invalidRequest("The body is larger than 64 KiB.")
	}
	if err != nil {
		return nil, invalidRequest("The body could not be read.")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, invalidRequest("The body is not valid application/x-www-form-urlencoded.")
	}
	for name, values := range form {
		if len(values) != 1 {
			return nil, invalidRequest("A parameter is given more than once.")
		}
		if !isText(name) || !isText(values[0]) {
			return nil, invalidRequest("A parameter contains U+0000 or is not valid UTF-8.")
		}
	}
	if err := addBasic(form, r.Header); err != nil {
		return nil, err
	}
	return form, nil
}

const basicScheme = "basic"

// UsesBasic reports whether a request tries to authenticate by HTTP Basic, so that a refusal asks for the same.
func UsesBasic(h http.Header) bool {
	scheme, _, _ := strings.Cut(h.Get("Authorization"), " ")
	return strings.EqualFold(scheme, basicScheme)
}

// addBasic adds the credentials of an Authorization header to the form (RFC 6749 section 2.3.1). It rejects a request
// that authenticates in two ways. The body may also contain the same client_id without a secret, because some libraries
// send it.
func addBasic(form url.Values, h http.Header) *Error {
	values := h.Values("Authorization")
	switch {
	case len(values) > 1:
		return invalidRequest("The header Authorization is given more than once.")
	case !UsesBasic(h):
		if len(values) == 1 && form.Get("client_id") == "" {
			return invalidRequest("Send client_id and client_secret in the body or by HTTP Basic.")
		}
		return nil
	case form.Has("client_secret"):
		return invalidRequest("client_secret is sent twice: in the body and in the Authorization header.")
	}
	applicationID, secret, ok := basicCredentials(values[0])
	if !ok {
		return invalidClient()
	}
	if form.Has("client_id") && form.Get("client_id") != applicationID {
		return invalidRequest("client_id differs between the body and the Authorization header.")
	}
	form.Set("client_id", applicationID)
	form.Set("client_secret", secret)
	return nil
}

// basicCredentials parses the ID and the secret, each of which is form-urlencoded before they are joined.
func basicCredentials(header string) (applicationID, secret string, ok bool) {
	r := http.Request{Header: http.Header{"Authorization": {header}}}
	user, pass, ok := r.BasicAuth()
	if !ok {
		return "", "", false
	}
	applicationID, errID := url.QueryUnescape(user)
	secret, errSecret := url.QueryUnescape(pass)
	return applicationID, secret, errID == nil && errSecret == nil && isText(applicationID) && isText(secret)
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
