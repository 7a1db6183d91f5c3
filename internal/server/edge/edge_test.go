package edge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/server/edge"
)

const refused = `{"code":"INVALID_REQUEST"}`

// serve runs a server whose handler reads 64 KiB of a body and refuses the rest.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	s := &http.Server{Handler: edge.Handler(handler, "/api/"), MaxHeaderBytes: 8 << 10, ReadTimeout: 30 * time.Second}
	go s.Serve(edge.Listener(l, func() string { return "req_1" }, slog.New(slog.NewTextHandler(&logged, nil))))
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

var refusing = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > 64<<10 {
		w.Header().Set("Connection", "close")
	}
	if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10)); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, refused)
	}
})

const chunk = 16 << 10

// send writes a body of the given size and returns the response, which it reads after everything was sent.
func send(t *testing.T, address, header string, chunked bool, size int, pause time.Duration, halfClose bool) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if chunked {
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\n", header)
	} else {
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n", header, size)
	}
	piece := bytes.Repeat([]byte("x"), chunk)
	for sent := 0; sent < size; sent += chunk {
		if chunked {
			fmt.Fprintf(c, "%x\r\n", chunk)
		}
		if _, err = c.Write(piece); err != nil {
			return "write: " + err.Error()
		}
		if chunked {
			io.WriteString(c, "\r\n")
		}
		time.Sleep(pause) // a slow sender is the subject of the test
	}
	if chunked {
		io.WriteString(c, "0\r\n\r\n")
	}
	if halfClose {
		c.(*net.TCPConn).CloseWrite()
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s %v", resp.StatusCode, body, err)
}

// A caller who reads only after sending everything gets the refusal of an oversized body. This holds whatever its
// Connection header says and however slowly it sends.
func TestARefusalReachesWhoeverStillSends(t *testing.T) {
	t.Parallel()
	address := serve(t, refusing)
	var group sync.WaitGroup
	for _, header := range []string{"Connection: close\r\n", ""} {
		for _, chunked := range []bool{false, true} {
			for _, halfClose := range []bool{false, true} {
				what := fmt.Sprintf("%q, chunked %v, half closed %v", header, chunked, halfClose)
				for range 6 {
					group.Go(func() {
						if got := send(t, address, header, chunked, 10<<20, 0, halfClose); got != "400 "+refused+
							" <nil>" {
							t.Errorf("10 MiB, %s: %s", what, got)
						}
					})
				}
				group.Go(func() {
					if got := send(t, address, header, chunked, 320<<10, 100*time.Millisecond,
						halfClose); got != "400 "+refused+" <nil>" {
						t.Errorf("320 KiB slowly, %s: %s", what, got)
					}
				})
			}
		}
	}
	group.Wait()
}

// A caller cannot keep a connection open by sending forever.
func TestLingeringEnds(t *testing.T) {
	t.Parallel()
	address := serve(t, refusing)
	got := send(t, address, "Connection: close\r\n", false, 1<<30, 0, false)
	if !strings.HasPrefix(got, "write: ") {
		t.Errorf("a GiB was read: %s", got)
	}
	begin := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", 1<<30)
	for err == nil && time.Since(begin) < 20*time.Second {
		time.Sleep(100 * time.Millisecond) // a slow sender that is never silent
		_, err = c.Write(bytes.Repeat([]byte("x"), chunk))
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("a connection was read for %s after its answer", took)
	}
}

// A refusal by net/http itself has the format of every other error.
func TestWhatNoHandlerSeesIsAnsweredInOurForm(t *testing.T) {
	t.Parallel()
	address := serve(t, http.NotFoundHandler())
	for text, status := range map[string]int{
		"GARBAGE\r\n\r\n":                                                            400,
		"GET / HTTP/1.1\r\n\r\n":                                                     400, // no host
		"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n":                                       400,
		"GET / HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n":                           400,
		"GET / HTTP/1.1\r\nHost: x\r\nName: a\x00b\r\n\r\n":                          400,
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n":                    400,
		"GET / HTTP/2.0\r\nHost: x\r\n\r\n":                                          505,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n":              501,
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n": 431,
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, text)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%.40q: %v", text, err)
			continue
		}
		var body struct{ Code, Message string }
		raw, _ := io.ReadAll(resp.Body)
		c.Close()
		if err := json.Unmarshal(raw, &body); err != nil || body.Code != "INVALID_REQUEST" || body.Message == "" ||
			resp.StatusCode != status || resp.Header.Get("X-Request-Id") != "req_1" ||
			resp.Header.Get("Content-Type") != "application/json" || !resp.Close {
			t.Errorf("%.40q: %d %s %v", text, resp.StatusCode, raw, resp.Header)
		}
	}
}

// A handler's response passes unchanged, even one that looks like a refusal.
func TestAnswersOfHandlersPass(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"400 Bad Request", "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n",
	} {
		address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, text)
		}))
		resp, err := http.Get("http://" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		if resp.Body.Close(); string(raw) != text || resp.Header.Get("X-Request-Id") != "" {
			t.Errorf("%q came as %q", text, raw)
		}
	}
}

func TestOneSpellingOfAPath(t *testing.T) {
	t.Parallel()
	h := edge.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Method, " ", r.URL.EscapedPath(), " ", edge.Method(r))
	}), "/api/")
	for target, want := range map[string]string{
		"GET /api/v1/con%5Ftest%5f1": "GET /api/v1/con_test_1 GET",
		"GET /api/v1/%6De":           "GET /api/v1/me GET",
		"GET /api/v1/a%2Fb%5F":       "GET /api/v1/a%2Fb_ GET",
		"GET /api/v1/a%2fb":          "GET /api/v1/a%2fb GET",
		"GET /%C3%A9%5F":             "GET /%C3%A9_ GET",
		"GET /%2E%2e/x":              "GET /../x GET",
		"GET /plain":                 "GET /plain GET",
		"HEAD /api/v1/me":            "GET /api/v1/me HEAD",
		"HEAD /login":                "HEAD /login HEAD",
	} {
		method, path, _ := strings.Cut(target, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}
