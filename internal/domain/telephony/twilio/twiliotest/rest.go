package twiliotest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// guard rejects requests with wrong credentials or an unreadable form.
func (s *Server) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if (user != s.account && !strings.HasPrefix(user, "SK")) || password == "" ||
			user == s.account && password != s.token || r.PathValue("account") != s.account {
			refuse(w, http.StatusUnauthorized, 20003, "Authentication Error")
			return
		}
		if err := r.ParseForm(); err != nil {
			refuse(w, http.StatusBadRequest, 20001, "Bad request")
			return
		}
		next(w, r)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}

func refuse(w http.ResponseWriter, status, code int, message string) {
	answer(w, status, map[string]any{"status": status, "code": code, "message": message,
		"more_info": "https://www.twilio.com/docs/errors/" + strconv.Itoa(code)})
}

func (s *Server) createCall(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, from := r.PostForm.Get("To"), r.PostForm.Get("From")
	phone := s.script.phone(to)
	switch {
	case to == "" || r.PostForm.Get("Twiml") == "" && r.PostForm.Get("Url") == "":
		refuse(w, http.StatusBadRequest, 21205, "a parameter is missing")
		return
	case from == "":
		refuse(w, http.StatusBadRequest, 21213, "'From' phone number is required")
		return
	case phone.Fails == "invalid":
		refuse(w, http.StatusBadRequest, 21211, "The phone number you are attempting to call, "+to+", is not valid.")
		return
	}
	c := &Call{SID: s.sid("CA"), To: to, Status: "queued", CreatedAt: s.clock.Now(), params: r.PostForm, phone: phone}
	s.calls = append(s.calls, c)
	s.after(0, func() { s.begin(c) })
	if s.script.LoseAnswers > 0 {
		s.script.LoseAnswers--
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
			return
		}
	}
	answer(w, http.StatusCreated, s.view(c))
}

func (s *Server) listCalls(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []any{}
	for i := len(s.calls) - 1; i >= 0; i-- { // newest first
		c := s.calls[i]
		matches := func(name, value string) bool { return r.Form.Get(name) == "" || r.Form.Get(name) == value }
		if matches("To", c.To) && matches("From", c.params.Get("From")) && matches("Status", c.Status) &&
			!s.clock.Now().Before(c.CreatedAt.Add(s.script.ListAfter.d())) {
			list = append(list, s.view(c))
		}
	}
	answer(w, http.StatusOK, map[string]any{"calls": list})
}

func (s *Server) fetchCall(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.named(strings.TrimSuffix(r.PathValue("sid"), ".json")); c != nil {
		answer(w, http.StatusOK, s.view(c))
		return
	}
	refuse(w, http.StatusNotFound, 20404, "The requested resource was not found")
}

func (s *Server) updateCall(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.named(strings.TrimSuffix(r.PathValue("sid"), ".json"))
	status, document := r.PostForm.Get("Status"), r.PostForm.Get("Twiml")
	switch {
	case c == nil:
		refuse(w, http.StatusNotFound, 20404, "The requested resource was not found")
		return
	case !c.ended.IsZero(), document != "" && c.Status != "in-progress":
		refuse(w, http.StatusBadRequest, 21220, "Unable to update record. Call is not in-progress. Cannot redirect.")
		return
	case document != "":
		s.execute(c, document)
	case status == "completed" && c.Status == "in-progress":
		s.end(c, "completed")
	case status == "completed", status == "canceled":
		s.end(c, "canceled")
	}
	answer(w, http.StatusOK, s.view(c))
}

func (s *Server) listRooms(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []any{}
	for i := len(s.rooms) - 1; i >= 0; i-- {
		k := s.rooms[i]
		status := "init"
		switch {
		case !k.ended.IsZero():
			status = "completed"
		case k.begun:
			status = "in-progress"
		}
		if name := r.Form.Get("FriendlyName"); name == "" || name == k.name {
			list = append(list, map[string]any{"sid": k.sid, "account_sid": s.account, "friendly_name": k.name,
				"status": status, "date_created": stamp(k.created)})
		}
	}
	answer(w, http.StatusOK, map[string]any{"conferences": list})
}

// listMembers lists the current participants of a room.
func (s *Server) listMembers(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []any{}
	for _, k := range s.rooms {
		if k.sid != r.PathValue("sid") {
			continue
		}
		for _, c := range k.members {
			list = append(list, map[string]any{"call_sid": c.SID, "conference_sid": k.sid, "account_sid": s.account,
				"status": "connected", "date_created": stamp(c.entered)})
		}
	}
	answer(w, http.StatusOK, map[string]any{"participants": list})
}

func (s *Server) view(c *Call) map[string]any {
	v := map[string]any{"sid": c.SID, "account_sid": s.account, "to": c.To, "from": c.params.Get("From"),
		"status": c.Status, "direction": "outbound-api", "date_created": stamp(c.CreatedAt),
		"start_time": stamp(c.started), "end_time": stamp(c.ended), "answered_by": nil}
	if c.AnsweredBy != "" {
		v["answered_by"] = c.AnsweredBy
	}
	if !c.ended.IsZero() {
		v["duration"] = strconv.Itoa(c.duration())
	}
	return v
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC1123Z)
}
