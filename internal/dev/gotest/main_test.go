package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

const passes = `{"Action":"start","Package":"p/good"}
{"Action":"run","Package":"p/good","Test":"TestA"}
{"Action":"output","Package":"p/good","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p/good","Test":"TestA","Output":"    a_test.go:1: unimportant\n"}
{"Action":"pass","Package":"p/good","Test":"TestA/part","Elapsed":3}
{"Action":"pass","Package":"p/good","Test":"TestA","Elapsed":4.25}
{"Action":"output","Package":"p/good","Output":"PASS\n"}
{"Action":"output","Package":"p/good","Output":"ok  \tp/good\t5.0s\n"}
{"Action":"pass","Package":"p/good","Elapsed":5}
{"Action":"pass","Package":"p/kept","Test":"TestK","Elapsed":99}
{"Action":"output","Package":"p/kept","Output":"ok  \tp/kept\t(cached)\n"}
{"Action":"pass","Package":"p/kept","Elapsed":0.1}
`

const fails = `{"Action":"run","Package":"p/bad","Test":"TestB"}
{"Action":"output","Package":"p/bad","Test":"TestB","Output":"    b_test.go:1: wrong\n"}
{"Action":"output","Package":"p/bad","Test":"TestFine","Output":"    b_test.go:2: unimportant\n"}
{"Action":"pass","Package":"p/bad","Test":"TestFine","Elapsed":1}
{"Action":"fail","Package":"p/bad","Test":"TestB","Elapsed":2}
{"Action":"output","Package":"p/bad","Test":"TestHangs","Output":"    b_test.go:3: still here\n"}
{"Action":"output","Package":"p/bad","Output":"FAIL: documented and never seen\n"}
{"Action":"fail","Package":"p/bad","Elapsed":3}
{"ImportPath":"p/broken","Action":"build-output","Output":"broken.go:1: does not compile\n"}
{"Action":"output","Package":"p/broken","Output":"FAIL\tp/broken [build failed]\n"}
{"Action":"fail","Package":"p/broken"}
no event
`

func printed(events string, verbose bool) string {
	var out strings.Builder
	report(&out, strings.NewReader(events), verbose, nil)
	return out.String()
}

func TestWhatPassesIsALineAndTheSlowestAreNamed(t *testing.T) {
	t.Parallel()
	want := "ok  \tp/good\t5.0s\nok  \tp/kept\t(cached)\n\nSlowest tests:\n    4.2 s  p/good TestA\n\n" +
		"Slowest packages:\n    5.0 s  p/good\n3 tests passed, 0 failed\n"
	if got := printed(passes, false); got != want {
		t.Errorf("printed\n%s\nnot\n%s", got, want)
	}
	if got := printed(passes, true); !strings.HasPrefix(got, "=== RUN   TestA\n    a_test.go:1: unimportant\nPASS\n") {
		t.Errorf("not all is printed:\n%s", got)
	}
}

func TestWhatFailsIsShown(t *testing.T) {
	t.Parallel()
	got := printed(passes+fails, false)
	for _, want := range []string{"b_test.go:1: wrong", "b_test.go:3: still here", "FAIL: documented and never seen",
		"broken.go:1: does not compile", "p/broken [build failed]", "no event", "4 tests passed, 1 failed",
		"FAILED: p/bad p/broken"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "unimportant") {
		t.Errorf("what passes is shown too:\n%s", got)
	}
}

func TestSilenceIsBroken(t *testing.T) {
	t.Parallel()
	in, events := io.Pipe()
	tick := make(chan time.Time)
	var out strings.Builder
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		report(&out, in, false, tick)
	}()
	say := func(line string) {
		if _, err := io.WriteString(events, line+"\n"); err != nil {
			t.Error(err)
		}
	}
	tick <- time.Time{} // silent since the start, but not for a whole interval
	tick <- time.Time{}
	say(`{"Action":"start","Package":"p/slow"}`)
	say(`{"Action":"pass","Package":"p/slow","Test":"TestA"}`)
	say(`{"Action":"start","Package":"p/other"}`) // read only once the previous line was handled
	tick <- time.Time{}
	events.Close()
	<-ended
	for _, want := range []string{"… 0 packages done, 0 tests passed, 0 failed; compiling\n",
		"… 0 packages done, 1 tests passed, 0 failed; running: p/slow"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not once in\n%s", want, out.String())
		}
	}
}
