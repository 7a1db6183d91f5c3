package twiliotest

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the protocol signs with it
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"partnerd/internal/base/clock"
)

// Server is the stand-in. It serves the API, and a control API at /control/.
type Server struct {
	account, token string
	clock          clock.Clock
	client         *http.Client
	mux            *http.ServeMux
	wake           chan struct{}

	mu      sync.Mutex
	script  Script
	calls   []*Call // in the order of creation
	rooms   []*room
	dropped map[string]bool // numbers whose line has already failed
	steps   []step
	turn    int // counts callbacks, to reorder them
}

// step is something that happens at a time. do returns the request to make, if any.
type step struct {
	at time.Time
	do func() (request func())
}

// New creates a stand-in for one account. token authenticates it and signs callbacks.
func New(account, token string, clk clock.Clock) *Server {
	s := &Server{account: account, token: token, clock: clk, client: &http.Client{Timeout: 15 * time.Second},
		mux: http.NewServeMux(), wake: make(chan struct{}, 1), dropped: map[string]bool{}}
	at := "/2010-04-01/Accounts/{account}/"
	s.mux.HandleFunc("POST "+at+"Calls.json", s.guard(s.createCall))
	s.mux.HandleFunc("GET "+at+"Calls.json", s.guard(s.listCalls))
	s.mux.HandleFunc("GET "+at+"Calls/{sid}", s.guard(s.fetchCall))
	s.mux.HandleFunc("POST "+at+"Calls/{sid}", s.guard(s.updateCall))
	s.mux.HandleFunc("GET "+at+"Conferences.json", s.guard(s.listRooms))
	s.mux.HandleFunc("GET "+at+"Conferences/{sid}/Participants.json", s.guard(s.listMembers))
	s.mux.HandleFunc("PUT /control/script", s.putScript)
	s.mux.HandleFunc("GET /control/calls",
		func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.Calls()) })
	s.mux.HandleFunc("POST /control/calls/{sid}/hangup", func(w http.ResponseWriter, r *http.Request) {
		if !s.HangUp(r.PathValue("sid")) {
			http.NotFound(w, r)
		}
	})
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Play sets the behaviour of the next calls.
func (s *Server) Play(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.dropped = script, map[string]bool{}
}

// Calls returns all legs so far, in the order in which they were placed.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Call, len(s.calls))
	for i, c := range s.calls {
		list[i] = *c
		list[i].Said, list[i].Documents = slices.Clone(c.Said), slices.Clone(c.Documents)
	}
	return list
}

// HangUp hangs up a leg now. It returns false if the leg does not exist.
func (s *Server) HangUp(sid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.named(sid)
	if c == nil {
		return false
	}
	s.after(0, func() { s.end(c, "completed") })
	return true
}

// Run executes the steps as time passes, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	for {
		s.Due(ctx)
		pause := time.Hour
		if next, ok := s.Next(); ok {
			pause = max(0, next.Sub(s.clock.Now()))
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Next returns the time of the next step, if there is one.
func (s *Server) Next() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.steps) == 0 {
		return time.Time{}, false
	}
	return s.steps[0].at, true
}

// Due executes all due steps in order.
func (s *Server) Due(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		if len(s.steps) == 0 || s.steps[0].at.After(s.clock.Now()) {
			s.mu.Unlock()
			return
		}
		next := s.steps[0]
		s.steps = s.steps[1:]
		request := next.do()
		s.mu.Unlock()
		if request != nil {
			request()
		}
	}
}

// at inserts a step after those due at the same time.
func (s *Server) at(pause time.Duration, do func() func()) {
	due := s.clock.Now().Add(pause)
	i := slices.IndexFunc(s.steps, func(k step) bool { return k.at.After(due) })
	if i < 0 {
		i = len(s.steps)
	}
	s.steps = slices.Insert(s.steps, i, step{due, do})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Server) after(pause time.Duration, f func()) {
	s.at(pause, func() func() { f(); return nil })
}

// notify sends a callback as the script says. If take is not nil, it gets the response.
func (s *Server) notify(address, what string, form url.Values, take func(document string, ok bool)) {
	if s.script.loses(what) {
		return
	}
	pause := s.script.Late.d()
	if s.turn++; s.script.Reorder && take == nil && s.turn%2 == 1 {
		pause += reorderTime
	}
	times := 1
	if s.script.Duplicate && take == nil {
		times = 2
	}
	for range times {
		s.at(pause, func() func() { return func() { s.request(address, form, take) } })
	}
}

// fetch requests a document. An invalid response ends the leg.
func (s *Server) fetch(c *Call, address string, form url.Values) {
	generation := c.generation
	s.at(0, func() func() {
		return func() {
			s.request(address, form, func(document string, ok bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				switch {
				case c.generation != generation:
				case !ok:
					s.end(c, "completed")
				default:
					s.execute(c, document)
				}
			})
		}
	})
}

func (s *Server) request(address string, form url.Values, take func(string, bool)) {
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	r.Header.Set("X-Twilio-Signature", Sign(s.token, address, form))
	res, err := s.client.Do(r)
	if err != nil {
		if take != nil {
			take("", false)
		}
		return
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if take != nil {
		take(string(body), res.StatusCode == http.StatusOK)
	}
}

// Sign returns the signature of a callback: the base64 HMAC-SHA1, keyed with the account's token. It covers the URL,
// followed by the name and value of each field in alphabetical order.
func Sign(token, address string, form url.Values) string {
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	h := hmac.New(sha1.New, []byte(token))
	h.Write([]byte(address)) // never fails
	for _, name := range names {
		h.Write([]byte(name + form.Get(name)))
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func (s *Server) sid(prefix string) string {
	b := make([]byte, 16)
	rand.Read(b)
	return prefix + hex.EncodeToString(b)
}

func (s *Server) named(sid string) *Call {
	for _, c := range s.calls {
		if c.SID == sid {
			return c
		}
	}
	return nil
}

func (s *Server) putScript(w http.ResponseWriter, r *http.Request) {
	var script Script
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&script); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.Play(script)
	w.WriteHeader(http.StatusNoContent)
}
