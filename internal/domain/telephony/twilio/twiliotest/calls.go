package twiliotest

import (
	"encoding/xml"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Call is one leg.
type Call struct {
	SID        string    `json:"sid"`
	To         string    `json:"to"`
	Status     string    `json:"status"`
	AnsweredBy string    `json:"answeredBy,omitempty"`
	Said       []string  `json:"said"`      // prompts played to it
	Documents  []string  `json:"documents"` // documents it was given
	CreatedAt  time.Time `json:"createdAt"`

	params     url.Values // of its creation
	phone      Phone
	started    time.Time
	ended      time.Time
	sequence   int
	generation int // of its document: steps of an earlier one are skipped
	room       *room
	entered    time.Time // the room
	startRoom  bool
	endRoom    bool
	rest       []verb // what follows the conference
}

type room struct {
	sid, name, callback string
	events              []string
	members             []*Call
	begun               bool
	changes             int // number of changes of its participants
	created, ended      time.Time
}

// verb is an element of a document.
type verb struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Verbs   []verb     `xml:",any"`
	Text    string     `xml:",chardata"`
}

func (v verb) attr(name string) string {
	for _, a := range v.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (v verb) seconds(name string) time.Duration {
	n, _ := strconv.Atoi(v.attr(name))
	return time.Duration(n) * time.Second
}

const (
	sayTime     = 2 * time.Second
	detectTime  = 2 * time.Second // of machine detection
	failTime    = 300 * time.Millisecond
	ringBuffer  = 5 * time.Second // added to the ring timeout
	reorderTime = 1500 * time.Millisecond
)

// begin rings a new call. The caller holds the lock, as for all methods here.
func (s *Server) begin(c *Call) {
	s.post(c, "initiated", "initiated")
	timeout, err := strconv.Atoi(c.params.Get("Timeout"))
	if err != nil {
		timeout = 60
	}
	switch again := s.dropped[c.To]; {
	case again && c.phone.Mailbox:
		c.phone.Voicemail = true
	case again && !c.phone.Restore:
		c.phone.Fails = "no-answer"
	}
	switch c.phone.Fails {
	case "failed":
		s.after(failTime, func() { s.end(c, "failed") })
		return
	case "busy":
		s.after(failTime, func() { s.end(c, "busy") })
	case "no-answer":
		s.after(time.Duration(timeout)*time.Second+ringBuffer, func() { s.end(c, "no-answer") })
	default:
		s.after(c.phone.AnswerAfter.d(), func() { s.answer(c) })
	}
	c.Status = "ringing"
	s.post(c, "ringing", "ringing")
}

func (s *Server) answer(c *Call) {
	if c.Status != "ringing" {
		return
	}
	c.Status, c.started = "in-progress", s.clock.Now()
	s.post(c, "answered", "in-progress")
	if c.params.Get("MachineDetection") == "Enable" && c.params.Get("AsyncAmd") == "true" {
		s.after(detectTime, func() {
			if c.Status != "in-progress" {
				return
			}
			c.AnsweredBy = "human"
			if c.phone.Voicemail {
				c.AnsweredBy = "machine_start"
			}
			s.notify(c.params.Get("AsyncAmdStatusCallback"), "machine",
				s.about(c, url.Values{"AnsweredBy": {c.AnsweredBy}, "MachineDetectionDuration": {"2000"}}), nil)
		})
	}
	if limit, err := strconv.Atoi(c.params.Get("TimeLimit")); err == nil {
		s.after(time.Duration(limit)*time.Second, func() { s.end(c, "completed") })
	}
	s.execute(c, c.params.Get("Twiml"))
}

// end ends a leg with the given final status.
func (s *Server) end(c *Call, final string) {
	if !c.ended.IsZero() {
		return
	}
	c.generation++
	c.Status, c.ended = final, s.clock.Now()
	s.leave(c)
	s.post(c, "completed", final)
}

// execute runs a document from its beginning.
func (s *Server) execute(c *Call, document string) {
	var response verb
	c.Documents = append(c.Documents, document)
	c.generation++
	s.leave(c)
	if err := xml.Unmarshal([]byte(document), &response); err != nil || response.XMLName.Local != "Response" {
		s.end(c, "failed")
		return
	}
	s.carryOut(c, response.Verbs)
}

func (s *Server) carryOut(c *Call, verbs []verb) {
	if c.Status != "in-progress" {
		return
	}
	if len(verbs) == 0 {
		s.end(c, "completed")
		return
	}
	v, rest, generation := verbs[0], verbs[1:], c.generation
	then := func(f func()) func() {
		return func() {
			if c.generation == generation {
				f()
			}
		}
	}
	onwards := then(func() { s.carryOut(c, rest) })
	switch v.XMLName.Local {
	case "Say":
		c.Said = append(c.Said, strings.TrimSpace(v.Text))
		s.after(sayTime, onwards)
	case "Pause":
		s.after(v.seconds("length"), onwards)
	case "Redirect":
		s.fetch(c, strings.TrimSpace(v.Text), s.about(c, nil))
	case "Hangup":
		s.end(c, "completed")
	case "Gather":
		for _, inner := range v.Verbs {
			c.Said = append(c.Said, strings.TrimSpace(inner.Text))
		}
		digits, wait := c.phone.Press, c.phone.PressAfter.d()
		if digits == "" || c.phone.Voicemail {
			digits, wait = "", sayTime+v.seconds("timeout")
		}
		s.after(wait, then(func() {
			if digits == "" && v.attr("actionOnEmptyResult") != "true" {
				s.carryOut(c, rest)
				return
			}
			s.fetch(c, v.attr("action"), s.about(c, url.Values{"Digits": {digits}}))
		}))
	case "Dial":
		for _, noun := range v.Verbs {
			if noun.XMLName.Local == "Conference" {
				s.enter(c, noun, rest)
				if limit := v.seconds("timeLimit"); limit > 0 {
					s.after(limit, then(func() { s.leave(c); s.carryOut(c, rest) }))
				}
				return
			}
		}
		s.end(c, "failed")
	default:
		s.end(c, "failed")
	}
}

func (s *Server) enter(c *Call, noun verb, rest []verb) {
	name := strings.TrimSpace(noun.Text)
	var r *room
	for _, known := range s.rooms {
		if known.name == name && known.ended.IsZero() {
			r = known
		}
	}
	if r == nil { // the first leg decides where callbacks go
		r = &room{sid: s.sid("CF"), name: name, callback: noun.attr("statusCallback"),
			events: strings.Fields(noun.attr("statusCallbackEvent")), created: s.clock.Now()}
		s.rooms = append(s.rooms, r)
	}
	c.room, c.entered, c.rest = r, s.clock.Now(), rest
	c.startRoom, c.endRoom = noun.attr("startConferenceOnEnter") != "false", noun.attr("endConferenceOnExit") == "true"
	r.members, r.changes = append(r.members, c), r.changes+1
	s.announce(r, c, "join")
	for _, m := range r.members {
		r.begun = r.begun || m.startRoom && len(r.members) > 1
	}
	if !r.begun || len(r.members) < 2 {
		return
	}
	for _, m := range r.members {
		s.talk(m)
	}
}

// talk schedules a talking leg to hang up or lose its line.
func (s *Server) talk(c *Call) {
	r, changes := c.room, c.room.changes
	during := func(f func()) func() {
		return func() {
			if r.changes == changes {
				f()
			}
		}
	}
	if c.phone.DropAfter > 0 && !s.dropped[c.To] {
		s.after(c.phone.DropAfter.d(), during(func() { s.dropped[c.To] = true; s.end(c, "failed") }))
		return
	}
	if c.phone.HangUpAfter > 0 {
		s.after(c.phone.HangUpAfter.d(), during(func() { s.end(c, "completed") }))
	}
}

func (s *Server) leave(c *Call) {
	r := c.room
	if r == nil {
		return
	}
	c.room, r.changes = nil, r.changes+1
	for i, m := range r.members {
		if m == c {
			r.members = append(r.members[:i:i], r.members[i+1:]...)
			break
		}
	}
	s.announce(r, c, "leave")
	if !c.endRoom && len(r.members) > 0 {
		return
	}
	r.ended = s.clock.Now()
	for _, m := range r.members {
		m.room = nil
		s.carryOut(m, m.rest)
	}
}

// announce sends a callback that a leg entered or left a room.
func (s *Server) announce(r *room, c *Call, event string) {
	for _, wanted := range r.events {
		if wanted == event && r.callback != "" {
			s.notify(r.callback, "participant-"+event, s.signed(url.Values{"CallSid": {c.SID}, "ConferenceSid": {r.sid},
				"FriendlyName": {r.name}, "StatusCallbackEvent": {"participant-" + event}, "Muted": {"false"},
				"Hold": {"false"}}), nil)
		}
	}
}

// post sends a callback about a leg's progress, if it was requested.
func (s *Server) post(c *Call, event, status string) {
	wanted := c.params["StatusCallbackEvent"]
	for _, w := range wanted {
		if w != event || c.params.Get("StatusCallback") == "" {
			continue
		}
		form := s.about(c, url.Values{"CallStatus": {status}, "CallbackSource": {"call-progress-events"},
			"SequenceNumber": {strconv.Itoa(c.sequence)}})
		if event == "completed" {
			form.Set("Duration", "1")
			form.Set("CallDuration", strconv.Itoa(c.duration()))
		}
		c.sequence++
		s.notify(c.params.Get("StatusCallback"), event, form, nil)
	}
}

func (c *Call) duration() int {
	if c.started.IsZero() || c.ended.IsZero() {
		return 0
	}
	return int(c.ended.Sub(c.started) / time.Second)
}

// about returns the fields that every request has about a leg, including the numbers.
func (s *Server) about(c *Call, more url.Values) url.Values {
	form := s.signed(url.Values{"CallSid": {c.SID}, "CallStatus": {c.Status}, "Direction": {"outbound-api"},
		"To": {c.To}, "Called": {c.To}, "From": {c.params.Get("From")}, "Caller": {c.params.Get("From")}})
	for k, v := range more {
		form[k] = v
	}
	return form
}

func (s *Server) signed(form url.Values) url.Values {
	form.Set("AccountSid", s.account)
	form.Set("ApiVersion", "2010-04-01")
	form.Set("Timestamp", s.clock.Now().Format(time.RFC1123Z))
	return form
}
