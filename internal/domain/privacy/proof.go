package privacy

import (
	"partnerd/internal/base/clock"
	"partnerd/internal/domain/consultation"
)

// Waiver is the proof that the client asked for the service to start immediately.
type Waiver struct {
	TextVersion          string      `json:"textVersion"`
	TextSHA256           string      `json:"textSha256"`
	StatedVersion        string      `json:"statedVersion,omitempty"`
	StatedLanguage       string      `json:"statedLanguage,omitempty"`
	AcknowledgedAt       clock.Stamp `json:"acknowledgedAt"`
	RequestID            string      `json:"requestId"`
	IdempotencyKeySHA256 string      `json:"idempotencyKeySha256"`
	Address              string      `json:"partnerAddress"`
	UserAgent            string      `json:"partnerUserAgent"`
	Chain                *Link       `json:"chain,omitempty"` // missing for about the first minute
}

// Link is the position of a proof in the chain of all proofs.
type Link struct {
	Number         int64       `json:"number"`
	PreviousSHA256 string      `json:"previousSha256"` // empty for the first link
	SHA256         string      `json:"sha256"`
	At             clock.Stamp `json:"at"`
}

func waiver(p consultation.Proof) *Waiver {
	w := &Waiver{TextVersion: p.TextVersion, TextSHA256: p.TextSHA256.String(), StatedVersion: p.StatedVersion,
		StatedLanguage: p.StatedLanguage, AcknowledgedAt: clock.Stamp(p.AcknowledgedAt), RequestID: p.RequestID,
		IdempotencyKeySHA256: p.IdempotencyKeySHA256.String(), Address: p.Address, UserAgent: p.UserAgent}
	if p.Link != nil {
		w.Chain = &Link{Number: p.Link.Seq, SHA256: p.Link.Hash.String(), At: clock.Stamp(p.Link.ChainedAt)}
		if p.Link.Previous != nil {
			w.Chain.PreviousSHA256 = p.Link.Previous.String()
		}
	}
	return w
}

// Pack is a proof with everything needed to verify it without this program.
type Pack struct {
	ConsultationID string  `json:"consultationId"`
	ApplicationID  string  `json:"applicationId"`
	ClientID       string  `json:"clientId"`
	Statement      string  `json:"statement"`
	Waiver         *Waiver `json:"waiver"`
	Text           Text    `json:"text"`

	// The digest of the text is the SHA-256 of the French text, a zero byte and the English text. The digest of the
	// link is the SHA-256 of two parts. They are the 32 bytes of previousSha256 (none for the first) and these lines,
	// joined by line feeds.
	Lines  []string `json:"hashedLines"`
	Verify []string `json:"howToVerify"`
}

// Text is the text that the client acknowledged.
type Text struct {
	FR string `json:"fr"`
	EN string `json:"en"`
}

var howToVerify = []string{
	"waiver.textSha256 is the SHA-256 of text.fr, one zero byte, and text.en, in UTF-8.",
	"waiver.chain.sha256 is the SHA-256 of the 32 bytes that waiver.chain.previousSha256 writes in hexadecimal (no " +
		"bytes where it is empty), followed by hashedLines in UTF-8 with one line feed between them.",
	"A later pack of any consultation proves that this one was not changed in between: the chain leads from " +
		"one to the other.",
}

// PackOf returns the pack of a proof.
func PackOf(p consultation.Proof) Pack {
	fr, _ := consultation.WaiverText(p.TextVersion, "fr")
	en, _ := consultation.WaiverText(p.TextVersion, "en")
	return Pack{ConsultationID: p.ConsultationID, ApplicationID: p.ApplicationID, ClientID: p.ClientID,
		Statement: "withdrawalWaiverAcknowledged: true", Waiver: waiver(p), Text: Text{fr, en}, Lines: p.Lines(),
		Verify: howToVerify}
}
