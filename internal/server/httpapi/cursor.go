package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"partnerd/internal/base/problem"
)

// cursors creates and reads page cursors. They are opaque to callers, bound to their list, and rejected if altered
// (decision H3). They do not expire.
type cursors struct{ key []byte }

const cursorMAC = 16

// encode encodes a position in a list. list identifies the list by everything that defines it: operation, application,
// client and filter.
func (k cursors) encode(list string, position any) (*string, error) {
	raw, err := json.Marshal(position)
	if err != nil {
		return nil, fmt.Errorf("write cursor: %w", err)
	}
	s := base64.RawURLEncoding.EncodeToString(append(k.mac(list, raw), raw...))
	return &s, nil
}

// decode reads the parameter cursor of the same list into position. If cursor is nil, position stays unchanged.
// Problems: INVALID_REQUEST.
func (k cursors) decode(list string, cursor *string, position any) error {
	return k.read(list, cursor, position, problem.Issue{Path: "cursor",
		Message: "Pass nextCursor of the previous page, with the same filters."})
}

// read is decode for a parameter of any name. otherwise is the issue returned for an invalid cursor.
func (k cursors) read(list string, cursor *string, position any, otherwise problem.Issue) error {
	if cursor == nil {
		return nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(*cursor)
	if err != nil || len(raw) < cursorMAC || !hmac.Equal(raw[:cursorMAC], k.mac(list, raw[cursorMAC:])) ||
		json.Unmarshal(raw[cursorMAC:], position) != nil {
		otherwise.Code = problem.IssueInvalidValue
		return problem.ErrMalformed.Because("The cursor was not issued for this list. Start again without cursor.").
			With(otherwise)
	}
	return nil
}

func (k cursors) mac(list string, raw []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	fmt.Fprintf(h, "%d:%s:%s", len(list), list, raw)
	return h.Sum(nil)[:cursorMAC]
}
