package twilio

import (
	"encoding/xml"
	"fmt"
	"time"

	"partnerd/internal/telephony"
)

// What is said, in the languages of the catalog. Whoever has another language hears English.
type voice struct {
	tag     string // of <Say language>
	lawyer  string // telephony.PromptLawyer
	confirm string // telephony.PromptConfirm
}

var voices = map[string]voice{
	"FR": {"fr-FR", "Appuyez sur 1 pour être mis en relation avec votre client.", "Un avocat vous appelle. Appuyez sur 1 pour lui parler."},
	"EN": {"en-GB", "Press 1 to be connected to your client.", "A lawyer is calling you. Press 1 to speak."},
	"ES": {"es-ES", "Pulse 1 para que le pongamos en contacto con su cliente.", "Le llama un abogado. Pulse 1 para hablar."},
	"AR": {"arb", "اضغط على الرقم واحد لتوصيلك بموكلك.", "محامٍ يتصل بك. اضغط على الرقم واحد للتحدث."},
	"PT": {"pt-PT", "Prima 1 para ser ligado ao seu cliente.", "Um advogado está a ligar-lhe. Prima 1 para falar."},
}

// response is a document that tells the provider what to do on one leg.
type response struct {
	XMLName  xml.Name  `xml:"Response"`
	Gather   *gather   `xml:"Gather"`
	Pause    *pause    `xml:"Pause"`
	Redirect *redirect `xml:"Redirect"`
	Dial     *dial     `xml:"Dial"`
	Hangup   *struct{} `xml:"Hangup"`
}

type gather struct {
	Input               string `xml:"input,attr"`
	NumDigits           int    `xml:"numDigits,attr"`
	Timeout             int    `xml:"timeout,attr"`     // seconds after what is said
	FinishOnKey         string `xml:"finishOnKey,attr"` // none: every key is an answer
	ActionOnEmptyResult bool   `xml:"actionOnEmptyResult,attr"`
	Action              string `xml:"action,attr"`
	Method              string `xml:"method,attr"`
	Say                 say    `xml:"Say"`
}

type say struct {
	Language string `xml:"language,attr"`
	Text     string `xml:",chardata"`
}

type pause struct {
	Length int `xml:"length,attr"` // seconds
}

type redirect struct {
	Method string `xml:"method,attr"`
	URL    string `xml:",chardata"`
}

type dial struct {
	TimeLimit  int        `xml:"timeLimit,attr,omitempty"` // seconds
	Conference conference `xml:"Conference"`
}

type conference struct {
	Beep                   bool   `xml:"beep,attr"`
	StartConferenceOnEnter bool   `xml:"startConferenceOnEnter,attr"`
	EndConferenceOnExit    bool   `xml:"endConferenceOnExit,attr"`
	MaxParticipants        int    `xml:"maxParticipants,attr"`
	Record                 string `xml:"record,attr"`
	Region                 string `xml:"region,attr,omitempty"`
	StatusCallback         string `xml:"statusCallback,attr"`
	StatusCallbackMethod   string `xml:"statusCallbackMethod,attr"`
	StatusCallbackEvent    string `xml:"statusCallbackEvent,attr"`
	Name                   string `xml:",chardata"`
}

func (r response) String() (string, error) {
	b, err := xml.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write document for the provider: %w", err)
	}
	return xml.Header + string(b), nil
}

// room is the conference of a call. It starts with the client, whose leg enters last, and stays when one of them is
// gone, so that he can be called back into it.
func (d *Driver) room(callID, commandID string, role telephony.Role, limit time.Duration) *dial {
	return &dial{TimeLimit: int(limit / time.Second), Conference: conference{
		StartConferenceOnEnter: role == telephony.Client, MaxParticipants: 2, Record: "do-not-record", Region: d.cfg.mixer(),
		StatusCallback: d.callback(commandID, kindConference), StatusCallbackMethod: "POST", StatusCallbackEvent: "join", Name: callID,
	}}
}

// Seconds of silence on a leg: until its answer is told a second way, and while the program decides what comes next.
const firstSilence, nextSilence = 3, 30

// entry is what a leg does when it is answered: it waits for what it is asked. When the notice of the answer was lost, the
// redirection tells it.
func (d *Driver) entry(commandID string) response {
	return response{Pause: &pause{firstSilence}, Redirect: &redirect{Method: "POST", URL: d.callback(commandID, kindHeld)}}
}

// waiting is what a leg does until the program has decided.
func waiting() response {
	return response{Pause: &pause{nextSilence}, Hangup: &struct{}{}}
}

// question asks for digits.
func (d *Driver) question(l leg, digits int, timeout time.Duration) response {
	v, ok := voices[l.Language]
	if !ok {
		v = voices["EN"]
	}
	text := v.confirm
	if l.Prompt == telephony.PromptLawyer {
		text = v.lawyer
	}
	return response{Gather: &gather{Input: "dtmf", NumDigits: digits, Timeout: int(timeout / time.Second), ActionOnEmptyResult: true,
		Action: d.callback(l.CommandID, kindDigits), Method: "POST", Say: say{v.tag, text}}}
}
