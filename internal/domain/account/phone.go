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

// CodeResult says what became of a code that a client entered.
type CodeResult string

// What can become of a code.
const (
	CodeRight CodeResult = "right" // the number is verified
	CodeWrong CodeResult = "wrong" // and may be tried again
	CodeOver  CodeResult = "over"  // out of date, used, tried too often, or never sent: a new one is needed
)

// SendCode texts a code of six digits to a number, in any usual notation, and makes it the only one that counts.
// present is the present password, which is asked for when the client has a verified number already. It returns
// [ErrInvalid], [ErrCountry], [ErrNoMobile], [ErrBadCredentials] or [ErrTooMany].
func (s *SelfService) SendCode(ctx context.Context, tx postgres.Tx, clientID, phone, present, lang string) error {
	number, err := mobile(phone, s.deps.Numbers.Countries)
	if err != nil {
		return err
	}
	row, err := lockClient(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if row.PhoneVerifiedAt != nil && !password.Verify(row.PasswordHash, present) {
		return ErrBadCredentials
	}
	hour, day, err := countCodes(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if hour >= codesPerHour || day >= codesPerDay {
		return ErrTooMany
	}
	if err := s.spend(ctx, tx, clientID, number); err != nil {
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

// spend counts a code to a number and in all, whichever client asks for it and whichever process answers, or returns
// [ErrTooMany]. A code that is sent to nobody counts for its client alone: no partner uses up what a sandbox shares.
func (s *SelfService) spend(ctx context.Context, tx postgres.Tx, clientID, number string) error {
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

// PendingPhone returns the number that a code was sent to, masked; ok is false when no code can be entered.
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

// EnterCode judges a code. Every try counts, also those of parallel requests, so the transaction must commit whatever
// the result is. With the right one the number becomes the client's, and the client is told by e-mail.
func (s *SelfService) EnterCode(ctx context.Context, tx postgres.Tx, clientID, code, lang string) (CodeResult, error) {
	if _, err := lockClient(ctx, tx, clientID); err != nil { // a recovery comes before or after it
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

// MaskedPhone returns the client's verified number with all but its ends hidden; empty when there is none.
func (s *SelfService) MaskedPhone(ctx context.Context, tx postgres.Tx, clientID string) (string, error) {
	number, ok, err := s.deps.Accounts.VerifiedPhone(ctx, tx, clientID)
	if err != nil || !ok {
		return "", err
	}
	return MaskPhone(number), nil
}

// MaskPhone hides all of a number in E.164 but the first three and the last two characters.
func MaskPhone(number string) string {
	if len(number) < 8 {
		return strings.Repeat("•", len(number))
	}
	return number[:3] + " " + strings.Repeat("•", len(number)-5) + " " + number[len(number)-2:]
}

// MaskEmail hides all of an address but its first character and its domain.
func MaskEmail(email string) string {
	at := strings.LastIndexByte(email, '@')
	first, _ := utf8.DecodeRuneInString(email)
	if at < 1 {
		return "•"
	}
	return string(first) + "•••" + email[at:]
}

// MaskName leaves the first word of a name, and the first letter of the last.
func MaskName(name string) string {
	words := strings.Fields(name)
	if len(words) < 2 {
		return name
	}
	last, _ := utf8.DecodeRuneInString(words[len(words)-1])
	return words[0] + " " + string(last) + "."
}

// mobile is [E164] for numbers of some countries that may receive text messages.
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
