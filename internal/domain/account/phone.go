package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"

	"partnerd/internal/base/password"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/sms"
)

// CodeResult is the result of entering a code.
type CodeResult string

// The results of entering a code.
const (
	CodeRight CodeResult = "right" // the number is verified
	CodeWrong CodeResult = "wrong" // it may be tried again
	CodeOver  CodeResult = "over"  // expired, used, tried too often or never sent: a new code is needed
)

// SendCode texts a six-digit code to a number, in any usual notation, and makes it the client's only valid code.
// current is the current password, which is required if the client already has a verified number. It returns
// [ErrInvalid], [ErrCountry], [ErrNoMobile], [ErrBadCredentials] or [ErrTooMany].
func (s *SelfService) SendCode(ctx context.Context, tx postgres.Tx, clientID, phone, current, lang string) error {
	number, err := mobile(phone, s.deps.Numbers.Countries)
	if err != nil {
		return err
	}
	row, err := lockClient(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if row.PhoneVerifiedAt != nil && !password.Verify(row.PasswordHash, current) {
		return ErrBadCredentials
	}
	hour, day, err := countCodes(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if hour >= codesPerHour || day >= codesPerDay {
		return ErrTooMany
	}
	if err := s.countTowardsLimits(ctx, tx, clientID, number); err != nil {
		return err
	}
	code, err := newCode()
	if err != nil {
		return err
	}
	key, err := s.keys.ForWriting(ctx, tx, clientID, nil)
	if err != nil {
		return err
	}
	r := codeRow{ClientID: clientID, ExpiresAt: tx.Now.Add(CodeLifetime)}
	if r.PhoneSealed, err = key.Seal(pendingPlace(clientID), []byte(number)); err != nil {
		return err
	}
	if r.CodeSealed, err = key.Seal(codePlace(clientID), []byte(code)); err != nil {
		return err
	}
	if err := insertCode(ctx, tx, r); err != nil {
		return err
	}
	message, err := s.texts.Get(text.Known(lang), "phone.code", code)
	if err != nil {
		return err
	}
	return s.deps.SMS.Send(ctx, tx, sms.Message{To: number, Text: message, ExpiresAt: r.ExpiresAt, ClientID: clientID})
}

// countTowardsLimits counts a code towards the daily limits of the number and of all numbers, or returns [ErrTooMany].
// The counts are shared by all clients and processes. A code that is kept for a test counts only for its client, so no
// partner uses up the limit that a sandbox shares.
func (s *SelfService) countTowardsLimits(ctx context.Context, tx postgres.Tx, clientID, number string) error {
	if s.deps.Kept != nil {
		if kept, err := s.deps.Kept(ctx, tx, clientID); err != nil || kept {
			return err
		}
	}
	mac := hmac.New(sha256.New, s.deps.Numbers.Key)
	mac.Write([]byte(number))
	if err := countCode(ctx, tx, mac.Sum(nil), codesToNumber); err != nil {
		return err
	}
	return countCode(ctx, tx, []byte{}, s.deps.Numbers.PerDay)
}

// PendingPhone returns the masked number that the current code was sent to; ok is false if no code can be entered.
func (s *SelfService) PendingPhone(ctx context.Context, tx postgres.Tx,
	clientID string,
) (masked string, ok bool, err error) {
	r, ok, err := currentCode(ctx, tx, clientID)
	if err != nil || !ok {
		return "", false, err
	}
	key, err := s.keys.Of(clientID, r.KeySealed)
	if err != nil {
		return "", false, err
	}
	number, err := key.Open(pendingPlace(clientID), r.PhoneSealed)
	return MaskPhone(string(number)), err == nil, err
}

// EnterCode checks a code. Every attempt counts, even under concurrent requests, so the transaction must commit
// whatever the result. With the right code, the number becomes the client's, and the client is notified by email.
func (s *SelfService) EnterCode(ctx context.Context, tx postgres.Tx, clientID, code, lang string) (CodeResult, error) {
	if _, err := lockClient(ctx, tx, clientID); err != nil { // orders this attempt before or after a recovery
		return CodeOver, err
	}
	r, ok, err := tryCode(ctx, tx, clientID)
	if err != nil || !ok {
		return CodeOver, err
	}
	key, err := s.keys.Of(clientID, r.KeySealed)
	if err != nil {
		return CodeOver, err
	}
	want, err := key.Open(codePlace(clientID), r.CodeSealed)
	if err != nil {
		return CodeOver, err
	}
	code = strings.Map(func(c rune) rune {
		if c == ' ' || c == '-' || c == '\u00a0' {
			return -1
		}
		return c
	}, code)
	if subtle.ConstantTimeCompare([]byte(code), want) != 1 {
		if r.Tries >= CodeTries {
			return CodeOver, nil
		}
		return CodeWrong, nil
	}
	number, err := key.Open(pendingPlace(clientID), r.PhoneSealed)
	if err != nil {
		return CodeOver, err
	}
	if err := endCode(ctx, tx, r.ID); err != nil {
		return CodeOver, err
	}
	if err := s.deps.Accounts.SetPhone(ctx, tx, clientID, string(number), true); err != nil {
		return CodeOver, err
	}
	c, err := s.deps.Accounts.Get(ctx, tx, clientID)
	if err != nil {
		return CodeOver, err
	}
	return CodeRight, s.notify(ctx, tx, c, lang, "phone")
}

// MaskedPhone returns the client's verified number with all but its ends hidden; empty if there is none.
func (s *SelfService) MaskedPhone(ctx context.Context, tx postgres.Tx, clientID string) (string, error) {
	number, ok, err := s.deps.Accounts.VerifiedPhone(ctx, tx, clientID)
	if err != nil || !ok {
		return "", err
	}
	return MaskPhone(number), nil
}

// MaskPhone hides all but the first three and the last two characters of an E.164 number.
func MaskPhone(number string) string {
	if len(number) < 8 {
		return strings.Repeat("•", len(number))
	}
	return number[:3] + " " + strings.Repeat("•", len(number)-5) + " " + number[len(number)-2:]
}

// MaskEmail hides all but the first character and the domain of an address.
func MaskEmail(email string) string {
	at := strings.LastIndexByte(email, '@')
	first, _ := utf8.DecodeRuneInString(email)
	if at < 1 {
		return "•"
	}
	return string(first) + "•••" + email[at:]
}

// MaskName keeps the first word of a name and the first letter of the last.
func MaskName(name string) string {
	words := strings.Fields(name)
	if len(words) < 2 {
		return name
	}
	last, _ := utf8.DecodeRuneInString(words[len(words)-1])
	return words[0] + " " + string(last) + "."
}

// mobile is [E164] restricted to numbers of the given countries that may receive text messages.
func mobile(phone string, countries []string) (string, error) {
	number, err := E164(strings.TrimSpace(phone))
	if err != nil {
		return "", err
	}
	n, err := phonenumbers.Parse(number, defaultRegion)
	if err != nil {
		return "", problem.Refuse(ErrInvalid, problem.RulePhone.At("phone"))
	}
	if !slices.Contains(countries, regionOf(n)) {
		return "", ErrCountry
	}
	switch phonenumbers.GetNumberType(n) {
	case phonenumbers.FIXED_LINE, phonenumbers.TOLL_FREE, phonenumbers.PAGER, phonenumbers.UAN, phonenumbers.VOICEMAIL:
		return "", ErrNoMobile
	}
	return number, nil
}

func newCode() (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", fmt.Errorf("make code: %w", err)
	}
	return fmt.Sprintf("%06d", n), nil
}

func pendingPlace(clientID string) string { return "client.pending-phone:" + clientID }
func codePlace(clientID string) string    { return "client.phone-code:" + clientID }
