package twilio

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/domain/telephony"
)

// voice holds the prompts in one language of the catalog. Other languages use English. {service} is the name of the
// service; {via} names the application if it is known.
type voice struct {
	tag     string // of <Say language>
	lawyer  string // telephony.PromptLawyer
	confirm string // telephony.PromptConfirm
	via     string // takes the name of the application
}

var voices = map[string]voice{
	"FR": {"fr-FR", "Ici {service}, pour une consultation{via}. Appuyez sur 1 pour être mis en relation " +
		"avec votre client.",
		"Ici {service}. Un avocat vous appelle au sujet de votre consultation{via}. Appuyez sur 1 pour lui parler.",
		" demandée via %s"},
	"EN": {"en-GB", "This is {service}, about a consultation{via}. Press 1 to be connected to your client.",
		"This is {service}. A lawyer is calling you about your consultation{via}. Press 1 to speak.",
		" requested via %s"},
	"ES": {"es-ES", "Le llama {service} por una consulta{via}. Pulse 1 para que le pongamos en contacto " +
		"con su cliente.",
		"Le llama {service}. Un abogado quiere hablar con usted sobre su consulta{via}. Pulse 1 para hablar.",
		" solicitada a través de %s"},
	"AR": {"arb", "معكم {service} بشأن استشارة{via}. اضغط على الرقم واحد لتوصيلك بموكلك.",
		"معكم {service}. محامٍ يتصل بك بشأن استشارتك{via}. اضغط على الرقم واحد للتحدث.", " عبر %s"},
	"PT": {"pt-PT", "Aqui {service}, sobre uma consulta{via}. Prima 1 para ser ligado ao seu cliente.",
		"Aqui {service}. Um advogado está a ligar-lhe sobre a sua consulta{via}. Prima 1 para falar.",
		" pedida através de %s"},
}

// said inserts the names into one of the prompts.
func (v voice) said(text, service, application string) string {
	via := ""
	if application != "" {
		via = fmt.Sprintf(v.via, application)
	}
	return strings.NewReplacer("{service}", service, "{via}", via).Replace(text)
}

// response is a TwiML document with instructions for one leg.
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
	Timeout             int    `xml:"timeout,attr"`     // seconds after the prompt
	FinishOnKey         string `xml:"finishOnKey,attr"` // empty: every key counts as an answer
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

// room returns the conference of a call. It starts with the client, who enters last. It stays open if one of them
// leaves, so that they can be called back into it.
func (d *Driver) room(callID, commandID string, role telephony.Role, limit time.Duration) *dial {
	return &dial{TimeLimit: int(limit / time.Second), Conference: conference{
		StartConferenceOnEnter: role == telephony.Client, MaxParticipants: 2, Record: "do-not-record",
		Region: d.cfg.mixer(), StatusCallback: d.callback(commandID, kindConference), StatusCallbackMethod: "POST",
		StatusCallbackEvent: "join", Name: callID,
	}}
}

// Seconds of silence on a leg: until its answer is reported a second way, and while the program decides the next step.
const firstSilence, nextSilence = 3, 30

// entry returns the instructions for a leg that answers: wait for the prompt. If the callback for the answer is lost,
// the redirect reports it.
func (d *Driver) entry(commandID string) response {
	return response{Pause: &pause{firstSilence}, Redirect: &redirect{Method: "POST",
		URL: d.callback(commandID, kindHeld)}}
}

// waiting returns the instructions for a leg until the program has decided.
func waiting() response {
	return response{Pause: &pause{nextSilence}, Hangup: &struct{}{}}
}

// question returns the instructions that ask for digits.
func (d *Driver) question(l leg, digits int, timeout time.Duration) response {
	v, ok := voices[l.Language]
	if !ok {
		v = voices["EN"]
	}
	text := v.confirm
	if l.Prompt == telephony.PromptLawyer {
		text = v.lawyer
	}
	return response{Gather: &gather{Input: "dtmf", NumDigits: digits, Timeout: int(timeout / time.Second),
		ActionOnEmptyResult: true, Action: d.callback(l.CommandID, kindDigits), Method: "POST",
		Say: say{v.tag, v.said(text, d.cfg.Service, l.Application)}}}
}
