package consultation

import (
	"crypto/sha256"
	"embed"
	"fmt"

	"partnerd/internal/base/id"
)

// WaiverVersion is the version of the text that clients acknowledge now. A published version never changes: the
// evidence of every consultation holds its digest.
const WaiverVersion = "2026-12"

//go:embed waiver/*.txt
var waiverTexts embed.FS

// WaiverVersions lists the published versions, newest last.
var WaiverVersions = []string{"2026-11", WaiverVersion}

// WaiverText returns the text of a version in a language, "fr" or "en"; ok is false if there is none.
func WaiverText(version, lang string) (text string, ok bool) {
	b, err := waiverTexts.ReadFile("waiver/" + version + "." + lang + ".txt")
	return string(b), err == nil
}

// waiverDigest returns the SHA-256 of the French text, a zero byte and the English text. A version has one digest,
// whichever language the partner showed.
func waiverDigest(version string) (id.Digest, error) {
	fr, okFR := WaiverText(version, "fr")
	en, okEN := WaiverText(version, "en")
	if !okFR || !okEN {
		return id.Digest{}, fmt.Errorf("waiver text %s is not complete", version)
	}
	return sha256.Sum256([]byte(fr + "\x00" + en)), nil
}
